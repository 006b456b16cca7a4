/* tests/bench/bench_postgresql.c - merges into PostgreSQL and questions to it,
 * beside the same of a file.
 *
 *     bench_postgresql [--quick] [--keys N] [--rounds N]
 *
 * A server of its own, with its defaults, in the temporary directory, which should
 * be on a disk; no standby.  Both sides hold the same keys and get the same random
 * batches, in turn. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "tests/bench/batch.h"
#include "tests/bench/bench.h"
#include "tests/bench/figures.h"
#include "tests/lib/engines.h"
#include "tests/lib/pg_server.h"
#include "tests/lib/stored.h"
#include "tests/lib/tmpdir.h"

#define LOAD_BATCH 200000
#define QUESTIONS  200 /* of each kind */
#define SIDES      2

static const char *const names[SIDES] = {"PostgreSQL", "a file"};
static struct store *sides[SIDES];
static struct batch batch;
static uint64_t keys, rounds;

static double
apply_batch(struct store *s)
{
    static uint64_t epoch;
    const struct log_fill mark = {.uuid = {1}, .epoch = ++epoch, .first_ms = 1};
    const uint64_t start = clock_ns();

    assert_rc(stored_apply(s, "bench", &mark, batch.deltas, batch.count), 0);
    return (double)(clock_ns() - start) / 1e9;
}

static void
load_sides(void)
{
    for (uint64_t at = 0; at < keys; at += batch.count) {
        const uint64_t left = keys - at;

        batch_put_sequence(&batch, at, left < LOAD_BATCH ? left : LOAD_BATCH);
        for (size_t i = 0; i < batch.count; i++)
            batch.deltas[i].sum = 1 + random_below(&batch.random, keys);
        for (int i = 0; i < SIDES; i++)
            (void)apply_batch(sides[i]);
    }
}

static void
measure_merge(size_t size, const char *history)
{
    static const struct table table = {names, SIDES, "keys/s", 1};
    struct figures f[SIDES] = {{.value = {.count = 0}}};
    char row[80];

    for (uint64_t round = 0; round < rounds; round++) {
        batch_put_random(&batch, size, keys, 9);
        for (int i = 0; i < SIDES; i++)
            figures_add(&f[i], (double)batch.count / apply_batch(sides[i]),
                        NULL);
    }
    (void)snprintf(row, sizeof row, "merge of %zu keys%s", size, history);
    figures_report(row, &table, f);
}

/* The nanoseconds of a question about a random key or rank. */
static uint64_t
ask_side(struct store *s, enum store_op op, int64_t offset, uint64_t length)
{
    static uint8_t rows[1 << 17];
    char key[BATCH_KEY + 1];
    struct store_query q = {.op = op,
                            .name = (const uint8_t *)"bench",
                            .name_size = 5,
                            .key = (const uint8_t *)key,
                            .key_size = BATCH_KEY,
                            .offset = offset,
                            .length = length};
    const uint64_t start = clock_ns();

    batch_put_key(&batch, key, random_below(&batch.random, keys));
    assert_rc(store_read(s, &q, rows, sizeof rows), 0);
    store_read_end(s);
    return clock_ns() - start;
}

static void
measure_question(const char *row, enum store_op op, int64_t offset,
                 uint64_t length)
{
    static const struct table table = {names, SIDES, "us", 1};
    static struct times times[SIDES];
    struct figures f[SIDES] = {{.value = {.count = 0}}};

    memset(times, 0, sizeof times);
    for (int n = 0; n < QUESTIONS; n++)
        for (int i = 0; i < SIDES; i++)
            times_note(&times[i], ask_side(sides[i], op, offset, length));
    for (int i = 0; i < SIDES; i++)
        figures_add(&f[i], times_percentile_us(&times[i], 50), &times[i]);
    figures_report(row, &table, f);
}

/* Both sides anew. */
static void
open_sides(struct tmpdir *tmp, const char *tiers)
{
    tmpdir_make(tmp);
    sides[0] = engine_open_postgresql(tiers);
    sides[1] = engine_open_history(tmp->fd, tiers, NULL);
    load_sides();
    (void)pg_server_run("VACUUM ANALYZE");
}

static void
close_sides(struct tmpdir *tmp)
{
    for (int i = 0; i < SIDES; i++)
        store_close(sides[i]);
    tmpdir_remove(tmp);
}

int
main(int argc, char **argv)
{
    const bool quick = bench_begin(argc, argv);
    struct tmpdir tmp;

    keys = bench_number("--keys", quick ? 50000 : 1000000);
    rounds = bench_number("--rounds", quick ? 3 : 9);
    diag_init("bench_postgresql", DIAG_ERROR);
    if (!pg_server_is_installed()) {
        (void)printf("PostgreSQL's server is not installed: not measured\n");
        return 0;
    }
    pg_server_on_disk();
    batch_init(&batch, LOAD_BATCH);
    open_sides(&tmp, "off");
    measure_merge(1000, "");
    measure_merge(20000, "");
    measure_merge(100000, "");
    (void)pg_server_run("VACUUM ANALYZE");
    measure_question("a count", STORE_GET, 0, 1);
    measure_question("the 100 largest", STORE_RANGE, 0, 100);
    measure_question("100 rows in the middle", STORE_RANGE, (int64_t)keys / 2,
                     100);
    measure_question("a rank", STORE_RANK, 0, 1);
    close_sides(&tmp);
    batch.minute = (uint32_t)(clock_unix_ms() / 60000);
    open_sides(&tmp, ENGINE_TIERS);
    measure_merge(1000, ", with history");
    measure_merge(20000, ", with history");
    measure_merge(100000, ", with history");
    close_sides(&tmp);
    return 0;
}
