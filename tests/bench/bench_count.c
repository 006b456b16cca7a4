/* tests/bench/bench_count.c - counting over HTTP with an Idempotency-Key in
 * each request, beside the same without.
 *
 *   bench_count [--quick]
 *
 *   1 line       50 connections, a request at a time on each
 *   100 lines    8 connections
 *   1000 lines   8 connections
 *
 * One countd-write takes both in turns, a worker merges meanwhile, and each
 * request has a key of its own.  Printed: requests a second and their times;
 * the writer's time on a processor for a request, of all rounds, which says
 * more where other programs run. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>

#include "tests/bench/bench.h"
#include "tests/bench/http_load.h"
#include "tests/lib/fleet.h"

#define LINES_MAX   1000
#define LINE_SIZE   32
#define REQUEST_MAX (512 + LINES_MAX * LINE_SIZE)

enum { KEYED, PLAIN, WAYS };

static const char *const ways[WAYS] = {"with keys", "without keys"};

static const struct shape {
    const char *row;
    unsigned conns, lines;
} shapes[] = {{"HTTP count with keys, 1 line, 50 connections", 50, 1},
              {"HTTP count with keys, 100 lines, 8 connections", 8, 100},
              {"HTTP count with keys, 1000 lines, 8 connections", 8, 1000}};

#define SHAPES (sizeof shapes / sizeof shapes[0])

struct request {
    unsigned lines;
    bool is_keyed;
};

/* The lines stay, and the key has a fixed size. */
static size_t
put_request(const struct load *l, unsigned conn, uint64_t sent, uint8_t *to)
{
    static uint64_t next_key;
    const struct request *r = l->ctx;
    char key[64] = "", *text = (char *)to;
    size_t size;

    (void)conn; /* all are alike */
    (void)sent;
    if (r->is_keyed)
        (void)snprintf(key, sizeof key, "Idempotency-Key: %020llu\r\n",
                       (unsigned long long)++next_key);
    size = (size_t)sprintf(text,
                           "POST /v1/count HTTP/1.1\r\nHost: localhost\r\n"
                           "Content-Type: text/tab-separated-values\r\n"
                           "%sContent-Length: %u\r\n\r\n",
                           key, r->lines * LINE_SIZE);
    for (unsigned i = 0; i < r->lines; i++)
        size += (size_t)sprintf(text + size, "bench\tkey-%08u\t%012u\n",
                                i % 977, 1u);
    return size;
}

static void
measure_way(const struct daemon *d, const struct shape *shape, bool is_keyed,
            uint64_t ms, struct figures *f, struct series *cpu_us)
{
    static struct times times;
    const struct request request = {shape->lines, is_keyed};
    const struct load load = {.conns = shape->conns,
                              .depth = 1,
                              .ms = ms,
                              .put = put_request,
                              .take = http_load_take,
                              .request_max = REQUEST_MAX,
                              .ctx = &request};
    const double cpu_ns = bench_cpu_ns(d->pid);
    const double rate = load_run(&load, daemon_port(d, "http"), &times);

    figures_add(f, rate * shape->lines, &times);
    series_add(cpu_us,
               (bench_cpu_ns(d->pid) - cpu_ns) / 1e3 / (double)times.count);
}

int
main(int argc, char **argv)
{
    static const struct table table = {ways, WAYS, "k/s", 1e-3};
    static struct figures f[SHAPES][WAYS];
    static struct series cpu_us[SHAPES][WAYS];
    static struct fleet fleet;
    const bool is_quick = bench_begin(argc, argv);

    fleet_init(&fleet);
    fleet_start_with(&fleet, FLEET_WRITE, "counter.enable=off",
                     "http.listen=127.0.0.1:0", "log.size=32M",
                     "log.rotate_after=1s", "count.wait=60s", NULL);
    fleet_start(&fleet, FLEET_WORKER);
    await_logs(fleet.path, 4);
    for (size_t round = 0; round < (is_quick ? 3 : 7); round++)
        for (size_t s = 0; s < SHAPES; s++)
            for (size_t i = 0; i < WAYS; i++) {
                const size_t way = (i + round) % WAYS;

                measure_way(fleet_daemon(&fleet, FLEET_WRITE), &shapes[s],
                            way == KEYED, is_quick ? 100 : 300, &f[s][way],
                            &cpu_us[s][way]);
            }
    for (size_t s = 0; s < SHAPES; s++) {
        figures_report(shapes[s].row, &table, f[s]);
        printf("  processor time of the writer: %.1f us a request with keys, "
               "%.1f without\n",
               series_median(&cpu_us[s][KEYED]),
               series_median(&cpu_us[s][PLAIN]));
    }
    fleet_stop_all(&fleet);
    fleet_fini(&fleet);
    return 0;
}
