/* tests/bench/bench_count_one.c - requests of one increment over HTTP, beside
 * what else waits for a sync.
 *
 *   bench_count_one [--quick]
 *
 *   50 x 1    50 connections, a request at a time on each, beside a server that
 *             writes a slot for each request, syncs once for all of a round
 *             and then sends the same bytes to each
 *   50 x 16   16 requests under way on each, beside the same and beside durable
 *             /apply of the same countd-write
 *
 * They take turns on one disk; times are those of single requests. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>

#include "tests/bench/bench.h"
#include "tests/bench/http_load.h"
#include "tests/lib/fleet.h"
#include "tests/lib/tmpdir.h"

#define CONNS     50
#define SLOT_SIZE 544

enum side { COUNT, CEILING, APPLY, SIDES };

static const char *const titles[SIDES] = {"count of 1", "fixed reply, synced",
                                          "durable /apply"};

/* What countd-write answers, but for the date and the time. */
static const char answer[] =
    "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n"
    "Date: Mon, 23 Nov 2026 06:30:09 GMT\r\nContent-Type: application/json\r\n"
    "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
    "Content-length: 46\r\n\r\n"
    "{\"counted\": 1, \"readable_ms\": 1795355248734}\r\n";

static void
measure_side(enum side side, uint16_t port, unsigned depth, uint64_t ms,
             struct figures *f)
{
    static const char type[] = "Content-Type: text/tab-separated-values\r\n";
    const bool counts = side != APPLY;
    const struct http_load load = {
        .target = counts ? "/v1/count" : "/apply?amt=1",
        .headers = counts ? type : NULL,
        .body = counts ? "bench\tkey-00000001\n" : "",
        .conns = CONNS,
        .depth = depth,
        .ms = ms};

    http_load_run(&load, port, f);
}

static void
start_countd(struct fleet *f)
{
    fleet_init(f);
    fleet_start_with(f, FLEET_WRITE, "counter.enable=off",
                     "http.listen=127.0.0.1:0", "quota.enable=on",
                     "quota.limit=1000000000000", "log.size=32M",
                     "count.wait=60s", NULL);
    fleet_start(f, FLEET_WORKER);
    await_logs(f->path, 4);
}

int
main(int argc, char **argv)
{
    static const struct table table = {titles, SIDES, "k/s", 1e-3};
    static const unsigned depths[] = {1, 16};
    static struct figures f[2][SIDES];
    static struct fleet fleet;
    const bool is_quick = bench_begin(argc, argv);
    uint16_t ports[SIDES];
    struct tmpdir dir;
    pid_t ceiling;
    char row[80];

    tmpdir_make(&dir);
    ceiling = http_ceiling_start_durable(
        &ports[CEILING], NULL, answer, sizeof answer - 1, dir.path, SLOT_SIZE);
    start_countd(&fleet);
    ports[COUNT] = ports[APPLY] = fleet_writer_port(&fleet, "http");
    for (size_t round = 0; round < (is_quick ? 3 : 7); round++)
        for (size_t d = 0; d < 2; d++)
            for (int i = 0; i < SIDES; i++)
                measure_side((enum side)i, ports[i], depths[d],
                             is_quick ? 100 : 300, &f[d][i]);
    for (size_t d = 0; d < 2; d++) {
        (void)snprintf(row, sizeof row, "HTTP count of 1, %d x %u", CONNS,
                       depths[d]);
        figures_report(row, &table, f[d]);
    }
    bench_kill(ceiling);
    fleet_stop_all(&fleet);
    fleet_fini(&fleet);
    tmpdir_remove(&dir);
    return 0;
}
