/* common/wire/json_read.c - see json_read.h.
 *
 * json_next() is the entry; json_reader.wanted is what may come next. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/wire/json_read.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "common/base/hex.h"
#include "common/wire/json_plain.h"
#include "common/wire/utf8.h"

#define IS_MAX 32 /* bytes that json_is() compares */

void
json_read_init(struct json_reader *r, const void *bytes, size_t size)
{
    *r = (struct json_reader){.at = bytes,
                              .end = (const uint8_t *)bytes + size,
                              .wanted = JSON_WANTS_VALUE};
}

static enum json_token
refuse_token(struct json_reader *r, const char *why)
{
    r->why = why;
    r->wanted = JSON_WANTS_NOTHING;
    return JSON_BAD;
}

static void
skip_blanks(struct json_reader *r)
{
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' ||
                              *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

/* ---- characters --------------------------------------------------------- */

/* Four hexadecimal digits; -1: they are not there. */
static int
read_hex(const uint8_t *at, const uint8_t *end)
{
    uint8_t value[2];

    return end - at >= 4 && hex_get_any(at, value, 2) ? get_be16(value) : -1;
}

/* A character behind \u; *used are its digits and what belongs to it.  -1: it
 * is none, or half of a pair. */
static int
read_escaped(const uint8_t *at, const uint8_t *end, size_t *used)
{
    const int first = read_hex(at, end);
    int second;

    *used = 4;
    if (first < 0 || (first >= 0xdc00 && first <= 0xdfff))
        return -1;
    if (first < 0xd800 || first > 0xdbff)
        return first;
    if (end - at < 10 || at[4] != '\\' || at[5] != 'u')
        return -1;
    second = read_hex(at + 6, end);
    if (second < 0xdc00 || second > 0xdfff)
        return -1;
    *used = 10;
    return 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00);
}

/* ---- tokens ------------------------------------------------------------- */

/* Passes over what stands at a backslash.  NULL, or what is wrong. */
static const char *
pass_escape(struct json_reader *r)
{
    static const char escapes[] = {'"', '\\', '/', 'b', 'f', 'n', 'r', 't'};
    size_t used;

    if (r->end - r->at < 2)
        return "a string that does not end";
    if (r->at[1] != 'u') {
        if (!memchr(escapes, r->at[1], sizeof escapes))
            return "an unknown escape in a string";
        r->at += 2;
        return NULL;
    }
    if (read_escaped(r->at + 2, r->end, &used) < 0)
        return "\\u without four digits, or half of a surrogate pair";
    r->at += 2 + used;
    return NULL;
}

/* Passes over characters that mean themselves, eight at a time. */
static inline void
pass_plain(struct json_reader *r)
{
    while (r->end - r->at >= 8) {
        const uint64_t special = json_find_special(get_le64(r->at));

        if (special != 0) {
            r->at += __builtin_ctzll(special) / 8;
            return;
        }
        r->at += 8;
    }
}

/* Reads from behind the first quote to behind the last. */
static enum json_token
read_string(struct json_reader *r, enum json_token token)
{
    const char *why;
    size_t size;

    r->text = ++r->at;
    pass_plain(r);
    while (r->at < r->end && *r->at != '"') {
        if (*r->at < 0x20)
            return refuse_token(r, "a control character in a string");
        if (*r->at == '\\') {
            why = pass_escape(r);
            if (why)
                return refuse_token(r, why);
            continue;
        }
        size = *r->at < 0x80 ? 1 : utf8_size(r->at, r->end);
        if (size == 0)
            return refuse_token(r, "a string that is not UTF-8");
        r->at += size;
    }
    if (r->at == r->end)
        return refuse_token(r, "a string that does not end");
    r->size = (size_t)(r->at++ - r->text);
    return token;
}

/* One digit or more. */
static bool
pass_digits(struct json_reader *r)
{
    const uint8_t *from = r->at;

    while (r->at < r->end && isdigit(*r->at))
        r->at++;
    return r->at > from;
}

static enum json_token
read_number(struct json_reader *r)
{
    static const char why[] = "neither a value nor a number";

    r->text = r->at;
    if (*r->at == '-')
        r->at++;
    if (r->at < r->end && *r->at == '0')
        r->at++;
    else if (!pass_digits(r))
        return refuse_token(r, why);
    if (r->at < r->end && *r->at == '.') {
        r->at++;
        if (!pass_digits(r))
            return refuse_token(r, why);
    }
    if (r->at < r->end && (*r->at | 0x20) == 'e') {
        r->at++;
        if (r->at < r->end && (*r->at == '+' || *r->at == '-'))
            r->at++;
        if (!pass_digits(r))
            return refuse_token(r, why);
    }
    r->size = (size_t)(r->at - r->text);
    return JSON_NUMBER;
}

static enum json_token
read_word(struct json_reader *r)
{
    static const struct {
        const char *text;
        enum json_token token;
    } words[] = {
        {"true", JSON_TRUE}, {"false", JSON_FALSE}, {"null", JSON_NULL}};

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t size = strlen(words[i].text);

        if ((size_t)(r->end - r->at) < size ||
            memcmp(r->at, words[i].text, size) != 0)
            continue;
        r->at += size;
        return words[i].token;
    }
    return read_number(r);
}

static enum json_token
open_bracket(struct json_reader *r, bool is_object)
{
    if (r->depth == JSON_DEPTH_MAX)
        return refuse_token(r, "too many brackets within one another");
    r->depth++;
    r->objects &= ~(UINT32_C(1) << r->depth);
    r->objects |= (uint32_t)is_object << r->depth;
    r->at++;
    r->wanted = JSON_WANTS_FIRST;
    return is_object ? JSON_OBJECT : JSON_ARRAY;
}

static enum json_token
close_bracket(struct json_reader *r, bool is_object)
{
    r->depth--;
    r->at++;
    r->wanted = JSON_WANTS_COMMA;
    return is_object ? JSON_OBJECT_END : JSON_ARRAY_END;
}

static enum json_token
read_value(struct json_reader *r)
{
    enum json_token token;

    if (r->at == r->end)
        return refuse_token(r, "a value that is not there");
    if (*r->at == '{' || *r->at == '[')
        return open_bracket(r, *r->at == '{');
    token = *r->at == '"' ? read_string(r, JSON_STRING) : read_word(r);
    if (token != JSON_BAD)
        r->wanted = JSON_WANTS_COMMA;
    return token;
}

static enum json_token
read_member(struct json_reader *r)
{
    if (r->at == r->end || *r->at != '"')
        return refuse_token(r, "an object whose member has no name in quotes");
    if (read_string(r, JSON_MEMBER) == JSON_BAD)
        return JSON_BAD;
    skip_blanks(r);
    if (r->at == r->end || *r->at != ':')
        return refuse_token(r, "a member without a colon");
    r->at++;
    r->wanted = JSON_WANTS_VALUE;
    return JSON_MEMBER;
}

/* Within a bracket: its end, or behind a comma the next value or member. */
static enum json_token
go_on(struct json_reader *r)
{
    const bool is_object = (r->objects >> r->depth & 1) != 0;

    if (r->at < r->end && *r->at == (is_object ? '}' : ']'))
        return close_bracket(r, is_object);
    if (r->wanted == JSON_WANTS_COMMA) {
        if (r->at == r->end || *r->at != ',')
            return refuse_token(
                r, "neither a comma nor a closing bracket behind a value");
        r->at++;
        skip_blanks(r);
    }
    return is_object ? read_member(r) : read_value(r);
}

enum json_token
json_next(struct json_reader *r)
{
    skip_blanks(r);
    if (r->wanted == JSON_WANTS_NOTHING)
        return JSON_BAD;
    if (r->wanted == JSON_WANTS_VALUE)
        return read_value(r);
    if (r->depth > 0)
        return go_on(r);
    return r->at == r->end ? JSON_END
                           : refuse_token(r, "something behind the value");
}

/* ---- strings ------------------------------------------------------------ */

static size_t
put_utf8(uint32_t c, uint8_t to[4])
{
    static const uint8_t leads[] = {0, 0xc0, 0xe0, 0xf0};
    const size_t more = (size_t)(c >= 0x80) + (c >= 0x800) + (c >= 0x10000);

    for (size_t i = more; i > 0; i--, c >>= 6)
        to[i] = (uint8_t)(0x80 | (c & 0x3f));
    to[0] = (uint8_t)(leads[more] | c);
    return more + 1;
}

/* The character behind the backslash at `at`, in UTF-8; *used with it. */
static size_t
unescape_one(const uint8_t *at, const uint8_t *end, uint8_t to[4], size_t *used)
{
    static const char letters[] = "bfnrt", bytes[] = "\b\f\n\r\t";
    const char *letter = memchr(letters, at[1], sizeof letters - 1);

    if (at[1] == 'u') {
        const int c = read_escaped(at + 2, end, used);

        *used += 2;
        return put_utf8((uint32_t)c, to);
    }
    *used = 2;
    to[0] = letter ? (uint8_t)bytes[letter - letters] : at[1];
    return 1;
}

int
json_unescape(const uint8_t *text, size_t size, uint8_t *to, size_t max)
{
    const uint8_t *end = text + size;
    size_t done = 0;

    while (text < end) {
        const uint8_t *escape = memchr(text, '\\', (size_t)(end - text));
        size_t used = (size_t)((escape ? escape : end) - text), count = used;
        const uint8_t *from = text;
        uint8_t one[4];

        if (used == 0) {
            count = unescape_one(text, end, one, &used);
            from = one;
        }
        if (count > max - done)
            return -ENAMETOOLONG;
        memcpy(to + done, from, count);
        done += count;
        text += used;
    }
    return (int)done;
}

bool
json_is(const struct json_reader *r, const char *text)
{
    const size_t want = strlen(text);
    uint8_t bytes[IS_MAX];
    int size;

    if (!memchr(r->text, '\\', r->size))
        return r->size == want && memcmp(r->text, text, want) == 0;
    size = json_unescape(r->text, r->size, bytes, sizeof bytes);
    return size >= 0 && (size_t)size == want && memcmp(bytes, text, want) == 0;
}
