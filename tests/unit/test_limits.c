/* tests/unit/test_limits.c - descriptors divided between ports. */
#include "tests/lib/test.h"

#include <stdint.h>

#include "writer/limits.h"

#define R LIMITS_RESERVED

static void
divide(size_t *got, size_t a, size_t b, size_t c, uint64_t files)
{
    struct limit l[] = {{"a", a, 0}, {"b", b, 0}, {"c", c, 0}};

    limits_divide(l, 3, files);
    for (size_t i = 0; i < 3; i++)
        got[i] = l[i].got;
}

static void
with_enough_each_gets_what_it_wants(void **state)
{
    size_t got[3];

    (void)state; /* needs none */
    divide(got, 16384, 100, 7, R + 16384 + 100 + 7);
    assert_int_equal(got[0], 16384);
    assert_int_equal(got[1], 100);
    assert_int_equal(got[2], 7);
}

static void
those_without_a_limit_share_what_is_left(void **state)
{
    size_t got[3];

    (void)state; /* needs none */
    divide(got, 16384, 0, 0, R + 16384 + 20000);
    assert_int_equal(got[0], 16384);
    assert_int_equal(got[1], 10000);
    assert_int_equal(got[2], 10000);
    divide(got, 16384, 0, 100, R + 16384 + 20000);
    assert_int_equal(got[1], 19900);
    divide(got, 16384, 0, 0, UINT64_C(1) << 31);
    assert_int_equal(got[1], LIMITS_MOST);
    assert_int_equal(got[2], LIMITS_MOST);
}

static void
with_too_few_all_get_equal_parts_and_at_least_one(void **state)
{
    size_t got[3];

    (void)state; /* needs none */
    divide(got, 16384, 0, 0, 1024);
    for (size_t i = 0; i < 3; i++)
        assert_in_range(got[i], 298, 299);
    divide(got, 1, 1, 1, 0);
    assert_int_equal(got[0], 1);
}

static void
a_large_number_of_one_does_not_starve_the_others(void **state)
{
    size_t got[3];

    (void)state; /* needs none */
    divide(got, 16384, 1000000, 0, 20000);
    assert_int_equal(got[2], LIMITS_LEAST);
    assert_in_range(got[0], 9400, 9430);
    assert_int_equal(got[0], got[1]);
    divide(got, 16384, 1000000, 100, 40000);
    assert_int_equal(got[0], 16384);
    assert_int_equal(got[1], 40000 - R - 16384 - 100);
    assert_int_equal(got[2], 100);
}

/* Whatever there is, no more is given than there is, unless each gets one. */
static void
never_more_than_there_are(void **state)
{
    static const size_t wants[] = {0, 1, 100, 16384, 1000000};
    size_t got[3];

    (void)state; /* needs none */
    for (uint64_t files = 3 * R; files < UINT64_C(8000000);
         files += files / 7 + 1)
        for (size_t i = 0; i < 125; i++) {
            divide(got, wants[i % 5], wants[i / 5 % 5], wants[i / 25], files);
            assert_in_range(got[0] + got[1] + got[2], 3, files - R + 3);
            assert_true(got[0] > 0 && got[1] > 0 && got[2] > 0);
        }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(with_enough_each_gets_what_it_wants),
    cmocka_unit_test(those_without_a_limit_share_what_is_left),
    cmocka_unit_test(with_too_few_all_get_equal_parts_and_at_least_one),
    cmocka_unit_test(a_large_number_of_one_does_not_starve_the_others),
    cmocka_unit_test(never_more_than_there_are),
};

TEST_MAIN(tests)
