/* tests/crash/test_count_kill.c - daemons are killed while clients count over
 * HTTP.  Each request is of one key, which no other has, on many lines.  One
 * that was answered is counted exactly, one that was not by a beginning of its
 * lines; with an Idempotency-Key each it is sent again to the next
 * countd-write, and in the end all is answered, and counted exactly. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/crash/count_fixture.h"

#include <poll.h>

#include "common/base/clock.h"
#include "tests/lib/random.h"
#include "tests/lib/service.h"

#define CLIENTS      8
#define REQUESTS_MAX 20000
#define MERGE_MS     30000
#define LIVES_MS     150 /* of a writer, at most, before it is killed */

struct counting {
    struct fleet *f;
    struct sender senders[CLIENTS];
    int count;   /* of requests */
    int answers; /* of these */
    int lines[REQUESTS_MAX];
    bool answered[REQUESTS_MAX];
    bool keyed;
    unsigned replayed;
    bool ends; /* no new request is sent */
    struct random random;
};

static void
send_request(struct counting *c, struct sender *s)
{
    send_lines(s, s->request, c->lines[s->request], c->keyed);
}

static void
send_next(struct counting *c, struct sender *s)
{
    s->request = -1;
    if (c->ends || c->count == REQUESTS_MAX)
        return;
    s->request = c->count++;
    c->lines[s->request] = 1 + (int)(random_below(&c->random, LINES_MOST));
    send_request(c, s);
}

/* Reads what has come; the next request when that is a whole answer. */
static void
take_answer(struct counting *c, struct sender *s)
{
    const int rc = hear_answer(s);
    int counted;

    if (rc < 0) {
        client_close(s->fd);
        s->fd = -1;
    }
    if (rc <= 0)
        return;
    assert_int_equal(
        sscanf(strstr(s->heard, "\r\n\r\n") + 4, "{\"counted\": %d,", &counted),
        1);
    assert_int_equal(counted, c->lines[s->request]);
    c->answered[s->request] = true;
    c->answers++;
    c->replayed += strstr(s->heard, "Idempotency-Replayed: true") != NULL;
    send_next(c, s);
}

static void
start_writer(struct counting *c)
{
    fleet_start(c->f, FLEET_WRITE);
    for (size_t i = 0; i < CLIENTS; i++) {
        struct sender *s = &c->senders[i];

        s->fd = fleet_http(c->f);
        if (c->keyed && s->request >= 0)
            send_request(c, s);
        else
            send_next(c, s);
    }
}

/* Whether a client still waits, and its connection stands. */
static bool
wait_for_answers(struct counting *c)
{
    struct pollfd p[CLIENTS];
    bool any = false;

    for (size_t i = 0; i < CLIENTS; i++) {
        p[i] = (struct pollfd){.fd = c->senders[i].fd, .events = POLLIN};
        any |= c->senders[i].fd >= 0 && c->senders[i].request >= 0;
    }
    (void)poll(p, CLIENTS, 10); /* EINTR: go on */
    for (size_t i = 0; i < CLIENTS; i++)
        if (c->senders[i].fd >= 0)
            take_answer(c, &c->senders[i]);
    return any;
}

static void
close_senders(struct counting *c)
{
    for (size_t i = 0; i < CLIENTS; i++) {
        struct sender *s = &c->senders[i];

        while (!c->keyed && s->fd >= 0)
            take_answer(c, s);
        if (s->fd >= 0)
            client_close(s->fd);
        s->fd = -1;
    }
}

/* All count for a while, then the writer is killed.  Its answers are read;
 * with keys they are lost on its way and sent again, too, and at times the
 * worker is killed, which may be recovering a log. */
static void
count_until_killed(struct counting *c)
{
    const uint64_t until = clock_ms() + random_below(&c->random, LIVES_MS);

    start_writer(c);
    /* On a slow machine the first writer lives until something is counted. */
    while (clock_ms() < until || c->answers == 0)
        (void)wait_for_answers(c);
    daemon_kill(fleet_daemon(c->f, FLEET_WRITE));
    if (c->keyed && random_below(&c->random, 3) == 0) {
        daemon_kill(fleet_daemon(c->f, FLEET_WORKER));
        fleet_start(c->f, FLEET_WORKER);
    }
    close_senders(c);
}

/* Compares what is readable with what was sent. */
static void
check_counts(struct counting *c)
{
    static int64_t got[REQUESTS_MAX];

    read_counts(c->f, got, c->count);
    for (int i = 0; i < c->count; i++)
        if (c->answered[i] ? got[i] != c->lines[i]
                           : c->keyed || got[i] < 0 || got[i] > c->lines[i])
            fail_msg("request %d of %d lines, %s: counted %lld", i, c->lines[i],
                     c->answered[i] ? "answered" : "not answered",
                     (long long)got[i]);
    assert_true(c->answers > 0);
}

static struct counting *
begin_counting(struct fleet *f, bool keyed, int rounds)
{
    static struct counting c;

    c = (struct counting){
        .f = f, .keyed = keyed, .random = {random_seed(__func__)}};
    for (size_t i = 0; i < CLIENTS; i++)
        c.senders[i] = (struct sender){.fd = -1, .request = -1};
    fleet_start(f, FLEET_WORKER);
    for (int i = 0; i < rounds; i++)
        count_until_killed(&c);
    return &c;
}

static void
finish_counting(struct counting *c)
{
    fleet_stop(c->f, FLEET_WRITE);
    fleet_await_drained(c->f, MERGE_MS);
    fleet_start(c->f, FLEET_READ);
    check_counts(c);
    fleet_stop_all(c->f);
    fleet_check(c->f);
}

/* 225 slots: they are sealed often */
#define CASE(name, f)                                                          \
    TEST_SERVICE(name, f, "counter.enable=off", "http.listen=127.0.0.1:0",     \
                 "log.size=128K", "count.wait=30s")

CASE(what_was_answered_is_counted_exactly_through_kills, f)
{
    struct counting *c = begin_counting(f, false, 20);

    fleet_start(f, FLEET_WRITE); /* recovers what the last one left */
    finish_counting(c);
}

CASE(what_is_sent_until_it_is_answered_counts_exactly_once_through_kills, f)
{
    struct counting *c = begin_counting(f, true, 30);

    c->ends = true;
    start_writer(c);
    while (wait_for_answers(c))
        continue;
    close_senders(c);
    finish_counting(c);
    assert_true(c->replayed > 0);
}
