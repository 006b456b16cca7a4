/* common/wire/json_write.h - JSON into a buffer of the caller's.
 *
 *     json_write_init(&w, buffer, sizeof buffer);
 *     json_begin(&w, '{');
 *     json_member(&w, "counted");
 *     json_integer(&w, 3);
 *     json_end(&w, '}');              {"counted": 3}
 *
 * Commas and blanks are as `countd --json` has them; the rows of an array stand
 * on lines of their own (json_row).  What does not fit is left out, and
 * json_write_size() is 0 then: the caller chooses a buffer that is large
 * enough. Pure; allocates nothing.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_WIRE_JSON_WRITE_H
#define COUNTD_COMMON_WIRE_JSON_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"

#define JSON_DIGITS_MAX 20 /* of a number, with its sign */

struct json_writer {
    uint8_t *begin, *at, *end;
    bool is_full;    /* something did not fit */
    bool is_first;   /* no comma before what comes next */
    bool is_value;   /* of a member: no comma, either */
    bool is_compact; /* no blanks after commas and colons; the caller's */
};

void json_write_init(struct json_writer *w, void *buffer, size_t size);

/* Bytes written; 0 when something did not fit. */
size_t json_write_size(const struct json_writer *w);

/* An object or an array, by its bracket. */
void json_begin(struct json_writer *w, char bracket);
void json_end(struct json_writer *w, char bracket);

/* The name of the next value: printable ASCII without quotes or backslashes. */
void json_member(struct json_writer *w, const char *name);

/* Begins an object on a line of its own. */
void json_row(struct json_writer *w);

void json_integer(struct json_writer *w, int64_t number);

/* The digits of a number, true, false or null. */
void json_literal(struct json_writer *w, const char *text);

/* Valid UTF-8; control characters are escaped. */
void json_string(struct json_writer *w, const void *text, size_t size);
void json_text(struct json_writer *w, const char *text);

/* A name as a string of two hexadecimal digits for each byte. */
void json_hex(struct json_writer *w, const uint8_t *bytes, size_t size);

/* A name of at most NAME_MAX_SIZE bytes, in its text form. */
void json_name(struct json_writer *w, const uint8_t *name, size_t size);

/* Bytes as they are, such as the line feed behind the last bracket. */
void json_bytes(struct json_writer *w, const void *bytes, size_t size);

static inline void
json_chars(struct json_writer *w, const char *chars)
{
    json_bytes(w, chars, strlen(chars));
}

#endif
