/* tests/bench/bench_read_http.c - answers of countd-read over HTTP, each beside
 * a server that sends the same bytes to every request.
 *
 *   bench_read_http [--quick] [BUILD_DIR]      (or $BUILD)
 *
 * 50 connections, a request at a time on each.  The two take turns, so that
 * what else the machine does meets both.  Printed: medians of the rounds,
 * smallest and largest, and the median of the rounds' ratios; times are those
 * of single requests.  Prints, judges nothing. */
#include "tests/lib/test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "tests/bench/http_load.h"
#include "tests/bench/report.h"
#include "tests/bench/series.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/service.h"

#define CONNS      50
#define KEYS       1000
#define ANSWER_MAX (64 << 10)

enum which { COUNTD, CEILING, SERVERS };

static const char *const titles[SERVERS] = {"countd-read", "ceiling"};

static struct {
    const char *title, *target, *header;
    bool known; /* the client has the answer already: 304 */
    struct {
        struct series value, p50, p99, max;
    } f[SERVERS];
    uint16_t ports[SERVERS];
    size_t size; /* of the answer */
    pid_t ceiling;
    char more[256];
} cases[] = {
    {.title = "one count", .target = "/v1/get?keyspace=pages&key=/1"},
    {.title = "the 100 largest", .target = "/v1/top?keyspace=pages&n=100"},
    {.title = "the same, not changed (304)",
     .target = "/v1/top?keyspace=pages&n=100",
     .known = true},
    {.title = "/metrics of three processes", .target = "/metrics"},
    {.title = "the page, packed",
     .target = "/",
     .header = "Accept-Encoding: gzip\r\n"},
};

#define CASES (sizeof cases / sizeof cases[0])

static void
put_counts(struct fleet *f)
{
    const int fd = client_connect(fleet_ack_port(f));
    char key[32];

    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(key, sizeof key, "/%d", i);
        client_increment(fd, "pages", key, KEYS + i);
    }
    client_wins(fd, KEYS);
    client_close(fd);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
}

/* Asks once: the bytes of the answer. */
static size_t
probe(size_t c, uint16_t port, char *answer)
{
    const int fd = client_connect(port);
    char request[512];
    size_t size = 0;
    long n = 0;

    (void)snprintf(request, sizeof request,
                   "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n%s\r\n",
                   cases[c].target, port, cases[c].more);
    client_send(fd, request, strlen(request));
    do {
        size += (size_t)n;
        n = client_try_read(fd, answer + size, ANSWER_MAX - size,
                            size == 0 ? 5000 : 200);
    } while (n > 0);
    client_close(fd);
    assert_true(size > 0);
    return size;
}

static void
prepare(size_t c, uint16_t port)
{
    static char answer[ANSWER_MAX + 1];
    const char *tag;

    (void)snprintf(cases[c].more, sizeof cases[c].more, "%s",
                   cases[c].header ? cases[c].header : "");
    cases[c].size = probe(c, port, answer);
    if (cases[c].known) {
        answer[cases[c].size] = '\0';
        tag = strstr(answer, "ETag: ");
        assert_non_null(tag);
        (void)snprintf(cases[c].more, sizeof cases[c].more,
                       "If-None-Match: %.*s\r\n", (int)strcspn(tag + 6, "\r"),
                       tag + 6);
        cases[c].size = probe(c, port, answer);
    }
    cases[c].ports[COUNTD] = port;
    cases[c].ceiling =
        http_ceiling_start(&cases[c].ports[CEILING], answer, cases[c].size);
}

static void
measure(size_t c, uint64_t ms)
{
    for (int i = 0; i < SERVERS; i++) {
        const struct http_load load = {.target = cases[c].target,
                                       .headers = cases[c].more,
                                       .conns = CONNS,
                                       .depth = 1,
                                       .ms = ms};
        struct http_figures h;

        http_load_run(&load, cases[c].ports[i], &h);
        series_add(&cases[c].f[i].value, h.per_second);
        series_add(&cases[c].f[i].p50, h.p50_us);
        series_add(&cases[c].f[i].p99, h.p99_us);
        series_add(&cases[c].f[i].max, h.max_us);
    }
}

static void
print(size_t c)
{
    char row[80];

    printf("\n%s, %zu bytes\n", cases[c].title, cases[c].size);
    for (int i = 0; i < SERVERS; i++)
        printf("  %-14s %8.1f k/s  (%.1f to %.1f)   p50 %6.0f us   p99 %6.0f "
               "us   max %6.0f us\n",
               titles[i], series_median(&cases[c].f[i].value) / 1e3,
               series_min(&cases[c].f[i].value) / 1e3,
               series_max(&cases[c].f[i].value) / 1e3,
               series_median(&cases[c].f[i].p50),
               series_median(&cases[c].f[i].p99),
               series_median(&cases[c].f[i].max));
    printf("  of the ceiling %8.3f        p99 %.2f\n",
           series_ratio(&cases[c].f[COUNTD].value, &cases[c].f[CEILING].value),
           series_ratio(&cases[c].f[COUNTD].p99, &cases[c].f[CEILING].p99));
    (void)snprintf(row, sizeof row, "HTTP, %s", cases[c].title);
    report_row(
        row, "/s", series_median(&cases[c].f[COUNTD].value), "fixed reply",
        series_median(&cases[c].f[CEILING].value),
        series_ratio(&cases[c].f[COUNTD].value, &cases[c].f[CEILING].value));
}

int
main(int argc, char **argv)
{
    size_t rounds = 7;
    uint64_t ms = 300;
    struct fleet *f;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--quick") == 0) {
            rounds = 3;
            ms = 100;
        } else if (setenv("BUILD", argv[i], 1) < 0) {
            return 111;
        }
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* only looks */
    if (service_setup((void **)&f) < 0)
        return 111;
    fleet_option(f, "counter.enable=off");
    fleet_option(f, "read.http=127.0.0.1:0");
    service_start(f);
    put_counts(f);
    for (size_t c = 0; c < CASES; c++)
        prepare(c, daemon_port(fleet_daemon(f, FLEET_READ), "read-http"));
    for (size_t round = 0; round < rounds; round++)
        for (size_t c = 0; c < CASES; c++)
            measure(c, ms);
    for (size_t c = 0; c < CASES; c++) {
        print(c);
        (void)kill(cases[c].ceiling, SIGKILL); /* our child */
        (void)waitpid(cases[c].ceiling, NULL, 0);
    }
    return service_teardown((void **)&f);
}
