/* tests/bench/bench_keyspaces.c - a worker and 9,000 keyspaces of one increment
 * each: when they are created, and again; with one thread and with eight.
 *
 *     bench_keyspaces [--quick]     900 keyspaces
 *
 * In the temporary directory, which should be on a disk: the syncs count. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/files.h"
#include "tests/bench/bench.h"
#include "tests/bench/figures.h"
#include "tests/bench/worker.h"
#include "tests/lib/filler.h"

#define THREADS   8
#define AGAIN     3 /* rounds over keyspaces that are there */
#define PER_LOG   3000
#define GOAL_MADE 8.0 /* seconds */
#define GOAL      4.0

static unsigned keyspaces;

/* Seconds that a merge of one increment in each keyspace takes. */
static double
merge_all(struct worker *w)
{
    const unsigned logs = (keyspaces + PER_LOG - 1) / PER_LOG;
    uint64_t begin_ns;
    char name[16];

    for (unsigned log = 0, i = 0; log < logs; log++) {
        struct filler f;

        filler_open(&f, w->dir.log_fd, log, PER_LOG);
        for (unsigned n = 0; n < PER_LOG && i < keyspaces; n++, i++) {
            (void)snprintf(name, sizeof name, "ks%05u", i);
            filler_add(&f, name, "k", 1);
        }
        filler_seal(&f);
    }
    begin_ns = clock_ns();
    while (merge_run(&w->merge) == MERGE_DONE)
        ;
    return (double)(clock_ns() - begin_ns) / 1e9;
}

static void
report_goal(const char *row, double goal, const struct figures f[2])
{
    static const char *const names[2] = {"eight threads", "one thread"};
    static const struct table table = {names, 2, "s", 1};
    const double seconds = series_median(&f[0].value);
    char beside[32];

    figures_report(row, &table, f);
    (void)snprintf(beside, sizeof beside, "%g s for 9,000", goal);
    report_row(row, "s", seconds, beside, goal * keyspaces / 9000,
               seconds / (goal * keyspaces / 9000));
}

int
main(int argc, char **argv)
{
    static const unsigned threads[2] = {THREADS, 1};
    static struct figures made[2], again[2];
    struct worker w[2];

    keyspaces = bench_begin(argc, argv) ? 900 : 9000;
    diag_init("bench_keyspaces", DIAG_WARNING);
    (void)files_raise(0, 0); /* as far as it may be */
    for (int i = 0; i < 2; i++) {
        worker_make(&w[i]);
        worker_open(&w[i], threads[i]);
        figures_add(&made[i], merge_all(&w[i]), NULL);
    }
    for (int round = 0; round < AGAIN; round++)
        for (int i = 0; i < 2; i++)
            figures_add(&again[i], merge_all(&w[i]), NULL);
    report_goal("many keyspaces, created", GOAL_MADE, made);
    report_goal("many keyspaces, again", GOAL, again);
    for (int i = 0; i < 2; i++) {
        worker_close(&w[i]);
        worker_remove(&w[i]);
    }
    return 0;
}
