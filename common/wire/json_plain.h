/* common/wire/json_plain.h - strings of JSON without escapes, which nearly all
 * are: the piece of json_write.h that writers of many rows take inline. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_WIRE_JSON_PLAIN_H
#define COUNTD_COMMON_WIRE_JSON_PLAIN_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"

#define JSON_ONES  UINT64_C(0x0101010101010101)
#define JSON_HIGHS UINT64_C(0x8080808080808080)

/* Not 0 if a byte needs an escape, in JSON or in the text form of names.  Where
 * none does, no byte below carries into the next, nor borrows from it; else the
 * first of them has its highest bit set. */
static inline uint64_t
json_find_special(uint64_t word)
{
    const uint64_t one = JSON_ONES;
    const uint64_t control = word - one * 0x20, high = word | (word + one);
    const uint64_t quote = (word ^ (one * '"')) - one;
    const uint64_t backslash = (word ^ (one * '\\')) - one;

    return (control | high | quote | backslash) & JSON_HIGHS;
}

/* Copies a text of less than eight bytes, of which it looks at some twice; as
 * json_find_special(). */
static inline uint64_t
json_copy_short(uint8_t *to, const uint8_t *bytes, size_t size)
{
    const uint64_t blanks = JSON_ONES * ' ';
    uint64_t special = 0;

    if (size >= 4) {
        const uint32_t first = get_le32(bytes);
        const uint32_t last = get_le32(bytes + size - 4);

        put_le32(to, first);
        put_le32(to + size - 4, last);
        return json_find_special(first | (uint64_t)last << 32);
    }
    for (size_t i = 0; i < size; i++) {
        to[i] = bytes[i];
        special |= json_find_special(blanks << 8 | bytes[i]);
    }
    return special;
}

/* The same of any size. */
static inline uint64_t
json_copy(uint8_t *to, const uint8_t *bytes, size_t size)
{
    uint64_t word, special;

    if (size < 8)
        return json_copy_short(to, bytes, size);
    word = get_le64(bytes + size - 8);
    special = json_find_special(word);
    put_le64(to + size - 8, word);
    for (size_t i = 0; i + 8 < size; i += 8) {
        word = get_le64(bytes + i);
        special |= json_find_special(word);
        put_le64(to + i, word);
    }
    return special;
}

/* Writes the string with its quotes, and returns its end.  NULL, and nothing
 * that counts was written: a byte needs an escape.  There is room. */
static inline uint8_t *
json_put_plain(uint8_t *to, const uint8_t *bytes, size_t size)
{
    to[0] = '"';
    to[size + 1] = '"';
    return json_copy(to + 1, bytes, size) == 0 ? to + size + 2 : NULL;
}

#endif
