/* tests/e2e/test_postgresql_read.c - countd-read in front of a database: what it
 * answers at every port, and that none waits for a database that is silent. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "tests/lib/answer.h"
#include "tests/lib/client.h"
#include "tests/lib/pg_machines.h"

#define TIMEOUT_S 3  /* store.timeout, for a test that is not slow */
#define ASKERS    18 /* more than there are threads */

static struct answer got;

static struct fleet *
start_machine(struct pg_machines *x)
{
    struct fleet *f = &x->fleets[0];
    char seconds[16];

    (void)snprintf(seconds, sizeof seconds, "%ds",
                   TIMEOUT_S * (int)test_slow());
    fleet_put_option(f, "store.timeout", seconds);
    fleet_put_option(f, "read.http", "127.0.0.1:0");
    fleet_put_option(f, "resp.listen", "127.0.0.1:0");
    fleet_put_option(f, "resp.own_wait", "1m");
    fleet_put_option(f, "metrics.keyspaces", "*");
    service_start(f);
    service_add(f, "words", "the", 3);
    service_add(f, "words", "of", 2);
    service_add(f, "words", "a b", 1);
    pg_machines_add(f, "default", "hits", 7);
    return f;
}

/* ---- ports ---------------------------------------------------------------- */

static int
join_resp(struct fleet *f)
{
    return client_connect(daemon_port(fleet_daemon(f, FLEET_READ), "resp"));
}

/* Sends inline commands, and reads what is expected. */
static void
ask_resp(int fd, const char *commands, const char *expected)
{
    char read[1024];
    const size_t size = strlen(expected);

    assert_true(size < sizeof read);
    client_send(fd, commands, strlen(commands));
    read[client_read(fd, read, size)] = '\0';
    assert_string_equal(read, expected);
}

static void
ask_http(int fd, const char *target, int status, const char *has)
{
    answer_request(fd, "GET", target);
    answer_read(fd, &got);
    assert_int_equal(got.status, status);
    assert_has(got.body, has);
}

PG_MACHINES(every_port_reads_the_database, x)
{
    struct fleet *f = start_machine(x);
    struct client_rows rows;
    int range, http, redis;

    range = client_connect(fleet_read_port(f));
    client_range(range, "words", 0, 10, &rows);
    assert_int_equal(rows.rows, 3);
    assert_string_equal(rows.row[2].key, "a b");
    client_rows_free(&rows);

    http = answer_join(f);
    ask_http(http, "/v1/total?keyspace=words", 200, "\"total\": 6");
    ask_http(http, "/v1/get?keyspace=words&key=the&key=none&key=of", 200,
             "\"count\": 2, \"key\": \"of\"");
    ask_http(http, "/v1/rank?keyspace=words&key=of", 200, "\"rank\": 1");
    ask_http(http, "/v1/rank?keyspace=words&key=none", 404, "no-such-key");
    ask_http(http, "/v1/around?keyspace=words&key=of&n=1", 200, "\"of\"");
    ask_http(http, "/v1/top?keyspace=words&n=2", 200,
             "\"rank\": 1, \"count\": 2");
    ask_http(http, "/v1/top?keyspace=words&n=2&from=-1h", 200, "\"sum\": 2");
    ask_http(http, "/v1/history?keyspace=words&step=1h", 200, "\"sum\": 6");
    ask_http(http, "/v1/distinct?keyspace=words", 200, "\"keys\": 3");
    ask_http(http, "/v1/keys?keyspace=words&prefix=o", 200, "\"of\"");
    ask_http(http, "/v1/keyspaces", 200, "\"keys\": 3, \"total\": 6");
    ask_http(http, "/v1/range?keyspace=none&offset=0", 404, "no-such-keyspace");
    ask_http(http, "/metrics", 200, "keyspace=\"words\"} 6");
    ask_http(http, "/metrics/find?query=words.*", 200, "\"of\"");
    ask_http(http, "/render?target=words.the&from=-1h&format=json", 200,
             "words.the");
    ask_http(http, "/render?target=sumSeries(words.*)&from=-1h&format=json",
             200, "sumSeries");

    redis = join_resp(f);
    ask_resp(redis, "ZSCORE words the\r\n", "$1\r\n3\r\n");
    ask_resp(redis, "ZMSCORE words of none the\r\nPING\r\n",
             "*3\r\n$1\r\n2\r\n$-1\r\n$1\r\n3\r\n+PONG\r\n");
    ask_resp(redis, "ZREVRANGE words 0 1\r\n",
             "*2\r\n$3\r\nthe\r\n$2\r\nof\r\n");
    ask_resp(redis, "ZREVRANGE words@1h 0 0\r\n", "*1\r\n$3\r\nthe\r\n");
    ask_resp(redis, "ZRANK words the\r\n", ":2\r\n");
    ask_resp(redis, "TYPE words\r\nEXISTS words hits none\r\n",
             "+zset\r\n:2\r\n");
    ask_resp(redis, "DBSIZE\r\n", ":2\r\n");
    ask_resp(redis, "ZINCRBY words 4 the\r\nZINCRBY words 4 the\r\n",
             "$1\r\n7\r\n$2\r\n11\r\n");
    ask_resp(redis, "MULTI\r\nZSCORE words of\r\nINCR hits\r\nEXEC\r\n",
             "+OK\r\n+QUEUED\r\n+QUEUED\r\n*2\r\n$1\r\n2\r\n:8\r\n");
    ask_resp(redis, "ZSCORE words@1d the\r\n",
             "-ERR a period of a keyspace is only read by ZREVRANGE, or ZRANGE "
             "with REV\r\n");
    /* What a connection has counted is in what it reads. */
    ask_resp(redis, "ZINCRBY b 1 a\r\nZCARD b\r\nZINCRBY b 1 c\r\n",
             "$1\r\n1\r\n:1\r\n$1\r\n1\r\n");
    ask_resp(redis, "ZREVRANGE b 0 -1\r\n", "*2\r\n$1\r\na\r\n$1\r\nc\r\n");
    client_close(range);
    client_close(http);
    client_close(redis);
}

/* The reader does not wait for the database to say it. */
PG_MACHINES(why_fills_wait_is_not_guessed, x)
{
    struct fleet *f = &x->fleets[0];
    int http;

    fleet_put_option(f, "read.http", "127.0.0.1:0");
    fleet_put_option(f, "keyspace.max", "1");
    service_start(f);
    pg_machines_add(f, "words", "the", 3);
    service_add(f, "more", "the", 2);
    expect(FLEET_RUN(f, "flush"), CONFIG_EXIT_NEGATIVE, "countd held");
    expect(FLEET_RUN(f, "held"), CONFIG_EXIT_NEGATIVE, "over keyspace.max=1");

    http = answer_join(f);
    do { /* it looks at log/waiting/ now and then */
        answer_request(http, "GET", "/v1/held");
        answer_read(http, &got);
    } while (!strstr(got.body, "more"));
    assert_has(got.body, "\"why\": \"\", \"keyspace\": \"more\"");
    client_close(http);
}

/* ---- a database that is silent --------------------------------------------- */

/* How long the slowest of 100 requests that need no database takes at each
 * port, ms. */
static uint64_t
time_others(struct fleet *f)
{
    const int http = answer_join(f), redis = join_resp(f);
    uint64_t longest = 0, began_ms;

    for (int i = 0; i < 100; i++) {
        began_ms = clock_ms();
        ask_http(http, i % 2 == 0 ? "/healthz" : "/v1/status", 200, "");
        ask_resp(redis, "PING\r\n", "+PONG\r\n");
        client_close(client_connect(fleet_read_port(f)));
        if (clock_ms() - began_ms > longest)
            longest = clock_ms() - began_ms;
    }
    client_close(http);
    client_close(redis);
    return longest;
}

/* tests/crash/test_postgresql_outage has the answers of each port. */
PG_MACHINES(no_port_waits_for_a_database_that_is_silent, x)
{
    const uint64_t timeout_ms = 1000 * TIMEOUT_S * test_slow();
    struct fleet *f = start_machine(x);
    struct client_rows rows = {.rows = -1};
    int fds[ASKERS], range;
    uint64_t longest_ms;

    for (int i = 0; i < ASKERS; i++)
        fds[i] = join_resp(f);
    pg_server_hold(true);
    for (int i = 0; i < ASKERS; i++)
        client_send(fds[i], "ZSCORE words the\r\n", 18);
    longest_ms = time_others(f);
    for (int i = 0; i < ASKERS; i++) {
        ask_resp(fds[i], "", "-TRYAGAIN ");
        client_close(fds[i]);
    }
    pg_server_hold(false);
    if (longest_ms >= timeout_ms / 3 * 2) /* one that waits takes all of it */
        fail_msg("a request without a database took %llu ms",
                 (unsigned long long)longest_ms);
    while (rows.rows < 0) { /* threads connect again one after the other */
        range = client_connect(fleet_read_port(f));
        client_range(range, "words", 0, 1, &rows);
        client_close(range);
        client_rows_free(&rows);
    }

    /* A stop waits no longer than a call may take. */
    pg_server_hold(true);
    fds[0] = join_resp(f);
    client_send(fds[0], "ZSCORE words the\r\n", 18);
    ask_resp(fds[0], "", "-TRYAGAIN ");
    client_send(fds[0], "ZSCORE words of\r\n", 17);
    longest_ms = clock_ms();
    fleet_stop(f, FLEET_READ);
    longest_ms = clock_ms() - longest_ms;
    pg_server_hold(false);
    assert_true(longest_ms < 3 * timeout_ms);
    client_close(fds[0]);
}
