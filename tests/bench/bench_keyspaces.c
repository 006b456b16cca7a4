/* tests/bench/bench_keyspaces.c - a worker and 9,000 keyspaces of one increment
 * each: when they are created, and again; with one thread and with eight.
 *
 *     bench_keyspaces [--quick]     900 keyspaces
 *
 * In the temporary directory, which should be on a disk: the syncs count. */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/files.h"
#include "common/store/held.h"
#include "common/store/lmdb/lmdb_store.h"
#include "tests/bench/report.h"
#include "tests/bench/series.h"
#include "tests/lib/filler.h"
#include "tests/lib/tmpdir.h"
#include "worker/merge.h"

#define THREADS   8
#define AGAIN     3 /* rounds over keyspaces that are there */
#define PER_LOG   3000
#define GOAL_MADE 8.0 /* seconds */
#define GOAL      4.0

static unsigned keyspaces = 9000;

struct worker {
    struct tmpdir dir;
    struct datadir data;
    struct config config;
    struct store *store;
    struct held *held;
    struct merge merge;
};

static void
open_worker(struct worker *w, unsigned threads)
{
    const struct lmdb_options options = {.keyspace_size = 256,
                                         .key_size = 256,
                                         .writable = true,
                                         .open_max = files_keyspaces(),
                                         .txn_memory = 32 << 20};
    struct lmdb_options lmdb = options;
    struct held_options held = {.writable = true, .max = 1 << 20};

    *w = (struct worker){.config = {.keyspace_size = 256,
                                    .key_size = 256,
                                    .log_size = 32 << 20,
                                    .worker_batch = 64,
                                    .worker_memory = 256 << 20}};
    tmpdir_make(&w->dir);
    assert_rc(datadir_open(&w->data, w->dir.path, DATADIR_WRITE), 0);
    lmdb.keyspace_fd = w->data.keyspace_fd;
    held.data_fd = w->data.fd;
    assert_rc(lmdb_lanes_open(&w->store, &lmdb, threads), 0);
    assert_rc(held_open(&w->held, &held), 0);
    assert_rc(merge_open(&w->merge, &w->config, &w->data, w->store, w->held),
              0);
}

static void
close_worker(struct worker *w)
{
    merge_close(&w->merge);
    held_close(w->held);
    store_close(w->store);
    datadir_close(&w->data);
    tmpdir_remove(&w->dir);
}

/* Seconds that a merge of one increment in each keyspace takes. */
static double
merge_all(struct worker *w)
{
    const unsigned logs = (keyspaces + PER_LOG - 1) / PER_LOG;
    uint64_t begin_ns;
    char name[16];

    for (unsigned log = 0, i = 0; log < logs; log++) {
        struct filler f;

        filler_open(&f, w->data.log_fd, log, PER_LOG);
        for (unsigned n = 0; n < PER_LOG && i < keyspaces; n++, i++) {
            (void)snprintf(name, sizeof name, "ks%05u", i); /* fits */
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
print_line(const char *row, double goal, const struct series *one,
           const struct series *many)
{
    const double seconds = series_median(many);
    char beside[32];

    (void)printf("%-26s %u threads %.2f s (%.2f..%.2f), one thread %.2f s: "
                 "%.2f of it\n",
                 row, THREADS, seconds, series_min(many), series_max(many),
                 series_median(one), series_ratio(many, one));
    report_row(row, "s", seconds, "one thread", series_median(one),
               series_ratio(many, one));
    (void)snprintf(beside, sizeof beside, "%g s for 9,000", goal); /* fits */
    report_row(row, "s", seconds, beside, goal * keyspaces / 9000,
               seconds / (goal * keyspaces / 9000));
}

int
main(int argc, char **argv)
{
    struct series made[2] = {{.count = 0}}, again[2] = {{.count = 0}};
    struct worker w[2];

    if (argc > 1 && strcmp(argv[1], "--quick") == 0)
        keyspaces = 900;
    diag_init("bench_keyspaces", DIAG_WARNING);
    (void)files_raise(0, 0); /* as far as it may be */
    open_worker(&w[0], 1);
    open_worker(&w[1], THREADS);
    for (int i = 0; i < 2; i++)
        series_add(&made[i], merge_all(&w[i]));
    for (int round = 0; round < AGAIN; round++)
        for (int i = 0; i < 2; i++)
            series_add(&again[i], merge_all(&w[i]));
    print_line("many keyspaces, created", GOAL_MADE, &made[0], &made[1]);
    print_line("many keyspaces, again", GOAL, &again[0], &again[1]);
    close_worker(&w[0]);
    close_worker(&w[1]);
    return 0;
}
