/* common/wire/json_read.h - JSON token by token, strict and without memory.
 *
 *     json_read_init(&r, bytes, size);
 *     while ((token = json_next(&r)) != JSON_END && token != JSON_BAD)
 *         ...
 *
 * Accepts what RFC 8259 does and nothing else: no comments, no commas that
 * nothing follows, no NaN, no leading zeros; UTF-8 only, in which neither bytes
 * nor \u escapes make half of a surrogate pair; at most JSON_DEPTH_MAX brackets
 * within one another.  Members that are there twice are
 * the caller's to find, who knows which there are.
 *
 * A token points into the input and is valid as long as that is.  Behind a bad
 * one nothing follows.  Pure; allocates nothing.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_WIRE_JSON_READ_H
#define COUNTD_COMMON_WIRE_JSON_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_DEPTH_MAX 8

enum json_token {
    JSON_END, /* one value, and nothing but blanks behind it */
    JSON_OBJECT,
    JSON_OBJECT_END,
    JSON_ARRAY,
    JSON_ARRAY_END,
    JSON_MEMBER, /* a name; its value is the next token */
    JSON_STRING,
    JSON_NUMBER,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL,
    JSON_BAD /* reader.why says what is wrong */
};

enum json_wanted {
    JSON_WANTS_VALUE,
    JSON_WANTS_FIRST,  /* value or member, or the bracket's end */
    JSON_WANTS_COMMA,  /* or the bracket's end; at depth 0 the end */
    JSON_WANTS_NOTHING /* it was bad */
};

struct json_reader {
    const uint8_t *at, *end;
    enum json_wanted wanted;
    uint8_t depth;
    uint32_t objects; /* bit i: the bracket of depth i is "{" */
    /* Of the token: a string or a name without its quotes, escapes and all; a
     * number as it stands. */
    const uint8_t *text;
    size_t size;
    const char *why;
};

void json_read_init(struct json_reader *r, const void *bytes, size_t size);

enum json_token json_next(struct json_reader *r);

/* The bytes of a JSON_STRING or JSON_MEMBER into at most `max` of them.
 * Returns the size, or -ENAMETOOLONG. */
int json_unescape(const uint8_t *text, size_t size, uint8_t *to, size_t max);

/* Whether the token, a string or a name, is exactly this one once its escapes
 * are resolved; `text` has at most 32 bytes. */
bool json_is(const struct json_reader *r, const char *text);

#endif
