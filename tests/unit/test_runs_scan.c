/* tests/unit/test_runs_scan.c - all keys of a span, of runs that have many
 * blocks, most of which a scan for the largest passes over; how many runs a day
 * that is not over has; and a span of very many runs. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>

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
begin_life(struct fixture *f, const char *text, uint64_t seed)
{
    struct tiers tiers;
    const char *why;

    *f = (struct fixture){.random = {seed}};
    f->negative = random_chance(&f->random, 50);
    for (unsigned i = 0; i < KEYS; i++)
        f->hot[i] = random_chance(&f->random, 1);
    memkv_init(&f->kv);
    assert_rc(tiers_parse(text, &tiers, &why), 0);
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

/* Some of the keys, in one minute, which counts as one of this hour. */
static void
merge_at(struct fixture *f, unsigned hour, unsigned percent, uint32_t minute)
{
    static struct store_delta deltas[KEYS];
    static char keys[KEYS][16];
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
    assert_rc(history_append(&f->h, &f->kv.kv, deltas, n, minute + 59, &ahead),
              0);
}

static void
merge_some(struct fixture *f, unsigned hour, unsigned percent)
{
    merge_at(f, hour, percent,
             start_of_day() + 60 * hour +
                 (uint32_t)random_below(&f->random, 60));
}

/* About `blocks` blocks; 0: all that there is to do. */
static void
compact_some(struct fixture *f, unsigned hour, size_t blocks)
{
    const struct history_limits limits = {.now =
                                              start_of_day() + 60 * hour + 59};
    struct history_compacted cared;

    do
        assert_rc(history_compact(&f->h, &f->kv.kv, f->care, &limits,
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

/* In pieces; an hour takes `unit` minutes. */
static void
find_largest(struct fixture *f, unsigned from, unsigned to, uint32_t unit)
{
    static struct taken t;
    struct history_scan scan = {.from = start_of_day() + unit * from,
                                .to = start_of_day() + unit * to,
                                .row = take_sum,
                                .ctx = &t,
                                .until_ns = 1,
                                .least = INT128_LEAST};
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
        begin_life(&f, "1m:2d,1h:90d,1d:10y", seed + round);
        for (unsigned hour = 0; hour < HOURS; hour++) {
            const unsigned from = (unsigned)random_below(&f.random, hour + 1);

            merge_some(&f, hour, 1 + (unsigned)random_below(&f.random, 50));
            if (random_chance(&f.random, 50))
                merge_some(&f, hour, 1 + (unsigned)random_below(&f.random, 10));
            compact_some(&f, hour, random_below(&f.random, 4));
            find_largest(&f, from, hour + 1, 60);
            find_largest(&f, 0, HOURS, 60);
        }
        end_life(&f);
    }
}

/* ---- a day that is not over -------------------------------------------- */

TEST(hours_of_a_day_that_is_not_over_are_one_run_and_an_eighth)
{
    static struct fixture f;

    begin_life(&f, "1m:2d,1h:90d,1d:10y", random_seed("hours"));
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

/* ---- very many runs ----------------------------------------------------- */

#define DAYS (50 * HOURS) /* of a tier of hours, each a run */

TEST(a_span_of_any_number_of_runs_is_read)
{
    static struct fixture f;

    begin_life(&f, "1h:10y", random_seed("runs"));
    for (unsigned day = 0; day < DAYS; day++)
        merge_at(&f, day % HOURS, 1,
                 start_of_day() + DAY * day + 60 * (day % HOURS));
    find_largest(&f, 0, HOURS, DAY * (DAYS / HOURS));
    end_life(&f);
}
