/* common/wire/increment_line.h - an increment as a line of text.
 *
 *     KEYSPACE TAB KEY [TAB INCREMENT [TAB TIME]]     as `countd export` prints
 *
 * Names are in text form (name.h), or as they are; without an increment it is
 * 1, and without a time (event_time.h) it is of now.  `countd load` and POST
 * /v1/count read the same lines.  Pure; allocates nothing.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_WIRE_INCREMENT_LINE_H
#define COUNTD_COMMON_WIRE_INCREMENT_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/wire/name.h"

struct increment_form {
    bool raw;            /* names as they are, not in text form */
    bool control;        /* control characters may stand as they are */
    size_t keyspace_max; /* bytes that names may have */
    size_t key_max;
    int64_t at;     /* time of increments that have none; 0: now */
    int64_t latest; /* no time is after it */
};

struct increment_name {
    size_t size;
    uint8_t bytes[NAME_MAX_SIZE];
};

struct increment {
    struct increment_name keyspace, key;
    int64_t count;
    int64_t at; /* Unix seconds; 0: now */
};

/* Bytes of the byte order mark that a text of increments may begin with: it is
 * passed over. */
size_t increment_text_begin(const void *text, size_t size);

/* A fault: a stable word for programs, a text for people. */
struct increment_fault {
    const char *code, *text;
};

/* NULL, or what is wrong; *out is then undefined. */
const struct increment_fault *
increment_line_read(const struct increment_form *form, const char *text,
                    size_t size, struct increment *out);

/* The same of one name. */
const struct increment_fault *
increment_name_read(const struct increment_form *form, const char *field,
                    size_t size, size_t max, struct increment_name *out);

/* The same of one name, given in hexadecimal digits, two for each byte. */
const struct increment_fault *
increment_name_read_hex(const char *field, size_t size, size_t max,
                        struct increment_name *out);

/* The same of its number. */
const struct increment_fault *increment_count_read(const char *field,
                                                   size_t size, int64_t *out);

/* The same of the time of an increment. */
const struct increment_fault *
increment_time_read(const struct increment_form *form, const char *field,
                    size_t size, int64_t *at);

/* Digits with a sign or none.  0, -EINVAL, or -ERANGE beyond 64 bits. */
int increment_number_parse(const char *text, size_t size, int64_t *out);

#endif
