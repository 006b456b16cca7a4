/* tests/bench/bench_held.c - what a sick keyspace costs a healthy one.
 *
 *     bench_held [--quick]
 *
 * Two data directories: one with a healthy keyspace, one
 * with the same and 100,000 fills that wait for another that is damaged.  A worker
 * and a reader in this process, as the daemons run them, take turns on the two:
 * the same full logs for the healthy keyspace, then the same ranges of it.
 * Prints the rates as ratios; how far as_of_ms is behind; then makes the sick
 * keyspace well and prints how long it takes until nothing waits, with logs
 * waiting all the time and without.  Judges nothing. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/store/as_of.h"
#include "common/store/lmdb/lmdb_store.h"
#include "tests/bench/bench.h"
#include "tests/bench/worker.h"
#include "tests/lib/filler.h"
#include "tests/lib/random.h"
#include "tests/lib/stored.h"

#define HELD       100000
#define RECORDS    20000 /* increments of a log */
#define KEYS       200000
#define ROUNDS     24
#define IDLE_NS    15000000000u /* the drain without logs, at most */
#define RANGES     3000         /* of a round */
#define RANGE_ROWS 100

struct side {
    struct worker worker;
    struct store *read;
    struct as_of as_of;
    struct random random;
    uint64_t drain_ms;
    double merge_ns, drain_ns, range_ns; /* in all */
    double work_cpu_ns, range_cpu_ns;
    double behind_ms, behind_most_ms;
};

static struct side sides[2];
static uint64_t held_fills, rounds;

static double
seconds_since(uint64_t since_ns)
{
    return (double)(clock_ns() - since_ns) / 1e9;
}

/* ---- logs -------------------------------------------------------------- */

/* Increments of any keys of the healthy keyspace. */
static void
fill_log(struct side *s)
{
    struct filler f;
    char key[32];

    filler_open(&f, s->worker.dir.log_fd, 0, RECORDS);
    f.received_ms = clock_unix_ms();
    for (uint64_t i = 0; i < RECORDS; i++) {
        (void)snprintf(key, sizeof key, "key:%08llu",
                       (unsigned long long)random_below(&s->random, KEYS));
        filler_add(&f, "well", key, 1);
    }
    filler_seal(&f);
}

/* ---- a side ------------------------------------------------------------ */

static void
open_side(struct side *s)
{
    struct lmdb_options reading = {.keyspace_size = 256,
                                   .key_size = 256,
                                   .open_max = 16,
                                   .txn_memory = (size_t)128 << 20};
    struct layout layout;

    worker_make(&s->worker);
    assert_rc(layout_init(&layout, 256, 256), 0);
    s->random.state = 1;
    worker_open(&s->worker, 1);
    reading.keyspace_fd = s->worker.dir.keyspace_fd;
    assert_rc(lmdb_store_open(&s->read, &reading), 0);
    assert_rc(as_of_init(&s->as_of, s->read, &s->worker.dir, &layout, 32 << 20),
              0);
}

static void
close_side(struct side *s)
{
    as_of_fini(&s->as_of);
    store_close(s->read);
    worker_close(&s->worker);
    worker_remove(&s->worker);
}

/* Every key of the healthy keyspace, and one of the other. */
static void
load_side(struct side *s)
{
    static struct store_delta deltas[KEYS];
    static char keys[KEYS][16];

    for (uint64_t i = 0; i < KEYS; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "key:%08llu",
                       (unsigned long long)i);
        deltas[i] = (struct store_delta){.key = (const uint8_t *)keys[i],
                                         .key_size = 12,
                                         .sum = 1 + i * 7919 % KEYS};
    }
    assert_rc(stored_apply(s->worker.store, "well", NULL, deltas, KEYS), 0);
    assert_rc(stored_add(s->worker.store, "sick", NULL, "key", 1), 0);
}

/* Overwrites the first page of the keyspace's file, or puts it back. */
static void
spoil_file(struct side *s, bool spoilt)
{
    static uint8_t was[4096];
    static const uint8_t zeros[4096];
    const int fd = (int)must(
        openat(s->worker.dir.keyspace_fd, "sick.mdb", O_RDWR | O_CLOEXEC),
        "sick.mdb");

    if (spoilt)
        must(pread(fd, was, sizeof was, 0), "read");
    must(pwrite(fd, spoilt ? zeros : was, sizeof was, 0), "write");
    (void)close(fd); /* its writes are in the page cache */
}

static int
read_fill(void *ctx, slot_visit *visit, void *visit_ctx)
{
    const struct slot_stamp stamp = {.received_ms = 1700000000000};
    const uint64_t *number = ctx;
    int rc = 0;

    for (uint32_t d = 0; rc == 0 && d < 3; d++) {
        char key[16];
        const struct message m = {.increment = 1,
                                  .keyspace = (const uint8_t *)"sick",
                                  .keyspace_size = 4,
                                  .key = (const uint8_t *)key,
                                  .key_size = 10};

        (void)snprintf(key, sizeof key, "%u-%08llu", d,
                       (unsigned long long)(*number % 1000));
        rc = visit(visit_ctx, d, &m, &stamp);
    }
    return rc;
}

/* Fills of four logs, 1000 in each file, as after joins. */
static void
hold_fills(struct side *s)
{
    struct archive_header h = {
        .slots = 3, .keyspace_size = 256, .key_size = 256};
    struct waiting *w = &s->worker.merge.folder;
    struct waiting_new n = {.fd = -1};
    struct name_table names;
    uint64_t i = 0;
    const struct waiting_source from = {read_fill, &i};

    assert_rc(name_table_init(&names), 0);
    assert_rc(waiting_count_records(&from, &names), 0); /* which all have */
    for (; i < held_fills; i++) {
        h.uuid[0] = (uint8_t)(i % 4);
        h.epoch = i / 4 + 1;
        h.first_ms = 1700000000000 + i;
        assert_rc(waiting_add(w, &n, &h, &names, &from), 1);
        if (i % 1000 == 999 || i + 1 == held_fills)
            assert_rc(waiting_end(w, &n), 0);
    }
    name_table_clear(&names);
}

/* ---- rounds ------------------------------------------------------------ */

/* As worker/watch.c does it while logs wait.  Ends when none is left. */
static void
work_side(struct side *s)
{
    for (;;) {
        const uint64_t since = clock_ns();
        const enum merge_outcome did = merge_run(&s->worker.merge);
        const uint64_t at = clock_ns();

        s->merge_ns += (double)(at - since);
        if (did == MERGE_IDLE)
            return;
        if (clock_ms() >= s->drain_ms) {
            const uint64_t due_ms = merge_waiting(&s->worker.merge);
            const uint64_t spent_ns = clock_ns() - at;

            s->drain_ns += (double)spent_ns;
            s->drain_ms = clock_ms() + 4 * spent_ns / 1000000;
            if (due_ms > s->drain_ms)
                s->drain_ms = due_ms;
        }
    }
}

static void
ask_side(struct side *s)
{
    static uint8_t bytes[RANGE_ROWS * 300];
    const uint64_t since = clock_ns();

    for (int i = 0; i < RANGES; i++) {
        struct store_query q = {
            .op = STORE_RANGE,
            .name = (const uint8_t *)"well",
            .name_size = 4,
            .offset = (int64_t)random_below(&s->random, KEYS - RANGE_ROWS),
            .length = RANGE_ROWS};
        int64_t as_of, behind;

        as_of_refresh(&s->as_of, clock_ms());
        as_of = as_of_get(&s->as_of, q.name, q.name_size);
        assert_rc(store_read(s->read, &q, bytes, sizeof bytes), 0);
        store_read_end(s->read);
        behind = (int64_t)clock_unix_ms() - as_of;
        s->behind_ms += (double)behind;
        if ((double)behind > s->behind_most_ms)
            s->behind_most_ms = (double)behind;
    }
    s->range_ns += (double)(clock_ns() - since);
}

/* What opening costs, once; and each minute a worker looks at all keys. */
static void
warm_up(const char *what)
{
    for (int i = 0; i < 2; i++) {
        double at;

        fill_log(&sides[i]);
        at = bench_cpu_ns(0);
        work_side(&sides[i]);
        sides[i].work_cpu_ns = bench_cpu_ns(0) - at;
        at = bench_cpu_ns(0);
        ask_side(&sides[i]);
        sides[i].range_cpu_ns = bench_cpu_ns(0) - at;
    }
    (void)printf("%s: opening costs a worker %.0f ms and a reader %.0f ms of "
                 "processor time\n",
                 what, (sides[1].work_cpu_ns - sides[0].work_cpu_ns) / 1e6,
                 (sides[1].range_cpu_ns - sides[0].range_cpu_ns) / 1e6);
}

static void
measure_case(const char *what)
{
    warm_up(what);
    for (int i = 0; i < 2; i++)
        sides[i].merge_ns = sides[i].drain_ns = sides[i].range_ns =
            sides[i].work_cpu_ns = sides[i].range_cpu_ns = sides[i].behind_ms =
                sides[i].behind_most_ms = 0;
    for (uint64_t n = 0; n < rounds; n++) {
        for (unsigned i = 0; i < 2; i++) {
            struct side *s = &sides[(n + i) % 2];
            double at;

            fill_log(s);
            at = bench_cpu_ns(0);
            work_side(s);
            s->work_cpu_ns += bench_cpu_ns(0) - at;
            at = bench_cpu_ns(0);
            ask_side(s);
            s->range_cpu_ns += bench_cpu_ns(0) - at;
        }
    }
    (void)printf("%s: merge %.0f k/s without, %.0f k/s with: %.3f; with the "
                 "tries to drain %.3f, by processor time %.3f\n",
                 what, (double)(RECORDS * rounds) / sides[0].merge_ns * 1e6,
                 (double)(RECORDS * rounds) / sides[1].merge_ns * 1e6,
                 sides[0].merge_ns / sides[1].merge_ns,
                 (sides[0].merge_ns + sides[0].drain_ns) /
                     (sides[1].merge_ns + sides[1].drain_ns),
                 sides[0].work_cpu_ns / sides[1].work_cpu_ns);
    (void)printf("%s: ranges %.1f k/s without, %.1f k/s with: %.3f, by "
                 "processor time %.3f\n",
                 what, (double)(RANGES * rounds) / sides[0].range_ns * 1e6,
                 (double)(RANGES * rounds) / sides[1].range_ns * 1e6,
                 sides[0].range_ns / sides[1].range_ns,
                 sides[0].range_cpu_ns / sides[1].range_cpu_ns);
    (void)printf("%s: as_of_ms behind now %.2f ms (%.0f at most) without, "
                 "%.2f ms (%.0f at most) with\n",
                 what, sides[0].behind_ms / (double)(RANGES * rounds),
                 sides[0].behind_most_ms,
                 sides[1].behind_ms / (double)(RANGES * rounds),
                 sides[1].behind_most_ms);
}

/* The keyspace is well again, and a worker starts. */
static void
drain_held(struct side *s)
{
    uint64_t since, first;
    double took;

    worker_close(&s->worker);
    spoil_file(s, false);
    worker_open(&s->worker, 1);
    s->drain_ms = 0;
    s->merge_ns = s->drain_ns = 0;
    for (uint64_t n = 0; n < rounds; n++) {
        fill_log(s);
        work_side(s);
    }
    first = s->worker.merge.pass.fills;
    (void)printf("drain while logs wait: %llu fills in %.1f s of work, %.1f "
                 "%% of the worker's time\n",
                 (unsigned long long)first, (s->merge_ns + s->drain_ns) / 1e9,
                 100 * s->drain_ns / (s->merge_ns + s->drain_ns));
    since = clock_ns();
    while (clock_ns() - since < IDLE_NS &&
           merge_waiting(&s->worker.merge) != UINT64_MAX)
        continue;
    took = seconds_since(since);
    (void)printf("drain when idle: %llu fills in %.1f s: %.1f s for all\n",
                 (unsigned long long)(s->worker.merge.pass.fills - first), took,
                 took * (double)held_fills /
                     (double)(s->worker.merge.pass.fills - first));
}

int
main(int argc, char **argv)
{
    const bool quick = bench_begin(argc, argv);
    uint64_t since;

    diag_init("bench_held", DIAG_ERROR);
    held_fills = quick ? HELD / 50 : HELD;
    rounds = quick ? 4 : ROUNDS;
    for (int i = 0; i < 2; i++) {
        open_side(&sides[i]);
        load_side(&sides[i]);
    }
    measure_case("nothing waits");
    since = clock_ns();
    hold_fills(&sides[1]);
    (void)printf("setting %llu fills aside: %.1f s\n",
                 (unsigned long long)held_fills, seconds_since(since));
    worker_close(&sides[1].worker); /* LMDB trusts what it has open */
    spoil_file(&sides[1], true);
    worker_open(&sides[1].worker, 1);
    measure_case("sick keyspace");
    drain_held(&sides[1]);
    for (int i = 0; i < 2; i++)
        close_side(&sides[i]);
    return 0;
}
