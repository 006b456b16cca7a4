/* common/base/hex.h - bytes as hexadecimal digits, lower case, two a byte. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_BASE_HEX_H
#define COUNTD_COMMON_BASE_HEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The value of a digit, of either case; -1: it is none. */
static inline int
hex_value(uint8_t c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Writes 2 * size digits and returns the place after them. */
static inline char *
hex_put(void *to, const void *bytes, size_t size)
{
    const uint8_t *from = bytes;
    char *at = to;

    for (size_t i = 0; i < size; i++) {
        *at++ = "0123456789abcdef"[from[i] >> 4];
        *at++ = "0123456789abcdef"[from[i] & 15];
    }
    return at;
}

/* Reads `size` bytes, of digits of either case.  False: there are others, and
 * the bytes up to them were read. */
static inline bool
hex_get_any(const void *text, void *bytes, size_t size)
{
    const uint8_t *from = text;
    uint8_t *to = bytes;

    for (size_t i = 0; i < size; i++) {
        const int high = hex_value(from[2 * i]),
                  low = hex_value(from[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        to[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

/* The same where upper case is not allowed. */
static inline bool
hex_get(const void *text, void *bytes, size_t size)
{
    const uint8_t *from = text;

    for (size_t i = 0; i < 2 * size; i++)
        if (from[i] >= 'A' && from[i] <= 'F')
            return false;
    return hex_get_any(text, bytes, size);
}

#endif
