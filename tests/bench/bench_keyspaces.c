/* tests/bench/bench_keyspaces.c - 9,000 keyspaces of one increment each: when
 * they are created, and again.
 *
 *     bench_keyspaces [--quick]     900 keyspaces
 *
 *     merge   a worker in this process, with one thread and with eight
 *     beside  how old the answers of one keyspace are that is counted all the
 *             time meanwhile, with the daemons as they are by default; the age
 *             of an answer is the time since its as_of_ms
 *
 * In the temporary directory, which should be on a disk: the syncs count. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/base/files.h"
#include "common/client/lib/countd.h"
#include "tests/bench/bench.h"
#include "tests/bench/figures.h"
#include "tests/bench/worker.h"
#include "tests/lib/client.h"
#include "tests/lib/filler.h"
#include "tests/lib/service.h"

#define THREADS     8
#define PER_LOG     3000
#define EACH_MS     20  /* between two answers of the one beside them */
#define GOAL_MADE   8.0 /* seconds */
#define GOAL        4.0
#define GOAL_BESIDE 2.0

static unsigned keyspaces;

static const char *
keyspace_name(unsigned i)
{
    static char name[16];

    (void)snprintf(name, sizeof name, "ks%05u", i);
    return name;
}

/* ---- merges -------------------------------------------------------------- */

/* Seconds that a merge of one increment in each keyspace takes. */
static double
merge_all(struct worker *w)
{
    const unsigned logs = (keyspaces + PER_LOG - 1) / PER_LOG;
    uint64_t begin_ns;

    for (unsigned log = 0, i = 0; log < logs; log++) {
        struct filler f;

        filler_open(&f, w->dir.log_fd, log, PER_LOG);
        for (unsigned n = 0; n < PER_LOG && i < keyspaces; n++, i++)
            filler_add(&f, keyspace_name(i), "k", 1);
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

static void
measure_merges(void)
{
    static const unsigned threads[2] = {THREADS, 1};
    static struct figures made[2], again[2];
    struct worker w[2];

    for (int i = 0; i < 2; i++) {
        worker_make(&w[i]);
        worker_open(&w[i], threads[i]);
        figures_add(&made[i], merge_all(&w[i]), NULL);
    }
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 2; i++)
            figures_add(&again[i], merge_all(&w[i]), NULL);
    report_goal("many keyspaces, created", GOAL_MADE, made);
    report_goal("many keyspaces, again", GOAL, again);
    for (int i = 0; i < 2; i++) {
        worker_close(&w[i]);
        worker_remove(&w[i]);
    }
}

/* ---- one beside them ------------------------------------------------------ */

struct beside {
    int count_fd, burst_fd, read_fd;
    struct countd *c;
};

/* Counts and reads the one keyspace; returns the age of the answer in seconds. */
static double
count_and_read(const struct beside *b)
{
    struct client_rows rows;
    int64_t age_ms;

    client_increment(b->count_fd, "hot", "k", 1);
    client_wins(b->count_fd, 1);
    client_range(b->read_fd, "hot", 0, 1, &rows);
    age_ms = (int64_t)clock_unix_ms() - rows.as_of_ms;
    client_rows_free(&rows);
    (void)poll(NULL, 0, EACH_MS); /* paces the load; nothing waits for it */
    return (double)age_ms / 1e3;
}

/* The oldest answer while one increment of each of `others` is merged; *seconds:
 * until all of them are readable. */
static double
run_beside(const struct beside *b, unsigned others, double *seconds)
{
    const uint64_t begin_ms = clock_ms();
    const int64_t counted_ms = (int64_t)clock_unix_ms();
    double most = 0;
    int64_t as_of_ms;

    for (unsigned i = 0; i < others; i++)
        client_increment(b->burst_fd, keyspace_name(i), "k", 1);
    client_wins(b->burst_fd, others);
    do {
        const double age = count_and_read(b);

        most = age > most ? age : most;
        if (countd_as_of(b->c, countd_name(""), &as_of_ms) < 0)
            fail_msg("countd-read says no as_of_ms");
    } while (as_of_ms <= counted_ms + 1000);
    *seconds = (double)(clock_ms() - begin_ms) / 1e3;
    return most;
}

static void
report_beside(const char *row, double age, double seconds, double alone)
{
    (void)printf("%-28s %.2f s old at most, all readable after %.2f s; alone "
                 "%.2f s old\n",
                 row, age, seconds, alone);
    report_row(row, "s", age, "2 s", GOAL_BESIDE, age / GOAL_BESIDE);
}

static void
measure_beside(void)
{
    struct series ages = {.count = 0}, times = {.count = 0};
    struct countd_options options = {.size = sizeof options};
    double alone, created, seconds;
    struct fleet *f;
    struct beside b;

    assert_int_equal(service_setup((void **)&f), 0);
    fleet_options(f, "log.size=32M", "log.rotate_after=1s");
    service_start(f);
    options.directory = f->path;
    assert_rc(countd_open(&b.c, &options), 0);
    b.count_fd = client_connect(fleet_ack_port(f));
    b.burst_fd = client_connect(fleet_ack_port(f));
    b.read_fd = client_connect(fleet_read_port(f));

    alone = run_beside(&b, 0, &seconds);
    created = run_beside(&b, keyspaces, &seconds);
    report_beside("one beside many, created", created, seconds, alone);
    for (int round = 0; round < 2; round++) {
        series_add(&ages, run_beside(&b, keyspaces, &seconds));
        series_add(&times, seconds);
    }
    report_beside("one beside many, again", series_median(&ages),
                  series_median(&times), alone);
    client_close(b.count_fd);
    client_close(b.burst_fd);
    client_close(b.read_fd);
    (void)countd_close(b.c); /* it counted nothing */
    (void)service_teardown((void **)&f);
}

int
main(int argc, char **argv)
{
    keyspaces = bench_begin(argc, argv) ? 900 : 9000;
    diag_init("bench_keyspaces", DIAG_WARNING);
    (void)files_raise(0, 0); /* as far as it may be */
    measure_merges();
    measure_beside();
    return 0;
}
