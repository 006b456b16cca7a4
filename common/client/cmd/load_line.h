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

#include <stddef.h>

#include "common/client/cmd/cmd.h"
#include "common/wire/increment_line.h"

struct load_line_form {
    const struct cmd_name *keyspace; /* of rows of a range; NULL: of lines */
    struct increment_form form;
};

/* NULL, or what is wrong with the line. */
const char *load_line_read(const struct load_line_form *form, const char *text,
                           size_t size, struct increment *out);

#endif
