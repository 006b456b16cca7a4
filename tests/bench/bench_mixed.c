/* tests/bench/bench_mixed.c - the ports of countd-write under load at once.
 *
 *   bench_mixed [--quick]
 *
 *   live          50 connections, 16 requests under way on each: Acquire of 1
 *                 and Release of 1, of one of a thousand counters
 *   acknowledged  50 connections, 16 messages under way on each
 *   silent        1, 50, 200 and 1000 connections, as fast as they go
 *
 * Each alone, then all at once; silent senders send through the whole time of
 * the others.  A worker's part is done meanwhile, so that there are empty logs.
 * Printed: medians of the rounds.  A share is a kind's rate beside the others
 * by its rate alone; p99 is that of single requests. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/bench/live_load.h"
#include "tests/bench/messages.h"
#include "tests/lib/fleet.h"

#define CONNS 50
#define DEPTH 16
#define LOADS (sizeof senders / sizeof senders[0])

enum kind { LIVE, ACKED, SILENT, KINDS };

static const unsigned senders[] = {1, 50, 200, 1000};
static uint64_t round_ms;

/* What a load did. */
struct outcome {
    double per_second, p99_ms;
};

/* A process that makes load. */
struct maker {
    pid_t pid;
    int outcome[2]; /* a pipe */
    int until[2];   /* closed: silent ones end */
};

static void
start_load(struct maker *m, enum kind kind, uint16_t port, unsigned conns)
{
    static struct times times;
    struct outcome o = {0};

    must(pipe2(m->outcome, O_CLOEXEC), "pipe");
    must(pipe2(m->until, O_CLOEXEC), "pipe");
    m->pid = bench_fork();
    if (m->pid == 0) {
        (void)close(m->until[1]);
        if (kind == LIVE)
            o.per_second = live_load_run(CONNS, DEPTH, round_ms, port, &times);
        else if (kind == ACKED)
            o.per_second = messages_acked(port, CONNS, DEPTH, round_ms, &times);
        else
            o.per_second = messages_silent(port, conns, m->until[0]);
        o.p99_ms = times_percentile_us(&times, 99) / 1e3;
        must(write(m->outcome[1], &o, sizeof o), "outcome");
        _exit(0);
    }
    (void)close(m->outcome[1]);
    (void)close(m->until[0]);
}

static struct outcome
end_load(struct maker *m)
{
    struct outcome o;

    (void)close(m->until[1]);
    assert_int_equal(read(m->outcome[0], &o, sizeof o), sizeof o);
    (void)close(m->outcome[0]);
    must(waitpid(m->pid, NULL, 0), "wait");
    return o;
}

/* ---- rounds ------------------------------------------------------------- */

struct results {
    struct series rate[KINDS], share[KINDS], p99_ms[KINDS], sum;
};

static void
run_round(const struct daemon *writer, unsigned conns, struct results *out)
{
    static const char *const names[KINDS] = {"counter", "ack", "silent"};
    struct outcome alone[KINDS], mixed[KINDS];
    struct maker makers[KINDS];
    double sum = 0;
    uint16_t ports[KINDS];

    for (int k = 0; k < KINDS; k++) {
        ports[k] = daemon_port(writer, names[k]);
        start_load(&makers[0], (enum kind)k, ports[k], conns);
        if (k == SILENT)
            (void)poll(NULL, 0, (int)round_ms);
        alone[k] = end_load(&makers[0]);
    }
    start_load(&makers[SILENT], SILENT, ports[SILENT], conns);
    (void)poll(NULL, 0, 100); /* they are connected, and have filled it */
    start_load(&makers[LIVE], LIVE, ports[LIVE], 0);
    start_load(&makers[ACKED], ACKED, ports[ACKED], 0);
    for (int k = 0; k < KINDS; k++) {
        mixed[k] = end_load(&makers[k]);
        series_add(&out->rate[k], mixed[k].per_second);
        series_add(&out->share[k], mixed[k].per_second / alone[k].per_second);
        series_add(&out->p99_ms[k], mixed[k].p99_ms);
        sum += mixed[k].per_second / alone[k].per_second;
    }
    series_add(&out->sum, sum);
}

static void
print_results(unsigned conns, const struct results *r)
{
    static const char *const names[KINDS] = {"live, pairs", "acknowledged",
                                             "silent"};

    printf("beside %u silent connections\n", conns);
    for (int k = 0; k < KINDS; k++) {
        printf("  %-14s %9.1f k/s   share %.2f", names[k],
               series_median(&r->rate[k]) / 1e3, series_median(&r->share[k]));
        if (k != SILENT)
            printf("   p99 %7.2f ms (%.2f..%.2f)", series_median(&r->p99_ms[k]),
                   series_min(&r->p99_ms[k]), series_max(&r->p99_ms[k]));
        printf("\n");
    }
    printf("  sum of shares %.2f\n", series_median(&r->sum));
}

int
main(int argc, char **argv)
{
    static struct results results[LOADS];
    const bool is_quick = bench_begin(argc, argv);
    struct fleet f;
    pid_t emptying;

    round_ms = is_quick ? 500 : 1000;
    fleet_init(&f);
    fleet_start_with(&f, FLEET_WRITE, "log.size=32M", "log.count=40",
                     "counter.port=0");
    await_logs(f.path, 40);
    emptying = bench_fork();
    if (emptying == 0)
        empty_logs(f.path, true);
    for (size_t i = 0; i < (is_quick ? 3 : 5); i++)
        for (size_t n = 0; n < LOADS; n++)
            run_round(fleet_daemon(&f, FLEET_WRITE), senders[n], &results[n]);
    for (size_t n = 0; n < LOADS; n++)
        print_results(senders[n], &results[n]);
    fleet_stop_all(&f);
    bench_kill(emptying);
    fleet_fini(&f);
    return 0;
}
