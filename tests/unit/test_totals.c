/* tests/unit/test_totals.c - what totals that grow have grown by. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "writer/statsd/totals.h"

static int
setup(void **state)
{
    static struct totals t;

    assert_rc(totals_init(&t), 0);
    *state = &t;
    return 0;
}

static int
teardown(void **state)
{
    totals_fini(*state);
    return 0;
}

#define CASE(name, t) TEST_IN(name, struct totals *t, setup, teardown)

static int64_t
take_at(struct totals *t, const char *name, int64_t value, int64_t at)
{
    const struct total sample = {(const uint8_t *)name, strlen(name), 1, at,
                                 value};

    return (int64_t)totals_take(t, &sample);
}

static int64_t
take(struct totals *t, const char *name, int64_t value)
{
    return take_at(t, name, value, 0);
}

CASE(the_first_sample_says_where_a_total_begins, t)
{
    assert_int_equal(take(t, "a", 1000), 0);
    assert_int_equal(take(t, "a", 1000), 0);
    assert_int_equal(take(t, "a", 1007), 7);
    assert_int_equal(take(t, "b", 5), 0);
    assert_int_equal(take(t, "a", 1008), 1);
    assert_int_equal(take(t, "b", 6), 1);
}

CASE(a_fall_is_a_restart, t)
{
    assert_int_equal(take(t, "a", 1000), 0);
    assert_int_equal(take(t, "a", 3), 3);
    assert_int_equal(take(t, "a", 4), 1);
    assert_int_equal(take(t, "a", 0), 0);
    assert_int_equal(take(t, "a", 2), 2);
}

CASE(a_sample_that_is_older_than_the_last_one_is_passed_over, t)
{
    assert_int_equal(take_at(t, "a", 10, 100), 0);
    assert_int_equal(take_at(t, "a", 30, 120), 20);
    assert_int_equal(take_at(t, "a", 20, 110), 0);
    assert_int_equal(take_at(t, "a", 30, 120), 0);
    assert_int_equal(take_at(t, "a", 31, 120), 1);
    assert_int_equal(take(t, "a", 33), 2);
}

CASE(names_of_several_protocols_are_several, t)
{
    struct total sample = {(const uint8_t *)"a", 1, 1, 0, 5};

    assert_int_equal(totals_take(t, &sample), 0);
    sample.source = 0;
    sample.millionths = 9;
    assert_int_equal(totals_take(t, &sample), 0);
}

/* Names of which a half has room are remembered while others come and go. */
CASE(names_with_samples_are_not_forgotten, t)
{
    enum { ROUNDS = 6, OTHERS = 60000 };
    char name[32];

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 1000; i++) {
            (void)snprintf(name, sizeof name, "stays.%d", i);
            assert_int_equal(take(t, name, 10 + round), round > 0);
        }
        for (int i = 0; i < OTHERS; i++) {
            (void)snprintf(name, sizeof name, "goes.%d.%d", round, i);
            assert_int_equal(take(t, name, 7), 0);
        }
    }
}

static void
set_in(void *ctx, const struct total *last)
{
    totals_set(ctx, last);
}

CASE(each_last_sample_is_kept_once, t)
{
    struct totals next;
    char name[32];

    for (int k = 0; k < 2; k++)
        for (int i = 0; i < 150000; i++) {
            (void)snprintf(name, sizeof name, "name.%d", i);
            (void)take_at(t, name, 100 * (k + 1), 50 + k);
        }
    assert_rc(totals_init(&next), 0);
    totals_each(t, set_in, &next);
    assert_int_equal(take_at(&next, "name.149999", 203, 52), 3);
    assert_int_equal(take_at(&next, "name.149998", 300, 50), 0);
    assert_int_equal(take_at(&next, "name.0", 203, 52), 3);
    totals_fini(&next);
}
