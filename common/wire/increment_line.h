/* common/wire/increment_line.h - an increment as a line of text.
 *
 *     KEYSPACE TAB KEY [TAB INCREMENT]      as `countd export` prints them
 *
 * Names are in text form (name.h), or as they are; without an increment it is
 * 1.  `countd load` and POST /v1/count read the same lines.  Pure; allocates
 * nothing.
 */
#ifndef COUNTD_COMMON_WIRE_INCREMENT_LINE_H
#define COUNTD_COMMON_WIRE_INCREMENT_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/name.h"

/* Bytes that a name may have in a line, so that one that is too long can be
 * shown to be, and cut. */
#define INCREMENT_FIELD_MAX 4096

struct increment_form {
    bool raw;            /* names as they are, not in text form */
    bool cut;            /* names that are too long lose what is too much */
    size_t keyspace_max; /* bytes that names may have */
    size_t key_max;
};

struct increment_name {
    size_t size;
    uint8_t bytes[NAME_MAX_SIZE];
};

struct increment {
    struct increment_name keyspace, key;
    int64_t count;
};

/* What is wrong: a word for programs that stays as it is, a text for people. */
struct increment_fault {
    const char *code, *text;
};

/* The faults below return NULL, or what is wrong; *out is then undefined. */
const struct increment_fault *
increment_line_read(const struct increment_form *form, const char *text,
                    size_t size, struct increment *out);

const struct increment_fault *
increment_name_read(const struct increment_form *form, const char *field,
                    size_t size, size_t max, struct increment_name *out);

const struct increment_fault *increment_count_read(const char *field,
                                                   size_t size, int64_t *out);

/* Digits with a sign or none.  0, -EINVAL, or -ERANGE beyond 64 bits. */
int increment_number_parse(const char *text, size_t size, int64_t *out);

/* Cuts the field up to the next tab off; false when there is none left, and
 * *text is NULL then. */
bool increment_field_cut(const char **text, size_t *left, const char **field,
                         size_t *size);

#endif
