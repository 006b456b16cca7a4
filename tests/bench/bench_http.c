/* tests/bench/bench_http.c - sequence numbers of countd-write over HTTP, beside
 * a server that answers every request alike.
 *
 *   bench_http [--quick] [BUILD_DIR]      (or $BUILD)
 *
 *   keep-alive   50 connections, a request at a time on each
 *   depth 16     16 of them under way on each
 *   pipelined    8 connections, 64 on each
 *   new          50 at once, a connection for each request
 *   1000         connections that are opened at once, a request at a time
 *
 * The two take turns, so that what else the machine does meets both.  Printed:
 * medians of the rounds, smallest and largest, and the median of the rounds'
 * ratios; times are those of single requests.  Prints, judges nothing. */
#include "tests/lib/test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/bench/http_load.h"
#include "tests/bench/report.h"
#include "tests/bench/series.h"
#include "tests/lib/http_fixture.h"

enum which { COUNTD, CEILING, SERVERS };

static const char *const titles[SERVERS] = {"countd-write", "ceiling"};

static const struct {
    const char *title;
    struct http_load load;
} cases[] = {
    {"keep-alive, 50 connections",
     {.target = "/fetch", .conns = 50, .depth = 1}},
    {"50 connections, depth 16",
     {.target = "/fetch", .conns = 50, .depth = 16}},
    {"pipelined, 8 connections, depth 64",
     {.target = "/fetch", .conns = 8, .depth = 64}},
    {"a new connection for each request, 50 at once",
     {.target = "/fetch", .conns = 50, .depth = 1, .close = true}},
    {"1000 connections opened at once",
     {.target = "/fetch", .conns = 1000, .depth = 1}},
};

struct figures {
    struct series value, p50, p99, max;
};

static void
add(struct figures *f, const struct http_figures *h)
{
    series_add(&f->value, h->per_second);
    series_add(&f->p50, h->p50_us);
    series_add(&f->p99, h->p99_us);
    series_add(&f->max, h->max_us);
}

static void
print(const char *title, const struct figures f[SERVERS])
{
    char row[80];

    printf("\n%s\n", title);
    for (int i = 0; i < SERVERS; i++)
        printf("  %-14s %8.1f k/s  (%.1f to %.1f)   p50 %6.0f us   p99 %6.0f "
               "us   max %6.0f us\n",
               titles[i], series_median(&f[i].value) / 1e3,
               series_min(&f[i].value) / 1e3, series_max(&f[i].value) / 1e3,
               series_median(&f[i].p50), series_median(&f[i].p99),
               series_median(&f[i].max));
    printf("  of the ceiling %8.3f        p99 %.2f\n",
           series_ratio(&f[COUNTD].value, &f[CEILING].value),
           series_ratio(&f[COUNTD].p99, &f[CEILING].p99));
    (void)snprintf(row, sizeof row, "/fetch, %s", title); /* cut: still a row */
    report_row(row, "/s", series_median(&f[COUNTD].value), "ceiling",
               series_median(&f[CEILING].value),
               series_ratio(&f[COUNTD].value, &f[CEILING].value));
}

int
main(int argc, char **argv)
{
    static struct figures f[sizeof cases / sizeof cases[0]][SERVERS];
    const size_t count = sizeof cases / sizeof cases[0];
    uint16_t ports[SERVERS];
    size_t rounds = 7;
    uint64_t ms = 300;
    struct http_fixture *r;
    pid_t ceiling;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--quick") == 0) {
            rounds = 3;
            ms = 100;
        } else if (setenv("BUILD", argv[i], 1) < 0) {
            return 111;
        }
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* only looks */
    if (http_fixture_setup((void **)&r) < 0)
        return 111;
    http_fixture_start(r, NULL, NULL);
    ports[COUNTD] = r->port;
    ceiling = http_ceiling_start(&ports[CEILING], NULL, 0);
    for (size_t round = 0; round < rounds; round++)
        for (size_t c = 0; c < count; c++)
            for (int i = 0; i < SERVERS; i++) {
                struct http_load load = cases[c].load;
                struct http_figures h;

                load.ms = ms;
                http_load_run(&load, ports[i], &h);
                add(&f[c][i], &h);
            }
    for (size_t c = 0; c < count; c++)
        print(cases[c].title, f[c]);
    (void)kill(ceiling, SIGKILL); /* our child */
    (void)waitpid(ceiling, NULL, 0);
    http_fixture_stop(r);
    return http_fixture_teardown((void **)&r);
}
