/* tests/bench/bench_count.c - counting over HTTP with an Idempotency-Key in
 * each request, beside the same without.
 *
 *   bench_count [--quick] [BUILD_DIR]      (or $BUILD)
 *
 *   1 line       50 connections, a request at a time on each
 *   100 lines    8 connections
 *   1000 lines   8 connections
 *
 * One countd-write takes both in turns, a worker merges meanwhile, and each
 * request has a key of its own.  Printed: medians of the rounds in increments a
 * second, smallest and largest, and the median of the rounds' ratios; the
 * writer's time on a processor for a request, of all rounds, which says more
 * where other programs run.  Prints, judges nothing. */
#include "tests/lib/test.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/bench/await_logs.h"
#include "tests/bench/report.h"
#include "tests/bench/series.h"
#include "tests/lib/client.h"
#include "tests/lib/fleet.h"

#define CONNS_MAX 50
#define LINES_MAX 1000
#define LINE_SIZE 32

static const struct {
    const char *title;
    unsigned conns, lines;
} cases[] = {{"1 line, 50 connections", 50, 1},
             {"100 lines, 8 connections", 8, 100},
             {"1000 lines, 8 connections", 8, 1000}};

enum { PLAIN, KEYED, WAYS };

struct conn_load {
    int fd;
    char in[1024];
    size_t size;
};

struct way {
    struct series rate;
    double cpu_s;
    uint64_t requests;
};

static char request[512 + LINES_MAX * LINE_SIZE];
static uint64_t next_key;

/* Formats the next request; the lines stay, and the key has a fixed size. */
static size_t
format_request(unsigned lines, bool keyed)
{
    char key[64] = "";
    size_t size;

    if (keyed)
        (void)snprintf(key, sizeof key, "Idempotency-Key: %020llu\r\n",
                       (unsigned long long)++next_key);
    size = (size_t)sprintf(request,
                           "POST /v1/count HTTP/1.1\r\nHost: localhost\r\n"
                           "Content-Type: text/tab-separated-values\r\n"
                           "%sContent-Length: %u\r\n\r\n",
                           key, lines * LINE_SIZE);
    for (unsigned i = 0; i < lines; i++)
        size += (size_t)sprintf(request + size, "bench\tkey-%08u\t%012u\n",
                                (unsigned)(i % 977), 1u);
    return size;
}

static void
send_request(const struct conn_load *c, unsigned lines, bool keyed)
{
    client_send(c->fd, request, format_request(lines, keyed));
}

/* Whether a whole answer has come. */
static bool
read_answer(struct conn_load *c)
{
    const long n =
        client_try_read(c->fd, c->in + c->size, sizeof c->in - 1 - c->size, 0);
    const char *body;

    if (n == -EAGAIN)
        return false;
    assert_true(n > 0);
    c->size += (size_t)n;
    c->in[c->size] = '\0';
    body = strstr(c->in, "\r\n\r\n");
    if (!body || !strchr(body + 4, '\n'))
        return false;
    if (strncmp(c->in, "HTTP/1.1 200", 12) != 0)
        fail_msg("%s", c->in);
    c->size = 0;
    return true;
}

/* Seconds on a processor. */
static double
cpu_of(const struct daemon *d)
{
    unsigned long user = 0, system = 0;
    char path[64], line[1024] = "";
    const char *at;
    FILE *f;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)d->pid);
    f = fopen(path, "re");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    assert_int_equal(fclose(f), 0);
    at = strrchr(line, ')');
    assert_non_null(at);
    assert_int_equal(sscanf(at + 2,
                            "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u "
                            "%lu %lu",
                            &user, &system),
                     2);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static void
run_load(const struct daemon *d, unsigned conns, unsigned lines, bool keyed,
         uint64_t ms, struct way *out)
{
    const uint16_t port = daemon_port(d, "http");
    const double cpu_s = cpu_of(d);
    static struct conn_load c[CONNS_MAX];
    struct pollfd p[CONNS_MAX];
    uint64_t answers = 0, begin_ns, end_ns;

    for (unsigned i = 0; i < conns; i++) {
        c[i] = (struct conn_load){.fd = client_connect(port)};
        p[i] = (struct pollfd){.fd = c[i].fd, .events = POLLIN};
        send_request(&c[i], lines, keyed);
    }
    begin_ns = clock_ns();
    do {
        (void)poll(p, conns, 1000); /* EINTR: go on */
        for (unsigned i = 0; i < conns; i++)
            if (p[i].revents != 0 && read_answer(&c[i])) {
                answers++;
                send_request(&c[i], lines, keyed);
            }
        end_ns = clock_ns();
    } while (end_ns < begin_ns + ms * 1000000);
    for (unsigned i = 0; i < conns; i++)
        client_close(c[i].fd);
    series_add(&out->rate,
               (double)(answers * lines) * 1e9 / (double)(end_ns - begin_ns));
    out->cpu_s += cpu_of(d) - cpu_s;
    out->requests += answers;
}

static void
print_case(const char *title, const struct way w[WAYS])
{
    static const char *const ways[WAYS] = {"without keys", "with keys"};

    char row[80];

    printf("\n%s\n", title);
    for (int i = 0; i < WAYS; i++)
        printf("  %-14s %8.1f k/s  (%.1f to %.1f)   %8.1f us a request\n",
               ways[i], series_median(&w[i].rate) / 1e3,
               series_min(&w[i].rate) / 1e3, series_max(&w[i].rate) / 1e3,
               w[i].cpu_s * 1e6 / (double)w[i].requests);
    (void)snprintf(row, sizeof row, "HTTP count with keys, %s",
                   title); /* fits */
    printf("  with to without %7.3f\n",
           series_ratio(&w[KEYED].rate, &w[PLAIN].rate));
    report_row(row, "/s", series_median(&w[KEYED].rate), "without keys",
               series_median(&w[PLAIN].rate),
               series_ratio(&w[KEYED].rate, &w[PLAIN].rate));
}

int
main(int argc, char **argv)
{
    static struct way w[sizeof cases / sizeof cases[0]][WAYS];
    const size_t count = sizeof cases / sizeof cases[0];
    static struct fleet f;
    size_t rounds = 7;
    uint64_t ms = 300;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--quick") == 0) {
            rounds = 3;
            ms = 100;
        } else if (setenv("BUILD", argv[i], 1) < 0) {
            return 111;
        }
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* only looks */
    fleet_init(&f);
    fleet_option(&f, "counter.enable=off");
    fleet_option(&f, "http.listen=127.0.0.1:0");
    fleet_option(&f, "log.size=32M");
    fleet_option(&f, "log.rotate_after=1s");
    fleet_option(&f, "count.wait=60s");
    fleet_start(&f, FLEET_WRITE);
    fleet_start(&f, FLEET_WORKER);
    await_logs(f.path, 4);
    for (size_t round = 0; round < rounds; round++)
        for (size_t c = 0; c < count; c++)
            for (size_t i = 0; i < WAYS; i++) {
                const size_t way = (i + round) % WAYS;

                run_load(fleet_daemon(&f, FLEET_WRITE), cases[c].conns,
                         cases[c].lines, way == KEYED, ms, &w[c][way]);
            }
    for (size_t c = 0; c < count; c++)
        print_case(cases[c].title, w[c]);
    fleet_stop_all(&f);
    fleet_fini(&f);
    return 0;
}
