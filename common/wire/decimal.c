/* common/wire/decimal.c - see decimal.h.
 *
 *     decimal_parse()       digits and exponent
 *     decimal_millionths()  divide_up() or divide_down(), by the exponent */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/wire/decimal.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>

#include "common/wire/increment_line.h"

#define EXPONENT_DIGITS 3
#define POWER_MAX       38 /* 10^38 is the largest power below 2^128 */

/* ---- reading ------------------------------------------------------------ */

/* Reads the digits and the point; returns the bytes read, or 0 if there is no
 * digit. */
static size_t
parse_digits(const uint8_t *text, size_t size, struct decimal *d)
{
    bool point = false, digit = false;
    size_t at;

    for (at = 0; at < size; at++) {
        if (text[at] == '.' && !point) {
            point = true;
            continue;
        }
        if (!isdigit(text[at]))
            break;
        digit = true;
        d->digits = d->digits * 10 + (unsigned)(text[at] - '0');
        d->exponent -= point ? 1 : 0;
    }
    return digit ? at : 0;
}

static int
parse_exponent(const uint8_t *text, size_t size, int *exponent)
{
    const size_t sign = size > 0 && (text[0] == '-' || text[0] == '+') ? 1 : 0;
    int64_t value;

    if (size - sign > EXPONENT_DIGITS ||
        increment_number_parse((const char *)text, size, &value) < 0)
        return -EINVAL;
    *exponent += (int)value;
    return 0;
}

/* Divides by ten as often as that leaves no rest; in 64 bits, which are much
 * faster, where the digits fit. */
static void
drop_zeros(struct decimal *d)
{
    uint64_t small;

    while (d->digits > UINT64_MAX && d->digits % 10 == 0) {
        d->digits /= 10;
        d->exponent++;
    }
    if (d->digits > UINT64_MAX)
        return;
    for (small = (uint64_t)d->digits; small != 0 && small % 10 == 0;
         small /= 10)
        d->exponent++;
    d->digits = small;
    if (small == 0)
        *d = (struct decimal){0};
}

int
decimal_parse(const uint8_t *text, size_t size, struct decimal *out)
{
    struct decimal d = {0};
    size_t at = 0, used;

    if (size == 0 || size > DECIMAL_TEXT_MAX)
        return -EINVAL;
    if (text[0] == '-' || text[0] == '+') {
        d.negative = text[0] == '-';
        at = 1;
    }
    used = parse_digits(text + at, size - at, &d);
    if (used == 0)
        return -EINVAL;
    at += used;
    if (at < size) {
        if (text[at] != 'e' && text[at] != 'E')
            return -EINVAL;
        if (parse_exponent(text + at + 1, size - at - 1, &d.exponent) < 0)
            return -EINVAL;
    }
    drop_zeros(&d);
    *out = d;
    return 0;
}

/* ---- arithmetic --------------------------------------------------------- */

static uint128
power_of_ten(int exponent)
{
    uint128 power = 1;

    assert(exponent >= 0 && exponent <= POWER_MAX);
    while (exponent-- > 0)
        power *= 10;
    return power;
}

bool
decimal_is_share(const struct decimal *value)
{
    if (value->negative || value->digits == 0)
        return false;
    if (value->exponent >= 0)
        return value->exponent == 0 && value->digits == 1;
    return -value->exponent >= DECIMAL_TEXT_MAX ||
           value->digits <= power_of_ten(-value->exponent);
}

/* a / b * 10^exponent for exponent >= 0, rounded half up; -ERANGE above
 * `max`.  a and b are below 10^32, so a remainder times ten fits. */
static int
divide_up(uint128 a, uint128 b, int exponent, uint128 max, uint128 *out)
{
    uint128 quotient, rest;

    if (b == 1) { /* as most rates are: a product */
        for (quotient = a; exponent > 0 && quotient <= max; exponent--)
            quotient *= 10;
        *out = quotient;
        return quotient > max ? -ERANGE : 0;
    }
    quotient = a / b;
    rest = a % b;
    /* A digit a step.  Each step that keeps the quotient at 0 uses up one of
     * the at most 32 places by which b exceeds a, so this ends early. */
    for (; exponent > 0 && quotient <= max; exponent--) {
        if (quotient == 0 && rest == 0)
            break;
        rest *= 10;
        quotient = quotient * 10 + rest / b;
        rest %= b;
    }
    if (quotient > max)
        return -ERANGE;
    if (rest >= b - rest)
        quotient++;
    *out = quotient;
    return quotient > max ? -ERANGE : 0;
}

/* The same for a negative exponent, given as its size. */
static int
divide_down(uint128 a, uint128 b, int places, uint128 max, uint128 *out)
{
    const uint128 quotient = a / b;
    uint128 power, result;

    *out = 0;
    if (places > POWER_MAX)
        return 0; /* below 10^32 / 10^39 */
    power = power_of_ten(places);
    result = quotient / power;
    /* The fraction of quotient / power decides; what a / b left over is less
     * than one unit of it and half of power is whole. */
    if (quotient % power >= power / 2)
        result++;
    *out = result;
    return result > max ? -ERANGE : 0;
}

int
decimal_millionths(const struct decimal *value, const struct decimal *rate,
                   int128 *out)
{
    const int exponent = value->exponent - rate->exponent + 6;
    uint128 max, magnitude;
    int rc;

    if (rate->negative || rate->digits == 0)
        return -EDOM;
    /* The whole part may be as large as the bound of its sign. */
    max =
        ((uint128)INT64_MAX + (value->negative ? 1 : 0)) * DECIMAL_MILLIONTHS +
        (DECIMAL_MILLIONTHS - 1);
    if (exponent >= 0)
        rc = divide_up(value->digits, rate->digits, exponent, max, &magnitude);
    else
        rc = divide_down(value->digits, rate->digits, -exponent, max,
                         &magnitude);
    if (rc < 0)
        return rc;
    *out = value->negative ? -(int128)magnitude : (int128)magnitude;
    return 0;
}

int
decimal_whole(const struct decimal *value, int64_t *out)
{
    const uint128 max =
        value->negative ? (uint128)INT64_MAX + 1 : (uint128)INT64_MAX;
    uint128 magnitude = value->digits;

    if (value->exponent < 0)
        return -EDOM; /* digits has no trailing zero */
    for (int i = 0; i < value->exponent && magnitude <= max; i++)
        magnitude *= 10;
    if (magnitude > max)
        return -ERANGE;
    *out = value->negative ? (int64_t) - (int128)magnitude : (int64_t)magnitude;
    return 0;
}

int64_t
decimal_round(int128 millionths, int32_t *rest)
{
    const int128 half = DECIMAL_MILLIONTHS / 2;
    const int128 whole =
        (millionths + (millionths < 0 ? -half : half)) / DECIMAL_MILLIONTHS;

    if (whole > INT64_MAX || whole < INT64_MIN) {
        *rest = 0;
        return whole < 0 ? INT64_MIN : INT64_MAX;
    }
    *rest = (int32_t)(millionths - whole * DECIMAL_MILLIONTHS);
    return (int64_t)whole;
}
