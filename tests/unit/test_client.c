/* tests/unit/test_client.c - libcountd against a server that misbehaves on
 * command.
 *
 * The server is a thread of this test: `serve` is called for each connection
 * in turn and does by hand what the case is about. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/version.h"
#include "common/client/cmd/cmd.h"
#include "common/client/lib/countd.h"
#include "common/wire/first_bytes.h"
#include "common/wire/message.h"
#include "tests/lib/daemon.h"
#include "tests/lib/fault.h"
#include "tests/lib/hand.h"

#define MESSAGE_SIZE 520
#define FLUSH_MS     20000

struct server {
    struct hand hand;
    uint64_t received; /* whole messages */
    int64_t sum;
    uint64_t times;  /* whole time messages */
    uint32_t minute; /* of the last one on this connection */
    uint64_t wrong;  /* increments that are not of the minute they are of */
    pthread_mutex_t lock;   /* of what follows */
    int status;             /* of the document */
    char document[8192];    /* that answers each question */
    bool has_more;          /* the first one of them */
    bool goes;              /* it is of what is not there from then on */
    char question[1 << 16]; /* the last one's head */
    atomic_bool enough;     /* a thread of the test may end */
    atomic_int finished;    /* threads that have counted all of theirs */
    struct countd *c;
};

/* ---- the server -------------------------------------------------------- */

/* Takes one message, if one comes. */
static bool
take_message(struct server *s, int fd)
{
    uint8_t bytes[MESSAGE_SIZE];
    struct layout l;
    struct message m;

    if (hand_get(fd, bytes, sizeof bytes) < sizeof bytes)
        return false;
    if (layout_init(&l, 256, 256) < 0)
        abort();
    if (message_is_time(&l, bytes, &s->minute)) {
        s->times++;
        return true;
    }
    if (message_parse(&l, bytes, &m) < 0)
        abort();
    s->wrong += m.key[0] == 't' && m.increment != s->minute;
    s->received++;
    s->sum =
        (int64_t)((uint64_t)s->sum + (uint64_t)m.increment); /* it may wrap */
    return true;
}

static void
acknowledge_all(struct server *s, int fd)
{
    while (take_message(s, fd))
        (void)hand_put(fd, "WIN", 3);
}

static void
take_all_silently(struct server *s, int fd)
{
    while (take_message(s, fd))
        continue;
}

/* ---- fixture ----------------------------------------------------------- */

static void
open_client_as(struct server *s, struct countd_options o)
{
    o.size = sizeof o;
    o.write = o.read = s->hand.address;
    o.connect_timeout_ms = 20000;
    assert_rc(countd_open(&s->c, &o), 0);
}

/* With these options. */
#define OPEN_CLIENT(s, ...)                                                    \
    open_client_as(s, (struct countd_options){__VA_ARGS__})

static void
open_client(struct server *s)
{
    OPEN_CLIENT(s, .silent = 0);
}

/* A server and its client. */
static void
begin_client(struct server *s, unsigned connections,
             void (*serve)(struct server *, int))
{
    hand_start(&s->hand, connections, serve);
    open_client(s);
}

static void
close_client(struct server *s)
{
    countd_close(s->c);
    s->c = NULL;
    hand_join(&s->hand);
}

static void
finish_client(struct server *s, int wanted)
{
    assert_rc(countd_finish(s->c, FLUSH_MS), wanted);
    s->c = NULL;
    hand_join(&s->hand);
}

static void
set_up(struct server *s)
{
    *s = (struct server){.c = NULL};
    hand_init(&s->hand);
}

static void
tear_down(struct server *s)
{
    fault_clear();
    countd_close(s->c);
    hand_fini(&s->hand);
}

#define CASE(name, s) TEST_WITH(name, struct server, s, set_up, tear_down)

static int
incr_key(struct server *s, const char *key, int64_t increment)
{
    return countd_incr(s->c, countd_name("pages"), countd_name(key), increment);
}

static void
incr_times(struct server *s, int times)
{
    for (int i = 0; i < times; i++)
        assert_rc(incr_key(s, "k", 1), 0);
}

/* An increment that says of which minute it is; the server looks. */
static int
incr_at(struct server *s, uint32_t minute)
{
    return countd_incr_at(s->c, countd_name("s"), countd_name("t"), minute,
                          (int64_t)minute * 60 + 59);
}

/* Waits for a thread that returns `s`, or NULL when it has failed. */
static void
join_thread(struct server *s, pthread_t thread)
{
    void *rc;

    assert_rc(pthread_join(thread, &rc), 0);
    assert_ptr_equal(rc, s);
}

/* ---- increments -------------------------------------------------------- */

static void
take_one_by_hand(struct server *s, int fd)
{
    uint8_t bytes[MESSAGE_SIZE],
        want[MESSAGE_SIZE] = {0xd1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

    memcpy(want + 8, "pages", 5);
    memcpy(want + 264, "/index", 6);
    if (hand_get(fd, bytes, sizeof bytes) == sizeof bytes &&
        memcmp(bytes, want, sizeof want) == 0)
        s->received++;
    (void)hand_put(fd, "WIN", 3);
}

CASE(an_increment_goes_out_as_520_bytes, s)
{
    begin_client(s, 1, take_one_by_hand);

    assert_rc(incr_key(s, "/index", -47), 0);
    assert_rc(countd_sync(s->c, FLUSH_MS), 0);

    hand_join(&s->hand);
    assert_int_equal(s->received, 1);
}

CASE(nothing_is_connected_before_something_is_sent, s)
{
    struct pollfd p = {.fd = s->hand.listen_fd, .events = POLLIN};

    open_client(s);
    incr_times(s, 1);
    assert_int_equal(poll(&p, 1, 0), 0);

    assert_int_equal(countd_poll(s->c), 1);

    assert_int_equal(poll(&p, 1, 20000), 1);
}

static void
refuse_browsers(struct server *s, int fd)
{
    uint8_t bytes[MESSAGE_SIZE];

    while (hand_get(fd, bytes, sizeof bytes) == sizeof bytes) {
        if (first_bytes_browser(bytes) != NULL)
            abort();
        s->received++;
        s->sum += get_le64s(bytes);
        (void)hand_put(fd, "WIN", 3);
    }
}

/* "GET / HT" is a number that a server refuses at the beginning. */
CASE(an_increment_like_a_request_line_goes_out_in_two_parts, s)
{
    const int64_t number = get_le64s((const uint8_t *)"GET / HT");

    begin_client(s, 1, refuse_browsers);
    assert_rc(incr_key(s, "key", number), 0);
    assert_rc(countd_sync(s->c, FLUSH_MS), 0);
    close_client(s);
    assert_int_equal(s->received, 2);
    assert_true(s->sum == number);
}

static void
wait_then_acknowledge(struct server *s, int fd)
{
    hand_await(&s->hand);
    acknowledge_all(s, fd);
}

CASE(a_server_that_takes_nothing_never_blocks_a_nonblocking_increment, s)
{
    int64_t taken = 0;

    hand_start(&s->hand, 1, wait_then_acknowledge);
    OPEN_CLIENT(s, .buffer_size = 10 * MESSAGE_SIZE, .nonblocking = 1);
    while (incr_key(s, "k", 1) == 0 && taken < 1000000)
        taken++;

    assert_true(taken > 10 && taken < 1000000);
    assert_rc(incr_key(s, "k", 1), -EAGAIN);
    assert_rc(countd_sync(s->c, 10), -ETIMEDOUT);

    hand_let_go(&s->hand);
    assert_rc(countd_sync(s->c, FLUSH_MS), 0);
    finish_client(s, -EAGAIN);
    assert_int_equal(s->sum, taken);
    assert_int_equal(s->received, taken);
}

/* Sends more than all buffers hold; ctx when nothing was refused. */
static void *
increment_100000_times(void *ctx)
{
    struct server *s = ctx;

    for (int i = 0; i < 100000; i++)
        if (incr_key(s, "k", 1) < 0)
            return NULL;
    atomic_fetch_add(&s->finished, 1);
    return ctx;
}

CASE(an_increment_waits_while_the_buffer_is_full, s)
{
    pthread_t threads[3];

    hand_start(&s->hand, 1, wait_then_acknowledge);
    OPEN_CLIENT(s, .buffer_size = 10 * MESSAGE_SIZE);
    assert_rc(incr_key(s, "k", 1),
              0); /* one waits, however late the threads are */
    for (int i = 0; i < 3; i++)
        assert_rc(pthread_create(&threads[i], NULL, increment_100000_times, s),
                  0);
    assert_rc(countd_sync(s->c, 50), -ETIMEDOUT);
    assert_int_equal(atomic_load(&s->finished), 0);

    hand_let_go(&s->hand);

    for (int i = 0; i < 3; i++)
        join_thread(s, threads[i]);
    finish_client(s, 0);
    assert_int_equal(s->received, 300001);
}

CASE(finishing_reports_an_increment_that_was_refused, s)
{
    char name[257];

    memset(name, 'n', sizeof name);
    begin_client(s, 2, acknowledge_all);
    incr_times(s, 1);
    assert_rc(countd_incr(s->c, countd_bytes(name, 257), countd_name("k"), 1),
              -ENAMETOOLONG);
    assert_rc(incr_key(s, "", 1), -EINVAL);
    assert_rc(countd_sync(s->c, FLUSH_MS), 0);
    assert_rc(countd_finish(s->c, FLUSH_MS), -ENAMETOOLONG);

    open_client(s);
    assert_rc(incr_key(s, "", 1), -EINVAL);
    assert_rc(incr_key(s, "", 1), -EINVAL);
    assert_int_equal(countd_refused(s->c), 2);
    assert_int_equal(countd_refused(s->c), 0);
    incr_times(s, 1);
    finish_client(s, 0);
    assert_int_equal(s->received, 2);
}

CASE(a_server_that_never_answers_times_out, s)
{
    const uint64_t before = clock_ms();

    begin_client(s, 1, take_all_silently);
    incr_times(s, 1);

    assert_rc(countd_sync(s->c, 0), -ETIMEDOUT);
    assert_rc(countd_sync(s->c, 50), -ETIMEDOUT);

    assert_true(clock_ms() - before >= 50);
    assert_int_equal(countd_poll(s->c), 1);
    assert_int_equal(countd_lost(s->c), 0);
}

/* What the server takes and answers on its nth connection, which it then ends
 * or leaves to the client to end; and what becomes of the increments. */
static const struct breach {
    int sent, timed; /* increments without and with a time */
    int taken;       /* messages */
    const char *answer;
    bool ends;
    int rc;
    unsigned least, most; /* that are lost, as the bytes come */
} breaches[] = {
    {5, 0, 5, "WINWINWINWI", true, -ENOTCONN, 2, 2},
    {10, 0, 3, "WINWINFAIL", false, -EBADMSG, 8, 8},
    {1, 0, 1, "WIX", false, -EPROTO, 1, 1},
    {1, 0, 1, "WINW", false, -EPROTO, 0, 1},
    {1, 0, 1, "FAIX", false, -EPROTO, 1, 1},
    /* An older server, which takes no times. */
    {2, 3, 3, "WINWINFAIL", false, -EPROTONOSUPPORT, 3, 3},
};
#define BREACHES (sizeof breaches / sizeof breaches[0])

static void
answer_as_listed(struct server *s, int fd)
{
    const struct breach *b = &breaches[s->hand.number];

    if (s->hand.number >= BREACHES) {
        acknowledge_all(s, fd);
        return;
    }
    for (int i = 0; i < b->taken; i++)
        (void)take_message(s, fd);
    for (const char *at = b->answer; *at != '\0'; at++)
        (void)hand_put(fd, at, 1);
    if (!b->ends) /* its unread bytes would reset the answer */
        take_all_silently(s, fd);
}

CASE(a_connection_that_ends_loses_what_was_not_acknowledged, s)
{
    begin_client(s, BREACHES + 1, answer_as_listed);
    for (size_t i = 0; i < BREACHES; i++) {
        const struct breach *b = &breaches[i];
        int rc;

        incr_times(s, b->sent);
        for (int n = 0; n < b->timed; n++)
            assert_rc(incr_at(s, 9), 0);
        rc = countd_sync(s->c, FLUSH_MS);
        while (rc == 0) /* the byte too many has not come yet */
            rc = (int)countd_poll(s->c);
        assert_rc(rc, b->rc);
        assert_in_range(countd_lost(s->c), b->least, b->most);
        assert_int_equal(countd_lost(s->c), 0);
        assert_int_equal(countd_poll(s->c), 0);
    }
    incr_times(s, 1);
    finish_client(s, 0);
}

CASE(a_loss_that_poll_met_is_told_by_sync, s)
{
    const uint64_t deadline = test_deadline(FLUSH_MS);
    int64_t left = 1;

    begin_client(s, 1, answer_as_listed);
    incr_times(s, 5);
    while (left > 0 && clock_ms() < deadline)
        left = countd_poll(s->c);
    assert_rc(left, -ENOTCONN);

    assert_rc(countd_sync(s->c, FLUSH_MS), -ENOTCONN);
    assert_rc(countd_sync(s->c, FLUSH_MS), 0);

    assert_int_equal(countd_lost(s->c), 2);
}

CASE(without_a_server_increments_wait, s)
{
    open_client(s);
    hand_close(&s->hand);
    assert_rc(incr_key(s, "k", 7), 0);
    assert_rc(countd_sync(s->c, FLUSH_MS), -ECONNREFUSED);
    assert_rc(countd_poll(s->c), -ECONNREFUSED);
    assert_int_equal(countd_lost(s->c), 0);

    hand_listen(&s->hand, s->hand.port);
    hand_start(&s->hand, 1, acknowledge_all);

    assert_rc(countd_sync(s->c, FLUSH_MS), 0);
    assert_int_equal(s->sum, 7);
}

CASE(a_silent_flush_waits_for_no_answer, s)
{
    hand_start(&s->hand, 1, take_all_silently);
    OPEN_CLIENT(s, .silent = 1);
    for (int i = 0; i < 1000; i++)
        while (incr_key(s, "k", 2) == -EAGAIN)
            assert_true(countd_poll(s->c) >= 0);

    assert_rc(countd_sync(s->c, FLUSH_MS), 0);

    close_client(s);
    assert_int_equal(s->received, 1000);
    assert_int_equal(s->sum, 2000);
}

/* Has the end of the connection lose what is under way. */
static void
reset_when_told(struct server *s, int fd)
{
    const struct linger reset = {.l_onoff = 1};

    hand_await(&s->hand);
    /* Cannot fail for a socket. */
    (void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
}

static void
reset_the_first_silently(struct server *s, int fd)
{
    if (s->hand.number == 0)
        reset_when_told(s, fd);
    else
        take_all_silently(s, fd);
}

CASE(a_silent_loss_is_what_the_peer_had_not_confirmed, s)
{
    int64_t put_in = 0;
    uint64_t lost;

    hand_start(&s->hand, 2, reset_the_first_silently);
    OPEN_CLIENT(s, .silent = 1, .buffer_size = 1000 * MESSAGE_SIZE,
                .nonblocking = 1);
    while (incr_key(s, "k", 1) == 0)
        put_in++;
    hand_let_go(&s->hand);
    assert_rc(countd_sync(s->c, FLUSH_MS), -ENOTCONN);
    lost = countd_lost(s->c);
    assert_rc(countd_sync(s->c, FLUSH_MS), 0);

    close_client(s);
    assert_true(s->received >= 1000);
    assert_true(lost > 0 && lost + s->received <= (uint64_t)put_in);
}

CASE(names_are_checked_before_anything_is_buffered, s)
{
    char name[257];

    memset(name, 'x', sizeof name);
    open_client(s);

    assert_rc(countd_incr(s->c, countd_name(""), countd_name("k"), 1), -EINVAL);
    assert_rc(countd_incr(s->c, countd_name("n"), countd_name(""), 1), -EINVAL);
    assert_rc(countd_incr(s->c, countd_bytes("a\0b", 3), countd_name("k"), 1),
              -EINVAL);
    assert_rc(countd_incr(s->c, countd_name("n"), countd_bytes("a\0b", 3), 1),
              -EINVAL);
    assert_rc(countd_incr(s->c, countd_bytes(name, 257), countd_name("k"), 1),
              -ENAMETOOLONG);
    assert_rc(countd_incr(s->c, countd_name("n"), countd_bytes(name, 257), 1),
              -ENAMETOOLONG);

    assert_int_equal(countd_poll(s->c), 0);
    assert_rc(
        countd_incr(s->c, countd_bytes(name, 256), countd_bytes(name, 256), 1),
        0);
}

static void *
poll_often(void *ctx)
{
    struct server *s = ctx;

    while (!atomic_load(&s->enough))
        if (countd_poll(s->c) < 0)
            return NULL;
    return ctx;
}

CASE(a_flush_ends_though_another_thread_takes_the_answers, s)
{
    pthread_t thread;
    int failed = 0;

    begin_client(s, 1, acknowledge_all);
    assert_rc(pthread_create(&thread, NULL, poll_often, s), 0);

    for (int i = 0; i < 2000 && failed == 0; i++) {
        failed = incr_key(s, "k", 1);
        if (failed == 0)
            failed = countd_sync(s->c, FLUSH_MS);
    }

    atomic_store(&s->enough, true);
    join_thread(s, thread);
    assert_rc(failed, 0);
}

static void *
flush_long(void *ctx)
{
    struct server *s = ctx;

    return countd_sync(s->c, FLUSH_MS) == -ENOTCONN ? ctx : NULL;
}

static void
hold_then_close(struct server *s, int fd)
{
    (void)take_message(s, fd);
    hand_await(&s->hand);
}

CASE(while_a_thread_syncs_others_count_and_cannot_sync, s)
{
    uint64_t unsent, unanswered;
    pthread_t thread;

    begin_client(s, 1, hold_then_close);
    incr_times(s, 1);
    assert_rc(pthread_create(&thread, NULL, flush_long, s), 0);
    /* Only that thread sends it, and the answer does not come until we say. */
    do
        countd_pending(s->c, &unsent, &unanswered);
    while (unsent > 0);
    assert_rc(countd_sync(s->c, 0), -EBUSY);
    incr_times(s, 100);

    hand_let_go(&s->hand);
    join_thread(s, thread);
}

/* ---- closing, polling, summing ----------------------------------------- */

CASE(closing_tells_what_went_with_the_handle, s)
{
    begin_client(s, 1, acknowledge_all);
    incr_times(s, 3);
    assert_int_equal(countd_close(s->c), 3);
    open_client(s);
    incr_times(s, 5);
    finish_client(s, 0);
    assert_int_equal(s->received, 5);
    assert_int_equal(countd_close(NULL), 0);
}

/* As an event loop does it: it never calls anything but poll() and ours. */
CASE(a_descriptor_tells_when_to_go_on, s)
{
    struct pollfd p = {.events = POLLIN};
    int64_t left;

    hand_start(&s->hand, 1, acknowledge_all);
    OPEN_CLIENT(s, .buffer_size = 8 * 520, .nonblocking = 1);
    p.fd = countd_fd(s->c);
    assert_true(p.fd >= 0);
    assert_int_equal(poll(&p, 1, 0), 0);
    for (int i = 0; i < 1000; i++) {
        while (incr_key(s, "k", 1) == -EAGAIN) {
            assert_true(countd_poll(s->c) > 0);
            assert_int_equal(poll(&p, 1, FLUSH_MS), 1);
        }
    }
    while ((left = countd_poll(s->c)) > 0)
        assert_int_equal(poll(&p, 1, FLUSH_MS), 1);
    assert_int_equal(left, 0);
    assert_int_equal(poll(&p, 1, 0), 0); /* nothing to do: it is quiet */
    assert_int_equal(countd_fd(s->c), p.fd);
    assert_int_equal(countd_close(s->c), 0);
    s->c = NULL;
    hand_join(&s->hand);
    assert_int_equal(s->received, 1000);
}

CASE(increments_of_a_key_leave_as_their_sum_when_that_is_wanted, s)
{
    uint64_t unsent, unanswered;

    hand_start(&s->hand, 1, acknowledge_all);
    OPEN_CLIENT(s, .sum = 1);
    for (int i = 0; i < 1000; i++) {
        assert_rc(incr_key(s, "a", 2), 0);
        assert_rc(incr_key(s, i % 2 ? "b" : "ab", -1), 0);
    }
    countd_pending(s->c, &unsent, &unanswered);
    assert_int_equal(unsent, 3);
    assert_rc(countd_sync(s->c, FLUSH_MS), 0);
    assert_rc(incr_key(s, "a", 5), 0); /* that one has gone: no more into it */
    assert_rc(incr_key(s, "big", INT64_MAX), 0);
    assert_rc(incr_key(s, "big", 1), 0); /* does not fit into one */
    assert_rc(incr_key(s, "big", INT64_MIN), 0);
    finish_client(s, 0);
    assert_int_equal(s->sum, 2000 - 1000 + 5);
    assert_in_range(s->received, 6, 7);
}

/* ---- times ------------------------------------------------------------- */

CASE(an_increment_goes_out_in_its_minute, s)
{
    static const uint32_t minutes[] = {5, 5, 0, 7, 7, 7, 0, 0, 5};
    uint64_t unsent, unanswered;

    begin_client(s, 1, acknowledge_all);
    for (size_t i = 0; i < sizeof minutes / sizeof minutes[0]; i++)
        assert_rc(minutes[i] == 0
                      ? countd_incr(s->c, countd_name("s"), countd_name("t"), 0)
                      : incr_at(s, minutes[i]),
                  0);
    countd_pending(s->c, &unsent, &unanswered);
    assert_int_equal(unsent + unanswered, 9);
    finish_client(s, 0);
    assert_int_equal(s->received, 9);
    assert_int_equal(s->times, 5);
    assert_int_equal(s->wrong, 0);
}

CASE(times_that_cannot_be_are_refused, s)
{
    static const int64_t times[] = {-1,        1,        59, INT64_C(60) << 29,
                                    INT64_MAX, INT64_MIN};

    open_client(s);
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        assert_rc(countd_incr_at(s->c, countd_name("s"), countd_name("k"), 1,
                                 times[i]),
                  -ERANGE);
    assert_rc(countd_incr_at(s->c, countd_name("s"), countd_name("k"), 1,
                             (INT64_C(60) << 29) - 1),
              0);
    assert_int_equal(countd_refused(s->c), 6);
    assert_int_equal(countd_close(s->c), 1);
    s->c = NULL;
}

/* On the first connection takes some messages, acknowledges them and breaks. */
static void
break_after_some(struct server *s, int fd)
{
    s->minute = 0; /* of a new connection */
    if (s->hand.number > 0) {
        acknowledge_all(s, fd);
        return;
    }
    for (int i = 0; i < 333; i++)
        if (take_message(s, fd))
            (void)hand_put(fd, "WIN", 3);
    reset_when_told(s, fd);
}

/* Also those that wait in the middle of a run, or behind a time message that was
 * sent. */
CASE(a_new_connection_begins_with_the_minute_of_what_is_left, s)
{
    uint64_t lost, put_in = 0;

    hand_start(&s->hand, 2, break_after_some);
    OPEN_CLIENT(s, .buffer_size = (size_t)4000 * MESSAGE_SIZE,
                .nonblocking = 1);
    while (incr_at(s, (uint32_t)(20 + put_in / 3)) == 0)
        put_in++;
    hand_let_go(&s->hand);
    assert_rc(countd_sync(s->c, FLUSH_MS), -ENOTCONN);
    lost = countd_lost(s->c);

    assert_rc(countd_sync(s->c, FLUSH_MS), 0);

    close_client(s);
    assert_int_equal(s->wrong, 0);
    assert_true(lost > 0 && lost < put_in);
    /* Acknowledgements may have been lost with the connection. */
    assert_in_range(s->received, put_in - lost, put_in - lost + 333);
}

/* Takes more time messages than a handle keeps unanswered before it answers. */
static void
answer_late(struct server *s, int fd)
{
    int64_t owed = 0;

    while (s->times < 16384 - 64 && take_message(s, fd))
        owed++;
    hand_await(&s->hand);
    for (; owed > 0; owed--)
        (void)hand_put(fd, "WIN", 3);
    acknowledge_all(s, fd);
}

CASE(any_number_of_times_is_matched_with_its_answers, s)
{
    const uint32_t count = 40000;

    hand_start(&s->hand, 1, answer_late);
    OPEN_CLIENT(s, .buffer_size = (size_t)100000 * MESSAGE_SIZE,
                .nonblocking = 1);
    for (uint32_t i = 0; i < count; i++) {
        assert_rc(incr_at(s, 20 + i % 7), 0);
        if (i % 1000 == 0)
            assert_true(countd_poll(s->c) >= 0);
    }
    hand_let_go(&s->hand);
    finish_client(s, 0);
    assert_int_equal(s->received, count);
    assert_int_equal(s->times, count);
    assert_int_equal(s->wrong, 0);
}

CASE(only_increments_of_one_minute_leave_as_their_sum, s)
{
    hand_start(&s->hand, 1, acknowledge_all);
    OPEN_CLIENT(s, .sum = 1);
    for (int i = 0; i < 1000; i++) {
        assert_rc(countd_incr_at(s->c, countd_name("s"), countd_name("k"), 1,
                                 60 * (1 + i % 2)),
                  0);
        assert_rc(countd_incr(s->c, countd_name("s"), countd_name("k"), 1), 0);
    }
    finish_client(s, 0);
    assert_int_equal(s->sum, 2000);
    assert_true(s->received >= 3 && s->received <= s->times + 1);
}

/* ---- opening ----------------------------------------------------------- */

CASE(options_of_other_sizes_are_understood, s)
{
    struct {
        struct countd_options o;
        long later;
    } newer = {.o = {.size = sizeof newer}};
    struct countd_options older = {.size = sizeof older.size};
    const struct countd_options *const good[] = {&older, &newer.o, NULL};
    struct countd *c;

    for (size_t i = 0; i < 3; i++) {
        assert_rc(countd_open(&c, good[i]), 0);
        countd_close(c);
    }
    newer.later = 1;
    assert_rc(countd_open(&c, &newer.o), -EINVAL);
    older.size = 0;
    assert_rc(countd_open(&c, &older), -EINVAL);
}

CASE(options_that_cannot_be_are_refused, s)
{
    static const char *const bad[] = {
        "",      "localhost", "127.0.0.1:", ":1",           "::1:5",
        "[::1]", "[]:1",      "1.2.3.4:x",  "127.0.0.1:1x",
    };
    struct countd_options o = {.size = sizeof o};
    struct countd *c;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        o.write = bad[i];
        assert_rc(countd_open(&c, &o), -EINVAL);
        o.write = NULL;
        o.read = bad[i];
        assert_rc(countd_open(&c, &o), -EINVAL);
        o.read = NULL;
    }
    o.key_size = 257;
    assert_rc(countd_open(&c, &o), -EINVAL);
    o.key_size = 1;
    o.keyspace_size = 257;
    assert_rc(countd_open(&c, &o), -EINVAL);
}

CASE(opening_without_memory_leaks_nothing, s)
{
    const struct countd_options o = {.size = sizeof o,
                                     .write = s->hand.address};
    const unsigned fds = fault_open_fds();
    struct countd *c;
    bool hit = true;
    int rc;

    for (unsigned n = 1; hit; n++) {
        fault_inject("memory", n, ENOMEM);
        rc = countd_open(&c, &o);
        hit = fault_hit();
        fault_clear();
        assert_rc(rc, hit ? -ENOMEM : 0);
    }
    countd_close(c);
    assert_int_equal(fault_open_fds(), fds);
}

CASE(the_version_is_the_headers, s)
{
    assert_string_equal(countd_version(), COUNTD_VERSION);
    assert_string_equal(COUNTD_VERSION, VERSION); /* of the daemons */
}

/* ---- documents ----------------------------------------------------------- */

/* Sets what is answered from now on. */
static void
answer_with(struct server *s, int status, const char *document)
{
    (void)pthread_mutex_lock(&s->lock); /* as it is unlocked below */
    s->status = status;
    (void)snprintf(s->document, sizeof s->document, "%s", document);
    (void)pthread_mutex_unlock(&s->lock);
}

/* Answers each head that comes with the document. */
static void
answer_questions(struct server *s, int fd)
{
    static char head[sizeof s->question];
    static char answer[sizeof s->document + 256];
    size_t size = 0;
    int n;

    while (size + 1 < sizeof head && hand_get(fd, head + size, 1) == 1) {
        size++;
        if (size < 4 || memcmp(head + size - 4, "\r\n\r\n", 4) != 0)
            continue;
        head[size] = '\0';
        s->received++;
        (void)pthread_mutex_lock(&s->lock); /* as in answer_with() */
        memcpy(s->question, head, size + 1);
        n = snprintf(answer, sizeof answer,
                     "HTTP/1.1 %d Words\r\nConnection: keep-alive\r\n"
                     "%sETag: W/\"a1-2f\"\r\nContent-length: %zu\r\n\r\n%s",
                     s->goes && s->received > 1 ? 404 : s->status,
                     s->has_more && s->received == 1
                         ? "Link: </v1/keyspaces?after=k&n=1>; rel=\"next\"\r\n"
                         : "",
                     strlen(s->document), s->document);
        (void)pthread_mutex_unlock(&s->lock);
        (void)hand_put(fd, answer, (size_t)n); /* the test notices */
        size = 0;
    }
}

static void
begin_documents(struct server *s, unsigned connections, const char *document)
{
    assert_int_equal(pthread_mutex_init(&s->lock, NULL), 0);
    answer_with(s, 200, document);
    begin_client(s, connections, answer_questions);
}

/* A keyspace "k" and a key. */
#define OF(k) .keyspace = countd_name("k"), .key = countd_name(k)
#define ASK(...)                                                               \
    &(struct countd_query)                                                     \
    {                                                                          \
        __VA_ARGS__                                                            \
    }

CASE(documents_give_their_numbers, s)
{
    struct countd_facts f;
    int64_t n;

    begin_documents(s, 1,
                    "{\"key\": \"x\", \"rank\": 4, \"count\": -7, "
                    "\"saturated\": 1, \"as_of_ms\": 99}\n");
    assert_rc(countd_get(s->c, countd_name("k\xff"), countd_name("key"), &n),
              0);
    assert_int_equal(n, -7);
    (void)pthread_mutex_lock(&s->lock); /* as in answer_with() */
    assert_string_equal(strtok(s->question, "\r"),
                        "GET /v1/get?&keyspace_hex=6bff&key=key "
                        "HTTP/1.1");
    (void)pthread_mutex_unlock(&s->lock);
    assert_rc(countd_about(s->c, ASK(OF("key")), &f), 0);
    assert_true(f.count == -7 && f.rank == 4 && f.saturated == 1 &&
                f.as_of_ms == 99);
    answer_with(s, 200,
                "{\"total\": 9223372036854775807, \"keys\": 5, "
                "\"new\": {\"a\": [1]}, \"as_of_ms\": 99}");
    assert_rc(countd_about(s->c, ASK(OF("")), &f), 0);
    assert_true(f.count == INT64_MAX && f.keys == 5 && f.rank == -1 &&
                f.nonce == 0xa1 && f.change == 0x2f && f.as_of_ms == 99);
}

CASE(documents_give_their_rows, s)
{
    struct countd_rows *rows;

    begin_documents(s, 1,
                    "{\"rows\": [\n"
                    " {\"rank\": 7, \"count\": 3, \"key\": \"a\\u00e9\"},\n"
                    " {\"rank\": 8, \"count\": 2, \"key\": null, "
                    "\"key_hex\": \"00ff\"}], \"as_of_ms\": 5}");
    assert_rc(countd_around(s->c, ASK(OF("a"), .length = 2), &rows), 0);
    assert_int_equal(rows->first, 7);
    assert_int_equal(rows->count, 2);
    assert_int_equal(rows->as_of_ms, 5);
    assert_int_equal(rows->rows[0].count, 3);
    assert_int_equal(rows->rows[0].key.size, 3);
    assert_memory_equal(rows->rows[0].key.data, "a\xc3\xa9", 3);
    assert_int_equal(rows->rows[1].key.size, 2);
    assert_memory_equal(rows->rows[1].key.data, "\0\xff", 2);
    countd_rows_free(rows);

    answer_with(s, 404, "{\"code\": \"no-such-keyspace\", \"as_of_ms\": 6}");
    assert_rc(countd_keys(s->c, ASK(OF(""), .length = 9), &rows), 0);
    assert_true(rows->count == 0 && rows->as_of_ms == 6);
    countd_rows_free(rows);

    answer_with(s, 200,
                "{\"rows\": [\n {\"keys\": null, \"keyspace\": \"b\"}]}");
    assert_rc(countd_keyspaces(s->c, ASK(.after = countd_name("a")), &rows), 0);
    assert_int_equal(rows->count, 1);
    assert_int_equal(rows->rows[0].count, -1); /* it cannot be read */
    countd_rows_free(rows);
}

CASE(plain_rows_and_others_follow_one_another, s)
{
    static const struct {
        const char *row, *key;
        int64_t count;
    } rows[] = {
        {"\"count\": 12, \"key\": \"plain\"", "plain", 12},
        {"\"count\": -9, \"key\": \"12345678\"", "12345678", -9},
        {"\"count\": 0, \"key\": \"\"", "", 0},
        {"\"count\": 1, \"key\": \"a\\\\b\"", "a\\b", 1},
        {"\"count\": 2, \"key\": \"12345678\xc3\xa9\"", "12345678\xc3\xa9", 2},
        {"\"count\": 9223372036854775807, \"key\": \"m\", \"at_limit\": true",
         "m", INT64_MAX},
        {"\"count\": 3, \"key\": null, \"key_hex\": \"ff\"", "\xff", 3},
        {"\"key\": \"other\", \"count\": 4", "other", 4}};
    const size_t kinds = sizeof rows / sizeof rows[0], count = 64;
    char document[sizeof s->document], *at = document;
    struct countd_rows *out;

    at += sprintf(at, "{\"rows\": [");
    for (size_t i = 0; i < count; i++) /* each kind behind each */
        at += sprintf(at, "%s\n {\"rank\": %zu, %s}", i == 0 ? "" : ",", i + 5,
                      rows[(i + i / kinds * (i % 2)) % kinds].row);
    (void)sprintf(at, "], \"as_of_ms\": 5}");
    begin_documents(s, 1, document);
    assert_rc(countd_around(s->c, ASK(OF("a"), .length = 64), &out), 0);
    assert_true(out->count == count && out->as_of_ms == 5 && out->first == 5);
    for (size_t i = 0; i < count; i++) {
        const size_t k = (i + i / kinds * (i % 2)) % kinds;

        assert_int_equal(out->rows[i].count, rows[k].count);
        assert_int_equal(out->rows[i].key.size, strlen(rows[k].key));
        assert_string_equal(out->rows[i].key.data, rows[k].key);
    }
    countd_rows_free(out);
}

CASE(sums_of_128_bits_are_exact, s)
{
    struct countd_rows *b, *top;

    begin_documents(s, 1,
                    "{\"since\": 60, \"rows\": [\n"
                    " {\"from\": 0, \"sum\": null},\n"
                    " {\"from\": 60, \"sum\": 18446744073709551617},\n"
                    " {\"from\": 120, \"sum\": -18446744073709551617}]}");
    assert_rc(countd_history(s->c, ASK(OF(""), .to = 180, .step = 60), &b), 0);
    assert_true(b->count == 3 && b->since == 60);
    assert_int_equal(b->rows[0].sum.any, 0);
    assert_true(b->rows[1].sum.value == INT64_MAX && b->rows[1].sum.high == 1 &&
                b->rows[1].sum.low == 1);
    assert_true(b->rows[2].sum.value == INT64_MIN &&
                b->rows[2].sum.high == -2 && b->rows[2].sum.low == UINT64_MAX);
    countd_rows_free(b);
    assert_rc(countd_history(s->c, ASK(OF(""), .to = 240, .step = 60), &b),
              -EPROTO);
    assert_rc(countd_history(s->c, ASK(OF(""), .to = 90, .step = 60), &b),
              -EINVAL);

    answer_with(s, 200,
                "{\"from\": 0, \"to\": 60, \"rows\": [\n"
                " {\"sum\": 2, \"before\": null, \"key\": \"a\"}]}");
    assert_rc(
        countd_period_top(s->c, ASK(OF(""), .to = 60, .length = 10), &top), 0);
    assert_true(top->count == 1 && top->before_known == 0 && top->to == 60);
    countd_rows_free(top);
}

/* Pairs of a key and an unlike one. */
CASE(many_keys_are_asked_together_and_each_has_its_result, s)
{
    struct countd_key keys[6] = {
        {{"k", 1}, {"a", 1}, 0, 1},    {{"k", 1}, {"b", 1}, 0, 1},
        {{"k", 1}, {NULL, 257}, 0, 1}, {{"", 0}, {"a", 1}, 0, 1},
        {{"k", 1}, {"a", 1}, 0, 1},    {{"other", 5}, {"a", 1}, 0, 1}};

    begin_documents(s, 1,
                    "{\"rows\": [{\"count\": 5, \"key\": \"a\"}, "
                    "{\"count\": null, \"key\": \"b\"}]}");
    assert_rc(countd_gets(s->c, keys, 6), -ENAMETOOLONG);
    assert_true(keys[0].result == 0 && keys[0].count == 5);
    assert_rc(keys[1].result, -ENOENT);
    assert_rc(keys[2].result, -ENAMETOOLONG);
    assert_rc(keys[3].result, -EINVAL);
    assert_true(keys[4].result == 0 && keys[5].result == 0);
    assert_int_equal(s->received, 3);
}

CASE(problems_have_their_errors, s)
{
    static const struct {
        int status, error;
        const char *code;
    } problems[] = {
        {404, -ENOENT, "no-such-key"},    {404, -ENOENT, "no-such-keyspace"},
        {404, -ENODATA, "no-history"},    {400, -E2BIG, "too-many-rows"},
        {400, -EINVAL, "bad-time"},       {500, -EIO, "unreadable"},
        {503, -EHOSTDOWN, "unavailable"}, {503, -ETIME, "too-long"},
        {401, -EACCES, "no-token"},       {404, -EOPNOTSUPP, "another"}};
    char document[128];
    int64_t n = 77;

    begin_documents(s, 1, "{}");
    for (size_t i = 0; i < sizeof problems / sizeof problems[0]; i++) {
        struct countd_facts f = {0};

        (void)snprintf(document, sizeof document,
                       "{\"code\": \"%s\", \"as_of_ms\": 12}",
                       problems[i].code);
        answer_with(s, problems[i].status, document);
        assert_rc(countd_get(s->c, countd_name("k"), countd_name("key"), &n),
                  problems[i].error);
        assert_rc(countd_about(s->c, ASK(OF("key")), &f), problems[i].error);
        assert_int_equal(f.as_of_ms, problems[i].error == -ENOENT ? 12 : 0);
    }
    assert_int_equal(n, 77);
}

CASE(documents_that_cannot_be_are_refused, s)
{
    static const char *const wrong[] = {" ",
                                        "[",
                                        "{\"count\": 1",
                                        "{\"count\": \"x\"}",
                                        "{\"count\": 1.5}",
                                        "{\"count\": 9223372036854775808}",
                                        "{\"count\": 1} x",
                                        "no document"};
    static const char *const wrong_rows[] = {
        "{\"rows\": [{\"count\": 1, \"key\": 7}]}",
        "{\"rows\": [{\"count\": 1, \"key_hex\": \"f\"}]}",
        "{\"rows\": [{\"a\":1},{\"a\":1},{\"a\":1},{\"a\":1}]}"};
    struct countd_rows *rows;
    int64_t n;

    begin_documents(s, 1, "{}");
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        answer_with(s, 200, wrong[i]);
        assert_rc(countd_get(s->c, countd_name("k"), countd_name("a"), &n),
                  -EPROTO);
    }
    for (size_t i = 0; i < sizeof wrong_rows / sizeof wrong_rows[0]; i++) {
        answer_with(s, 200, wrong_rows[i]);
        assert_rc(countd_keys(s->c, ASK(OF(""), .length = 9), &rows), -EPROTO);
    }
}

CASE(questions_that_are_none_are_not_sent, s)
{
    struct countd_rows *rows;
    int64_t n;

    begin_documents(s, 1, "{}");
    assert_rc(countd_get(s->c, countd_bytes("k", 257), countd_name("a"), &n),
              -ENAMETOOLONG);
    assert_rc(countd_get(s->c, countd_name("k"), countd_bytes("a", 257), &n),
              -ENAMETOOLONG);
    assert_rc(countd_get(s->c, countd_name("k"), countd_bytes("a", 0), &n),
              -EINVAL);
    assert_rc(
        countd_keys(s->c, ASK(OF(""), .prefix = countd_bytes("p", 300)), &rows),
        -ENAMETOOLONG);
    assert_rc(countd_get(s->c, countd_name("k"), countd_name("a"), &n),
              -ENOENT);
    assert_int_equal(s->received, 1);
}

CASE(the_command_asks_until_no_keyspaces_are_left, s)
{
    char words[][16] = {"countd", "-o", "keyspaces", "--tsv"}, read[64];
    char *argv[] = {words[0], words[1], read, words[2], words[3], NULL};

    (void)snprintf(read, sizeof read, "read.http=%s", s->hand.address);
    begin_documents(s, 1, "");
    s->has_more = true;

    assert_int_equal(cmd_main(5, argv), 0);

    close_client(s);
    assert_int_equal(s->received, 2);
    assert_has(s->question, "GET /v1/keyspaces?&after=k&");
}

CASE(a_keyspace_that_goes_while_it_is_exported_is_no_error, s)
{
    char words[][16] = {"countd", "-o", "export", "--history", "k"}, read[64];
    char *argv[] = {words[0], words[1], read, words[2],
                    words[3], words[4], NULL};

    (void)snprintf(read, sizeof read, "read.http=%s", s->hand.address);
    begin_documents(s, 1, "{\"code\": \"no-such-keyspace\", \"total\": 1}");
    s->goes = true;

    assert_int_equal(cmd_main(6, argv), 0);

    close_client(s);
    assert_int_equal(s->received, 3);
}

static void
list_a_name_with_control_bytes(struct server *s, int fd)
{
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 11\r\n"
                                 "\r\na\033[2Jb\t9\t5\n";

    if (recv(fd, s->question, sizeof s->question, 0) > 0)
        (void)hand_put(fd, answer, sizeof answer - 1);
}

static int
fail_on_quota(void *ctx, const char *name, int64_t limit, int64_t remaining)
{
    (void)name;
    (void)limit;
    (void)remaining;
    *(bool *)ctx = true;
    return 0;
}

CASE(a_list_of_quotas_with_control_bytes_is_refused, s)
{
    const struct countd_http_options o = {.size = sizeof o,
                                          .address = s->hand.address};
    struct countd_http *h;
    bool called = false;

    hand_start(&s->hand, 1, list_a_name_with_control_bytes);
    assert_rc(countd_http_open(&h, &o), 0);

    assert_rc(countd_quota_list(h, fail_on_quota, &called), -EPROTO);

    countd_http_close(h);
    assert_false(called);
}
