/* tests/unit/test_decimal.c - decimal numbers are read and divided exactly.
 *
 *     TEST_SEED */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/wire/decimal.h"
#include "tests/lib/random.h"

static int
parse_text(const char *text, struct decimal *out)
{
    return decimal_parse((const uint8_t *)text, strlen(text), out);
}

/* value / rate in millionths, which must fit int64 here. */
static int64_t
divide_text(const char *value, const char *rate)
{
    struct decimal v, r;
    int128 result;

    assert_rc(parse_text(value, &v), 0);
    assert_rc(parse_text(rate, &r), 0);
    assert_rc(decimal_millionths(&v, &r, &result), 0);
    return (int64_t)result;
}

TEST(a_number_has_sign_digits_point_and_exponent)
{
    static const char *const good[] = {
        "0",    "5",     "+5",   "-5",
        "5.",   ".5",    "-.5",  "+0.25",
        "1e3",  "1E3",   "1e+3", "1e-3",
        "1e-7", "00012", "-0",   "99999999999999999999999999999999"};
    static const char *const bad[] = {
        "",    "+",        "-",
        ".",   "+.",       "e3",
        "1e",  "1e+",      "1e1234",
        "0x1", "1_0",      " 1",
        "1 ",  "1.2.3",    "nan",
        "inf", "Infinity", "--1",
        "1-",  "1,5",      "100000000000000000000000000000000"};
    struct decimal d;

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
        if (parse_text(good[i], &d) != 0)
            fail_msg("%s is a number", good[i]);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (parse_text(bad[i], &d) != -EINVAL)
            fail_msg("\"%s\" is not a number", bad[i]);
    assert_rc(decimal_parse((const uint8_t *)"1\0", 2, &d), -EINVAL);
}

TEST(quotients_are_rounded_half_away_from_zero_to_millionths)
{
    assert_int_equal(divide_text("1", "1"), 1000000);
    assert_int_equal(divide_text("1", "0.3"), 3333333);
    assert_int_equal(divide_text("2", "0.3"), 6666667);
    assert_int_equal(divide_text("-2", "0.3"), -6666667);
    assert_int_equal(divide_text("1", "0.999"), 1001001);
    assert_int_equal(divide_text("5e-7", "1"), 1);
    assert_int_equal(divide_text("-5e-7", "1"), -1);
    assert_int_equal(divide_text("4.99999e-7", "1"), 0);
    assert_int_equal(divide_text("0.0000014999999999999", "1"), 1);
    assert_int_equal(divide_text("1e-400", "1"), 0);
    assert_int_equal(divide_text("0e999", "1e-999"), 0);
    assert_int_equal(divide_text("1e-999", "1e-999"), 1000000);
    assert_int_equal(divide_text("99999999999999999999999999999999",
                                 "99999999999999999999999999999999"),
                     1000000);
    assert_int_equal(divide_text("1", "99999999999999999999999999999999"), 0);
}

TEST(the_whole_part_stays_in_64_bits)
{
    struct decimal v, one;
    int128 out;
    int32_t rest;

    assert_rc(parse_text("1", &one), 0);
    assert_rc(parse_text("9223372036854775807.999999", &v), 0);
    assert_rc(decimal_millionths(&v, &one, &out), 0);
    assert_true(decimal_round(out, &rest) == INT64_MAX);
    assert_rc(parse_text("9223372036854775808", &v), 0);
    assert_rc(decimal_millionths(&v, &one, &out), -ERANGE);
    assert_rc(parse_text("-9223372036854775808", &v), 0);
    assert_rc(decimal_millionths(&v, &one, &out), 0);
    assert_true(decimal_round(out, &rest) == INT64_MIN);
    assert_rc(parse_text("-9223372036854775809", &v), 0);
    assert_rc(decimal_millionths(&v, &one, &out), -ERANGE);
    assert_rc(parse_text("1e999", &v), 0);
    assert_rc(decimal_millionths(&v, &one, &out), -ERANGE);
    assert_rc(parse_text("0", &one), 0);
    assert_rc(decimal_millionths(&v, &one, &out), -EDOM);
}

TEST(a_rate_is_above_0_and_at_most_1)
{
    static const char *const good[] = {"1",
                                       "1.0",
                                       "1e0",
                                       "10e-1",
                                       "0.5",
                                       "1e-999",
                                       "0.99999999999999999999999"};
    static const char *const bad[] = {
        "0",          "-1",  "-0.5", "2",
        "1.00000001", "1e1", "10",   "1.0000000000000000000001"};
    struct decimal d;

    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_rc(parse_text(good[i], &d), 0);
        if (!decimal_is_share(&d))
            fail_msg("%s is a rate", good[i]);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_rc(parse_text(bad[i], &d), 0);
        if (decimal_is_share(&d))
            fail_msg("%s is not a rate", bad[i]);
    }
}

TEST(whole_numbers_are_told_from_fractions)
{
    static const struct {
        const char *text;
        int rc;
        int64_t value;
    } cases[] = {{"5", 0, 5},
                 {"1.0", 0, 1},
                 {"1e3", 0, 1000},
                 {".5e1", 0, 5},
                 {"-6.00", 0, -6},
                 {"0.5", -EDOM, 0},
                 {"1e-1", -EDOM, 0},
                 {"9223372036854775807", 0, INT64_MAX},
                 {"-9223372036854775808", 0, INT64_MIN},
                 {"9223372036854775808", -ERANGE, 0},
                 {"1e19", -ERANGE, 0},
                 {"1e999", -ERANGE, 0}};
    struct decimal d;

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t value = 0;

        assert_rc(parse_text(cases[i].text, &d), 0);
        assert_rc(decimal_whole(&d, &value), cases[i].rc);
        assert_true(value == cases[i].value);
    }
}

/* Against long division by another way: of numbers with few digits, so that
 * all fits 128 bits. */
TEST(random_quotients_are_exact)
{
    struct random random = {.state = random_seed("decimal")};

    for (int i = 0; i < 200000; i++) {
        const int64_t v = (int64_t)random_below(&random, 2000001) - 1000000;
        const int64_t r = 1 + (int64_t)random_below(&random, 1000000);
        const int places = (int)random_below(&random, 7);
        char value[32], rate[32];
        int128 up = (int128)v * 1000000 * 1000000, down = r, expected;

        for (int k = 0; k < places; k++)
            down *= 10;
        (void)snprintf(value, sizeof value, "%llde-%d", (long long)v, places);
        (void)snprintf(rate, sizeof rate, "%llde-6", (long long)r);
        expected = (2 * (up < 0 ? -up : up) + down) / (2 * down);
        expected = up < 0 ? -expected : expected;
        if (divide_text(value, rate) != (int64_t)expected)
            fail_msg("%s / %s", value, rate);
    }
}

TEST(rounding_keeps_at_most_half)
{
    int32_t rest;

    assert_int_equal(decimal_round(2500000, &rest), 3);
    assert_int_equal(rest, -500000);
    assert_int_equal(decimal_round(-2500000, &rest), -3);
    assert_int_equal(rest, 500000);
    assert_int_equal(decimal_round(2499999, &rest), 2);
    assert_int_equal(rest, 499999);
    assert_true(decimal_round((int128)1 << 100, &rest) == INT64_MAX);
    assert_int_equal(rest, 0);
}
