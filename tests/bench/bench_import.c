/* tests/bench/bench_import.c - lines with times: how fast countd load takes them,
 * and how soon behind it they are readable.
 *
 *     bench_import [--quick] [--keys 1000] [--days 3650]
 *
 * The same increments as four files, in turn, each into a keyspace of its own:
 * without times; with them day after day; key after key; in no order.  Each file
 * is of ten years of days, and its keyspace is dropped when it is measured. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "tests/bench/bench.h"
#include "tests/bench/figures.h"
#include "tests/lib/fleet.h"
#include "tests/lib/random.h"

#define DAY 86400

enum order { PLAIN, BY_DAY, BY_KEY, SHUFFLED, ORDERS };

static const char *const names[ORDERS] = {"plain", "by day", "by key",
                                          "in no order"};

static struct fleet fleet;
static uint64_t keys, days;
static struct series load_ms[ORDERS], then_ms[ORDERS], cpu_ms[ORDERS];

static void
shuffle_cells(uint32_t *cells, uint64_t count)
{
    struct random dice = {1};

    for (uint64_t i = count - 1; i > 0; i--) {
        const uint64_t other = random_below(&dice, i + 1);
        const uint32_t swap = cells[i];

        cells[i] = cells[other];
        cells[other] = swap;
    }
}

static void
path_of(enum order order, char *path, size_t size)
{
    (void)snprintf(path, size, "%s/%d.tsv", fleet.dir.path, order);
}

/* A cell is a key and a day: its number by key, then day. */
static void
write_file(enum order order)
{
    const uint64_t count = keys * days;
    const int64_t today = (int64_t)time(NULL) / DAY * DAY;
    uint32_t *cells = need(count, sizeof *cells);
    char path[600];
    FILE *to;

    for (uint64_t i = 0; i < count; i++)
        cells[i] = (uint32_t)(order == BY_DAY ? i % keys * days + i / keys : i);
    if (order == SHUFFLED)
        shuffle_cells(cells, count);
    path_of(order, path, sizeof path);
    to = fopen(path, "we");
    assert_non_null(to);
    for (uint64_t i = 0; i < count; i++) {
        const uint64_t key = cells[i] / days, day = cells[i] % days;

        (void)fprintf(to, "k%d\tkey%07u\t%u", order, (unsigned)key,
                      (unsigned)(1 + key % 7));
        if (order != PLAIN)
            (void)fprintf(to, "\t%lld",
                          (long long)(today - DAY * (int64_t)(days - day)));
        (void)fputc('\n', to);
    }
    assert_int_equal(fclose(to), 0);
    free(cells);
}

static double
ms_since(uint64_t ns)
{
    return (double)(clock_ns() - ns) / 1e6;
}

static void
measure_order(enum order order)
{
    const pid_t worker = fleet_daemon(&fleet, FLEET_WORKER)->pid;
    const double cpu_ns = bench_cpu_ns(worker);
    uint64_t since_ns = clock_ns();
    char path[600], name[8];

    path_of(order, path, sizeof path);
    assert_int_equal(FLEET_RUN(&fleet, "load", path), 0);
    series_add(&load_ms[order], ms_since(since_ns));
    since_ns = clock_ns();
    assert_int_equal(FLEET_RUN(&fleet, "flush", "--timeout", "5m"), 0);
    series_add(&then_ms[order], ms_since(since_ns));
    series_add(&cpu_ms[order], (bench_cpu_ns(worker) - cpu_ns) / 1e6);
    (void)snprintf(name, sizeof name, "k%d", order);
    assert_int_equal(FLEET_RUN(&fleet, "drop", name), 0);
}

static void
report_order(enum order order)
{
    const double share = series_ratio(&load_ms[PLAIN], &load_ms[order]);
    const double then = series_median(&then_ms[order]);
    char row[64];

    (void)printf("%-12s %8.0f lines/s, %.2f of those without times; readable "
                 "%.0f ms behind (%.0f to %.0f); worker %.0f ms\n",
                 names[order],
                 (double)(keys * days) / series_median(&load_ms[order]) * 1e3,
                 share, then, series_min(&then_ms[order]),
                 series_max(&then_ms[order]), series_median(&cpu_ms[order]));
    if (order == PLAIN)
        return;
    (void)snprintf(row, sizeof row, "load, %s", names[order]);
    report_row(row, "lines/s",
               (double)(keys * days) / series_median(&load_ms[order]) * 1e3,
               "without times",
               (double)(keys * days) / series_median(&load_ms[PLAIN]) * 1e3,
               share);
    (void)snprintf(row, sizeof row, "readable, %s", names[order]);
    report_row(row, "ms", then, "1 s", 1000, then / 1000);
}

int
main(int argc, char **argv)
{
    const bool is_quick = bench_begin(argc, argv);
    const unsigned rounds = is_quick ? 2 : 5;

    keys = bench_number("--keys", 1000);
    days = bench_number("--days", is_quick ? 1000 : 3650);
    fleet_init(&fleet);
    fleet_start_with(&fleet, FLEET_WRITE, "log.size=32M",
                     "log.rotate_after=1s");
    fleet_start(&fleet, FLEET_WORKER);
    fleet_start(&fleet, FLEET_READ);
    for (int order = 0; order < ORDERS; order++)
        write_file((enum order)order);
    for (unsigned round = 0; round < rounds; round++)
        for (int order = 0; order < ORDERS; order++)
            measure_order((enum order)order);
    for (int order = 0; order < ORDERS; order++)
        report_order((enum order)order);
    fleet_stop_all(&fleet);
    fleet_fini(&fleet);
    return 0;
}
