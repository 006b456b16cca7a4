/* tests/bench/bench_http.c - sequence numbers of countd-write over HTTP, beside
 * a server that answers every request alike.
 *
 *   bench_http [--quick]
 *
 *   keep-alive   50 connections, a request at a time on each
 *   depth 16     16 of them under way on each
 *   pipelined    8 connections, 64 on each
 *   new          50 at once, a connection for each request
 *   1000         connections that are opened at once, a request at a time
 *
 * The two take turns, so that what else the machine does meets both; times are
 * those of single requests. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>

#include "tests/bench/bench.h"
#include "tests/bench/http_load.h"
#include "tests/lib/numbers.h"

enum which { COUNTD, CEILING, SERVERS };

static const char *const titles[SERVERS] = {"countd-write", "ceiling"};

static const struct {
    const char *row;
    unsigned conns, depth;
    bool close;
} cases[] = {
    {"/fetch, keep-alive, 50 connections", 50, 1, false},
    {"/fetch, 50 connections, depth 16", 50, 16, false},
    {"/fetch, pipelined, 8 connections, depth 64", 8, 64, false},
    {"/fetch, a new connection for each request, 50 at once", 50, 1, true},
    {"/fetch, 1000 connections opened at once", 1000, 1, false},
};

#define CASES (sizeof cases / sizeof cases[0])

int
main(int argc, char **argv)
{
    static const struct table table = {titles, SERVERS, "k/s", 1e-3};
    static struct figures f[CASES][SERVERS];
    const bool is_quick = bench_begin(argc, argv);
    uint16_t ports[SERVERS];
    struct fleet *fleet;
    pid_t ceiling;

    assert_int_equal(numbers_setup((void **)&fleet), 0);
    fleet_start(fleet, FLEET_WRITE);
    ports[COUNTD] = fleet_writer_port(fleet, "http");
    ceiling = http_ceiling_start(&ports[CEILING], NULL, 0);
    for (size_t round = 0; round < (is_quick ? 3 : 7); round++)
        for (size_t c = 0; c < CASES; c++)
            for (int i = 0; i < SERVERS; i++) {
                const struct http_load load = {.target = "/fetch",
                                               .conns = cases[c].conns,
                                               .depth = cases[c].depth,
                                               .close = cases[c].close,
                                               .ms = is_quick ? 100 : 300};

                http_load_run(&load, ports[i], &f[c][i]);
            }
    for (size_t c = 0; c < CASES; c++)
        figures_report(cases[c].row, &table, f[c]);
    bench_kill(ceiling);
    fleet_stop(fleet, FLEET_WRITE);
    return service_teardown((void **)&fleet);
}
