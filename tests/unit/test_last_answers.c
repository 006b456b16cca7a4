/* tests/unit/test_last_answers.c - what an increment answers, against a model
 * that knows every increment.
 *
 *     TEST_SEED */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "reader/resp/last_answers.h"
#include "tests/lib/random.h"

static void
set_up(struct last_answers *a)
{
    assert_rc(last_answers_init(a), 0);
}

#define CASE(name, a)                                                          \
    TEST_WITH(name, struct last_answers, a, set_up, last_answers_fini)

static struct hash_wide
hash_of(const struct last_answers *a, const char *key)
{
    return last_answers_hash(a, (const uint8_t *)"ks", 2, (const uint8_t *)key,
                             strlen(key));
}

/* An increment of a key of which the snapshot has `count` as of `as_of_ms`. */
static int64_t
add_increment(struct last_answers *a, const char *key, int64_t increment,
              int64_t count, uint64_t as_of_ms, uint32_t *index)
{
    const struct hash_wide hash = hash_of(a, key);
    const struct last_answers_read read = {
        .exists = count != 0, .count = count, .as_of_ms = as_of_ms};

    return last_answers_add(a, &hash, increment, &read, index);
}

static int64_t
read_count(struct last_answers *a, const char *key, int64_t count,
           uint64_t as_of_ms)
{
    const struct hash_wide hash = hash_of(a, key);
    struct last_answers_read read = {
        .exists = count != 0, .count = count, .as_of_ms = as_of_ms};

    last_answers_apply(a, &hash, &read);
    return read.exists ? read.count : INT64_MIN;
}

/* Vectors of the SipHash authors: key 00 01 ... 0f, input 00 01 ... */
CASE(the_hash_is_siphash_2_4_128, a)
{
    const struct hash_key key = {.k0 = 0x0706050403020100,
                                 .k1 = 0x0f0e0d0c0b0a0908};
    const uint8_t byte = 0;
    struct hash_wide h;

    h = hash_bytes_wide(&key, &byte, 0);
    assert_true(h.low == 0xe6a825ba047f81a3);
    assert_true(h.high == 0x930255c71472f66d);
    h = hash_bytes_wide(&key, &byte, 1);
    assert_true(h.low == 0x44af996bd8c187da);
    assert_true(h.high == 0x45fc229b11597634);
}

CASE(an_entry_holds_until_the_snapshot_has_its_increments, a)
{
    uint32_t i;

    assert_int_equal(read_count(a, "k", 0, 100), INT64_MIN);
    assert_int_equal(add_increment(a, "k", 5, 10, 100, &i), 15);
    assert_int_equal(read_count(a, "k", 10, UINT64_MAX), 15); /* in flight */
    last_answers_ack(a, i, 200);
    assert_int_equal(read_count(a, "k", 10, 199), 15);
    assert_int_equal(read_count(a, "k", 99, 199), 99); /* others counted, too */
    assert_int_equal(read_count(a, "k", 7, 200), 7);
    assert_int_equal(add_increment(a, "k", 1, 7, 200, &i), 8);
    last_answers_ack(a, i, 300);
}

/* What spares a read the search for its entry. */
CASE(none_holds_when_all_are_acknowledged_and_merged, a)
{
    uint32_t i, j;

    assert_false(last_answers_any_holds(a, 0));
    (void)add_increment(a, "k", 1, 0, 100, &i);
    (void)add_increment(a, "l", 1, 0, 100, &j);
    assert_true(last_answers_any_holds(a, UINT64_MAX));
    last_answers_ack(a, i, 300);
    assert_true(last_answers_any_holds(a, UINT64_MAX));
    last_answers_ack(a, j, 200); /* the clock was set back */
    assert_true(last_answers_any_holds(a, 299));
    assert_false(last_answers_any_holds(a, 300));
}

CASE(a_lowered_key_answers_its_own_last_value, a)
{
    uint32_t i, j;

    assert_int_equal(add_increment(a, "k", -5, 10, 100, &i), 5);
    assert_int_equal(read_count(a, "k", 10, 100), 5);
    assert_int_equal(add_increment(a, "k", 2, 10, 100, &j), 7);
    assert_int_equal(i, j);
    last_answers_ack(a, i, 200);
    last_answers_ack(a, i, 210);
    assert_int_equal(read_count(a, "k", 10, 209), 7);
    /* Once merged it is not lowered any more. */
    assert_int_equal(add_increment(a, "k", 1, 7, 210, &i), 8);
    assert_int_equal(read_count(a, "k", 50, 210), 50);
}

CASE(answers_saturate, a)
{
    uint32_t i;

    assert_int_equal(add_increment(a, "up", 5, INT64_MAX - 1, 1, &i),
                     INT64_MAX);
    assert_int_equal(add_increment(a, "up", 5, INT64_MAX - 1, 1, &i),
                     INT64_MAX);
    assert_int_equal(add_increment(a, "down", INT64_MIN, -1, 1, &i), INT64_MIN);
}

CASE(a_lost_increment_takes_its_entry, a)
{
    uint32_t i;

    assert_int_equal(add_increment(a, "k", 5, 1, 1, &i), 6);
    assert_int_equal(add_increment(a, "k", 5, 1, 1, &i), 11);
    last_answers_forget(a, i);
    last_answers_forget(a, i);
    assert_int_equal(read_count(a, "k", 1, 1), 1);
    assert_int_equal(last_answers_held(a, 0), 0);
    assert_false(last_answers_any_holds(a, 0));
}

CASE(entries_that_hold_are_counted, a)
{
    uint32_t i, j;

    (void)add_increment(a, "k", 5, 1, 1, &i);
    (void)add_increment(a, "l", 5, 1, 1, &j);
    assert_int_equal(last_answers_held(a, 300), 2);
    last_answers_ack(a, i, 200);
    last_answers_ack(a, j, 300);
    assert_int_equal(last_answers_held(a, 199), 2);
    assert_int_equal(last_answers_held(a, 200), 1);
    (void)add_increment(a, "k", 5, 1, 1, &i);
    assert_int_equal(last_answers_held(a, 300), 1);
}

/* Keys of one bucket, by trial. */
static void
make_collisions(const struct last_answers *a, char keys[][16], size_t count)
{
    const uint64_t buckets = LAST_ANSWERS_COUNT / LAST_ANSWERS_BUCKET;
    size_t found = 0;

    for (unsigned n = 0; found < count; n++) {
        char key[16];

        (void)snprintf(key, sizeof key, "c%u", n);
        if (hash_of(a, key).low % buckets == 0)
            memcpy(keys[found++], key, sizeof key);
    }
}

CASE(a_full_bucket_gives_up_the_entry_acknowledged_first, a)
{
    char keys[6][16];
    uint32_t i[6];

    make_collisions(a, keys, 6);
    for (size_t k = 0; k < 4; k++)
        assert_int_equal(add_increment(a, keys[k], 1, 0, 1, &i[k]), 1);
    /* All are in flight: the fifth has no entry, and its answer is right. */
    assert_int_equal(add_increment(a, keys[4], 3, 4, 1, &i[4]), 7);
    assert_int_equal(i[4], LAST_ANSWERS_NONE);
    last_answers_ack(a, i[4], 5); /* does nothing */
    last_answers_ack(a, i[2], 20);
    last_answers_ack(a, i[1], 10);
    assert_int_equal(add_increment(a, keys[5], 3, 4, 1, &i[5]), 7);
    assert_int_equal(i[5], i[1]);
    assert_int_equal(read_count(a, keys[1], 0, 1), INT64_MIN);
    assert_int_equal(read_count(a, keys[2], 0, 1), 1);
}

/* One reader is the only writer: answers are exact, whatever is merged when.
 * Each key's increments are merged in order, some time after they were
 * acknowledged. */
CASE(the_only_writer_of_a_key_gets_exact_answers, a)
{
    enum { KEYS = 50, STEPS = 20000, MERGE_MS = 40 };
    struct random r;
    int64_t exact[KEYS] = {0}, merged[KEYS] = {0};
    uint64_t as_of_ms = 0;

    r.state = random_seed("last_answers");
    for (uint64_t now = 1; now <= STEPS; now++) {
        const size_t k = (size_t)random_below(&r, KEYS);
        const int64_t by = (int64_t)random_below(&r, 21) - 10;
        char key[16];
        uint32_t i;

        if (random_below(&r, MERGE_MS) == 0) {
            as_of_ms = now - 1;
            memcpy(merged, exact, sizeof merged);
        }
        (void)snprintf(key, sizeof key, "k%zu", k);
        exact[k] += by;
        assert_int_equal(add_increment(a, key, by, merged[k], as_of_ms, &i),
                         exact[k]);
        last_answers_ack(a, i, now);
        assert_int_equal(
            read_count(a, key, merged[k] == 0 ? 0 : merged[k], as_of_ms),
            exact[k]);
    }
}
