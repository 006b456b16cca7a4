/* reader/text_put.h - text put together piece by piece, where snprintf()
 * costs more than all the rest: headers of answers.
 *
 * Each function writes to a buffer that the caller knows to be large enough,
 * ends the text with a NUL, and returns where that is. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_TEXT_PUT_H
#define COUNTD_READER_TEXT_PUT_H

#include <stdint.h>
#include <string.h>

#include "common/base/decimal_put.h"

static inline char *
text_put(char *to, const char *text)
{
    const size_t size = strlen(text);

    memcpy(to, text, size + 1); /* and not stpcpy(): no call for our words */
    return to + size;
}

/* `base` is 10 or 16, with lower-case digits. */
static inline char *
text_put_number(char *to, uint64_t number, unsigned base)
{
    char digits[24], *at = digits + sizeof digits - 1;

    if (base == 10) {
        to = (char *)decimal_put((uint8_t *)to, number);
        *to = '\0';
        return to;
    }
    *at = '\0';
    do
        *--at = "0123456789abcdef"[number % base];
    while ((number /= base) > 0);
    return text_put(to, at);
}

#endif
