/* common/wire/json_write.c - see json_write.h.
 *
 * json_bytes() is what all others write through, but put_plain(), which copies
 * the names and members that most rows consist of. */
#include "common/wire/json_write.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/base/byte_word.h"
#include "common/wire/name.h"

#define BLANKS UINT64_C(0x2020202020202020)

void
json_write_init(struct json_writer *w, void *buffer, size_t size)
{
    *w = (struct json_writer){.begin = buffer,
                              .at = buffer,
                              .end = (uint8_t *)buffer + size,
                              .is_first = true};
}

size_t
json_write_size(const struct json_writer *w)
{
    return w->is_full ? 0 : (size_t)(w->at - w->begin);
}

void
json_bytes(struct json_writer *w, const void *bytes, size_t size)
{
    if ((size_t)(w->end - w->at) < size)
        w->is_full = true;
    if (w->is_full)
        return;
    memcpy(w->at, bytes, size);
    w->at += size;
}

static void
put_text(struct json_writer *w, const char *text)
{
    json_bytes(w, text, strlen(text));
}

/* Puts the comma before a value or a member's name. */
static inline void
put_separator(struct json_writer *w, const char *comma)
{
    if (!w->is_first && !w->is_value)
        json_bytes(w, comma, w->is_compact ? 1 : strlen(comma));
    w->is_first = w->is_value = false;
}

static void
open_bracket(struct json_writer *w, const char *bracket)
{
    put_separator(w, ", ");
    put_text(w, bracket);
    w->is_first = true;
}

static void
close_bracket(struct json_writer *w, const char *bracket)
{
    put_text(w, bracket);
    w->is_first = false;
}

void
json_object_begin(struct json_writer *w)
{
    open_bracket(w, "{");
}

void
json_object_end(struct json_writer *w)
{
    close_bracket(w, "}");
}

void
json_array_begin(struct json_writer *w)
{
    open_bracket(w, "[");
}

void
json_array_end(struct json_writer *w)
{
    close_bracket(w, "]");
}

void
json_row(struct json_writer *w)
{
    put_separator(w, ",");
    put_text(w, "\n {");
    w->is_first = true;
}

/* Not 0 if a byte needs an escape, in JSON or in the text form of names.  Where
 * none does, no byte below carries into the next, nor borrows from it; else the
 * first of them has its highest bit set. */
static inline uint64_t
find_special(uint64_t word)
{
    const uint64_t one = BYTE_WORD_ONES;
    const uint64_t control = word - one * 0x20, high = word | (word + one);
    const uint64_t quote = (word ^ (one * '"')) - one;
    const uint64_t backslash = (word ^ (one * '\\')) - one;

    return (control | high | quote | backslash) & BYTE_WORD_HIGHS;
}

/* Fewer than eight bytes as a word, some of them twice; blanks beside them. */
static inline uint64_t
short_word(const uint8_t *bytes, size_t size)
{
    if (size >= 4)
        return get_le32(bytes) | (uint64_t)get_le32(bytes + size - 4) << 32;
    if (size == 0)
        return BLANKS;
    return bytes[0] | (uint64_t)bytes[size / 2] << 8 |
           (uint64_t)bytes[size - 1] << 16 | (BLANKS << 24);
}

/* Whether there is no such byte. */
static inline bool
is_plain(const uint8_t *bytes, size_t size)
{
    uint64_t special = 0;

    if (size < 8)
        return find_special(short_word(bytes, size)) == 0;
    for (size_t i = 0; i + 8 < size; i += 8)
        special |= find_special(get_le64(bytes + i));
    return (special | find_special(get_le64(bytes + size - 8))) == 0;
}

/* memcpy(), without a call where there are few bytes. */
static inline void
copy_few(uint8_t *to, const uint8_t *from, size_t size)
{
    if (size > 16 || size < 4) {
        memcpy(to, from, size);
    } else if (size >= 8) {
        memcpy(to, from, 8);
        memcpy(to + size - 8, from + size - 8, 8);
    } else {
        memcpy(to, from, 4);
        memcpy(to + size - 4, from + size - 4, 4);
    }
}

static inline uint8_t *
put_quoted(uint8_t *to, const uint8_t *bytes, size_t size)
{
    *to++ = '"';
    copy_few(to, bytes, size);
    to[size] = '"';
    return to + size + 1;
}

uint8_t *
json_put_plain(uint8_t *to, const uint8_t *bytes, size_t size)
{
    return is_plain(bytes, size) ? put_quoted(to, bytes, size) : NULL;
}

static void
put_plain(struct json_writer *w, const void *bytes, size_t size)
{
    put_separator(w, ", ");
    if ((size_t)(w->end - w->at) < size + 2)
        w->is_full = true;
    if (!w->is_full)
        w->at = put_quoted(w->at, bytes, size);
}

void
json_member(struct json_writer *w, const char *name)
{
    put_plain(w, name, strlen(name));
    json_bytes(w, ": ", w->is_compact ? 1 : 2);
    w->is_value = true;
}

static const char pairs[] = "00010203040506070809101112131415161718192021"
                            "22232425262728293031323334353637383940414243"
                            "44454647484950515253545556575859606162636465"
                            "66676869707172737475767778798081828384858687"
                            "888990919293949596979899";

/* A number below 100, as it is written. */
static inline uint8_t *
put_pair(uint8_t *to, uint64_t number)
{
    if (number < 10) {
        *to = (uint8_t)('0' + number);
        return to + 1;
    }
    memcpy(to, pairs + 2 * number, 2);
    return to + 2;
}

uint8_t *
json_put_integer(uint8_t *to, int64_t number)
{
    char digits[2 * JSON_DIGITS_MAX], *const end = digits + JSON_DIGITS_MAX;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    char *at = end;

    if (number < 0)
        *to++ = '-'; /* 19 digits at most stand behind it */
    if (rest < 100)
        return put_pair(to, rest);
    if (rest < 10000) {
        to = put_pair(to, rest / 100);
        memcpy(to, pairs + 2 * (rest % 100), 2);
        return to + 2;
    }
    for (; rest >= 10; rest /= 100)
        memcpy(at -= 2, pairs + 2 * (rest % 100), 2);
    if (rest > 0)
        *--at = (char)('0' + rest);
    memcpy(to, at, JSON_DIGITS_MAX - 1); /* of a constant size: no call */
    return to + (end - at);
}

void
json_integer(struct json_writer *w, int64_t number)
{
    uint8_t digits[JSON_DIGITS_MAX];

    put_separator(w, ", ");
    if ((size_t)(w->end - w->at) >= JSON_DIGITS_MAX && !w->is_full)
        w->at = json_put_integer(w->at, number);
    else
        json_bytes(w, digits,
                   (size_t)(json_put_integer(digits, number) - digits));
}

void
json_wide(struct json_writer *w, int128 number)
{
    char digits[40], *at = digits + sizeof digits;
    uint128 rest = number < 0 ? 0 - (uint128)number : (uint128)number;

    if (number >= INT64_MIN && number <= INT64_MAX) {
        json_integer(w, (int64_t)number);
        return;
    }
    do
        *--at = (char)('0' + (int)(rest % 10));
    while ((rest /= 10) > 0);
    if (number < 0)
        *--at = '-'; /* 39 digits at most stand behind it */
    put_separator(w, ", ");
    json_bytes(w, at, (size_t)(digits + sizeof digits - at));
}

void
json_real(struct json_writer *w, double number)
{
    char text[32];

    if (!isfinite(number)) {
        json_null(w);
        return;
    }
    (void)snprintf(text, sizeof text, "%.17g", number); /* 24 bytes fit */
    put_separator(w, ", ");
    put_text(w, text);
}

void
json_bool(struct json_writer *w, bool value)
{
    put_separator(w, ", ");
    put_text(w, value ? "true" : "false");
}

void
json_null(struct json_writer *w)
{
    put_separator(w, ", ");
    put_text(w, "null");
}

static void
put_escaped(struct json_writer *w, uint8_t c)
{
    static const char digits[] = "0123456789abcdef";
    const char escape[6] = {'\\',           'u',           '0', '0',
                            digits[c >> 4], digits[c & 15]};

    if (c == '"')
        put_text(w, "\\\"");
    else if (c == '\\')
        put_text(w, "\\\\");
    else
        json_bytes(w, escape, sizeof escape);
}

void
json_string(struct json_writer *w, const void *text, size_t size)
{
    const uint8_t *bytes = text;
    size_t from = 0;

    if (is_plain(bytes, size)) {
        put_plain(w, bytes, size);
        return;
    }
    put_separator(w, ", ");
    put_text(w, "\"");
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] >= 0x20 && bytes[i] != '"' && bytes[i] != '\\')
            continue;
        json_bytes(w, bytes + from, i - from);
        put_escaped(w, bytes[i]);
        from = i + 1;
    }
    json_bytes(w, bytes + from, size - from);
    put_text(w, "\"");
}

void
json_text(struct json_writer *w, const char *text)
{
    json_string(w, text, strlen(text));
}

static void
put_escaped_name(struct json_writer *w, const uint8_t *name, size_t size)
{
    char text[NAME_TEXT_SIZE];

    json_string(w, text, name_escape(name, size, text));
}

void
json_name(struct json_writer *w, const uint8_t *name, size_t size)
{
    assert(size <= NAME_MAX_SIZE);
    if (is_plain(name, size))
        put_plain(w, name, size);
    else
        put_escaped_name(w, name, size);
}
