/* common/wire/decimal.h - decimal numbers as text, read exactly.
 *
 * StatsD, Graphite and Redis clients send values such as 5, -2.5, .5 or 1e3.
 * A value is kept as its digits and a power of ten, so nothing is rounded when
 * it is read.  Sums are kept in millionths: the quotient of a value and a rate
 * is rounded once, half away from zero.
 *
 *     number = [ "+" / "-" ] digits [ "." [ digits ] ] [ exponent ]
 *            | [ "+" / "-" ] "." digits [ exponent ]
 *     exponent = ( "e" / "E" ) [ "+" / "-" ] 1 to 3 digits
 *
 * Everything here is pure.  Errors: 0 or a negative errno; results are written
 * on success only. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_WIRE_DECIMAL_H
#define COUNTD_COMMON_WIRE_DECIMAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"

#define DECIMAL_TEXT_MAX   32 /* bytes of one number */
#define DECIMAL_MILLIONTHS 1000000

/* (negative ? -1 : 1) * digits * 10^exponent.  `digits` has no trailing zero;
 * zero is 0 * 10^0, never negative. */
struct decimal {
    bool negative;
    int exponent;
    uint128 digits; /* below 10^32 */
};

/* -EINVAL: not a number of the grammar above, or longer than
 * DECIMAL_TEXT_MAX. */
int decimal_parse(const uint8_t *text, size_t size, struct decimal *out);

/* Whether 0 < value <= 1, as a sample rate must be. */
bool decimal_is_share(const struct decimal *value);

/* value / rate in millionths, rounded half away from zero.
 *   -EDOM    rate is not above 0
 *   -ERANGE  the whole part of the quotient is outside int64 */
int decimal_millionths(const struct decimal *value, const struct decimal *rate,
                       int128 *out);

/* The value, if it is a whole number.
 *   -EDOM    it has a fraction
 *   -ERANGE  it is outside int64 */
int decimal_whole(const struct decimal *value, int64_t *out);

/* The whole part of a sum of millionths, rounded half away from zero and cut
 * to int64.  *rest is what is left: at most half a unit, 0 if it was cut. */
int64_t decimal_round(int128 millionths, int32_t *rest);

#endif
