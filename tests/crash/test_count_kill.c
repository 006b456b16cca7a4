/* tests/crash/test_count_kill.c - countd-write is killed while clients count
 * over HTTP.  Each request is of one key, which no other has, on many lines:
 * an answered one is counted exactly, another by a beginning, none twice.
 */
#include "tests/lib/test.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/random.h"
#include "tests/lib/service.h"

#define CLIENTS      8
#define ROUNDS       20
#define REQUESTS_MAX 20000
#define LINES_MAX    100
#define MERGE_MS     30000
#define LIVES_MS     150 /* of a writer, at most, before it is killed */

struct sender {
    int fd;      /* -1: its connection broke */
    int request; /* that it waits for */
    char heard[1024];
    size_t size;
};

struct counting {
    struct fleet *f;
    struct sender senders[CLIENTS];
    int count;   /* of requests */
    int answers; /* of these */
    int lines[REQUESTS_MAX];
    bool answered[REQUESTS_MAX];
    struct random random;
};

static int
set_up(void **state)
{
    struct fleet *f;

    assert_int_equal(service_setup(state), 0);
    f = *state;
    fleet_option(f, "counter.enable=off");
    fleet_option(f, "http.listen=127.0.0.1:0");
    fleet_option(f, "log.size=128K"); /* requests go over the ends of logs */
    return 0;
}

static void
send_request(struct counting *c, struct sender *s)
{
    char request[256 + LINES_MAX * 24], body[LINES_MAX * 24];
    size_t size = 0;
    int n;

    assert_true(c->count < REQUESTS_MAX);
    s->request = c->count++;
    s->size = 0;
    c->lines[s->request] = 1 + (int)(random_below(&c->random, LINES_MAX));
    for (int i = 0; i < c->lines[s->request]; i++)
        size += (size_t)sprintf(body + size, "http\t%d\n", s->request);
    n = snprintf(request, sizeof request,
                 "POST /v1/count HTTP/1.1\r\nHost: localhost\r\n"
                 "Content-Type: text/tab-separated-values\r\n"
                 "Content-Length: %zu\r\n\r\n%s",
                 size, body);
    /* A broken connection shows when its answer is read. */
    (void)client_try_send(s->fd, request, (size_t)n);
}

/* Reads what has come; the next request when that is a whole answer. */
static void
take_answer(struct counting *c, struct sender *s)
{
    const long n = client_try_read(s->fd, s->heard + s->size,
                                   sizeof s->heard - 1 - s->size, 0);
    int counted;
    char *body;

    if (n == -EAGAIN)
        return;
    if (n <= 0) {
        client_close(s->fd);
        s->fd = -1;
        return;
    }
    s->size += (size_t)n;
    s->heard[s->size] = '\0';
    body = strstr(s->heard, "\r\n\r\n");
    if (body == NULL || strchr(body + 4, '\n') == NULL)
        return;
    assert_memory_equal(s->heard, "HTTP/1.1 200 OK\r\n", 17);
    assert_int_equal(sscanf(body + 4, "{\"counted\": %d,", &counted), 1);
    assert_int_equal(counted, c->lines[s->request]);
    c->answered[s->request] = true;
    c->answers++;
    send_request(c, s);
}

/* All count for a while, then the writer is killed, and what it had answered is
 * read. */
static void
count_until_killed(struct counting *c)
{
    const uint64_t life = random_below(&c->random, LIVES_MS);
    const uint64_t until = clock_ms() + life;
    struct pollfd p[CLIENTS];

    fleet_start(c->f, FLEET_WRITE);
    for (size_t i = 0; i < CLIENTS; i++) {
        struct sender *s = &c->senders[i];

        s->fd = client_connect(
            daemon_port(fleet_daemon(c->f, FLEET_WRITE), "http"));
        send_request(c, s);
    }
    /* On a slow machine the first writer lives until something is counted. */
    while (clock_ms() < until || c->answers == 0) {
        for (size_t i = 0; i < CLIENTS; i++)
            p[i] = (struct pollfd){.fd = c->senders[i].fd, .events = POLLIN};
        (void)poll(p, CLIENTS, 10); /* EINTR: go on */
        for (size_t i = 0; i < CLIENTS; i++)
            take_answer(c, &c->senders[i]);
    }
    daemon_kill(fleet_daemon(c->f, FLEET_WRITE));
    for (size_t i = 0; i < CLIENTS; i++) {
        struct sender *s = &c->senders[i];

        while (s->fd >= 0)
            take_answer(c, s);
    }
}

/* Compares what is readable with what was sent. */
static void
check_counts(struct counting *c)
{
    static int64_t got[REQUESTS_MAX];
    char *line = text;

    expect(FLEET_RUN(c->f, "export", "http"), 0, "");
    for (; *line != '\0'; line = strchr(line, '\n') + 1) {
        long long count;
        int request;

        assert_int_equal(sscanf(line, "http\t%d\t%lld", &request, &count), 2);
        assert_in_range(request, 0, c->count - 1);
        got[request] = count;
    }
    for (int i = 0; i < c->count; i++) {
        if (c->answered[i] ? got[i] != c->lines[i]
                           : got[i] < 0 || got[i] > c->lines[i])
            fail_msg("request %d of %d lines, %s: counted %lld", i, c->lines[i],
                     c->answered[i] ? "answered" : "not answered",
                     (long long)got[i]);
    }
    assert_true(c->answers > 0);
}

static void
what_was_answered_is_counted_exactly_through_kills(void **state)
{
    static struct counting c;

    c = (struct counting){.f = *state, .random = {random_seed(__func__)}};
    fleet_start(c.f, FLEET_WORKER);
    for (int i = 0; i < ROUNDS; i++)
        count_until_killed(&c);
    fleet_start(c.f, FLEET_WRITE); /* recovers what the last one left */
    fleet_stop(c.f, FLEET_WRITE);
    fleet_await_drained(c.f, MERGE_MS);
    fleet_start(c.f, FLEET_READ);
    check_counts(&c);
    fleet_stop_all(c.f);
    fleet_check(c.f);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(
        what_was_answered_is_counted_exactly_through_kills, set_up,
        service_teardown),
};
TEST_MAIN(tests)
