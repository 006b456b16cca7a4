/* tests/bench/bench_history.c - what history costs a merge, and what its
 * answers take.
 *
 *     bench_history [--quick] [--merges 0]
 *
 * Merges (left out with --merges 0): the same batches go to a store that keeps
 * the default history and to one that keeps none, in turn, a second of a driven
 * clock apart: 100k uniform keys into 10M; 1k keys to each of 100 keyspaces of
 * 10k; the same 10k keys each second.  All of history's care is in the times.
 * Beside the last one, where they are installed: a table (key, hour, sum) in
 * SQLite, and Redis with a hash for each key and day (HINCRBY of the hour),
 * both synced like ours.
 *
 * Sizes: bytes for a key and a day of which each hour has increments, here and
 * there; and the file of a keyspace whose tiers are full, and hours later.
 *
 * Answers: of a key with ten years of days and ninety days of hours; the top
 * 100 of a day among 1M keys, closed and running; of thirty days of 200k keys, in
 * groups of 200: of one group, and of all. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "tests/bench/batch.h"
#include "tests/bench/bench.h"
#include "tests/bench/figures.h"
#include "tests/bench/redis.h"
#include "tests/bench/sqlite.h"
#include "tests/lib/engines.h"
#include "tests/lib/stored.h"
#include "tests/lib/tmpdir.h"

#define DAY       1440u
#define BATCH_MAX 500000 /* keys of the batch */

static bool quick;
static struct batch batch; /* that is applied; its minute is the time */

/* ---- sides ------------------------------------------------------------- */

/* A store in a folder of its own. */
struct side {
    struct tmpdir tmp;
    struct store *store;
    struct tiers_rules rules;
    uint64_t epoch;
};

/* Others that are compared with it: NULL where one is not installed. */
struct beside {
    struct sqlite *sqlite;
    struct redis *redis;
    double sqlite_ms, redis_ms;
};

static uint64_t
now_ms(void)
{
    return (uint64_t)batch.minute * 60000;
}

static void
side_open(struct side *s, const char *tiers)
{
    struct lmdb_options options;
    const char *why;

    *s = (struct side){.epoch = 0};
    tmpdir_make(&s->tmp);
    options = engine_lmdb_options(s->tmp.fd);
    options.open_max = 128;
    options.txn_memory = (size_t)128 << 20;
    options.history = &s->rules;
    options.now_ms = now_ms;
    assert_rc(tiers_rules_set(&s->rules, NULL, tiers, &why), 0);
    assert_rc(lmdb_store_open(&s->store, &options), 0);
}

static void
side_close(struct side *s)
{
    store_close(s->store);
    tmpdir_remove(&s->tmp);
}

static double
side_apply(struct side *s, const char *name)
{
    const struct log_fill mark = {
        .uuid = {1}, .epoch = ++s->epoch, .first_ms = 1};
    const uint64_t start = clock_ns();

    assert_rc(stored_apply(s->store, name, &mark, batch.deltas, batch.count),
              0);
    return (double)(clock_ns() - start) / 1e6;
}

static double
side_file_mb(const struct side *s, const char *name)
{
    char path[32];
    struct stat st;

    (void)snprintf(path, sizeof path, "%s.mdb", name);
    must(fstatat(s->tmp.fd, path, &st, 0), path);
    return (double)st.st_size / 1e6;
}

static void
side_maintain(struct side *s)
{
    const struct store_maintenance t = {.until_ns = clock_ns() + 10000000};

    (void)store_maintain(s->store,
                         &t); /* whether there is more: the next does */
}

static double
side_used(struct side *s, const char *name)
{
    struct store_check r = {.fault = NULL}; /* there is none */

    assert_rc(store_check(s->store, (const uint8_t *)name, strlen(name), &r),
              0);
    return (double)r.used_size;
}

static void
beside_open(struct beside *b, const char *dir)
{
    static struct sqlite sqlite;
    static struct redis redis;

    *b = (struct beside){.sqlite = sqlite_open(&sqlite, dir) ? &sqlite : NULL,
                         .redis =
                             redis_open(&redis, dir, "always") ? &redis : NULL};
    if (!b->sqlite)
        (void)printf("libsqlite3 is not installed: not compared with it\n");
    if (!b->redis)
        (void)printf("redis-server is not installed: not compared with it\n");
}

static void
beside_apply(struct beside *b)
{
    if (b->sqlite)
        b->sqlite_ms += sqlite_apply(b->sqlite, batch.deltas, batch.count);
    if (b->redis)
        b->redis_ms += redis_apply(b->redis, batch.deltas, batch.count);
}

static void
beside_close(struct beside *b)
{
    if (b->sqlite)
        sqlite_close(b->sqlite);
    if (b->redis)
        redis_close(b->redis);
}

/* ---- merges ------------------------------------------------------------ */

struct shape {
    const char *what;
    uint64_t keys, batch; /* in each keyspace */
    unsigned keyspaces, rounds;
    bool hot; /* always the same keys */
};

static void
load_side(struct side *s, const struct shape *p)
{
    char name[16];

    for (unsigned k = 0; k < p->keyspaces; k++)
        for (uint64_t at = 0; at < p->keys; at += BATCH_MAX) {
            const uint64_t left = p->keys - at;

            (void)snprintf(name, sizeof name, "k%u", k);
            batch_put_sequence(&batch, at, left < BATCH_MAX ? left : BATCH_MAX);
            (void)side_apply(s, name);
        }
}

static double
round_of(struct side *s, const struct shape *p, uint64_t seed, struct beside *b)
{
    double ms = 0;
    char name[16];

    batch.random.state = seed;
    for (unsigned k = 0; k < p->keyspaces; k++) {
        if (p->hot)
            batch_put_sequence(&batch, 0, p->batch);
        else
            batch_put_random(&batch, p->batch, p->keys, 9);
        (void)snprintf(name, sizeof name, "k%u", k);
        ms += side_apply(s, name);
        if (b != NULL)
            beside_apply(b);
    }
    return ms;
}

static void
report_beside(const struct beside *b, unsigned rounds)
{
    if (b->sqlite)
        (void)printf("%-28s %9.1f ms\n", "  SQLite, (key, hour)",
                     b->sqlite_ms / rounds);
    if (b->redis)
        (void)printf("%-28s %9.1f ms\n", "  Redis, HINCRBY key:day hour",
                     b->redis_ms / rounds);
}

static void
time_merges(const struct shape *p)
{
    double with = 0, without = 0, most = 0;
    struct side on, off;
    struct beside b;

    batch.minute = 29000000;
    side_open(&on, ENGINE_TIERS);
    side_open(&off, "off");
    if (p->hot)
        beside_open(&b, on.tmp.path);
    load_side(&on, p);
    load_side(&off, p);
    for (unsigned i = 0; i < p->rounds; i++) {
        double ms;

        batch.minute = 29000060 + i / 60;
        ms = round_of(&on, p, i, p->hot ? &b : NULL);
        with += ms;
        most = ms > most ? ms : most;
        without += round_of(&off, p, i, NULL);
    }
    (void)printf("%-28s %9.1f ms without, %9.1f with: x %.2f; longest %.1f ms; "
                 "file %.1f, %.1f MB\n",
                 p->what, without / p->rounds, with / p->rounds, with / without,
                 most, side_file_mb(&off, "k0"), side_file_mb(&on, "k0"));
    report_row("merge with history", "ms", with / p->rounds, "without",
               without / p->rounds, with / without);
    if (p->hot) {
        report_beside(&b, p->rounds);
        beside_close(&b);
    }
    side_close(&on);
    side_close(&off);
}

/* ---- sizes ------------------------------------------------------------- */

/* Each key in each hour of `days` days. */
static void
fill_days(struct side *s, uint64_t count, unsigned days)
{
    batch.minute = 29000160 / DAY * DAY;
    for (unsigned hour = 0; hour < 24 * days; hour++, batch.minute += 60) {
        batch_put_sequence(&batch, 0, count);
        (void)side_apply(s, "k");
        side_maintain(s);
    }
}

static void
size_beside(const char *dir, uint64_t count)
{
    double sqlite = 0, redis = 0;
    struct beside b;

    beside_open(&b, dir);
    if (b.sqlite)
        sqlite = sqlite_size(b.sqlite);
    if (b.redis)
        redis = redis_size(b.redis);
    batch.minute = 29000160 / DAY * DAY;
    for (unsigned hour = 0; hour < 24; hour++, batch.minute += 60) {
        batch_put_sequence(&batch, 0, count);
        beside_apply(&b);
    }
    if (b.sqlite)
        (void)printf("%-28s %9.1f bytes of file\n", "  SQLite",
                     (sqlite_size(b.sqlite) - sqlite) / (double)count);
    if (b.redis)
        (void)printf("%-28s %9.1f bytes of memory\n", "  Redis",
                     (redis_size(b.redis) - redis) / (double)count);
    beside_close(&b);
}

/* Minutes, hours and days: the minutes are of the last two days only. */
static void
size_keys(void)
{
    const uint64_t count = quick ? 2000 : 10000;
    const unsigned days = quick ? 10 : 30;
    struct side on, off;

    side_open(&on, ENGINE_TIERS);
    side_open(&off, "off");
    fill_days(&on, count, days);
    fill_days(&off, count, 1);
    (void)printf("%-28s %9.1f bytes, over %u days of 24 increments; all of the "
                 "count %.1f bytes a key\n",
                 "a key and day",
                 (side_used(&on, "k") - side_used(&off, "k")) /
                     (double)(count * days),
                 days, side_used(&off, "k") / (double)count);
    size_beside(on.tmp.path, count);
    side_close(&on);
    side_close(&off);
}

/* Merges of all keys, a minute apart. */
static void
go_on(struct side *s, uint64_t count, unsigned merges)
{
    for (unsigned i = 0; i < merges; i++) {
        batch_put_sequence(&batch, 0, count);
        (void)side_apply(s, "k");
        side_maintain(s);
        batch.minute++;
    }
}

/* Tiers that are soon full. */
static void
size_retention(void)
{
    static const char tiers[] = "1m:1h,1h:6h,1d:10d";
    const uint64_t count = quick ? 500 : 2000;
    struct side s;
    double full;

    batch.minute = 29000160 / DAY * DAY;
    side_open(&s, tiers);
    go_on(&s, count, 12 * DAY / 10);
    full = side_file_mb(&s, "k");
    go_on(&s, count, 6 * 60);
    (void)printf("%-28s %9.2f MB, six hours later %.2f\n",
                 "a file whose tiers are full", full, side_file_mb(&s, "k"));
    side_close(&s);
}

/* ---- answers ----------------------------------------------------------- */

/* The median of some times. */
static double
ask_side(struct side *s, const struct store_history_query *zero)
{
    struct series t = {.count = 0};
    struct store_history_query q;

    for (int i = 0; i < 9; i++) {
        const uint64_t start = clock_ns();

        q = *zero;
        assert_rc(store_history(s->store, &q, 0), 0);
        store_read_end(s->store);
        series_add(&t, (double)(clock_ns() - start) / 1e6);
    }
    return series_median(&t);
}

static void
time_key(void)
{
    static struct store_bucket buckets[STORE_BUCKETS_MAX];
    const unsigned days = quick ? 400 : 3650;
    struct side s;
    struct store_history_query zero = {
        .op = STORE_HISTORY_KEY,
        .name = (const uint8_t *)"k",
        .name_size = 1,
        .key = (const uint8_t *)"user:00000050:visits",
        .key_size = BATCH_KEY,
        .buckets = buckets};

    batch.minute = 29000160 / DAY * DAY;
    side_open(&s, ENGINE_TIERS);
    for (unsigned day = 0; day < days; day++)
        for (unsigned hour = 0; hour < (day + 90 < days ? 1 : 24); hour++) {
            batch_put_sequence(&batch, 0, 200);
            (void)side_apply(&s, "k");
            batch.minute += day + 90 < days ? DAY : 60;
        }
    zero.to = batch.minute / 60 * 60;
    zero.from = zero.to - 89 * DAY;
    zero.step = 60;
    (void)printf("%-28s %9.3f ms\n", "a key, 90 days by hour",
                 ask_side(&s, &zero));
    zero.to = batch.minute / DAY * DAY;
    zero.from = zero.to - (days - 1) * DAY;
    zero.step = DAY;
    (void)printf("%-28s %9.3f ms\n",
                 quick ? "a key, a year by day" : "a key, ten years by day",
                 ask_side(&s, &zero));
    (void)printf("%-28s %9.2f MB for 200 keys\n", "  its file",
                 side_file_mb(&s, "k"));
    side_close(&s);
}

static void
time_top(void)
{
    static struct store_top top[100];
    const uint64_t count = quick ? 100000 : 1000000;
    struct store_history_query zero = {.op = STORE_HISTORY_TOP,
                                       .name = (const uint8_t *)"k",
                                       .name_size = 1,
                                       .top = top,
                                       .length = 100};
    struct side s;
    uint32_t day;
    double ms;

    batch.minute = 29000160 / DAY * DAY;
    day = batch.minute;
    side_open(&s, ENGINE_TIERS);
    for (unsigned hour = 0; hour < 24 + 14; hour++)
        for (unsigned i = 0; i < 6; i++) {
            /* Zipf, as it were: some keys come each time. */
            batch_put_random(&batch, count / 50, count, 9);
            (void)side_apply(&s, "k");
            batch_put_random(&batch, count / 500, count / 50, 9);
            (void)side_apply(&s, "k");
            batch.minute += 10;
        }
    zero.from = day;
    zero.to = day + DAY;
    (void)printf("%-28s %9.2f ms\n", "top 100 of a closed day",
                 ask_side(&s, &zero));
    zero.from = day + DAY;
    zero.to = day + 2 * DAY;
    ms = ask_side(&s, &zero);
    (void)printf("%-28s %9.2f ms\n", "top 100 of the running day", ms);
    report_row("top of the running day", "ms", ms, "5 ms", 5, ms / 5);
    (void)printf("%-28s %9.2f MB for %llu keys\n", "  its file",
                 side_file_mb(&s, "k"), (unsigned long long)count);
    side_close(&s);
}

/* Keys of groups: "usage000012/00000007" is the eighth of the 13th. */
static void
put_groups(uint64_t count)
{
    batch_put_sequence(&batch, 0, count);
    for (uint64_t i = 0; i < count; i++)
        (void)snprintf(batch.keys[i], BATCH_KEY + 1, "usage%06llu/%08llu",
                       (unsigned long long)(i / 200 % 1000000),
                       (unsigned long long)(i % 200));
}

static void
time_prefix(void)
{
    static struct store_top top[100];
    static struct store_bucket buckets[STORE_BUCKETS_MAX];
    const uint64_t count = quick ? 20000 : 200000;
    const unsigned days = quick ? 10 : 41;
    struct store_history_query zero = {.name = (const uint8_t *)"k",
                                       .name_size = 1,
                                       .top = top,
                                       .length = 100,
                                       .buckets = buckets,
                                       .step = DAY};
    struct side s;
    double one, all;

    batch.minute = 29000160 / DAY * DAY;
    side_open(&s, ENGINE_TIERS);
    for (unsigned day = 0; day < days; day++) {
        put_groups(count);
        (void)side_apply(&s, "k");
        side_maintain(&s);
        batch.minute += DAY;
    }
    zero.to = batch.minute;
    zero.from = zero.to - (quick ? 8 : 30) * DAY;
    zero.prefix = (const uint8_t *)"usage000042/";
    zero.prefix_size = 12;
    zero.op = STORE_HISTORY_TOP;
    one = ask_side(&s, &zero);
    zero.op = STORE_HISTORY_KEYSPACE;
    (void)printf("%-28s %9.3f ms, by day %.3f ms\n", "top 100 of a prefix", one,
                 ask_side(&s, &zero));
    zero.op = STORE_HISTORY_TOP;
    zero.prefix_size = 0;
    (void)printf("%-28s %9.2f ms\n", "top 100 of all keys",
                 ask_side(&s, &zero));
    zero.group = '/';
    all = ask_side(&s, &zero);
    (void)printf("%-28s %9.2f ms\n", "top 100 of all groups", all);
    report_row("top of a prefix of 200 keys", "ms", one, "1 ms", 1, one);
    report_row("top of groups of 200k keys", "ms", all, "40 ms", 40, all / 40);
    side_close(&s);
}

int
main(int argc, char **argv)
{
    struct shape shapes[] = {
        {"100k keys into 10M", 10000000, 100000, 1, 40, false},
        {"1k keys to each of 100", 10000, 1000, 100, 20, false},
        {"10k hot keys each second", 10000, 10000, 1, 300, true},
    };

    quick = bench_begin(argc, argv);
    batch_init(&batch, BATCH_MAX);
    batch.before = "user:";
    batch.after = ":visits";
    diag_init("bench", DIAG_ERROR);
    if (quick) {
        shapes[0] =
            (struct shape){"20k keys into 500k", 500000, 20000, 1, 20, false};
        shapes[1].rounds = 5;
        shapes[2].rounds = 130;
    }
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (bench_number("--merges", 1) > 0)
            time_merges(&shapes[i]);
    size_keys();
    size_retention();
    time_key();
    time_top();
    time_prefix();
    return 0;
}
