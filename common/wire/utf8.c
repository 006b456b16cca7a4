/* common/wire/utf8.c - see utf8.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/wire/utf8.h"

size_t
utf8_size(const uint8_t *at, const uint8_t *end)
{
    const uint8_t c = at[0];
    const size_t size = c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    uint8_t least = 0x80, most = 0xbf;

    if (c < 0xc2 || c > 0xf4 || (size_t)(end - at) < size)
        return 0;
    if (c == 0xe0)
        least = 0xa0;
    else if (c == 0xed)
        most = 0x9f;
    else if (c == 0xf0)
        least = 0x90;
    else if (c == 0xf4)
        most = 0x8f;
    if (at[1] < least || at[1] > most)
        return 0;
    for (size_t i = 2; i < size; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    return size;
}

bool
utf8_is_valid(const uint8_t *at, size_t size)
{
    const uint8_t *const end = at + size;

    while (at < end) {
        const size_t n = *at < 0x80 ? 1 : utf8_size(at, end);

        if (n == 0)
            return false;
        at += n;
    }
    return true;
}
