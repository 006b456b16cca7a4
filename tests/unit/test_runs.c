/* tests/unit/test_runs.c - the history room on a kv in memory: blocks, and
 * random lives against a plain table. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/store/history/runs.h"
#include "tests/lib/memhistory.h"
#include "tests/lib/memkv.h"
#include "tests/lib/random.h"
#include "tests/lib/stored.h"
#include "tests/lib/test.h"

#define DAY 1440u

/* ---- blocks ------------------------------------------------------------ */

static int128
random_sum(struct random *r)
{
    const int128 wide =
        (int128)((uint128)random_next(r) << 64 | random_next(r));

    switch (random_below(r, 6)) {
    case 0:
        return wide;
    case 1:
        return INT128_LEAST;
    case 2:
        return ~INT128_LEAST;
    default:
        return (int64_t)random_below(r, 300) - 100;
    }
}

/* Keys that share much, little, or are as long as may be; each above the one
 * before. */
static size_t
next_random_key(struct random *r, unsigned n, uint8_t key[HISTORY_KEY_MAX])
{
    const size_t size =
        random_chance(r, 10) ? HISTORY_KEY_MAX : 8 + random_below(r, 30);

    memset(key, 'a', size);
    (void)snprintf((char *)key, 8, "%07u", n);
    if (size > 8 && random_chance(r, 50))
        key[7] = (uint8_t)random_below(r, 256);
    else
        key[7] = 'a';
    return size;
}

static uint64_t
random_cells(struct random *r)
{
    const uint64_t cells = random_next(r) & random_next(r) & random_next(r);

    return random_chance(r, 60) || cells == 0
               ? (uint64_t)1 << random_below(r, 64)
               : cells;
}

TEST(a_block_gives_back_its_rows)
{
    static struct history_row rows[2000];
    static uint8_t keys[2000][HISTORY_KEY_MAX];
    static struct rows_writer w;
    struct random r = {random_seed("block")};
    const uint8_t name[] = "under", next[] = "zz";

    for (unsigned round = 0; round < 200; round++) {
        int128 sums[HISTORY_CELLS];
        struct rows_reader b;
        unsigned n = 0;
        size_t size;

        rows_begin(&w);
        do {
            rows[n].key = keys[n];
            rows[n].key_size = (uint16_t)next_random_key(&r, n, keys[n]);
            rows[n].cells = random_cells(&r);
            for (unsigned i = 0; i < HISTORY_CELLS; i++)
                rows[n].sums[i] = random_sum(&r);
        } while (rows_add(&w, &rows[n]) && ++n < 2000);
        assert_true(n > 1);
        size = rows_end(&w, name, 5, next, 2);
        assert_in_range(size, ROWS_HEAD_SIZE, ROWS_SIZE_MAX);

        assert_rc(rows_open(&b, &(struct kv_item){name, w.bytes, 5, size}), 0);
        assert_int_equal(b.next_size, 2);
        for (unsigned i = 0; i < n; i++) {
            assert_int_equal(rows_next(&b), 1);
            assert_int_equal(b.key_size, rows[i].key_size);
            assert_memory_equal(b.key, rows[i].key, b.key_size);
            assert_true(b.cells == rows[i].cells);
            rows_sums(&b, sums);
            for (unsigned c = 0; c < HISTORY_CELLS; c++)
                if ((b.cells >> c & 1) != 0)
                    assert_true(sums[c] == rows[i].sums[c]);
        }
        assert_int_equal(rows_next(&b), 0);
    }
}

/* ---- a life, and the table that says what is right ---------------------- */

#define KEYS      300
#define TABLE_MAX 400000

struct life {
    struct random random;
    struct history h;
    struct memkv kv;
    struct history_compact *care;
    struct tiers tiers;
    uint32_t now;
    struct memhistory *table;
    size_t count;
    bool deleted; /* some key was */
    int128 totals[KEYS];
    bool erased[KEYS]; /* nothing came since */
    unsigned faults;
};

static size_t
key_of(unsigned i, uint8_t key[HISTORY_KEY_MAX])
{
    memset(key, 'x', HISTORY_KEY_MAX);
    (void)snprintf((char *)key, 20, "key%03u", i);
    return i % 3 == 0 ? HISTORY_KEY_MAX : 6;
}

static unsigned
number_of(const uint8_t *key)
{
    return (unsigned)(key[3] - '0') * 100 + (unsigned)(key[4] - '0') * 10 +
           (unsigned)(key[5] - '0');
}

static void
life_begin(struct life *l, const char *tiers, uint64_t seed)
{
    const char *why;

    *l = (struct life){.random = {seed}, .now = 100 * 365 * DAY};
    assert_rc(tiers_parse(tiers, &l->tiers, &why), 0);
    memkv_init(&l->kv);
    history_begin(&l->h, &l->tiers, l->now, true, 0);
    l->care = history_compact_new();
    l->table = malloc(TABLE_MAX * sizeof *l->table);
    assert_non_null(l->care);
    assert_non_null(l->table);
}

static void
life_end(struct life *l)
{
    history_compact_free(l->care);
    free(l->table);
    memkv_fini(&l->kv);
}

/* Through its bytes, as an engine keeps it. */
static void
keep_state(struct life *l)
{
    uint8_t bytes[HISTORY_STATE_MAX];
    struct history again;
    const size_t size = history_put(&l->h, bytes);

    assert_rc(history_get(&again, bytes, size), 0);
    l->h = again;
}

static void
compact_some(struct life *l, size_t blocks, uint64_t max, bool all)
{
    const struct history_of of = {.limits = {.now = l->now, .max = max},
                                  .compact = l->care};
    struct history_compacted cared;

    do {
        assert_rc(history_compact(&l->h, &l->kv.kv, &of, blocks, &cared), 0);
        keep_state(l);
    } while (all && cared.more);
}

static uint32_t
random_minute(struct life *l)
{
    struct random *r = &l->random;

    switch (random_below(r, 20)) {
    case 0: /* late */
        return l->now - (uint32_t)random_below(r, 4 * DAY);
    case 1:
        return l->now - (uint32_t)random_below(r, 100 * DAY);
    case 2: /* of a clock that is ahead */
        return l->now + (uint32_t)random_below(r, 2 * DAY);
    default:
        return l->now - (uint32_t)random_below(r, 3);
    }
}

/* One merge: some keys, some minutes. */
static void
merge_some(struct life *l, unsigned keys_most)
{
    struct store_delta deltas[2 * KEYS];
    uint8_t keys[KEYS][HISTORY_KEY_MAX];
    struct history_of of = {.deltas = deltas, .limits.now = l->now};
    uint64_t ahead;
    size_t n = 0;

    for (unsigned i = 0; i < KEYS; i++) {
        uint32_t minute = random_minute(l);

        if (random_below(&l->random, KEYS) >= keys_most)
            continue;
        for (unsigned j = random_chance(&l->random, 20) ? 2 : 1; j > 0; j--) {
            const int64_t sum = (int64_t)random_below(&l->random, 1000) - 300;

            assert_true(l->count < TABLE_MAX);
            deltas[n] = stored_delta(keys[i], key_of(i, keys[i]), minute, sum);
            l->table[l->count++] = memhistory_of(&deltas[n++], l->now);
            l->erased[i] = false;
            l->totals[i] += sum;
            minute++;
        }
    }
    of.delta_count = n;
    assert_rc(history_append(&l->h, &l->kv.kv, &of, &ahead), 0);
}

/* No block that is kept has an erased key or begins with one. */
static void
check_erased(const struct life *l)
{
    for (size_t i = 0; i < l->kv.count; i++) {
        const struct memkv_entry *e = &l->kv.entries[i];
        const struct kv_item item = {e->key, e->value, e->key_size, e->size};
        uint8_t key[HISTORY_KEY_MAX];
        struct rows_reader r;

        if (e->key_size < RUN_KEY_HEAD)
            continue;
        assert_rc(rows_open(&r, &item), 0);
        for (unsigned k = 0; k < KEYS; k++) {
            const size_t size = l->erased[k] ? key_of(k, key) : 0;

            assert_false(size > 0 && e->key_size >= RUN_KEY_HEAD + 6 &&
                         memcmp(e->key + RUN_KEY_HEAD, key, 6) == 0);
        }
        while (rows_next(&r) > 0)
            if (r.key_size > 0)
                assert_false(l->erased[number_of(r.key)]);
    }
}

static void
sweep_erased(struct life *l)
{
    compact_some(l, 1 + random_below(&l->random, 50), 0, true);
    check_erased(l);
}

/* Some keys are deleted. */
static void
remove_keys(struct life *l, unsigned most)
{
    uint8_t keys[KEYS][HISTORY_KEY_MAX];
    struct history_erasure e[KEYS];
    size_t n = 0, kept = 0, blocks = SIZE_MAX;

    for (unsigned i = 0; i < KEYS; i++) {
        if (random_below(&l->random, KEYS) >= most)
            continue;
        e[n++] =
            (struct history_erasure){.key = keys[i],
                                     .key_size = (uint16_t)key_of(i, keys[i]),
                                     .count = l->totals[i]};
        l->totals[i] = 0;
        l->erased[i] = true;
    }
    for (size_t i = 0; i < l->count; i++)
        if (!l->erased[number_of(l->table[i].key.bytes)])
            l->table[kept++] = l->table[i];
    l->count = kept;
    l->deleted = true;
    assert_rc(history_erase(&l->h, &l->kv.kv, e, n, &blocks), 0);
    keep_state(l);
    if (random_chance(&l->random, 50))
        sweep_erased(l);
}

static void
note_fault(void *ctx, const char *text)
{
    struct life *l = ctx;

    l->faults++;
    print_message("%s\n", text);
}

static void
check_life(struct life *l)
{
    struct history_check c = {.fault = note_fault, .ctx = l, .hash = {7}};
    struct history_whole whole = {.entries = l->kv.count};

    for (unsigned i = 0; i < KEYS; i++) {
        uint8_t key[HISTORY_KEY_MAX];
        const size_t size = key_of(i, key);

        whole.sum += l->totals[i];
        whole.proof += history_proof(c.hash, key, size, l->totals[i]);
    }
    assert_rc(history_check(&l->h, &l->kv.kv, &whole, &c), 0);
    assert_int_equal(l->faults, 0);
}

/* ---- questions --------------------------------------------------------- */

struct span {
    uint32_t from, to, step;
};

/* A span that tiers can answer, in or about what is kept. */
static struct span
random_span(struct life *l)
{
    struct random *r = &l->random;
    const unsigned tier = (unsigned)random_below(r, l->h.count);
    const uint32_t unit = l->h.tier[tier].step;
    const uint32_t step = unit * (1 + (uint32_t)random_below(r, 5));
    const uint32_t since = history_since(&l->h, tier);
    uint32_t back = (uint32_t)random_below(r, l->h.tier[tier].keep + 10 * step);
    struct span s = {.step = step};

    if (random_chance(r, 50))
        back = (uint32_t)random_below(r, 50 * step);
    s.from = (l->now - back) / unit * unit;
    if (s.from < since)
        s.from = since;
    s.to = s.from + step * (uint32_t)random_below(r, 60);
    return s;
}

static int
ask_piece(void *ctx, struct store_history_query *q)
{
    const struct life *l = ctx;

    return history_answer(&l->h, &l->kv.kv, q, 1);
}

static void
ask_random(struct life *l, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        const struct span s = random_span(l);
        uint8_t key[HISTORY_KEY_MAX];
        struct store_history_query q = {
            .op = (enum store_history_op)random_below(&l->random, 4),
            .key = key,
            .key_size = key_of((unsigned)random_below(&l->random, KEYS), key),
            .from = s.from,
            .to = s.to,
            .step = s.step,
            .length = random_below(&l->random, KEYS + 1)};

        memhistory_compare(l->table, l->count, l->deleted, q, ask_piece, l);
    }
}

/* ---- lives ------------------------------------------------------------- */

static const char *const many_tiers[] = {"1m:2d,1h:90d,1d:10y",
                                         "1m:1h,5m:3h,1h:1d,1d:90d",
                                         "1m:1d",
                                         "1h:2d,1d:60d",
                                         "5m:2h,1d:5d",
                                         "1d:40d",
                                         "1m:2h,7d:90d"};

#define MANY (sizeof many_tiers / sizeof *many_tiers)

TEST(a_random_life_is_as_the_table_says)
{
    const uint64_t seed = random_seed("life");

    for (unsigned round = 0; round < 2 * MANY; round++) {
        struct life l;

        life_begin(&l, many_tiers[round % MANY], seed + round);
        for (unsigned step = 0; step < 400; step++) {
            merge_some(&l, random_chance(&l.random, 10)
                               ? KEYS
                               : 1 + (unsigned)random_below(&l.random, 10));
            if (random_chance(&l.random, 5))
                remove_keys(&l,
                            random_chance(&l.random, 20)
                                ? KEYS
                                : 1 + (unsigned)random_below(&l.random, 40));
            compact_some(&l, 1 + random_below(&l.random, 12), 0,
                         random_chance(&l.random, 30));
            ask_random(&l, 2);
            if (step % 20 == 0)
                check_life(&l);
            l.now += (uint32_t)(random_chance(&l.random, 3)
                                    ? random_below(&l.random, 5 * DAY)
                                    : random_below(&l.random, 90));
            if (random_chance(&l.random, 1)) /* the clock jumps, and back */
                l.now -= (uint32_t)random_below(&l.random, DAY);
        }
        compact_some(&l, 100, 0, true);
        check_life(&l);
        ask_random(&l, 50);
        remove_keys(&l, KEYS);
        sweep_erased(&l);
        check_life(&l);
        assert_int_equal(l.kv.count, 0);
        life_end(&l);
    }
}

/* Bytes at most, when at most rows[i] rows come to tier i in one of its
 * periods: of each its key (a third are of 256 bytes), and the bitmap and the
 * sums of its cells.  Besides the time for which it is kept there are the
 * period that is filled, one that is not over to the day, and one that is
 * written while the other is read. */
static size_t
predict_size(const struct life *l, const size_t *rows)
{
    const size_t key = (HISTORY_KEY_MAX + 2 * 6) / 3 + 4;
    size_t bytes = 0;

    for (unsigned i = 0; i < l->h.count; i++) {
        const struct history_tier *t = &l->h.tier[i];
        const size_t periods = t->keep / t->period + 3;
        const size_t keys = rows[i] < KEYS ? rows[i] : KEYS;

        bytes += periods * (keys * key + rows[i] * 3);
    }
    return bytes;
}

TEST(a_year_is_bounded_and_exact)
{
    /* Three keys each half hour: of an hour, a day, a month. */
    static const size_t rows[] = {6, 6 * 24, 6 * 24 * 31};
    struct life l;
    size_t most = 0, half = 0, bound;

    life_begin(&l, "1m:2d,1h:30d,1d:90d", random_seed("year"));
    for (unsigned hour = 0; hour < 365 * 24; hour++) {
        for (unsigned i = 0; i < 2; i++) {
            merge_some(&l, 3);
            compact_some(&l, 400, 0, true);
            l.now += 30;
        }
        if (l.kv.bytes > most)
            most = l.kv.bytes;
        if (hour == 365 * 12)
            half = most;
        if (hour % 1000 == 999) {
            check_life(&l);
            ask_random(&l, 20);
        }
    }
    check_life(&l);
    ask_random(&l, 200);
    /* After half a year all tiers are full, and it grows no more. */
    assert_in_range(most, half, half + half / 5);
    bound = predict_size(&l, rows);
    print_message("a year: at most %zu bytes, predicted %zu\n", most, bound);
    assert_in_range(most, bound / 2, bound);
    life_end(&l);
}

/* A clock that jumps ten years ahead takes two periods of a tier, no more. */
TEST(a_jump_of_the_clock_erases_little)
{
    struct life l;
    struct history before;

    life_begin(&l, "1m:2d,1h:90d,1d:10y", 3);
    for (unsigned i = 0; i < 40 * 24; i++) {
        merge_some(&l, 3);
        compact_some(&l, 400, 0, true);
        l.now += 60;
    }
    before = l.h;
    l.now += 20 * 365 * DAY;
    compact_some(&l, 400, 0, true);
    for (unsigned i = 0; i < l.h.count; i++)
        assert_true(l.h.tier[i].floor <=
                    before.tier[i].first + 2 * before.tier[i].period);
    l.now -= 20 * 365 * DAY;
    check_life(&l);
    ask_random(&l, 50);
    life_end(&l);
}

/* Each merge is a run; whatever care comes late, all is there. */
TEST(runs_of_an_hour_become_few)
{
    struct life l;

    life_begin(&l, "1m:2d,1h:90d", 9);
    for (unsigned i = 0; i < 3000; i++) {
        struct period p;

        merge_some(&l, 3);
        compact_some(&l, 50, 0, false);
        if (i % 60 == 59)
            l.now++;
        if (i % 100 == 0 && l.h.tier[0].last != HISTORY_NEVER) {
            assert_int_equal(
                period_after(&l.h, &l.kv.kv, 0, l.h.tier[0].last, &p), 1);
            assert_in_range(p.count, 0, 40);
        }
    }
    check_life(&l);
    ask_random(&l, 100);
    life_end(&l);
}

/* Appends a run of one cell without asking whether the period has room. */
static void
append_run(struct life *l, unsigned tier, uint32_t start, const char *key)
{
    static struct run_writer w;
    struct run_info run = {.run = ++l->h.run};
    struct history_row row = {.key = (const uint8_t *)"", .cells = 1};
    struct period p;

    row.sums[0] = 1;
    assert_rc(period_get(&l->h, &l->kv.kv, tier, start, &p), 0);
    w.kv = &l->kv.kv;
    run_begin(&w, &p, &run, row.key, 0);
    assert_rc(run_add(&w, &row), 0); /* over all keys */
    row.key = (const uint8_t *)key;
    row.key_size = (uint16_t)strlen(key);
    assert_rc(run_add(&w, &row), 0);
    assert_rc(run_end(&w, NULL, 0), 0);
    l->h.added += run.sum;
    l->h.tier[tier].in += run.sum;
    l->h.tier[tier].blocks += run.blocks;
    l->h.tier[tier].bytes += run.bytes;
    period_add(&l->h, &p, &run);
    assert_rc(period_put(&l->h, &l->kv.kv, &p), 0);
}

/* Versions before left periods with 80 runs, to which nothing could be added
 * and which nothing compacted. */
TEST(a_period_that_is_full_of_runs_is_compacted_and_goes_on)
{
    struct store_delta d = {
        .key = (const uint8_t *)"key", .key_size = 3, .sum = 1};
    struct history_of of = {.deltas = &d, .delta_count = 1};
    struct period p;
    uint64_t ahead;
    struct life l;

    life_begin(&l, "1m:2d,1h:90d", 9);
    d.minute = of.limits.now = l.now;
    for (unsigned i = 0; i < HISTORY_RUNS_FULL; i++)
        append_run(&l, 0, l.now / 60 * 60, "key");
    l.h.tier[0].compact_from = HISTORY_NEVER; /* as it was left */

    assert_rc(history_append(&l.h, &l.kv.kv, &of, &ahead), -EAGAIN);
    compact_some(&l, 400, 0, true);
    assert_rc(history_append(&l.h, &l.kv.kv, &of, &ahead), 0);

    assert_int_equal(period_after(&l.h, &l.kv.kv, 0, 0, &p), 1);
    assert_in_range(p.count, 1, 20);
    assert_true(l.h.tier[0].in == HISTORY_RUNS_FULL + 1);
    life_end(&l);
}

/* ---- damage ------------------------------------------------------------ */

#define SPAN_STEPS 40

/* All that can be asked of a span. */
struct answers {
    struct store_bucket buckets[KEYS + 1][SPAN_STEPS]; /* the last: of all */
    struct store_top top[KEYS];
};

/* -EBADMSG, or 0. */
static int
read_all(struct life *l, struct span s, struct answers *out)
{
    struct store_history_query q = {.op = STORE_HISTORY_TOP,
                                    .from = s.from,
                                    .to = s.to,
                                    .step = s.step,
                                    .top = out->top,
                                    .length = KEYS};
    int rc;

    memset(out, 0, sizeof *out);
    rc = history_answer(&l->h, &l->kv.kv, &q, 0);
    for (unsigned i = 0; rc == 0 && i <= KEYS; i++) {
        uint8_t key[HISTORY_KEY_MAX];

        q = (struct store_history_query){
            .op = i < KEYS ? STORE_HISTORY_KEY : STORE_HISTORY_KEYSPACE,
            .key = key,
            .key_size = key_of(i, key),
            .from = s.from,
            .to = s.to,
            .step = s.step,
            .buckets = out->buckets[i]};
        rc = history_answer(&l->h, &l->kv.kv, &q, 0);
    }
    return rc;
}

static bool
is_same_row(const struct store_top *a, const struct store_top *b)
{
    return a->sum.sum == b->sum.sum && a->before.sum == b->before.sum &&
           bytes_equal(a->key, a->key_size, b->key, b->key_size);
}

/* A damaged page of the engine's can hide any entries that follow each other.
 */
TEST(entries_that_are_hidden_are_missed)
{
    static struct answers want, got;
    const struct span s = {100 * 365 * DAY, 100 * 365 * DAY + 40 * 60, 60};
    unsigned missed = 0;
    struct life l;

    life_begin(&l, "1m:2d,1h:90d", random_seed("hidden"));
    l.now += 10;
    for (unsigned i = 0; i < 90; i++) {
        merge_some(&l, i % 3 == 0 ? KEYS : 30);
        compact_some(&l, 6, 0, i < 60);
        l.now += 25;
    }
    assert_rc(read_all(&l, s, &want), 0);
    for (unsigned round = 0; round < 600; round++) {
        const size_t count = l.kv.count;
        const size_t at = random_below(&l.random, count);
        const size_t most = (size_t)1 << random_below(&l.random, 8);
        const size_t n = most < count - at ? most : count - at;
        struct memkv_entry hidden[128];
        int rc;

        memcpy(hidden, &l.kv.entries[at], n * sizeof *hidden);
        memmove(&l.kv.entries[at], &l.kv.entries[at + n],
                (count - at - n) * sizeof *hidden);
        l.kv.count -= n;
        rc = read_all(&l, s, &got);
        if (rc == 0) {
            assert_memory_equal(got.buckets, want.buckets, sizeof got.buckets);
            for (unsigned i = 0; i < KEYS; i++)
                assert_true(is_same_row(&got.top[i], &want.top[i]));
        } else {
            assert_rc(rc, -EBADMSG);
            missed++;
        }
        memmove(&l.kv.entries[at + n], &l.kv.entries[at],
                (count - at - n) * sizeof *hidden);
        memcpy(&l.kv.entries[at], hidden, n * sizeof *hidden);
        l.kv.count = count;
    }
    assert_in_range(missed, 50, 600);
    life_end(&l);
}
