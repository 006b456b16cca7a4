/* tests/e2e/test_upgrade.c - each daemon of `countd serve` is started again ten
 * times while clients count: no increment is lost, counted twice or refused;
 * upgrade.txt has the clients that people have.
 *
 * A client sends again what was not answered only where its connection ended in
 * order, and then everything that had been taken was answered; an answer that
 * is an error, a reset and a refused connection end it.  A client of HTTP cannot
 * know that an end is in order, and meets none while it is quick. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/net/conn.h"
#include "common/net/local.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/serve_fixture.h"

#define ROUNDS     10
#define DATAGRAMS  50
#define ANSWER_MS  20000
#define OUTPUT_MAX ((size_t)256 << 10)

enum kind { RAW, HTTP, HTTP_ONCE, RESP };

static struct client {
    const char *key;
    enum kind kind;
    const char *port; /* by its ready line; NULL: the directory's socket */
    uint16_t at;
    const char *data;
    pthread_t thread;
    uint64_t used_ms; /* clock: the connection was made, or sent to */
    atomic_uint counted;
    atomic_bool ends;
    char fault[256]; /* empty: none; read once it has ended */
} clients[] = {
    {.key = "raw", .kind = RAW, .port = "ack"},
    {.key = "local", .kind = RAW},
    {.key = "http", .kind = HTTP, .port = "http"},
    {.key = "http-once", .kind = HTTP_ONCE, .port = "http"},
    {.key = "resp", .kind = RESP, .port = "resp"},
};

#define CLIENTS (sizeof clients / sizeof clients[0])

/* ---- clients ------------------------------------------------------------- */

static int
connect_client(const struct client *c)
{
    return c->port ? client_try_connect(c->at)
                   : local_connect(c->data, LOCAL_ACK);
}

static size_t
put_request(const struct client *c, char *bytes, size_t size)
{
    char body[80];
    int n;

    if (c->kind == RAW) {
        client_message((uint8_t *)bytes, "up", c->key, 1);
        return CLIENT_MESSAGE_SIZE;
    }
    n = snprintf(body, sizeof body, "{\"keyspace\":\"up\",\"key\":\"%s\"}",
                 c->key);
    if (c->kind == RESP)
        n = snprintf(bytes, size, "HINCRBY up %s 1\r\n", c->key);
    else
        n = snprintf(bytes, size,
                     "POST /v1/count HTTP/1.1\r\nHost: localhost\r\n%s"
                     "Content-Type: application/json\r\n"
                     "Content-Length: %d\r\n\r\n%s",
                     c->kind == HTTP ? "" : "Connection: close\r\n", n, body);
    return (size_t)n;
}

static bool
is_whole(const struct client *c, const char *answer)
{
    if (c->kind == RAW)
        return strlen(answer) >= 3;
    return strstr(answer, c->kind == RESP ? "\r\n" : "}\n") != NULL;
}

static bool
is_good(const struct client *c, const char *answer)
{
    static const char *const begins[] = {[RAW] = "WIN",
                                         [HTTP] = "HTTP/1.1 200",
                                         [HTTP_ONCE] = "HTTP/1.1 200",
                                         [RESP] = ":"};

    return strncmp(answer, begins[c->kind], strlen(begins[c->kind])) == 0;
}

/* Sends one and reads its answer.  1: it is counted; 0: it was not taken, since
 * the connection had ended; or a negative errno. */
static int
exchange_request(struct client *c, int fd, char *answer, size_t size)
{
    char request[1024];
    const size_t request_size = put_request(c, request, sizeof request);
    const uint64_t used_ms = c->used_ms;
    size_t at = 0;
    bool late;
    int sent;
    long n;

    c->used_ms = clock_ms();
    sent = client_try_send(fd, request, request_size);
    late = clock_ms() - used_ms >= CONN_LAST_MS;
    answer[0] = '\0';
    while (!is_whole(c, answer)) {
        n = client_try_read(fd, answer + at, size - 1 - at,
                            ANSWER_MS * (int)test_slow());
        if (n == 0 && at == 0 && (c->kind == RAW || c->kind == RESP))
            return 0;
        if (n <= 0 && at == 0 && late)
            return 0;
        if (n <= 0)
            return n == 0 ? -EPIPE : (int)n;
        at += (size_t)n;
        answer[at] = '\0';
    }
    return sent < 0 ? sent : 1;
}

static void *
run_client(void *arg)
{
    struct client *c = arg;
    char answer[2048];
    int fd = -1, rc;

    while (!c->ends && c->fault[0] == '\0') {
        if (fd < 0) {
            c->used_ms = clock_ms();
            fd = connect_client(c);
        }
        if (fd < 0) {
            (void)snprintf(c->fault, sizeof c->fault, "connect: %s",
                           strerror(-fd));
            break;
        }
        rc = exchange_request(c, fd, answer, sizeof answer);
        if (rc < 0)
            (void)snprintf(c->fault, sizeof c->fault, "after %u: %s",
                           c->counted, strerror(-rc));
        else if (rc > 0 && !is_good(c, answer))
            (void)snprintf(c->fault, sizeof c->fault, "%.200s", answer);
        else
            c->counted += rc > 0;
        if (rc <= 0 || c->kind == HTTP_ONCE ||
            strstr(answer, "Connection: close\r\n") != NULL) {
            (void)close(fd);
            fd = -1;
        }
    }
    if (fd >= 0)
        (void)close(fd);
    return NULL;
}

/* ---- the service --------------------------------------------------------- */

static void
serve_site(struct serve_fixture *s)
{
    daemon_start(&s->serve, "countd", "serve", "-d", s->data, "-o",
                 "log.size=64K", "-o", "write.listen=", "-o",
                 "write.ack_listen=127.0.0.1:0", "-o", "read.listen=", "-o",
                 "read.http=127.0.0.1:0", "-o", "http.listen=127.0.0.1:0", "-o",
                 "resp.listen=127.0.0.1:0", "-o", "statsd.listen=127.0.0.1:0",
                 "-o", "counter.enable=false");
    (void)snprintf(s->read, sizeof s->read, "read.http=127.0.0.1:%u",
                   daemon_port(&s->serve, "read-http"));
}

static void
begin_clients(const struct serve_fixture *s)
{
    for (size_t i = 0; i < CLIENTS; i++) {
        struct client *c = &clients[i];

        c->data = s->data;
        c->at = c->port ? daemon_port(&s->serve, c->port) : 0;
        assert_int_equal(pthread_create(&c->thread, NULL, run_client, c), 0);
    }
}

/* A number of datagrams that a socket's buffer keeps. */
static unsigned
say_datagrams(const struct serve_fixture *s)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port =
                                       htons(daemon_port(&s->serve, "statsd")),
                                   .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    for (int i = 0; i < DATAGRAMS; i++)
        assert_int_equal(sendto(fd, "udp:1|c", 7, 0,
                                (const struct sockaddr *)&to, sizeof to),
                         7);
    assert_int_equal(close(fd), 0);
    return DATAGRAMS;
}

/* What serve has printed has these words for the nth time; the line's end. */
static const char *
find_nth(const struct serve_fixture *s, const char *words, unsigned nth)
{
    static char said[OUTPUT_MAX];
    const char *at = said;

    (void)daemon_output(&s->serve, said, sizeof said);
    for (; at && nth > 0; nth--) {
        at = strstr(at, words);
        at = at ? at + strlen(words) : NULL;
    }
    return at;
}

/* The next process of a daemon: its process id. */
static pid_t
await_next(const struct serve_fixture *s, const char *program, unsigned round)
{
    const uint64_t until_ms = test_deadline(ANSWER_MS);
    char words[64];
    const char *at;

    (void)snprintf(words, sizeof words, "%s serves again pid=", program);
    while (!(at = find_nth(s, words, round)) || !strchr(at, '\n')) {
        if (clock_ms() > until_ms)
            fail_msg("%s does not serve again", program);
        (void)poll(NULL, 0, 5); /* paces the looking */
    }
    return (pid_t)strtol(at, NULL, 10);
}

/* Until every client has counted once more, or has ended. */
static void
await_clients(void)
{
    const uint64_t until_ms = test_deadline(ANSWER_MS);
    unsigned before[CLIENTS];

    for (size_t i = 0; i < CLIENTS; i++)
        before[i] = clients[i].counted;
    for (size_t i = 0; i < CLIENTS; i++)
        while (clients[i].counted == before[i] && clock_ms() < until_ms &&
               clients[i].fault[0] == '\0')
            (void)poll(NULL, 0, 1);
}

static void
end_clients(void)
{
    for (size_t i = 0; i < CLIENTS; i++)
        clients[i].ends = true;
    for (size_t i = 0; i < CLIENTS; i++) {
        assert_int_equal(pthread_join(clients[i].thread, NULL), 0);
        if (clients[i].fault[0] != '\0')
            fail_msg("%s: %s", clients[i].key, clients[i].fault);
    }
}

static void
expect_sum(const struct serve_fixture *s, const char *keyspace, const char *key,
           unsigned sum)
{
    char want[32];

    (void)snprintf(want, sizeof want, "%u\n", sum);
    expect_text(RUN(s, "get", keyspace, key), 0, want);
}

/* They are not acknowledged: until those still in the socket are counted. */
static void
expect_datagrams(const struct serve_fixture *s, unsigned sum)
{
    const uint64_t until_ms = test_deadline(ANSWER_MS);

    do {
        expect_text(RUN(s, "flush"), 0, "");
        (void)RUN(s, "get", "statsd", "udp");
    } while (strtoul(text, NULL, 10) < sum && clock_ms() < until_ms);
    expect_sum(s, "statsd", "udp", sum);
}

WITH_EMPTY(ten_upgrades_of_each_daemon_lose_double_and_refuse_nothing, s)
{
    static const char *const programs[] = {"countd-write", "countd-worker",
                                           "countd-read"};
    unsigned datagrams = 0;

    serve_site(s);
    begin_clients(s);
    serve_fixture_find_children(s);
    for (unsigned round = 1; round <= ROUNDS; round++)
        for (size_t i = 0; i < SITE_DAEMONS; i++) {
            await_clients();
            assert_int_equal(kill(s->children[i], SIGTERM), 0);
            datagrams += say_datagrams(s);
            s->children[i] = await_next(s, programs[i], round);
            datagrams += say_datagrams(s);
        }
    end_clients();

    expect_text(RUN(s, "flush"), 0, "");
    for (size_t i = 0; i < CLIENTS; i++)
        expect_sum(s, "up", clients[i].key, clients[i].counted);
    expect_datagrams(s, datagrams);
}
