/* tests/unit/test_aggregate.c - sums of names between flushes.
 *
 *     TEST_SEED */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bytes.h"
#include "tests/lib/random.h"
#include "writer/statsd/aggregate.h"

#define MEMORY ((size_t)1 << 20)
#define UNIT   ((int128)DECIMAL_MILLIONTHS)

static int
add_at(struct aggregate *s, const char *key, int128 millionths, uint32_t minute)
{
    const struct message name = {.keyspace = (const uint8_t *)"k",
                                 .key = (const uint8_t *)key,
                                 .keyspace_size = 1,
                                 .key_size = (uint16_t)strlen(key),
                                 .minute = minute};

    return aggregate_add(s, &name, millionths);
}

static int
add_value(struct aggregate *s, const char *key, int128 millionths)
{
    return add_at(s, key, millionths, 0);
}

/* Flushes all; returns what `key` got, or all of them (NULL), of a minute. */
static int64_t
flush_minute(struct aggregate *s, const char *key, uint32_t minute)
{
    struct message m;
    int64_t sum = 0;

    while (aggregate_take(s, &m))
        if (m.minute == minute &&
            (!key || bytes_equal(m.key, m.key_size, key, strlen(key))))
            sum += m.increment;
    return sum;
}

static int64_t
flush_key(struct aggregate *s, const char *key)
{
    return flush_minute(s, key, 0);
}

static void
set_up(struct aggregate *s)
{
    assert_rc(aggregate_init(s, MEMORY), 0);
}

#define CASE(name, s)                                                          \
    TEST_WITH(name, struct aggregate, s, set_up, aggregate_fini)

CASE(a_flush_takes_whole_units_and_leaves_the_rest, s)
{
    int64_t increment, sum = 0;
    struct message m;

    for (int i = 0; i < 3; i++) {
        assert_rc(add_value(s, "a", UNIT / 3 * 10), 0);
        increment = flush_key(s, "a");
        assert_in_range(increment, 3, 4);
        sum += increment;
    }
    assert_int_equal(sum, 10); /* of 9.99999 */
    assert_false(aggregate_take(s, &m));
}

CASE(a_sum_that_is_whole_is_counted_exactly, s)
{
    char key[16];

    for (int i = 0; i < 1000; i++) {
        (void)snprintf(key, sizeof key, "%d", i);
        assert_rc(add_value(s, key, UNIT / 4), 0);
        assert_rc(add_value(s, key, UNIT / 4 * 3), 0);
        assert_int_equal(flush_key(s, key), 1);
        assert_rc(add_value(s, key, 7 * UNIT), 0);
        assert_int_equal(flush_key(s, key), 7);
    }
}

CASE(a_rest_survives_any_number_of_ages, s)
{
    int64_t sum = 0;

    for (int i = 0; i < 100; i++) {
        assert_rc(add_value(s, "before", UNIT), 0); /* makes it move */
        assert_rc(add_value(s, "a", UNIT * 2 / 5), 0);
        sum += flush_key(s, "a");
        assert_rc(aggregate_age(s), 0);
        assert_rc(aggregate_age(s), 0);
        assert_rc(aggregate_age(s), 0);
    }
    assert_int_equal(sum, 40);
    assert_int_equal(s->forgotten, 0);
    assert_int_equal(aggregate_fractions(s), 1);
}

static void
add_rest(void *ctx, const struct message *rest)
{
    assert_true(rest->key_size > 0);
    *(int64_t *)ctx += rest->increment;
}

/* A flood of names with fractions, each once: those that leave memory are
 * counted, and their counts are right on average. */
CASE(rests_that_leave_memory_are_no_loss_on_average, s)
{
    enum { COUNT = 50000 };
    int64_t sum = 0, rests = 0;
    char key[16];

    for (int i = 0; i < COUNT; i++) {
        (void)snprintf(key, sizeof key, "%d", i);
        if (aggregate_free(s) < 2 * aggregate_name_size(1, sizeof key)) {
            sum += flush_minute(s, NULL, 0);
            assert_rc(aggregate_age(s), 0);
        }
        assert_rc(add_value(s, key, UNIT * 2 / 5), 0);
    }
    sum += flush_minute(s, NULL, 0);
    assert_true(s->forgotten > COUNT / 2);
    assert_int_equal(s->forgotten + aggregate_fractions(s), COUNT);
    aggregate_each_rest(s, add_rest, &rests);
    sum += rests / DECIMAL_MILLIONTHS;
    assert_in_range(sum, COUNT * 2 / 5 - COUNT / 50,
                    COUNT * 2 / 5 + COUNT / 50); /* 9 deviations */
}

/* Leaves memory, as in a flood. */
static void
lose_rests(struct aggregate *s)
{
    s->is_lossy = true;
    s->halves[s->young].fractions = 0;
    assert_rc(aggregate_age(s), 0);
    assert_rc(aggregate_age(s), 0);
}

/* The same name, forgotten and made anew. */
CASE(a_name_that_is_forgotten_again_and_again_does_not_drift, s)
{
    void (*const forget[])(struct aggregate *) = {lose_rests, aggregate_forget};

    for (int way = 0; way < 2; way++) {
        int64_t sum = 0;

        for (int i = 0; i < 1000; i++) {
            assert_rc(add_value(s, "a", UNIT * 2 / 5), 0);
            sum += flush_key(s, "a");
            forget[way](s);
            assert_int_equal(aggregate_fractions(s), 0);
        }
        assert_in_range(sum, 380, 420);
    }
}

CASE(names_that_wait_for_a_flush_are_never_dropped, s)
{
    assert_rc(add_value(s, "a", UNIT), 0);
    assert_rc(aggregate_age(s), 0);
    assert_rc(aggregate_age(s), -EBUSY);
    assert_rc(add_value(s, "a", UNIT), 0);
    assert_int_equal(flush_key(s, "a"), 2);
    assert_rc(aggregate_age(s), 0);
}

CASE(a_full_table_refuses_and_an_age_empties_it, s)
{
    char key[16];
    int count = 0;

    for (int rc = 0; rc == 0; count += rc == 0) {
        const size_t before = aggregate_free(s);

        (void)snprintf(key, sizeof key, "%d", count);
        rc = add_value(s, key, UNIT);
        /* The bytes of aggregate_free() can be used. */
        assert_true(rc == 0 || before < aggregate_name_size(1, sizeof key));
    }
    assert_true(count > 1000);
    (void)snprintf(key, sizeof key, "%d", count - 1);
    assert_int_equal(flush_key(s, key), 1);
    assert_rc(aggregate_age(s), 0);
    assert_rc(add_value(s, "new", UNIT), 0);
    assert_int_equal(flush_key(s, "new"), 1);
}

/* Names as short as can be use up the places of the index before the bytes. */
CASE(an_age_frees_half_whatever_names_it_keeps, s)
{
    char key[16];

    for (int round = 0, count = 0; round < 3; round++) {
        for (int rc = 0; rc == 0; count++) {
            (void)snprintf(key, sizeof key, "%d", count);
            rc = add_value(s, key, UNIT * 2 / 5);
        }
        (void)flush_key(s, key);
        assert_rc(aggregate_age(s), 0);
        (void)flush_key(s, key);
        assert_true(aggregate_free(s) > MEMORY / 8);
        assert_int_equal(aggregate_free(s), s->free_aged);
    }
}

CASE(sums_beyond_64_bits_are_cut_to_the_bound, s)
{
    for (int i = 0; i < 100; i++)
        assert_rc(add_value(s, "a", UNIT * INT64_MAX), 0);
    assert_true(flush_key(s, "a") == INT64_MAX);
    for (int i = 0; i < 100; i++)
        assert_rc(add_value(s, "a", UNIT * INT64_MIN), 0);
    assert_true(flush_key(s, "a") == INT64_MIN);
}

CASE(a_minute_of_a_name_has_its_own_sum, s)
{
    for (uint32_t minute = 0; minute < 4; minute++) {
        for (uint32_t m = 0; m < 4; m++)
            assert_rc(add_at(s, "a", (m + 1) * UNIT, m), 0);
        assert_int_equal(flush_minute(s, NULL, minute), minute + 1);
    }
    assert_int_equal(aggregate_fractions(s), 0);
}

CASE(the_rest_of_a_minute_that_leaves_memory_is_of_now, s)
{
    for (uint32_t m = 0; m < 10; m++)
        assert_rc(add_at(s, "a", UNIT * 2 / 5, m), 0);
    assert_rc(add_at(s, "b", UNIT * 2 / 5, 7), 0);
    assert_int_equal(flush_key(s, "a"), 0);
    assert_int_equal(aggregate_fractions(s), 11);
    assert_rc(aggregate_age(s), 0);
    assert_rc(aggregate_age(s), 0);
    assert_int_equal(aggregate_fractions(s), 2);
    assert_int_equal(flush_minute(s, NULL, 0), 4);
    assert_rc(add_value(s, "b", UNIT / 5), 0);
    assert_int_equal(flush_key(s, "b"), 1);
    assert_int_equal(s->forgotten, 0);
}

static void
count_flush(struct aggregate *s, int64_t *counted)
{
    struct message m;

    while (aggregate_take(s, &m)) {
        char key[8] = "";

        memcpy(key, m.key, m.key_size);
        counted[atoi(key)] += m.increment;
    }
}

/* The sums of all minutes are compared, as rests move between them. */
CASE(random_minutes_are_right_to_less_than_a_unit_in_the_end, s)
{
    struct random random = {.state = random_seed("minutes")};
    int64_t counted[20] = {0};
    int128 exact[20] = {0};

    for (int i = 0; i < 100000; i++) {
        const unsigned k = (unsigned)random_below(&random, 20);
        const int128 n = (int128)random_below(&random, 20000000) - 10000000;
        char key[8];

        (void)snprintf(key, sizeof key, "%u", k);
        assert_rc(add_at(s, key, n, (uint32_t)random_below(&random, 5)), 0);
        exact[k] += n;
        if (random_chance(&random, 1)) {
            count_flush(s, counted);
            if (random_chance(&random, 20))
                assert_rc(aggregate_age(s), 0);
        }
    }
    for (int age = 0; age < 3; age++) {
        count_flush(s, counted);
        assert_rc(aggregate_age(s), 0);
    }
    count_flush(s, counted);
    for (int k = 0; k < 20; k++) {
        const int128 off = exact[k] - counted[k] * UNIT;

        assert_true(off > -UNIT && off < UNIT);
    }
}
