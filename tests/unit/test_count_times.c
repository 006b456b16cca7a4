/* tests/unit/test_count_times.c - readable_ms of POST /v1/count: of a time at
 * which the increments are in the log's file. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/ingest_fixture.h"

#include <string.h>

#include "common/base/clock.h"
#include "common/net/http.h"
#include "writer/count.h"

#define PIPELINED 100
#define SHIFT_MS  5000

static struct count count;
static struct http_site site;
static uint64_t write_ms; /* the last turn's increments were not written before
                             that */
static size_t most;       /* answers of a turn whose time is filled in */

/* In each turn the clock moves on between the requests and the write. */
static bool
after_turn_of_count(void *ctx)
{
    struct fixture *r = ctx;

    (void)conn_turn(r->conns);
    if (count.times.count > 0) {
        assert_true(r->logs.staged > 0 || count.times.count == COUNT_TIMES_MAX);
        if (count.times.count > most)
            most = count.times.count;
        fault_clock(SHIFT_MS);
        write_ms = clock_unix_ms();
    }
    count_turn(&count);
    assert_int_equal(r->logs.staged, 0);
    logs_flush(&r->logs);
    commit_turn(&r->commit);
    if (r->until(r))
        loop_stop(r->loop);
    return conns_have_work(r->conns);
}

static void
start_count(struct fixture *r)
{
    r->config.count_keys = 0;
    r->site = &site;
    start_ingest(r, 20000, 4);
    r->config.count_wait_ms = 1000;
    r->config.count_cors_rate = 1;
    assert_rc(count_open(&count, r->loop, &r->ingest, &r->config), 0);
    http_site_add(&site, count_routes, count_route_count, &count, TOKENS_COUNT);
    loop_after_turn(r->loop, after_turn_of_count, r);
}

static void
set_up_count(struct fixture *r)
{
    memset(&count, 0, sizeof count);
    memset(&site, 0, sizeof site);
    write_ms = most = 0;
    set_up(r);
}

#define CASE(name, r)                                                          \
    TEST_WITH(name, struct fixture, r, set_up_count, tear_down)

static void
send_requests(int fd, size_t n)
{
    static const char request[] = "POST /v1/count HTTP/1.1\r\nHost: a\r\n"
                                  "Content-Type: text/tab-separated-values\r\n"
                                  "Content-Length: 8\r\n\r\nspace\tk\n";

    for (size_t i = 0; i < n; i++)
        client_send(fd, request, sizeof request - 1);
}

static bool
has_answered(struct fixture *r)
{
    return count.stats.requests >= r->want &&
           !gate_has_waiters(&r->commit.gate) && !r->commit.in_flight &&
           !conns_have_work(r->conns);
}

/* Reads `n` answers; the earliest of their readable_ms. */
static uint64_t
read_answers(int fd, size_t n)
{
    static char bytes[1 << 20];
    uint64_t earliest = UINT64_MAX;
    char *at = bytes;
    size_t size = 0;
    long got;

    while ((got = client_try_read(fd, bytes + size, sizeof bytes - 1 - size,
                                  0)) > 0)
        size += (size_t)got;
    bytes[size] = '\0';
    for (size_t i = 0; i < n; i++) {
        unsigned long long ms;
        int end = 0;

        at = strstr(at, "\r\n\r\n{");
        assert_non_null(at);
        assert_int_equal(sscanf(at,
                                "\r\n\r\n{\"counted\": 1, "
                                "\"readable_ms\": %13llu}%n",
                                &ms, &end),
                         1);
        assert_true(end > 0 && at[end] == '\n');
        if (ms < earliest)
            earliest = ms;
        at += end;
    }
    assert_lacks(at, "\r\n\r\n");
    return earliest;
}

CASE(readable_ms_is_not_before_the_write_of_the_turn, r)
{
    int many, one, gone;

    start_count(r);
    many = connect_pair(r, LISTENER_HTTP);
    one = connect_pair(r, LISTENER_HTTP);
    gone = connect_pair(r, LISTENER_HTTP);
    send_requests(gone, 3);
    send_requests(many, PIPELINED);
    send_requests(one, 1);
    client_close(gone);
    run_until(r, has_answered, PIPELINED + 4);

    assert_true(read_answers(many, PIPELINED) >= write_ms - SHIFT_MS / 2);
    assert_true(read_answers(one, 1) >= write_ms - SHIFT_MS / 2);
    assert_int_equal(r->logs.stats.flushes <= 4, 1);
    client_close(many);
    client_close(one);
    count_close(&count);
    finish_ingest(r);
    assert_int_equal(records_sum(&r->records, "space", "k", NULL),
                     PIPELINED + 4);
}

CASE(a_turn_of_more_answers_than_places_writes_them_as_they_come, r)
{
    enum { CONNS = 60 };
    const uint64_t begin_ms = clock_unix_ms();
    int fds[CONNS];

    start_count(r);
    fault_stop_clock(); /* a turn takes all that there is */
    for (size_t i = 0; i < CONNS; i++) {
        fds[i] = connect_pair(r, LISTENER_HTTP);
        send_requests(fds[i], PIPELINED);
    }
    run_until(r, has_answered, CONNS * PIPELINED);

    assert_int_equal(most, COUNT_TIMES_MAX);
    for (size_t i = 0; i < CONNS; i++) {
        assert_true(read_answers(fds[i], PIPELINED) >= begin_ms);
        client_close(fds[i]);
    }
    fault_clear();
    count_close(&count);
    finish_ingest(r);
    assert_int_equal(records_sum(&r->records, "space", "k", NULL),
                     CONNS * PIPELINED);
}
