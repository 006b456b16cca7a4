/* tests/unit/test_conn.c - the connection server, through the protocol of
 * tests/lib/echo.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/capture.h"
#include "tests/lib/client.h"
#include "tests/lib/echo.h"
#include "tests/lib/fault.h"

static int
setup_unstarted(void **state)
{
    *state = echo_new();
    return 0;
}

static int
setup(void **state)
{
    (void)setup_unstarted(state);
    echo_start(*state);
    return 0;
}

static int
teardown(void **state)
{
    fault_clear();
    echo_free(*state);
    return 0;
}

#define CASE(name, f) TEST_IN(name, struct echo *f, setup, teardown)

/* Changes options before it starts. */
#define UNSTARTED(name, f)                                                     \
    TEST_IN(name, struct echo *f, setup_unstarted, teardown)

static void
expect_echo(struct echo *f, int fd, const char *text)
{
    echo_ask(fd, 'e', text);
    echo_hear(f, fd, text);
}

/* ---- tests ------------------------------------------------------------- */

CASE(gated_answers_wait_for_the_commit_and_so_does_what_is_behind, f)
{
    const int a = echo_join(f, ECHO);
    const int b = echo_join(f, ECHO);

    echo_ask(a, 'e', "free,");
    echo_ask(a, 'g', "first,");
    echo_ask(a, 'e', "behind,");
    echo_hear(f, a, "free,");
    expect_echo(f, b, "b");
    assert_true(gate_has_waiters(&f->own));
    gate_close_group(&f->own);
    assert_false(gate_has_waiters(&f->own));
    echo_ask(a, 'g', "second,");
    echo_hear_nothing(f, a);
    gate_release(&f->own);
    echo_hear(f, a, "first,behind,");
    echo_hear_nothing(f, a);
    echo_commit(&f->own);
    echo_hear(f, a, "second,");
}

CASE(a_gated_connection_that_ends_frees_its_number_when_the_gate_opens, f)
{
    struct listener *d = conns_listener(f->conns, ECHO);
    const int a = echo_join(f, ECHO);

    echo_ask(a, 'g', "never heard");
    echo_ask(a, 'c', "");
    echo_hear_end(f, a, "");
    assert_int_equal(d->open, 0);
    assert_int_equal(d->used, 1);
    echo_commit(&f->own);
    assert_int_equal(d->used, 0);
}

CASE(malformed_input_gets_the_last_word_though_more_is_sent, f)
{
    static uint8_t more[1 << 20];
    const int a = echo_join(f, ECHO);

    echo_ask(a, 'e', "well, ");
    echo_ask(a, 'x', "");
    (void)send(a, more, sizeof more,
               MSG_DONTWAIT); /* as much as there is room */
    echo_hear_size(f, a, 8);
    assert_memory_equal(f->heard, "well, NO", 8);
    assert_int_equal(shutdown(a, SHUT_WR), 0);
    echo_hear_end(f, a, "");
    assert_int_equal(echo_stats(f, ECHO)->malformed, 1);
}

CASE(a_browser_is_refused_however_its_bytes_come, f)
{
    static const char *const starts[] = {
        "GET / HTTP/1.1\r\n", "COUNT /x HTTP/1.1", "A * HTTP/1.1",
        "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        "\x00\x03\x00\x08\x21\x12\xa4\x42\x00\x00\x00"};
    int a;

    for (size_t i = 0; i < 5; i++)
        for (size_t first = 0; first <= 8; first++) {
            a = echo_join(f, RAW);
            echo_say(a, starts[i], first);
            echo_turns(f, 2);
            (void)send(a, starts[i] + first, 11 - first, MSG_NOSIGNAL);
            echo_hear_end(f, a, "");
        }
    assert_int_equal(echo_stats(f, RAW)->browsers, 45);
}

CASE(large_and_long_answers_arrive_whole, f)
{
    const int a = echo_join(f, ECHO);

    echo_ask_number(a, 'b', 1000);
    echo_ask_number(a, 'l', 3000);
    echo_ask(a, 'e', "end");
    echo_hear_size(f, a, 4000 * 1024 + 3);
    assert_memory_equal(f->heard + 4000 * 1024, "end", 3);
    for (size_t i = 0; i < 4000 * 1024; i++)
        assert_int_equal(f->heard[i], 'b');
}

CASE(who_keeps_most_ends_when_memory_is_used_up, f)
{
    uint8_t head[ECHO_HEAD] = {0xff, 0xff, 'e'};
    static uint8_t body[60000];
    int large, small, stalled;

    stalled = echo_join(f, CUT);
    echo_say(stalled, head, sizeof head);
    echo_say(stalled, body, 30000);
    echo_turns(f, 4);
    fault_pass_ns(CONN_STALL_MS * UINT64_C(1000000));
    small = echo_join(f, ECHO);
    echo_say(small, head, sizeof head);
    echo_say(small, body, 2000 - (ECHO_PEERS - 5));
    for (size_t i = 0; i < ECHO_PEERS - 5; i++) {
        echo_say(small, body, 1); /* it goes on, however slow the machine is */
        large = echo_join(f, CUT);
        echo_say(large, head, sizeof head);
        echo_say(large, body, sizeof body);
        echo_turns(f, 4);
    }
    /* 35 times 60 KB fit. */
    assert_in_range(echo_stats(f, CUT)->evicted, 20, 30);
    assert_int_equal(echo_stats(f, ECHO)->evicted, 0);
    echo_hear_end(f, stalled, "");
    memset(body, 'z', sizeof body);
    echo_say(small, body, sizeof body);
    echo_say(small, body, 65535 - 2000 - 10 - sizeof body);
    echo_say(small, "0123456789", 10);
    echo_hear_size(f, small, 65535);
    assert_memory_equal(f->heard + 65525, "0123456789", 10);
}

/* Ends a peer's connection with a reset; the descriptor stays the fixture's. */
static void
reset_peer(int fd)
{
    const struct sockaddr none = {.sa_family = AF_UNSPEC};

    assert_int_equal(connect(fd, &none, sizeof none), 0);
}

CASE(a_held_connection_ends_when_its_peer_has_gone, f)
{
    const struct listener *d = conns_listener(f->conns, ECHO);

    for (int before = 0; before < 2; before++) { /* the request is taken */
        const int a = echo_join(f, ECHO);

        f->held = NULL;
        echo_ask(a, 'h', "never heard");
        if (!before)
            echo_turns(f, 2);
        reset_peer(a);
        echo_turns(f, 2);
        assert_non_null(f->held);
        assert_int_equal(d->used, 0);
    }
}

CASE(a_half_closed_peer_that_is_held_gets_its_answer, f)
{
    const int a = echo_join(f, ECHO);

    echo_ask(a, 'h', "held");
    assert_int_equal(shutdown(a, SHUT_WR), 0);
    echo_hear_nothing(f, a);
    assert_non_null(f->held);
    conn_wake(f->held);
    echo_hear_end(f, a, "held");
}

CASE(what_waits_for_a_gate_is_let_go_a_while_after_its_peer_has_closed, f)
{
    const struct listener *d = conns_listener(f->conns, RAW);

    fault_stop_clock();
    for (int before = 0; before < 2; before++) { /* the request is taken */
        const int a = echo_join(f, RAW), b = echo_join(f, RAW);

        echo_ask(a, 'H', "at once");
        assert_int_equal(shutdown(a, SHUT_WR), 0);
        echo_turns(f, 2);
        echo_commit(&f->own);
        echo_hear_end(f, a, "at once");

        echo_ask(b, 'H', "never heard");
        if (!before)
            echo_turns(f, 2);
        assert_int_equal(shutdown(b, SHUT_WR), 0);
        echo_turns(f, 2);
        assert_int_equal(d->open, 1);
        fault_pass_ns(CONN_LEFT_MS * UINT64_C(1000000));
        echo_turns(f, 2);
        assert_int_equal(d->open, 0);
        f->held = NULL;
        echo_commit(&f->own);
        assert_int_equal(d->used, 0);
    }
}

CASE(without_room_no_byte_leaves_the_kernel, f)
{
    int a;

    f->room = 0;
    a = echo_join(f, ECHO);
    echo_ask(a, 'e', "later");
    echo_hear_nothing(f, a);
    assert_int_equal(echo_stats(f, ECHO)->received, 0);
    f->room = SIZE_MAX;
    listener_wake(conns_listener(f->conns, ECHO));
    echo_hear(f, a, "later");
}

static bool
all_gone(struct echo *f)
{
    return conns_listener(f->conns, CUT)->used == 0;
}

CASE(what_a_connection_leaves_is_done_in_steps_before_its_number_is_free, f)
{
    struct listener *d;
    int a;

    f->ends = 5;
    a = echo_join(f, CUT);
    d = conns_listener(f->conns, CUT);
    assert_int_equal(shutdown(a, SHUT_RDWR), 0);
    echo_run(f, all_gone);
    assert_int_equal(f->ended, 1);
    assert_int_equal(d->open, 0);
}

CASE(what_connections_leave_takes_no_more_than_its_part_of_a_turn, f)
{
    enum { PEERS = 20 };
    int fds[PEERS];

    fault_stop_clock();
    f->ends = 50;
    for (size_t i = 0; i < PEERS; i++)
        fds[i] = echo_join(f, CUT);
    for (size_t i = 0; i < PEERS; i++)
        assert_int_equal(shutdown(fds[i], SHUT_RDWR), 0);
    for (size_t i = 0; i < 300 && !all_gone(f); i++) {
        const uint64_t before = clock_ns();

        echo_turns(f, 1);
        assert_in_range(clock_ns() - before, 0,
                        UINT64_C(2) * CONN_TURN_US * 1000);
    }
    assert_int_equal(f->ended, PEERS);
}

CASE(places_are_reserved_for_each_listener, f)
{
    size_t i;
    int fds[2];

    fault_stop_clock();
    for (i = 0; i < ECHO_PEERS - 4 * (ECHO_LISTENERS - 1); i++)
        (void)echo_join(f, ECHO);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds),
                     0);
    assert_rc(conns_take(f->conns, ECHO, fds[0]), -EMFILE);
    assert_rc(conns_take(f->conns, CUT, fds[0]), 0);
    assert_int_equal(close(fds[1]), 0);
}

/* ---- waiting for several things ------------------------------------------ */

/* Begins with little memory, most of which a large answer has that its peer
 * does not read. */
static int
start_short(struct echo *f)
{
    int fd;

    f->narrow = true;
    f->options.pool_size = (size_t)1536 << 10;
    echo_start(f);
    fd = echo_join(f, CUT);
    echo_ask_number(fd, 'b', 1000);
    echo_turns(f, 2);
    return fd;
}

static void
ask_size(int fd, char kind, uint16_t size)
{
    static uint8_t bytes[ECHO_HEAD + UINT16_MAX];

    bytes[0] = (uint8_t)(size >> 8);
    bytes[1] = (uint8_t)size;
    bytes[2] = (uint8_t)kind;
    echo_say(fd, bytes, ECHO_HEAD + (size_t)size);
}

UNSTARTED(who_waits_for_memory_and_for_its_peer_goes_on_after_both, f)
{
    int a, b;

    b = start_short(f);
    a = echo_join(f, ECHO);
    for (int i = 0; i < 4; i++) {
        ask_size(a, 'g', 60000);
        echo_turns(f, 2);
    }
    echo_ask_number(a, 'b', 1000);
    echo_turns(f, 4);
    echo_commit(&f->own);
    echo_turns(f, 4);
    echo_hear_size(f, a, 240000);
    echo_hear_size(f, b, 1000 * 1024);
    echo_hear_size(f, a, 1000 * 1024);
}

UNSTARTED(who_waits_for_room_and_for_its_peer_goes_on_after_both, f)
{
    int a;

    f->narrow = true;
    echo_start(f);
    a = echo_join(f, ECHO);
    for (int i = 0; i < 4; i++) {
        ask_size(a, 'g', 60000);
        echo_turns(f, 2);
    }
    f->room = 0;
    echo_ask(a, 'e', "later");
    echo_turns(f, 4);
    echo_commit(&f->own);
    echo_turns(f, 4);
    f->room = SIZE_MAX;
    listener_wake(conns_listener(f->conns, ECHO));
    echo_turns(f, 4);
    echo_hear_size(f, a, 240000);
    echo_hear(f, a, "later");
    expect_echo(f, a, "and more");
}

UNSTARTED(a_long_answer_waits_for_memory, f)
{
    int a, b;

    b = start_short(f);
    a = echo_join(f, ECHO);
    echo_ask_number(a, 'L', 1000);
    echo_ask(a, 'e', "behind");
    echo_hear_nothing(f, a);
    echo_hear_size(f, b, 1000 * 1024);
    echo_hear_size(f, a, 1000 * 1024);
    echo_hear(f, a, "behind");
}

UNSTARTED(small_answers_pass_those_that_wait_for_memory, f)
{
    int a, c;

    (void)start_short(f);
    a = echo_join(f, ECHO);
    echo_ask_number(a, 'b', 1000);
    c = echo_join(f, ECHO);
    echo_ask_number(c, 'b', 20);
    echo_hear_size(f, c, 20 * 1024);
    echo_hear_nothing(f, a);
}

UNSTARTED(who_reads_nothing_ends_for_those_who_wait_for_memory, f)
{
    int a;

    (void)start_short(f);
    a = echo_join(f, ECHO);
    echo_ask_number(a, 'b', 1000);
    echo_hear_nothing(f, a);
    assert_int_equal(echo_stats(f, CUT)->evicted, 0);
    fault_pass_ns(CONN_STALL_MS * UINT64_C(1000000));
    echo_hear_size(f, a, 1000 * 1024);
    assert_int_equal(echo_stats(f, CUT)->evicted, 1);
}

CASE(who_owes_much_behind_a_gate_is_not_received_from, f)
{
    const struct listener_stats *d = &conns_listener(f->conns, WINS)->stats;
    const size_t all = 100 * (size_t)UINT16_MAX * 3;
    int a;

    a = echo_join(f, WINS);
    for (int i = 0; i < 100; i++) {
        echo_ask_number(a, 'o', UINT16_MAX);
        echo_turns(f, 1);
    }
    assert_in_range(d->received, 5 * (size_t)86, 5 * (size_t)87);
    echo_commit(&f->own);
    echo_hear_size(f, a, 86 * (size_t)UINT16_MAX * 3);
    echo_commit(&f->own);
    echo_hear_size(f, a, all - 86 * (size_t)UINT16_MAX * 3);
    assert_memory_equal(f->heard + f->heard_size - 6, "WINWIN", 6);
}

CASE(the_refusal_comes_behind_whatever_is_owed, f)
{
    const int a = echo_join(f, ECHO);
    int b;

    echo_ask_number(a, 'b', 130);
    echo_ask(a, 'x', "");
    echo_hear_size(f, a, 130 * 1024 + 2);
    assert_memory_equal(f->heard + 130 * 1024 - 2, "bbNO", 4);

    b = echo_join(f, WINS);
    echo_ask_number(b, 'o', 2);
    echo_ask(b, 'x', "");
    echo_hear_nothing(f, b);
    echo_commit(&f->own);
    assert_true(conns_have_work(f->conns));
    echo_hear(f, b, "WINWINFAIL");
}

CASE(bytes_behind_another_gate_wait_for_the_first, f)
{
    const int a = echo_join(f, ECHO);

    echo_ask(a, 'g', "one,");
    echo_ask(a, 'G', "two");
    echo_hear_nothing(f, a);
    assert_false(gate_has_waiters(&f->other));
    echo_commit(&f->own);
    echo_hear(f, a, "one,");
    assert_true(gate_has_waiters(&f->other));
    echo_commit(&f->other);
    echo_hear(f, a, "two");
}

CASE(a_peer_that_leaves_a_full_port_is_noticed_but_not_before_its_bytes, f)
{
    struct listener *d = conns_listener(f->conns, ECHO);
    int a, b;

    f->room = 0;
    a = echo_join(f, ECHO);
    b = echo_join(f, ECHO);
    echo_ask(a, 'e', "still");
    echo_ask(b, 'e', "");
    assert_int_equal(shutdown(a, SHUT_WR), 0);
    echo_turns(f, 3);
    assert_int_equal(d->open, 2);
    f->room = SIZE_MAX;
    listener_wake(d);
    echo_hear_end(f, a, "still");
    assert_int_equal(d->open, 1);

    f->room = 0;
    echo_ask(b, 'e', "!");
    a = echo_join(f, ECHO);
    assert_int_equal(shutdown(a, SHUT_WR), 0);
    echo_hear_end(f, a, "");
    assert_int_equal(d->open, 1);
    assert_int_equal(d->stats.received, 11);
}

CASE(connections_that_end_within_a_request_are_counted, f)
{
    struct listener *d = conns_listener(f->conns, ECHO);
    int a, b;

    a = echo_join(f, ECHO);
    b = echo_join(f, ECHO);
    echo_say(a, "\0", 1);
    echo_say(b, "\0", 1);
    echo_turns(f, 2);
    assert_int_equal(shutdown(a, SHUT_WR), 0);
    echo_hear_end(f, a, "");
    assert_int_equal(d->stats.cut_off, 1);
    echo_stop(f, 1000);
    echo_run(f, echo_has_stopped);
    assert_int_equal(d->stats.cut_off, 2);
}

/* ---- listeners ---------------------------------------------------------- */

/* A listening socket at a listener. */
static struct net_address
open_listener(struct echo *f, size_t listener)
{
    struct net_address a, bound;
    int fd;

    assert_rc(net_parse("127.0.0.1:0", &a), 0);
    fd = net_bind(&a, SOCK_STREAM, 0, &bound);
    assert_true(fd >= 0);
    assert_rc(conns_listen(f->conns, listener, fd), 0);
    return bound;
}

static int
connect_client(struct echo *f, const struct net_address *a)
{
    const int fd = client_connect_to(a);

    assert_true(fd >= 0);
    f->peers[f->peer_count++] = fd;
    echo_turns(f, 2);
    return fd;
}

static size_t
count_of(const char *text, const char *what)
{
    size_t n = 0;

    for (text = strstr(text, what); text; text = strstr(text + 1, what))
        n++;
    return n;
}

UNSTARTED(each_full_port_reports_it_and_what_to_set, f)
{
    struct net_address at[2];
    struct capture c;
    const char *text;

    for (size_t i = 0; i < 2; i++) {
        f->rows[i].max = 2;
        f->rows[i].reserved = 2;
        f->rows[i].max_key = i == ECHO ? "echo.max" : "cut.max";
    }
    f->rows[CUT].close_over = true;
    echo_start(f);
    capture_start(&c);
    for (size_t i = 0; i < 2; i++) {
        at[i] = open_listener(f, i);
        for (int n = 0; n < 5; n++)
            (void)connect_client(f, &at[i]);
    }
    text = capture_stop(&c);
    assert_int_equal(conns_listener(f->conns, ECHO)->open, 2);
    assert_int_equal(conns_listener(f->conns, CUT)->open, 2);
    assert_int_equal(echo_stats(f, CUT)->turned_away, 3);
    assert_int_equal(echo_stats(f, ECHO)->turned_away, 0);
    assert_int_equal(count_of(text, "echo: full"), 1);
    assert_int_equal(count_of(text, "echo.max"), 1);
    assert_int_equal(count_of(text, "cut: a connection is turned away"), 1);
    assert_int_equal(count_of(text, "cut.max"), 1);
}

UNSTARTED(a_full_port_is_not_reported_while_no_client_waits, f)
{
    struct net_address at;
    struct capture c;
    int a;

    f->rows[ECHO].max = 1;
    f->rows[ECHO].yield_s = 600;
    echo_start(f);
    at = open_listener(f, ECHO);
    a = connect_client(f, &at);
    capture_start(&c);
    for (int i = 0; i < 2; i++) { /* it could yield, then it could not */
        expect_echo(f, a, "here");
        fault_pass_ns(UINT64_C(601) * 1000000000);
        echo_turns(f, 2);
    }
    expect_echo(f, a, "here");
    fault_pass_ns(UINT64_C(1000000000));
    echo_turns(f, 2);
    assert_lacks(capture_stop(&c), "full");
}

UNSTARTED(a_client_waits_at_a_full_port_until_another_leaves, f)
{
    struct net_address at;
    int a, b;

    f->rows[ECHO].max = 1;
    echo_start(f);
    at = open_listener(f, ECHO);
    a = connect_client(f, &at);
    b = connect_client(f, &at);
    echo_ask(b, 'e', "in");
    echo_hear_nothing(f, b);
    assert_int_equal(shutdown(a, SHUT_RDWR), 0);
    echo_hear(f, b, "in");
}

CASE(a_port_that_cannot_accept_for_now_does_so_later, f)
{
    static const int errors[] = {ECONNABORTED, EMFILE};
    struct net_address at;
    int a;

    at = open_listener(f, ECHO);
    for (size_t i = 0; i < 2; i++) {
        fault_inject("accept4", 1, errors[i]);
        a = connect_client(f, &at);
        expect_echo(f, a, "in");
        assert_true(fault_hit());
    }
}

UNSTARTED(an_accepted_connection_has_its_options, f)
{
    static const struct {
        int level, name, value;
    } options[] = {{IPPROTO_TCP, TCP_NODELAY, 1},
                   {SOL_SOCKET, SO_KEEPALIVE, 1},
                   {IPPROTO_TCP, TCP_KEEPIDLE, 300},
                   {IPPROTO_TCP, TCP_KEEPINTVL, 5},
                   {IPPROTO_TCP, TCP_USER_TIMEOUT, 345000}};
    struct net_address at;
    const struct conn *c;

    f->rows[ECHO].keep_alive_s = 345;
    echo_start(f);
    at = open_listener(f, ECHO);
    (void)connect_client(f, &at);
    c = listener_open_conn(conns_listener(f->conns, ECHO), 0);
    assert_non_null(c);
    assert_true((fcntl(c->source.fd, F_GETFL) & O_NONBLOCK) != 0);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        socklen_t size = sizeof(int);
        int value = 0;

        assert_int_equal(getsockopt(c->source.fd, options[i].level,
                                    options[i].name, &value, &size),
                         0);
        assert_int_equal(value, options[i].value);
    }
}

CASE(a_stopped_port_refuses, f)
{
    struct net_address at;

    at = open_listener(f, ECHO);
    (void)connect_client(f, &at);
    echo_stop(f, 1000);
    echo_run(f, echo_has_stopped);
    assert_rc(client_connect_to(&at), -ECONNREFUSED);
}

UNSTARTED(at_a_full_port_the_longest_idle_connection_yields, f)
{
    struct net_address at;
    struct listener *d;
    int a[3], b;

    f->rows[ECHO].max = 3;
    f->rows[ECHO].yield_s = 600;
    echo_start(f);
    d = conns_listener(f->conns, ECHO);
    at = open_listener(f, ECHO);
    for (int i = 0; i < 3; i++) {
        a[i] = connect_client(f, &at);
        expect_echo(f, a[i], "here");
    }
    fault_pass_ns(UINT64_C(540) * 1000000000);
    expect_echo(f, a[0], "active");
    b = connect_client(f, &at);
    echo_ask(b, 'e', "in");
    echo_hear_nothing(f, b);
    assert_int_equal(d->open, 3);

    fault_pass_ns(UINT64_C(60) * 1000000000);
    echo_hear(f, b, "in");
    echo_hear_end(f, a[1], "");
    assert_int_equal(d->stats.yielded, 1);
    assert_int_equal(d->open, 3);
    expect_echo(f, a[0], "still");
}

UNSTARTED(one_that_never_sent_a_byte_yields_after_a_tenth_of_that, f)
{
    struct net_address at;
    int a[2], b;

    f->rows[ECHO].max = 2;
    f->rows[ECHO].yield_s = 600;
    fault_stop_clock();
    echo_start(f);
    at = open_listener(f, ECHO);
    for (int i = 0; i < 2; i++)
        a[i] = connect_client(f, &at);
    expect_echo(f, a[0], "here");
    b = connect_client(f, &at);
    echo_ask(b, 'e', "in");
    fault_pass_ns(UINT64_C(59) * 1000000000);
    echo_hear_nothing(f, b);
    fault_pass_ns(UINT64_C(2) * 1000000000);
    echo_hear(f, b, "in");
    echo_hear_end(f, a[1], "");
    expect_echo(f, a[0], "still");
}

UNSTARTED(a_client_leaves_places_of_a_small_listener_to_others, f)
{
    enum { SHARED = 20, RESERVED = 4, MOST = 14 };
    struct net_address at;
    int a;

    f->options.shared = SHARED;
    f->rows[ECHO].max = SHARED;
    for (size_t i = 0; i < f->options.count; i++)
        f->rows[i].reserved = i == CUT ? RESERVED : 0;
    echo_start(f);
    at = open_listener(f, ECHO);
    for (int i = 0; i < MOST; i++) {
        a = connect_client(f, &at);
        expect_echo(f, a, "in");
    }
    echo_hear_end(f, connect_client(f, &at), "");
    assert_int_equal(echo_stats(f, ECHO)->turned_away, 1);

    a = client_connect_from("127.0.0.2", &at);
    assert_true(a >= 0);
    expect_echo(f, a, "another");
    client_close(a);
}

UNSTARTED(a_client_has_half_of_a_listener_at_most, f)
{
    enum { HALF = CONN_CLIENT_LEAST + 1 };
    struct net_address at;
    struct listener *d;
    struct capture c;
    int a, b;

    f->options.shared = 3 * HALF;
    f->rows[ECHO].max = 2 * HALF;
    f->rows[ECHO].yield_s = 600;
    f->rows[ECHO].max_key = "echo.max";
    echo_start(f);
    d = conns_listener(f->conns, ECHO);
    at = open_listener(f, ECHO);
    a = connect_client(f, &at);
    for (int i = 1; i < HALF; i++)
        (void)connect_client(f, &at);
    capture_start(&c);
    b = connect_client(f, &at);
    assert_has(capture_stop(&c), "echo: a connection from 127.0.0."
                                 "1");
    echo_hear_end(f, b, "");
    assert_int_equal(d->stats.turned_away, 1);

    b = client_connect_from("127.0.0.2", &at);
    assert_true(b >= 0);
    expect_echo(f, b, "another");
    client_close(b);
    echo_turns(f, 2);
    assert_int_equal(d->open, HALF);

    /* Its own idle ones make way, and those that leave. */
    fault_pass_ns(UINT64_C(61) * 1000000000);
    b = connect_client(f, &at);
    expect_echo(f, b, "in");
    echo_hear_end(f, a, "");
    assert_int_equal(d->stats.yielded, 1);
}

/* Others wait for the end of a turn. */
UNSTARTED(idle_connections_are_closed_some_in_each_turn, f)
{
    enum { MOST = 256, IDLE = MOST + 20 };
    const struct listener *d;

    for (size_t i = 0; i < ECHO_LISTENERS; i++)
        f->rows[i].reserved = 0;
    f->rows[ECHO].max = f->options.shared = IDLE;
    f->rows[ECHO].idle_s = 60;
    fault_stop_clock();
    echo_start(f);
    d = conns_listener(f->conns, ECHO);
    for (int i = 0; i < IDLE; i++)
        (void)echo_join(f, ECHO);
    echo_turns(f, 1);
    fault_pass_ns(UINT64_C(61) * 1000000000);
    echo_turns(f, 1);
    assert_int_equal(d->open, IDLE - MOST);
    fault_pass_ns(UINT64_C(20000000));
    echo_turns(f, 1);
    assert_int_equal(d->open, 0);
}

UNSTARTED(no_connection_yields_while_there_is_room_or_without_yield_s, f)
{
    struct net_address at[2];
    int b;

    f->rows[ECHO].max = 3;
    f->rows[ECHO].yield_s = 60;
    f->rows[CUT].max = 1;
    echo_start(f);
    for (size_t i = 0; i < 2; i++) {
        at[i] = open_listener(f, i);
        (void)connect_client(f, &at[i]);
    }
    fault_pass_ns(UINT64_C(3600) * 1000000000);
    (void)connect_client(f, &at[ECHO]);
    assert_int_equal(conns_listener(f->conns, ECHO)->open, 2);
    b = connect_client(f, &at[CUT]);
    echo_ask(b, 'e', "");
    echo_hear_nothing(f, b);
    assert_int_equal(echo_stats(f, CUT)->yielded, 0);
}

/* ---- fairness ------------------------------------------------------------ */

/* Peers of a listener, each with one request that takes 100 us. */
static void
bring_work(struct echo *f, size_t listener, size_t count)
{
    for (size_t i = 0; i < count; i++)
        echo_ask(echo_join(f, listener), 'w', "");
}

static void
start_wide(struct echo *f)
{
    for (size_t i = 0; i < ECHO_LISTENERS; i++)
        f->rows[i].max = 256;
    f->options.shared = 512;
    fault_stop_clock();
    echo_start(f);
}

UNSTARTED(
    listeners_with_work_get_equal_parts_of_a_turn_in_the_order_of_the_table, f)
{
    start_wide(f);
    bring_work(f, CUT, 12);
    bring_work(f, ECHO, 7);
    echo_turns(f, 1);
    assert_int_equal(f->served_count, 10);
    for (unsigned i = 0; i < 5; i++) {
        assert_int_equal(f->served[i], ECHO * 1000 + i);
        assert_int_equal(f->served[5 + i], CUT * 1000 + i);
    }
    assert_true(conns_have_work(f->conns));
    echo_turns(f, 1);
    assert_int_equal(f->served_count, 17);
    assert_int_equal(f->served[10], ECHO * 1000 + 5);
    assert_int_equal(f->served[12], CUT * 1000 + 5);
    /* Alone now. */
    echo_turns(f, 1);
    assert_int_equal(f->served_count, 19);
    assert_int_equal(f->served[18], CUT * 1000 + 11);
}

UNSTARTED(a_listener_that_alone_has_work_gets_no_more_than_its_part, f)
{
    start_wide(f);
    bring_work(f, CUT, 100);
    echo_turns(f, 1);
    assert_int_equal(f->served_count, 5);
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(f->served[i], CUT * 1000 + i);
}

UNSTARTED(who_comes_again_stands_behind_those_who_wait, f)
{
    static uint8_t many[50 * ECHO_HEAD];
    int a;

    start_wide(f);
    a = echo_join(f, ECHO);
    for (size_t i = 0; i < 50; i++)
        (void)echo_request(many + i * ECHO_HEAD, 'w', "");
    echo_say(a, many, 5 * ECHO_HEAD);
    bring_work(f, ECHO, 60);
    echo_turns(f, 1);
    echo_say(a, many, ECHO_HEAD);
    bring_work(f, ECHO, 1);
    while (f->served_count < 67)
        echo_turns(f, 1);
    for (unsigned i = 0; i < 60; i++)
        assert_int_equal(f->served[5 + i], ECHO * 1000 + 1 + i);
    assert_int_equal(f->served[65], ECHO * 1000);
}

UNSTARTED(who_waits_for_an_answer_waits_no_longer_than_a_part_for_200_others, f)
{
    int a;

    start_wide(f);
    a = echo_join(f, ECHO);
    bring_work(f, WINS, 200);
    echo_turns(f, 1);
    while (f->served_count < 200) {
        const size_t before = f->served_count;

        echo_ask(a, 'w', "");
        echo_turns(f, 1);
        /* First in its turn, and the others have their part behind it. */
        assert_int_equal(f->served[before], ECHO * 1000);
        assert_in_range(f->served_count - before, 2, 6);
    }
}

/* Requests of 16 KiB, each of which takes 100 us. */
static void
flood_with(int peer, size_t count)
{
    static uint8_t bytes[ECHO_HEAD + 0x3ffd] = {0x3f, 0xfd, 'w'};

    for (size_t i = 0; i < count; i++)
        echo_say(peer, bytes, sizeof bytes);
}

UNSTARTED(who_sends_little_is_served_before_200_that_flood_its_port, f)
{
    int a, flood[200];

    start_wide(f);
    a = echo_join(f, ECHO);
    for (size_t i = 0; i < 200; i++)
        flood_with(flood[i] = echo_join(f, ECHO), 1);
    while (f->served_count < 200)
        echo_turns(f, 1);
    for (size_t i = 0; i < 200; i++)
        flood_with(flood[i], 1);
    for (size_t turn = 0; turn < 5; turn++) {
        const size_t before = f->served_count;

        echo_ask(a, 'w', "");
        echo_turns(f, 1);
        assert_int_equal(f->served_count - before, 5);
        assert_int_equal(f->served[before], ECHO * 1000);
    }
}

UNSTARTED(who_floods_a_port_is_served_in_each_turn_beside_many_that_send_little,
          f)
{
    int peers[50], flood;

    start_wide(f);
    for (size_t i = 0; i < 50; i++)
        peers[i] = echo_join(f, ECHO);
    flood = echo_join(f, ECHO);
    flood_with(flood, 1);
    echo_turns(f, 1);
    assert_int_equal(f->served_count, 1);
    for (size_t i = 0; i < 50; i++)
        echo_ask(peers[i], 'w', "");
    for (size_t turn = 0; turn < 3; turn++) {
        const size_t before = f->served_count;

        flood_with(flood, 1);
        echo_turns(f, 1);
        assert_int_equal(f->served_count - before, 6);
        assert_int_equal(f->served[before + 5], ECHO * 1000 + 50);
    }
}

CASE(a_stop_answers_what_has_arrived_and_waits_for_the_commit, f)
{
    const int a = echo_join(f, ECHO);
    const int b = echo_join(f, CUT);
    const int c = echo_join(f, ECHO);

    echo_ask(a, 'e', "one,");
    echo_ask(a, 'g', "two");
    echo_ask(b, 'h', "cut");
    echo_ask(c, 'e', "three");
    echo_say(c, "\0", 1);
    echo_stop(f, 600000);
    echo_hear(f, a, "one,");
    /* A peer that has closed behind its answers is not waited for. */
    echo_hear_end(f, c, "three");
    assert_int_equal(shutdown(c, SHUT_WR), 0);
    echo_turns(f, 2);
    assert_false(f->stopped);
    assert_int_equal(conns_listener(f->conns, ECHO)->open, 1);
    echo_commit(&f->own);
    echo_run(f, echo_has_stopped);
    echo_hear_end(f, a, "two");
}

/* A reset would throw away answers that are on their way. */
CASE(a_stop_does_not_reset_a_peer_that_sends_on, f)
{
    const int a = echo_join(f, ECHO);

    fault_stop_clock();
    echo_ask(a, 'e', "one");
    echo_stop(f, 1000);
    fault_pass_ns(UINT64_C(20000000)); /* a tick */
    echo_hear(f, a, "one");
    echo_turns(f, 2);
    echo_ask(a, 'e', "late");
    echo_hear_end(f, a, "");
    assert_false(f->stopped);
    fault_pass_ns(UINT64_C(300000000));
    echo_turns(f, 3);
    assert_true(f->stopped);
}

CASE(a_stop_does_not_reset_a_peer_whose_acks_are_on_their_way, f)
{
    const int a = echo_join(f, WINS);

    fault_stop_clock();
    echo_ask_number(a, 'o', 2);
    echo_hear_nothing(f, a);
    echo_stop(f, 1000);
    fault_pass_ns(UINT64_C(20000000));  /* a tick */
    fault_pass_ns(UINT64_C(300000000)); /* it is quiet */
    echo_turns(f, 3);
    echo_commit(&f->own);
    echo_turns(f, 3);
    assert_int_equal(conns_listener(f->conns, WINS)->open, 1);
    echo_ask_number(a, 'o', 1);
    echo_hear_end(f, a, "WINWIN");
}

CASE(a_stop_gives_a_peer_all_its_time_to_take_its_answers, f)
{
    const int a = echo_join(f, ECHO);

    for (size_t i = 0; i < 40; i++)
        echo_ask_number(a, 'b', 500);
    echo_turns(f, 50);
    echo_stop(f, 600000);
    echo_turns(f, 50);
    fault_pass_ns(UINT64_C(540) * 1000000000);
    echo_turns(f, 50);
    assert_false(f->stopped);
    assert_int_equal(conns_listener(f->conns, ECHO)->open, 1);
    fault_pass_ns(UINT64_C(60) * 1000000000);
    echo_run(f, echo_has_stopped);
    (void)a; /* it never reads */
}

UNSTARTED(a_start_without_memory_leaks_nothing, f)
{
    const struct conns_options o = {.rows = f->rows,
                                    .count = ECHO_LISTENERS,
                                    .shared = 8,
                                    .pool_size = 1 << 21};
    int rc = -ENOMEM;

    for (unsigned n = 1; rc < 0; n++) {
        const char *call = n % 2 ? "malloc" : "calloc";

        fault_inject(call, (n + 1) / 2, ENOMEM);
        rc = conns_init(&f->conns, f->loop, &o);
        fault_clear();
        if (rc < 0)
            assert_rc(rc, -ENOMEM);
    }
}
