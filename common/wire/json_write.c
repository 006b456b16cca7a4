/* common/wire/json_write.c - see json_write.h.
 *
 * json_bytes() is what all others write through, but put_plain(), which copies
 * texts without escapes. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/wire/json_write.h"

#include <assert.h>
#include <string.h>

#include "common/base/hex.h"
#include "common/wire/json_plain.h"
#include "common/wire/name.h"

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

/* Puts the comma before a value or a member's name. */
static inline void
put_separator(struct json_writer *w, const char *comma)
{
    if (!w->is_first && !w->is_value)
        json_bytes(w, comma, w->is_compact ? 1 : strlen(comma));
    w->is_first = w->is_value = false;
}

void
json_begin(struct json_writer *w, char bracket)
{
    put_separator(w, ", ");
    json_bytes(w, &bracket, 1);
    w->is_first = true;
}

void
json_end(struct json_writer *w, char bracket)
{
    json_bytes(w, &bracket, 1);
    w->is_first = false;
}

void
json_row(struct json_writer *w)
{
    put_separator(w, ",");
    json_chars(w, "\n {");
    w->is_first = true;
}

/* A text without escapes, or one that does not fit.  False: it has some. */
static bool
put_plain(struct json_writer *w, const void *bytes, size_t size)
{
    uint8_t *end;

    w->is_full |= (size_t)(w->end - w->at) < size + 2;
    if (w->is_full)
        return true;
    end = json_put_plain(w->at, bytes, size);
    if (end)
        w->at = end;
    return end != NULL;
}

void
json_member(struct json_writer *w, const char *name)
{
    put_separator(w, ", ");
    (void)put_plain(w, name, strlen(name)); /* names of ours have none */
    json_bytes(w, ": ", w->is_compact ? 1 : 2);
    w->is_value = true;
}

void
json_integer(struct json_writer *w, int64_t number)
{
    uint8_t digits[JSON_DIGITS_MAX];
    const uint8_t *end = decimal_put_signed(digits, number);

    put_separator(w, ", ");
    json_bytes(w, digits, (size_t)(end - digits));
}

void
json_literal(struct json_writer *w, const char *text)
{
    put_separator(w, ", ");
    json_chars(w, text);
}

static void
put_escaped(struct json_writer *w, uint8_t c)
{
    static const char digits[] = "0123456789abcdef";
    const char escape[6] = {'\\',           'u',           '0', '0',
                            digits[c >> 4], digits[c & 15]};

    if (c == '"')
        json_chars(w, "\\\"");
    else if (c == '\\')
        json_chars(w, "\\\\");
    else
        json_bytes(w, escape, sizeof escape);
}

static void
put_string(struct json_writer *w, const uint8_t *bytes, size_t size)
{
    size_t from = 0;

    if (put_plain(w, bytes, size))
        return;
    json_chars(w, "\"");
    for (size_t i = 0; i < size; i++) {
        if (bytes[i] >= 0x20 && bytes[i] != '"' && bytes[i] != '\\')
            continue;
        json_bytes(w, bytes + from, i - from);
        put_escaped(w, bytes[i]);
        from = i + 1;
    }
    json_bytes(w, bytes + from, size - from);
    json_chars(w, "\"");
}

void
json_string(struct json_writer *w, const void *text, size_t size)
{
    put_separator(w, ", ");
    put_string(w, text, size);
}

void
json_text(struct json_writer *w, const char *text)
{
    json_string(w, text, strlen(text));
}

void
json_hex(struct json_writer *w, const uint8_t *bytes, size_t size)
{
    char digits[2 * NAME_MAX_SIZE];

    assert(size <= NAME_MAX_SIZE);
    (void)hex_put(digits, bytes, size);
    json_string(w, digits, 2 * size);
}

void
json_name(struct json_writer *w, const uint8_t *name, size_t size)
{
    char text[NAME_TEXT_SIZE];

    assert(size <= NAME_MAX_SIZE);
    put_separator(w, ", ");
    if (!put_plain(w, name, size))
        put_string(w, (const uint8_t *)text, name_escape(name, size, text));
}
