/* tests/unit/test_runs_scan.c - all keys of a span, of runs that have many
 * blocks, most of which a scan for the largest passes over; how many runs a day
 * that is not over has; and more runs than are read at a time. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/store/history/runs.h"
#include "tests/lib/memkv.h"
#include "tests/lib/random.h"
#include "tests/lib/stored.h"
#include "tests/lib/test.h"

#define KEYS  4000
#define HOURS 24
#define DAY   (HOURS * 60)
#define TOP   10

struct fixture {
    struct random random;
    struct memkv kv;
    struct history h;
    struct history_compact *care;
    bool hot[KEYS], negative; /* some sums are */
    int64_t sums[HOURS][KEYS];
    bool any[HOURS][KEYS];
    uint8_t key[STORE_NAME_MAX];
};

static uint32_t
start_of_day(void)
{
    return 20000 * DAY;
}

static void
begin_life(struct fixture *f, uint64_t seed)
{
    struct tiers tiers;
    const char *why;

    *f = (struct fixture){.random = {seed}};
    f->negative = random_chance(&f->random, 50);
    for (unsigned i = 0; i < KEYS; i++)
        f->hot[i] = random_chance(&f->random, 1);
    memkv_init(&f->kv);
    assert_rc(tiers_parse("1m:2d,1h:90d,1d:10y", &tiers, &why), 0);
    history_begin(&f->h, &tiers, start_of_day(), true, 0);
    f->care = history_compact_new();
    assert_non_null(f->care);
}

static void
end_life(struct fixture *f)
{
    history_compact_free(f->care);
    memkv_fini(&f->kv);
}

static int64_t
random_sum(struct fixture *f, unsigned key)
{
    const int64_t sum =
        1 + (int64_t)random_below(&f->random, f->hot[key] ? 10000 : 10);

    return f->negative && random_chance(&f->random, 30) ? -sum : sum;
}

/* Some of the keys, in one minute. */
static void
merge_some(struct fixture *f, unsigned hour, unsigned percent)
{
    static struct store_delta deltas[KEYS];
    static char keys[KEYS][16];
    const uint32_t minute =
        start_of_day() + 60 * hour + (uint32_t)random_below(&f->random, 60);
    struct history_of of = {.deltas = deltas,
                            .limits.now = start_of_day() + 60 * hour + 59};
    uint64_t ahead;
    size_t n = 0;

    for (unsigned i = 0; i < KEYS; i++) {
        int64_t sum;

        if (!random_chance(&f->random, percent))
            continue;
        sum = random_sum(f, i);
        (void)snprintf(keys[i], sizeof keys[i], "key%06u", i);
        deltas[n++] = stored_delta(keys[i], 9, minute, sum);
        f->sums[hour][i] += sum;
        f->any[hour][i] = true;
    }
    of.delta_count = n;
    assert_rc(history_append(&f->h, &f->kv.kv, &of, &ahead), 0);
}

/* About this number of blocks; 0: all that there is to do. */
static void
compact_some(struct fixture *f, unsigned hour, size_t blocks)
{
    const struct history_of of = {.limits.now = start_of_day() + 60 * hour + 59,
                                  .compact = f->care};
    struct history_compacted cared;

    do
        assert_rc(history_compact(&f->h, &f->kv.kv, &of,
                                  blocks > 0 ? blocks : 400, &cared),
                  0);
    while (blocks == 0 && cared.more);
}

/* ---- the largest ------------------------------------------------------- */

struct taken {
    bool any[KEYS];
    int128 sum[KEYS];
    int128 top[TOP]; /* the largest first */
};

static int128
take_sum(void *ctx, const uint8_t *key, size_t size, int128 sum)
{
    struct taken *t = ctx;
    unsigned at = TOP - 1, i = 0;

    assert_int_equal(size, 9);
    for (unsigned j = 3; j < 9; j++)
        i = 10 * i + key[j] - '0';
    assert_in_range(i, 0, KEYS - 1);
    assert_false(t->any[i]);
    t->any[i] = true;
    t->sum[i] = sum;
    if (sum <= t->top[at])
        return t->top[TOP - 1];
    for (; at > 0 && t->top[at - 1] < sum; at--)
        t->top[at] = t->top[at - 1];
    t->top[at] = sum;
    return t->top[TOP - 1];
}

/* In pieces. */
static void
find_largest(struct fixture *f, unsigned from, unsigned to)
{
    static struct taken t;
    struct store_history_place at = {.least = INT128_LEAST};
    struct history_scan scan = {.from = start_of_day() + 60 * from,
                                .to = start_of_day() + 60 * to,
                                .row = take_sum,
                                .ctx = &t,
                                .until_ns = 1,
                                .at = &at};
    int rc;

    t = (struct taken){.any = {false}};
    for (unsigned i = 0; i < TOP; i++)
        t.top[i] = INT128_LEAST;
    do
        rc = history_scan(&f->h, &f->kv.kv, &scan);
    while (rc == -EAGAIN);
    assert_rc(rc, 0);
    for (unsigned i = 0; i < KEYS; i++) {
        bool any = false;
        int128 sum = 0;

        for (unsigned hour = from; hour < to; hour++) {
            any = any || f->any[hour][i];
            sum += f->sums[hour][i];
        }
        if (t.any[i])
            assert_true(any && t.sum[i] == sum);
        else
            assert_true(!any || sum <= t.top[TOP - 1]);
    }
}

TEST(the_largest_are_found_whatever_is_passed_over)
{
    const uint64_t seed = random_seed("scan");
    static struct fixture f;

    for (unsigned round = 0; round < 30; round++) {
        begin_life(&f, seed + round);
        for (unsigned hour = 0; hour < HOURS; hour++) {
            const unsigned from = (unsigned)random_below(&f.random, hour + 1);

            merge_some(&f, hour, 1 + (unsigned)random_below(&f.random, 50));
            if (random_chance(&f.random, 50))
                merge_some(&f, hour, 1 + (unsigned)random_below(&f.random, 10));
            compact_some(&f, hour, random_below(&f.random, 4));
            find_largest(&f, from, hour + 1);
            find_largest(&f, 0, HOURS);
        }
        end_life(&f);
    }
}

/* ---- a day that is not over -------------------------------------------- */

TEST(hours_of_a_day_that_is_not_over_are_one_run_and_an_eighth)
{
    static struct fixture f;

    begin_life(&f, random_seed("hours"));
    for (unsigned hour = 0; hour < HOURS; hour++) {
        uint64_t blocks = 0, most = 0;
        struct period p;

        merge_some(&f, hour, 10 + (unsigned)random_below(&f.random, 50));
        compact_some(&f, hour, 0);
        if (hour == 0)
            continue;
        assert_int_equal(period_after(&f.h, &f.kv.kv, 1, start_of_day(), &p),
                         1);
        for (unsigned i = 0; i < p.count; i++) {
            blocks += p.runs[i].blocks;
            most = p.runs[i].blocks > most ? p.runs[i].blocks : most;
        }
        if (blocks > HISTORY_SMALL)
            assert_true(blocks - most < most / HISTORY_EIGHT || blocks == most);
    }
    end_life(&f);
}

/* ---- more runs than are read at a time ---------------------------------- */

#define DAYS  1500 /* of a tier of hours, each a run */
#define NAMES 12000

struct long_life {
    int64_t sums[NAMES];
    bool any[NAMES], taken[NAMES];
    unsigned count; /* keys that were taken */
};

/* Some keys a day, in one of its hours. */
static void
live_long(struct fixture *f, struct long_life *l)
{
    static char keys[NAMES][16];
    struct tiers tiers;
    const char *why;
    uint64_t ahead;

    *l = (struct long_life){.count = 0};
    *f = (struct fixture){.random = {random_seed("runs")}};
    memkv_init(&f->kv);
    assert_rc(tiers_parse("1h:10y", &tiers, &why), 0);
    history_begin(&f->h, &tiers, start_of_day(), true, 0);
    for (unsigned day = 0; day < DAYS; day++) {
        struct store_delta deltas[NAMES / 400];
        struct history_of of = {.deltas = deltas,
                                .limits.now = start_of_day() + DAY * DAYS};
        size_t n = 0;

        for (unsigned i = (unsigned)random_below(&f->random, 500); i < NAMES;
             i += 500 + (unsigned)random_below(&f->random, 500)) {
            const int64_t sum = (int64_t)random_below(&f->random, 99) - 20;

            (void)snprintf(keys[i], sizeof keys[i], "key%06u", i);
            deltas[n++] = stored_delta(
                keys[i], 9, start_of_day() + DAY * day + 60 * (day % HOURS),
                sum);
            l->sums[i] += sum;
            l->any[i] = true;
        }
        of.delta_count = n;
        assert_rc(history_append(&f->h, &f->kv.kv, &of, &ahead), 0);
    }
}

static int128
take_long(void *ctx, const uint8_t *key, size_t size, int128 sum)
{
    struct long_life *l = ctx;
    char text[16] = {0};
    unsigned i;

    assert_int_equal(size, 9);
    memcpy(text, key, size);
    i = (unsigned)strtoul(text + 3, NULL, 10);
    assert_in_range(i, 0, NAMES - 1);
    assert_false(l->taken[i]);
    assert_true(l->any[i] && sum == l->sums[i]);
    l->taken[i] = true;
    l->count++;
    return INT128_LEAST;
}

/* Takes the keys of a prefix, which are those from `first` to `end`, in pieces,
 * and sees that none is missing. */
static void
take_prefix(struct fixture *f, struct long_life *l, const char *prefix,
            unsigned first, unsigned end)
{
    struct store_history_place at = {.least = INT128_LEAST};
    struct store_history_place keys_at = {.least = INT128_LEAST};
    struct history_scan scan = {.prefix = (const uint8_t *)prefix,
                                .prefix_size = strlen(prefix),
                                .from = start_of_day(),
                                .to = start_of_day() + DAY * DAYS,
                                .until_ns = 1,
                                .row = take_long,
                                .ctx = l,
                                .at = &at};
    struct store_bucket bucket = {.any = false};
    struct history_scan keys = {.ctx = l, .at = &keys_at};
    const struct history_range range = {
        scan.prefix, scan.prefix_size, scan.from, scan.to,
        DAY * DAYS,  &bucket,          &keys};
    uint32_t done = 0;
    int128 sum = 0;
    int rc;

    memset(l->taken, 0, sizeof l->taken);
    do
        rc = history_scan(&f->h, &f->kv.kv, &scan);
    while (rc == -EAGAIN);
    assert_rc(rc, 0);
    for (unsigned i = 0; i < NAMES; i++) {
        assert_int_equal(l->taken[i], i >= first && i < end && l->any[i]);
        sum += l->taken[i] ? l->sums[i] : 0;
    }

    do
        rc = history_read(&f->h, &f->kv.kv, &range, 1, &done);
    while (rc == -EAGAIN);
    assert_rc(rc, 0);
    assert_true(bucket.sum == sum);
}

TEST(a_span_of_any_number_of_runs_is_read)
{
    static struct long_life l;
    static struct store_top rows[100];
    static struct fixture f;
    struct store_history_query q = {
        .op = STORE_HISTORY_STEP, .to = UINT32_MAX, .top = rows, .length = 100};

    live_long(&f, &l);
    take_prefix(&f, &l, "", 0, NAMES);
    take_prefix(&f, &l, "key00", 0, 10000);
    take_prefix(&f, &l, "key00123", 1230, 1240);
    memset(l.taken, 0, sizeof l.taken);
    l.count = 0;
    do {
        struct store_top last;

        assert_rc(history_answer(&f.h, &f.kv.kv, &q, 0), 0);
        for (unsigned i = 0; i < q.rows; i++)
            (void)take_long(&l, rows[i].key, rows[i].key_size, rows[i].sum.sum);
        last = rows[q.rows > 0 ? q.rows - 1 : 0];
        if (q.rows < q.length)
            break;
        q = (struct store_history_query){.op = STORE_HISTORY_STEP,
                                         .to = UINT32_MAX,
                                         .top = rows,
                                         .length = 100,
                                         .key = f.key,
                                         .key_size = last.key_size};
        memcpy(f.key, last.key, last.key_size);
    } while (true);
    for (unsigned i = 0; i < NAMES; i++)
        assert_int_equal(l.taken[i], l.any[i]);
    memkv_fini(&f.kv);
}
