/* tests/unit/test_aggregate.c - sums of names between flushes, and numbered
 * senders.
 *
 *     TEST_SEED */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/random.h"
#include "writer/statsd/aggregate.h"
#include "writer/statsd/senders.h"

#define MEMORY ((size_t)1 << 20)
#define UNIT   ((int128)DECIMAL_MILLIONTHS)

static int
add(struct aggregate *s, const char *key, int128 millionths)
{
    const struct aggregate_name name = {.keyspace = (const uint8_t *)"k",
                                        .key = (const uint8_t *)key,
                                        .keyspace_size = 1,
                                        .key_size = strlen(key)};

    return aggregate_add(s, &name, millionths);
}

/* Flushes all; returns what `key` got. */
static int64_t
flush(struct aggregate *s, const char *key)
{
    struct aggregate_name name;
    int64_t increment, sum = 0;

    while (aggregate_take(s, &name, &increment))
        if (name.key_size == strlen(key) &&
            memcmp(name.key, key, name.key_size) == 0)
            sum += increment;
    return sum;
}

static int
setup(void **state)
{
    static struct aggregate s;

    assert_rc(aggregate_init(&s, MEMORY), 0);
    *state = &s;
    return 0;
}

static int
teardown(void **state)
{
    aggregate_fini(*state);
    return 0;
}

#define CASE(name, s) TEST_IN(name, struct aggregate *s, setup, teardown)

CASE(a_flush_takes_whole_units_and_leaves_the_rest, s)
{
    struct aggregate_name name;
    int64_t increment;

    assert_rc(add(s, "a", 3333333), 0);
    assert_int_equal(flush(s, "a"), 3);
    assert_rc(add(s, "a", 3333333), 0);
    assert_int_equal(flush(s, "a"), 4); /* 3.67 with the rest */
    assert_rc(add(s, "a", 3333333), 0);
    assert_int_equal(flush(s, "a"), 3); /* 10 in all, of 9.999999 */
    assert_false(aggregate_take(s, &name, &increment));
}

CASE(a_rest_survives_one_age_and_is_counted_when_it_is_lost, s)
{
    assert_rc(add(s, "a", UNIT * 2 / 5), 0);
    assert_int_equal(flush(s, "a"), 0);
    assert_rc(aggregate_age(s), 0);
    assert_rc(add(s, "a", UNIT * 2 / 5), 0); /* comes along */
    assert_int_equal(flush(s, "a"), 1);
    assert_rc(aggregate_age(s), 0);
    assert_int_equal(s->forgotten, 0);
    assert_rc(aggregate_age(s), 0); /* nothing came for it since */
    assert_int_equal(s->forgotten, 1);
    assert_rc(add(s, "a", UNIT * 2 / 5), 0);
    assert_int_equal(flush(s, "a"), 0);
}

CASE(names_that_wait_for_a_flush_are_never_dropped, s)
{
    assert_rc(add(s, "a", UNIT), 0);
    assert_rc(aggregate_age(s), 0);
    assert_rc(aggregate_age(s), -EBUSY);
    assert_rc(add(s, "a", UNIT), 0);
    assert_int_equal(flush(s, "a"), 2);
    assert_rc(aggregate_age(s), 0);
}

CASE(a_full_table_refuses_and_an_age_empties_it, s)
{
    char key[16];
    int count = 0;

    for (int rc = 0; rc == 0; count += rc == 0) {
        const size_t before = aggregate_free(s);

        (void)snprintf(key, sizeof key, "%d", count);
        rc = add(s, key, UNIT);
        /* What is said to be free can be used. */
        assert_true(rc == 0 || before < aggregate_name_size(1, sizeof key));
    }
    assert_true(count > 1000);
    (void)snprintf(key, sizeof key, "%d", count - 1);
    assert_int_equal(flush(s, key), 1);
    assert_rc(aggregate_age(s), 0);
    assert_rc(add(s, "new", UNIT), 0);
    assert_int_equal(flush(s, "new"), 1);
}

CASE(sums_beyond_64_bits_are_cut_to_the_bound, s)
{
    for (int i = 0; i < 100; i++)
        assert_rc(add(s, "a", UNIT * INT64_MAX), 0);
    assert_true(flush(s, "a") == INT64_MAX);
    for (int i = 0; i < 100; i++)
        assert_rc(add(s, "a", UNIT * INT64_MIN), 0);
    assert_true(flush(s, "a") == INT64_MIN);
}

static void
count_flush(struct aggregate *s, int64_t *counted)
{
    struct aggregate_name name;
    int64_t increment;

    while (aggregate_take(s, &name, &increment)) {
        char key[8] = "";

        memcpy(key, name.key, name.key_size);
        counted[atoi(key)] += increment;
    }
}

/* Against plain sums, over many flushes. */
CASE(random_sums_are_right_to_half_a_unit, s)
{
    struct random random = {.state = random_seed("sums")};
    int64_t counted[50] = {0};
    int128 exact[50] = {0};

    for (int i = 0; i < 100000; i++) {
        const unsigned k = (unsigned)random_below(&random, 50);
        const int128 n = (int128)random_below(&random, 20000000) - 10000000;
        char key[8];

        (void)snprintf(key, sizeof key, "%u", k);
        assert_rc(add(s, key, n), 0);
        exact[k] += n;
        if (random_chance(&random, 1))
            count_flush(s, counted);
    }
    count_flush(s, counted);
    for (int k = 0; k < 50; k++) {
        const int128 off = exact[k] - counted[k] * UNIT;

        assert_true(off >= -UNIT / 2 && off <= UNIT / 2);
    }
}

/* ---- senders ------------------------------------------------------------- */

static struct senders senders;

static void
note(const char *name, uint64_t number)
{
    senders_note(&senders, (const uint8_t *)name, strlen(name), number);
}

static void
expect_changes(int64_t numbered, int64_t missing, int64_t repeated)
{
    struct sender *one = senders_take(&senders);

    assert_non_null(one);
    assert_int_equal(one->changes[SENDER_NUMBERED], numbered);
    assert_int_equal(one->changes[SENDER_MISSING], missing);
    assert_int_equal(one->changes[SENDER_REPEATED], repeated);
    memset(one->changes, 0, sizeof one->changes);
    one->changed = false;
    senders.changed--;
}

TEST(gaps_and_repeats_of_a_sender_are_counted)
{
    memset(&senders, 0, sizeof senders);
    note("a", 7); /* what came before is unknown */
    note("a", 8);
    expect_changes(2, 0, 0);
    note("a", 11);
    expect_changes(1, 2, 0);
    note("a", 10); /* late: it was not lost */
    expect_changes(1, -1, 0);
    note("a", 10);
    note("a", 11);
    expect_changes(2, 0, 2);
    note("a", 211);
    expect_changes(1, 199, 0);
    note("a", 1); /* restarted */
    note("a", 2);
    expect_changes(2, 0, 0);
    assert_null(senders_take(&senders));
}

TEST(a_sender_too_many_is_not_followed)
{
    char name[SENDER_NAME_MAX + 2];

    memset(&senders, 0, sizeof senders);
    for (int i = 0; i < SENDERS_MAX + 10; i++) {
        (void)snprintf(name, sizeof name, "sender-%d", i);
        note(name, 1);
    }
    assert_int_equal(senders.count, SENDERS_MAX);
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    note(name, 1);
    assert_int_equal(senders.count, SENDERS_MAX);
}
