/* tests/bench/bench_read_http.c - answers of countd-read over HTTP, each beside
 * a server that sends the same bytes to every request.
 *
 *   bench_read_http [--quick]
 *
 * 50 connections, a request at a time on each.  The two take turns, so that
 * what else the machine does meets both; times are those of single requests. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/bench/bench.h"
#include "tests/bench/http_load.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/service.h"

#define CONNS      50
#define KEYS       1000
#define ANSWER_MAX (64 << 10)

enum which { COUNTD, CEILING, SERVERS };

static const char *const titles[SERVERS] = {"countd-read", "fixed reply"};

static struct {
    const char *row, *target, *header;
    bool known; /* the client has the answer already: 304 */
    struct figures f[SERVERS];
    uint16_t ports[SERVERS];
    size_t size; /* of the answer */
    pid_t ceiling;
    char more[256];
} cases[] = {
    {.row = "HTTP, one count", .target = "/v1/get?keyspace=pages&key=/1"},
    {.row = "HTTP, the 100 largest", .target = "/v1/top?keyspace=pages&n=100"},
    {.row = "HTTP, the same, not changed (304)",
     .target = "/v1/top?keyspace=pages&n=100",
     .known = true},
    {.row = "HTTP, /metrics of three processes", .target = "/metrics"},
    {.row = "HTTP, the page, packed",
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
probe_answer(size_t c, uint16_t port, char *answer)
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
prepare_case(size_t c, uint16_t port)
{
    static char answer[ANSWER_MAX + 1];
    const char *tag;

    (void)snprintf(cases[c].more, sizeof cases[c].more, "%s",
                   cases[c].header ? cases[c].header : "");
    cases[c].size = probe_answer(c, port, answer);
    if (cases[c].known) {
        answer[cases[c].size] = '\0';
        tag = strstr(answer, "ETag: ");
        assert_non_null(tag);
        (void)snprintf(cases[c].more, sizeof cases[c].more,
                       "If-None-Match: %.*s\r\n", (int)strcspn(tag + 6, "\r"),
                       tag + 6);
        cases[c].size = probe_answer(c, port, answer);
    }
    cases[c].ports[COUNTD] = port;
    cases[c].ceiling =
        http_ceiling_start(&cases[c].ports[CEILING], answer, cases[c].size);
}

static void
measure_case(size_t c, uint64_t ms)
{
    const struct http_load load = {.target = cases[c].target,
                                   .headers = cases[c].more,
                                   .conns = CONNS,
                                   .depth = 1,
                                   .ms = ms};

    for (int i = 0; i < SERVERS; i++)
        http_load_run(&load, cases[c].ports[i], &cases[c].f[i]);
}

int
main(int argc, char **argv)
{
    static const struct table table = {titles, SERVERS, "k/s", 1e-3};
    const bool is_quick = bench_begin(argc, argv);
    struct fleet *f;

    assert_int_equal(service_setup((void **)&f), 0);
    fleet_options(f, "counter.enable=off", "read.http=127.0.0.1:0", NULL);
    service_start(f);
    put_counts(f);
    for (size_t c = 0; c < CASES; c++)
        prepare_case(c, daemon_port(fleet_daemon(f, FLEET_READ), "read-http"));
    for (size_t round = 0; round < (is_quick ? 3 : 7); round++)
        for (size_t c = 0; c < CASES; c++)
            measure_case(c, is_quick ? 100 : 300);
    for (size_t c = 0; c < CASES; c++) {
        printf("%zu bytes: ", cases[c].size);
        figures_report(cases[c].row, &table, cases[c].f);
        bench_kill(cases[c].ceiling);
    }
    return service_teardown((void **)&f);
}
