/* tests/unit/test_totals.c - what totals that grow have grown by. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "writer/statsd/totals.h"

#define UNIT DECIMAL_MILLIONTHS

static void
set_up(struct totals *t)
{
    assert_rc(totals_init(t), 0);
}

#define CASE(name, t) TEST_WITH(name, struct totals, t, set_up, totals_fini)

static int64_t
take_until(struct totals *t, const char *name, int64_t value, int64_t at,
           int64_t latest)
{
    const struct total sample = {
        (const uint8_t *)name, strlen(name), 1, at, value, latest};

    return (int64_t)totals_take(t, &sample);
}

static int64_t
take_at(struct totals *t, const char *name, int64_t value, int64_t at)
{
    return take_until(t, name, value, at, 1000);
}

static int64_t
take_total(struct totals *t, const char *name, int64_t value)
{
    return take_at(t, name, value, 0);
}

CASE(the_first_sample_says_where_a_total_begins, t)
{
    assert_int_equal(take_total(t, "a", 1000), 0);
    assert_int_equal(take_total(t, "a", 1000), 0);
    assert_int_equal(take_total(t, "a", 1007), 7);
    assert_int_equal(take_total(t, "b", 5), 0);
    assert_int_equal(take_total(t, "a", 1008), 1);
    assert_int_equal(take_total(t, "b", 6), 1);
}

CASE(a_fall_is_a_restart, t)
{
    assert_int_equal(take_total(t, "a", 1000), 0);
    assert_int_equal(take_total(t, "a", 3), 3);
    assert_int_equal(take_total(t, "a", 4), 1);
    assert_int_equal(take_total(t, "a", 0), 0);
    assert_int_equal(take_total(t, "a", 2), 2);
}

CASE(a_sample_that_is_older_than_the_last_one_is_passed_over, t)
{
    assert_int_equal(take_at(t, "a", 10, 100), 0);
    assert_int_equal(take_at(t, "a", 30, 120), 20);
    assert_int_equal(take_at(t, "a", 20, 110), 0);
    assert_int_equal(take_at(t, "a", 30, 120), 0);
    assert_int_equal(take_at(t, "a", 31, 120), 1);
    assert_int_equal(take_total(t, "a", 33), 2);
}

CASE(a_time_that_is_far_ahead_stops_no_total, t)
{
    assert_int_equal(take_until(t, "a", 10, 5000, 1000), 0);
    assert_int_equal(take_until(t, "a", 12, 100, 1000), 2);
    assert_int_equal(take_until(t, "a", 15, 1001, 1000), 3);
    assert_int_equal(take_until(t, "a", 11, 99, 1000), 0);
    assert_int_equal(take_until(t, "a", 20, 101, 1000), 5);
    /* Not when its time comes, either. */
    assert_int_equal(take_until(t, "b", 10, 5000, 1000), 0);
    assert_int_equal(take_until(t, "b", 11, 4200, 5100), 1);
    /* The clock was ahead, and is set back. */
    assert_int_equal(take_until(t, "b", 12, 5000, 5100), 1);
    assert_int_equal(take_until(t, "b", 13, 200, 1200), 1);
    assert_int_equal(take_until(t, "b", 12, 199, 1200), 0);
}

CASE(names_of_several_protocols_are_several, t)
{
    struct total sample = {(const uint8_t *)"a", 1, 1, 0, 5, 0};

    assert_int_equal(totals_take(t, &sample), 0);
    sample.source = 0;
    sample.millionths = 9;
    assert_int_equal(totals_take(t, &sample), 0);
}

/* Names that a table has room for are remembered while others come and go. */
CASE(names_with_samples_are_not_forgotten, t)
{
    enum { ROUNDS = 6, OTHERS = 60000 };
    char name[32];

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < 1000; i++) {
            (void)snprintf(name, sizeof name, "stays.%d", i);
            assert_int_equal(take_total(t, name, 10 + round), round > 0);
        }
        for (int i = 0; i < OTHERS; i++) {
            (void)snprintf(name, sizeof name, "goes.%d.%d", round, i);
            assert_int_equal(take_total(t, name, 7), 0);
        }
    }
    assert_true(t->tables[0].names.count + t->tables[1].names.count <
                2 * TOTALS_MAX);
}

/* As a stop and the next start do. */
static void
move_lines(const struct totals *from, struct totals *to)
{
    FILE *file = test_memory(tmpfile());
    size_t capacity = 0;
    char *line = NULL;

    totals_print(from, file);
    rewind(file);
    while (getline(&line, &capacity, file) > 0)
        totals_take_line(to, line);
    free(line);
    assert_int_equal(fclose(file), 0);
}

/* Names of both tables, some of which are in both. */
CASE(each_last_sample_survives_a_stop, t)
{
    enum { NAMES = 150000 };
    static const char *const forgotten[] = {"", "plain", "plain\t1\t60\t7",
                                            "\t1\t60\t7\t0"};
    struct totals next;
    char name[32];

    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(name, sizeof name, "name.%d", i);
        (void)take_at(t, name, 100 * (int64_t)UNIT, 50);
    }
    assert_int_equal(take_at(t, "name.7", 200 * (int64_t)UNIT, 51), 100 * UNIT);
    (void)take_at(t, "below", -7, 0);
    (void)take_at(t, "a\tb", UNIT * 3 / 2, 52);
    assert_rc(totals_init(&next), 0);
    move_lines(t, &next);
    for (size_t i = 0; i < sizeof forgotten / sizeof forgotten[0]; i++)
        totals_take_line(&next, forgotten[i]);
    assert_int_equal(take_at(&next, "name.7", 300 * (int64_t)UNIT, 50), 0);
    assert_int_equal(take_at(&next, "name.7", 203 * (int64_t)UNIT, 52),
                     3 * UNIT);
    for (int i = 0; i < NAMES; i += NAMES - 1) {
        (void)snprintf(name, sizeof name, "name.%d", i);
        assert_int_equal(take_at(&next, name, 103 * (int64_t)UNIT, 52),
                         3 * UNIT);
    }
    assert_int_equal(take_total(&next, "below", -6), 1);
    assert_int_equal(take_at(&next, "a\tb", 2 * (int64_t)UNIT, 53), UNIT / 2);
    assert_int_equal(take_total(&next, "plain", 7), 0);
    totals_fini(&next);
}
