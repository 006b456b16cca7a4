/* tests/bench/bench_count_one.c - requests of one increment over HTTP, beside
 * what else waits for a sync.
 *
 *   bench_count_one [--quick] [BUILD_DIR]      (or $BUILD)
 *
 *   50 x 1    50 connections, a request at a time on each, beside a server that
 *             writes a slot for each request, syncs once for all of a round
 *             and then sends the same bytes to each
 *   50 x 16   16 requests under way on each, beside the same and beside durable
 *             /apply of the same countd-write
 *
 * They take turns on one disk.  Printed: medians of the rounds, smallest and
 * largest, and the median of the rounds' ratios; times are those of single
 * requests.  Prints, judges nothing. */
#include "tests/lib/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/bench/await_logs.h"
#include "tests/bench/http_load.h"
#include "tests/bench/report.h"
#include "tests/bench/series.h"
#include "tests/lib/fleet.h"
#include "tests/lib/tmpdir.h"

#define CONNS     50
#define SLOT_SIZE 544

enum side { COUNT, CEILING, APPLY, SIDES };

static const char *const titles[SIDES] = {"count of 1", "fixed reply, synced",
                                          "durable /apply"};

static const struct http_load loads[SIDES] = {
    [COUNT] = {.target = "/v1/count",
               .headers = "Content-Type: text/tab-separated-values\r\n",
               .body = "bench\tkey-00000001\n"},
    [CEILING] = {.target = "/v1/count",
                 .headers = "Content-Type: text/tab-separated-values\r\n",
                 .body = "bench\tkey-00000001\n"},
    [APPLY] = {.target = "/apply?amt=1", .body = ""},
};

/* What countd-write answers, but for the date and the time. */
static const char answer[] =
    "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\n"
    "Date: Mon, 23 Nov 2026 06:30:09 GMT\r\nContent-Type: application/json\r\n"
    "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
    "Content-length: 46\r\n\r\n"
    "{\"counted\": 1, \"readable_ms\": 1795355248734}\r\n";

struct figures {
    struct series rate, p50, p99;
};

static void
measure(enum side side, uint16_t port, unsigned depth, uint64_t ms,
        struct figures *f)
{
    struct http_load load = loads[side];
    struct http_figures h;

    load.conns = CONNS;
    load.depth = depth;
    load.ms = ms;
    http_load_run(&load, port, &h);
    series_add(&f->rate, h.per_second);
    series_add(&f->p50, h.p50_us);
    series_add(&f->p99, h.p99_us);
}

static void
print(unsigned depth, const struct figures f[SIDES])
{
    printf("\n%d x %u\n", CONNS, depth);
    for (int i = 0; i < SIDES; i++)
        printf("  %-20s %8.1f k/s  (%.1f to %.1f)   p50 %6.0f us   p99 %6.0f "
               "us\n",
               titles[i], series_median(&f[i].rate) / 1e3,
               series_min(&f[i].rate) / 1e3, series_max(&f[i].rate) / 1e3,
               series_median(&f[i].p50), series_median(&f[i].p99));
    for (int i = COUNT + 1; i < SIDES; i++) {
        const double rate = series_ratio(&f[COUNT].rate, &f[i].rate);
        const double p99 = series_ratio(&f[COUNT].p99, &f[i].p99);
        char row[80];

        printf("  of %-20s %.3f   p99 %.2f\n", titles[i], rate, p99);
        (void)snprintf(row, sizeof row, "HTTP count of 1, %d x %u", CONNS,
                       depth);
        report_row(row, "/s", series_median(&f[COUNT].rate), titles[i],
                   series_median(&f[i].rate), rate);
    }
}

static void
start_countd(struct fleet *f)
{
    fleet_init(f);
    fleet_option(f, "counter.enable=off");
    fleet_option(f, "http.listen=127.0.0.1:0");
    fleet_option(f, "quota.enable=on");
    fleet_option(f, "quota.limit=1000000000000");
    fleet_option(f, "log.size=32M");
    fleet_option(f, "count.wait=60s");
    fleet_start(f, FLEET_WRITE);
    fleet_start(f, FLEET_WORKER);
    await_logs(f->path, 4);
}

int
main(int argc, char **argv)
{
    static const unsigned depths[] = {1, 16};
    static struct figures f[2][SIDES];
    static struct fleet fleet;
    uint16_t ports[SIDES];
    struct tmpdir dir;
    size_t rounds = 7;
    uint64_t ms = 300;
    pid_t ceiling;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--quick") == 0) {
            rounds = 3;
            ms = 100;
        } else if (setenv("BUILD", argv[i], 1) < 0) {
            return 111;
        }
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    tmpdir_make(&dir);
    ceiling = http_ceiling_start_durable(
        &ports[CEILING], answer, sizeof answer - 1, dir.path, SLOT_SIZE);
    start_countd(&fleet);
    ports[COUNT] = ports[APPLY] =
        daemon_port(fleet_daemon(&fleet, FLEET_WRITE), "http");
    for (size_t round = 0; round < rounds; round++)
        for (size_t d = 0; d < 2; d++)
            for (int i = 0; i < SIDES; i++)
                measure((enum side)i, ports[i], depths[d], ms, &f[d][i]);
    for (size_t d = 0; d < 2; d++)
        print(depths[d], f[d]);
    (void)kill(ceiling, SIGKILL); /* our child */
    (void)waitpid(ceiling, NULL, 0);
    fleet_stop_all(&fleet);
    fleet_fini(&fleet);
    tmpdir_remove(&dir);
    return 0;
}
