/* common/base/decimal_put.h - the digits of a number, two at a time: answers of
 * many rows consist of numbers.
 *
 * Each function returns the end of what it wrote.  How long a number is follows
 * from comparisons, which a processor guesses: it need not know the digits to
 * go on behind them. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_BASE_DECIMAL_PUT_H
#define COUNTD_COMMON_BASE_DECIMAL_PUT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Two digits, of a number below 100. */
static inline uint8_t *
decimal_put_pair(uint8_t *to, uint32_t n)
{
    static const char pairs[] = "00010203040506070809101112131415161718192021"
                                "22232425262728293031323334353637383940414243"
                                "44454647484950515253545556575859606162636465"
                                "66676869707172737475767778798081828384858687"
                                "888990919293949596979899";

    memcpy(to, pairs + (size_t)2 * n, 2);
    return to + 2;
}

static inline uint8_t *
decimal_put_4(uint8_t *to, uint32_t n)
{
    return decimal_put_pair(decimal_put_pair(to, n / 100), n % 100);
}

static inline uint8_t *
decimal_put_8(uint8_t *to, uint32_t n)
{
    return decimal_put_4(decimal_put_4(to, n / 10000), n % 10000);
}

/* Writes a number below 100 without a leading zero. */
static inline uint8_t *
decimal_put_to_2(uint8_t *to, uint32_t n)
{
    if (n >= 10)
        return decimal_put_pair(to, n);
    *to = (uint8_t)('0' + n);
    return to + 1;
}

static inline uint8_t *
decimal_put_to_4(uint8_t *to, uint32_t n)
{
    if (n < 100)
        return decimal_put_to_2(to, n);
    return decimal_put_pair(decimal_put_to_2(to, n / 100), n % 100);
}

static inline uint8_t *
decimal_put_to_8(uint8_t *to, uint32_t n)
{
    if (n < 10000)
        return decimal_put_to_4(to, n);
    return decimal_put_4(decimal_put_to_4(to, n / 10000), n % 10000);
}

static inline uint8_t *
decimal_put(uint8_t *to, uint64_t n)
{
    const uint64_t e8 = 100000000;

    if (n < e8)
        return decimal_put_to_8(to, (uint32_t)n);
    if (n < e8 * e8) {
        to = decimal_put_to_8(to, (uint32_t)(n / e8));
    } else {
        to = decimal_put_to_4(to, (uint32_t)(n / (e8 * e8)));
        to = decimal_put_8(to, (uint32_t)(n / e8 % e8));
    }
    return decimal_put_8(to, (uint32_t)(n % e8));
}

static inline uint8_t *
decimal_put_signed(uint8_t *to, int64_t n)
{
    if (n >= 0)
        return decimal_put(to, (uint64_t)n);
    *to = '-';
    return decimal_put(to + 1, 0 - (uint64_t)n);
}

#endif
