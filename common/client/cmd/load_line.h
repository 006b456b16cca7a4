/* common/client/cmd/load_line.h - a line of `countd load` as an increment.
 *
 *     KEYSPACE TAB KEY [TAB INCREMENT]      as `countd export` prints them
 *     RANK TAB COUNT TAB KEY                with a keyspace given: as
 *                                           `countd range --tsv` prints them
 *
 * Pure; allocates nothing.
 */
#ifndef COUNTD_COMMON_CLIENT_CMD_LOAD_LINE_H
#define COUNTD_COMMON_CLIENT_CMD_LOAD_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/client/cmd/cmd.h"

struct load_line_form {
    const struct cmd_name *keyspace; /* of rows of a range; NULL: of lines */
    bool raw;                        /* names as they are, not in text form */
    bool cut;            /* names that are too long lose what is too much */
    size_t keyspace_max; /* bytes that names may have */
    size_t key_max;
};

struct load_line {
    struct cmd_name keyspace, key;
    int64_t increment;
};

/* NULL, or what is wrong with the line. */
const char *load_line_read(const struct load_line_form *form, const char *text,
                           size_t size, struct load_line *out);

#endif
