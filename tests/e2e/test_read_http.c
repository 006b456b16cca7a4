/* tests/e2e/test_read_http.c - connections to the HTTP port of the built
 * countd-read: places, waiting and the end.  read_http.txt has the answers. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "common/net/local.h"
#include "tests/lib/answer.h"
#include "tests/lib/client.h"
#include "tests/lib/service.h"

static struct answer got;

#define CASE(name, f)                                                          \
    TEST_SERVICE(name, f, "log.merge_share=0", "counter.enable=off",           \
                 "read.http=127.0.0.1:0")

/* Neither the port nor the socket of another listener has all places. */
CASE(idle_connections_of_one_port_leave_places_to_the_others, f)
{
    int fds[24];

    fleet_option(f, "read.max_connections=12");
    service_start(f);
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        assert_true((fds[i] = local_connect(f->path, "read")) >= 0);
    answer_shell(f, "curl -sSf --fail-early $U/healthz $U/metrics");
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++)
        client_close(fds[i]);
}

static int
join_from(struct fleet *f, const char *host)
{
    struct net_address a;
    char where[NET_ADDRESS_SIZE];
    int fd;

    snprintf(where, sizeof where, "127.0.0.1:%u",
             (unsigned)daemon_port(fleet_daemon(f, FLEET_READ), "read-http"));
    assert_rc(net_parse(where, &a), 0);
    fd = client_connect_from(host, &a);
    assert_true(fd >= 0);
    return fd;
}

/* The status of a question that waits for a second, from an address. */
static int
status_of_wait(struct fleet *f, const char *host)
{
    const int fd = join_from(f, host);

    answer_request(fd, "GET", "/v1/now?as_of=9999999999999&wait=1");
    answer_read(fd, &got);
    client_close(fd);
    return got.status;
}

/* One more of a host than may wait, each on a connection of its own; then of
 * another host, and of a third. */
CASE(only_so_many_wait, f)
{
    enum { MANY = 1024 };
    static int fds[MANY];
    const char *question = "/v1/now?as_of=9999999999999&wait=60";

    if (client_descriptors(MANY + 256) < MANY + 256)
        test_skip("fewer than 1280 descriptors allowed");
    service_start(f);
    for (int i = 0; i < MANY; i++) {
        const char *host = i < MANY / 2 ? "127.0.0.1" : "127.0.0.2";

        fds[i] = join_from(f, host);
        answer_request(fds[i], "GET", question);
        if (i % (MANY / 2) < MANY / 2 - 1)
            continue;
        while (status_of_wait(f, host) == 504)
            ; /* until all have arrived */
        assert_int_equal(got.status, 503);
        assert_has(got.head, "Retry-After: 1\r\n");
        assert_has(got.body, "\"too-many-waiting\"");
        assert_int_equal(status_of_wait(f, "127.0.0.3"),
                         i < MANY - 1 ? 504 : 503);
    }
    client_reset(fds[0]);
    while (status_of_wait(f, "127.0.0.1") == 503)
        ;
    assert_int_equal(got.status, 504);
    for (int i = 1; i < MANY; i++)
        client_close(fds[i]);
}

/* A request that waits is answered when the reader stops, and that is why. */
CASE(a_stop_answers_those_who_wait, f)
{
    static const char requests[] =
        "GET /v1/now HTTP/1.1\r\nHost: x\r\n\r\n"
        "GET /v1/now?as_of=9223372036854775807&wait=60 HTTP/1.1\r\n"
        "Host: x\r\n\r\n";
    int fd;

    service_start(f);
    fd = answer_join(f);
    client_send(fd, requests, sizeof requests - 1);
    answer_read(fd, &got); /* the other one waits now */
    assert_int_equal(got.status, 200);
    fleet_stop(f, FLEET_READ);
    answer_read(fd, &got);
    assert_int_equal(got.status, 503);
    assert_has(got.head, "\r\nRetry-After: 1\r\n");
    assert_has(got.body, "\"code\": \"stopping\"");
    client_close(fd);
}
