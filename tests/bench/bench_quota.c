/* tests/bench/bench_quota.c - durable /apply of countd-write, beside a server
 * that writes 24 bytes for each request and syncs once for all that had come.
 *
 *   bench_quota [--quick]
 *
 *   50 x 16   50 connections, 16 requests under way on each
 *   50 x 1    the same with one
 *   1 x 1     one request after the other
 *   senders   50 x 16 while 200 connections send increments that nobody
 *             answers, as fast as they are taken: the ceiling writes them to
 *             a file without a look; they and their sender have CPUs that the
 *             rest then has not
 *
 * The servers take turns on the same disk, each with a fresh directory; times
 * are those of single requests. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "tests/bench/http_load.h"
#include "tests/bench/messages.h"
#include "tests/lib/fleet.h"
#include "tests/lib/tmpdir.h"

#define SENDERS 200
#define RECORD  24
#define WARM_MS 100

enum side { COUNTD, CEILING, SIDES };

static const char *const titles[SIDES] = {"countd-write", "ceiling"};

/* With senders, or (0) without. */
static void
run_load(const struct http_load *l, uint16_t port, uint16_t silent_port,
         struct figures *out)
{
    static struct figures warm;
    struct http_load first = *l;
    pid_t sender = silent_port > 0 ? bench_fork() : -1;

    if (sender == 0)
        (void)messages_silent(silent_port, SENDERS, 0);
    first.ms = WARM_MS;
    http_load_run(&first, port, &warm);
    http_load_run(l, port, out);
    if (sender > 0)
        bench_kill(sender);
}

static void
measure_ceiling(const struct http_load *l, bool senders, struct figures *out)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\n"
                                 "Connection: keep-alive\r\n"
                                 "Content-length: 21\r\n\r\n"
                                 "1234567 999999999999\n";
    uint16_t port, silent_port;
    struct tmpdir dir;
    pid_t pid;

    tmpdir_make(&dir);
    pid = http_ceiling_start_durable(&port, &silent_port, answer,
                                     sizeof answer - 1, dir.path, RECORD);
    run_load(l, port, senders ? silent_port : 0, out);
    bench_kill(pid);
    tmpdir_remove(&dir);
}

static void
measure_countd(const struct http_load *l, bool senders, struct figures *out)
{
    const struct daemon *d;
    struct fleet f;

    fleet_init(&f);
    fleet_start_with(&f, FLEET_WRITE, "counter.enable=off",
                     "http.listen=127.0.0.1:0", "quota.enable=on",
                     "quota.limit=1000000000000", "log.size=1M", "log.max=64",
                     NULL);
    await_logs(f.path, 4);
    d = fleet_daemon(&f, FLEET_WRITE);
    run_load(l, daemon_port(d, "http"), senders ? daemon_port(d, "silent") : 0,
             out);
    fleet_fini(&f);
}

static void
report_case(const struct http_load *l, bool senders,
            const struct figures f[SIDES])
{
    static const struct table rates = {titles, SIDES, "k/s", 1e-3};
    static const struct table times = {titles, SIDES, "us", 1};
    const struct figures p99[SIDES] = {{.value = f[COUNTD].p99},
                                       {.value = f[CEILING].p99}};
    char row[80];
    const int size =
        snprintf(row, sizeof row, "durable /apply, %u x %u%s", l->conns,
                 l->depth, senders ? ", beside 200 silent senders" : "");

    figures_report(row, &rates, f);
    (void)snprintf(row + size, sizeof row - (size_t)size, ", p99");
    figures_report(row, &times, p99);
}

static void
compare_servers(unsigned conns, unsigned depth, bool is_quick)
{
    const struct http_load load = {.target = "/apply?amt=1",
                                   .body = "",
                                   .conns = conns,
                                   .depth = depth,
                                   .ms = is_quick ? 300 : 1000};
    static struct figures f[2][SIDES]; /* without senders and with them */
    const int kinds = conns * depth > 100 ? 2 : 1;

    memset(f, 0, sizeof f);
    for (size_t i = 0; i < (is_quick ? 3 : 7); i++)
        for (int senders = 0; senders < kinds; senders++) {
            measure_ceiling(&load, senders == 1, &f[senders][CEILING]);
            measure_countd(&load, senders == 1, &f[senders][COUNTD]);
        }
    for (int senders = 0; senders < kinds; senders++)
        report_case(&load, senders == 1, f[senders]);
    if (kinds == 2)
        printf("  with senders of without: countd-write %.2f, ceiling %.2f\n",
               series_ratio(&f[1][COUNTD].value, &f[0][COUNTD].value),
               series_ratio(&f[1][CEILING].value, &f[0][CEILING].value));
}

int
main(int argc, char **argv)
{
    const bool is_quick = bench_begin(argc, argv);

    compare_servers(50, 16, is_quick);
    compare_servers(50, 1, is_quick);
    compare_servers(1, 1, is_quick);
    return 0;
}
