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

/* Reads `size` bytes.  False: there are other characters, or upper case. */
static inline bool
hex_get(const void *text, void *bytes, size_t size)
{
    const uint8_t *from = text;
    uint8_t *to = bytes;

    for (size_t i = 0; i < 2 * size; i++) {
        const int value = hex_value(from[i]);

        if (value < 0 || (from[i] >= 'A' && from[i] <= 'F'))
            return false;
        to[i / 2] = (uint8_t)(i % 2 == 0 ? value << 4 : to[i / 2] | value);
    }
    return true;
}

#endif
