/* tests/unit/test_live_limits.c - counters and semaphores where places, memory
 * or a call of a socket fail. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/live_requests.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- limits ------------------------------------------------------------ */

#define CASE(name, r) TEST_IN(name, struct fixture *r, set_up, tear_down)

CASE(a_number_in_use_by_holdings_is_not_given_out, r)
{
    struct peer *p, *q;

    start_listening(r,
                    (struct live_options){.kind = LIVE_COUNTER, .holders = 1});
    p = join_tcp(r);
    acquire_many(r, p, 200000);
    leave_server(r, p);
    q = join_tcp(r);

    ask_noop(r, q); /* waits until then */
    expect_get(r, q, "many:7", 0);
}

/* A name above what is kept in the struct of a connection. */
#define LOCK "the name of a lock that has more than forty-eight bytes in it"

/* With as little as there may be for what must wait. */
static void
start_short_of_memory(struct fixture *r)
{
    r->pool_size = 160 << 10;
    start_server(
        r, (struct live_options){.kind = LIVE_COUNTER, .holders = PEERS_MAX});
}

/* The first `size` bytes of a request that announces a long name. */
static struct peer *
join_half(struct fixture *r, size_t size)
{
    static uint8_t name[LONG_NAME], bytes[LONG_NAME + 64];
    struct peer *p = join_pair(r);

    live_client_put_acquire(bytes, 1, name, sizeof name, 1, 100);
    say_bytes(r, p, bytes, size);
    return p;
}

static size_t
count_ended(const struct fixture *r)
{
    size_t count = 0;

    for (size_t i = 0; i < r->peer_count; i++)
        count += r->peers[i].ended;
    return count;
}

/* It reads nothing, and its socket takes little: `count` answers wait. */
static struct peer *
join_stuck(struct fixture *r, uint32_t count, const char *lock)
{
    static uint8_t bytes[PEERS_MAX * LIVE_CLIENT_HEADER];
    const int size = 4096;
    uint8_t *at = bytes;
    struct peer *p;
    int ends[2];

    assert_true(count <= PEERS_MAX);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends),
                     0);
    assert_int_equal(
        setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    assert_rc(conns_take(r->conns, 0, ends[1]), 0);
    p = add_peer(r, ends[0]);
    if (lock)
        ask_acquire(r, p, lock, 1, 1);
    p->deaf = true;
    for (uint32_t i = 0; i < count; i++)
        at += live_client_put(at, LIVE_CLIENT_STATS, i, NULL, 0);
    say_bytes(r, p, bytes, (size_t)(at - bytes));
    return p;
}

/* All `count` answers of a stuck one come in the end. */
static void
expect_all(struct fixture *r, struct peer *p, uint32_t count)
{
    size_t at = 0;

    p->deaf = false;
    for (uint32_t i = 0; i < count; i++) {
        await_bytes(r, p, at + LIVE_CLIENT_HEADER);
        assert_int_equal(get_be32(p->in + at), 0x91100000);
        assert_int_equal(get_be32(p->in + at + 8), i);
        at += LIVE_CLIENT_HEADER + get_be32(p->in + at + 4);
    }
    await_bytes(r, p, at);
    assert_int_equal(p->size, at);
    p->size = 0;
}

CASE(a_long_name_that_is_announced_takes_no_memory, r)
{
    start_short_of_memory(r);
    for (size_t i = 0; i < 100; i++)
        (void)join_half(r, 64); /* they stay */
    assert_int_equal(bytes_kept(r), 6400);
    assert_int_equal(count_ended(r), 0);
}

CASE(where_memory_is_short_answers_still_come, r)
{
    struct peer *p, *q;

    start_short_of_memory(r);
    (void)join_stuck(r, 200, NULL);
    p = join_stuck(r, 200, LOCK);
    q = join_pair(r);
    expect_get(r, q, LOCK, 1);
    expect_all(r, p, 200);
    ask_noop(r, p);
}

/* ---- sockets ----------------------------------------------------------- */

/* The server's end of a connection: the descriptor whose peer this is. */
static int
other_end(const struct peer *p)
{
    struct sockaddr_in mine, theirs;
    socklen_t size = sizeof mine;

    assert_int_equal(getsockname(p->fd, (struct sockaddr *)&mine, &size), 0);
    for (int fd = 3; fd < 1024; fd++) {
        size = sizeof theirs;
        if (fd != p->fd &&
            getpeername(fd, (struct sockaddr *)&theirs, &size) == 0 &&
            theirs.sin_family == AF_INET && theirs.sin_port == mine.sin_port)
            return fd;
    }
    fail_msg("no other end");
    return -1;
}

static int
get_option(int fd, int level, int name)
{
    socklen_t size = sizeof(int);
    int v = 0;

    assert_int_equal(getsockopt(fd, level, name, &v, &size), 0);
    return v;
}

CASE(vanished_peers_are_found_by_keepalive, r)
{
    struct peer *p;
    int fd;

    start_listening(r, (struct live_options){.kind = LIVE_COUNTER});
    p = join_tcp(r);
    ask_noop(r, p);
    fd = other_end(p);

    assert_int_equal(get_option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    assert_int_equal(get_option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 300);
    assert_int_equal(get_option(fd, IPPROTO_TCP, TCP_KEEPINTVL), 5);
    assert_int_equal(get_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 345000);
    assert_int_equal(get_option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
}

CASE(errors_of_a_socket_end_its_connection_only, r)
{
    static const char *const calls[] = {"recv", "send"};
    uint8_t bytes[64];
    struct peer *p, *q;

    start_counter(r);
    q = join_pair(r);
    for (size_t i = 0; i < 2; i++) {
        p = join_pair(r);
        ask_acquire(r, p, "n", 1, 1);
        fault_inject(calls[i], 1, ECONNRESET);
        say_bytes(r, p, bytes,
                  live_client_put(bytes, LIVE_CLIENT_NOOP, 1, NULL, 0));
        assert_true(fault_hit());
        fault_clear();
        expect_end(r, p);
        expect_get(r, q, "n", 0);
    }
}

CASE(a_send_may_fail_while_answers_wait, r)
{
    struct peer *p, *q;

    start_counter(r);
    q = join_pair(r);
    p = join_stuck(r, 200, "n");
    assert_in_range(bytes_kept(r), 1, LIVE_PROTOCOL_OUT_SIZE);
    fault_inject("sendmsg", 1, ECONNRESET);
    p->deaf = false;
    r->peer = p;
    run_until(r, has_ended);
    fault_clear();

    expect_get(r, q, "n", 0);
    assert_int_equal(bytes_kept(r), 0);
}

CASE(a_send_may_fail_in_each_piece_of_a_dump, r)
{
    struct peer *p, *q;
    uint8_t bytes[64];

    start_counter(r);
    q = join_pair(r);
    acquire_many(r, q, 10000); /* five pieces */
    for (unsigned n = 1; n <= 5; n++) {
        p = join_pair(r);
        ask_acquire(r, p, "n", 1, 1);
        fault_inject("send", n, ECONNRESET);
        say_bytes(r, p, bytes,
                  live_client_put(bytes, LIVE_CLIENT_DUMP, 1, NULL, 0));
        r->peer = p;
        run_until(r, has_ended);
        assert_true(fault_hit());
        fault_clear();
        expect_get(r, q, "n", 0);
    }

    assert_int_equal(bytes_kept(r), 0);
}

CASE(what_is_not_taken_stays_the_callers, r)
{
    int ends[2];

    start_server(r, (struct live_options){.kind = LIVE_COUNTER, .holders = 1});
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);

    fault_inject("epoll_ctl", 1, ENOSPC);
    assert_rc(conns_take(r->conns, 0, ends[1]), -ENOSPC);
    fault_inject("epoll_ctl", 1, ENOSPC);
    assert_rc(conns_listen(r->conns, 0, ends[1]), -ENOSPC);
    fault_clear();
    ask_noop(r, join_pair(r));
    assert_rc(conns_take(r->conns, 0, ends[1]), -EMFILE);

    close(ends[0]);
    close(ends[1]);
}

CASE(interrupted_and_short_calls_are_made_again, r)
{
    uint8_t bytes[1024], answers[1024];
    size_t size, answers_size;
    struct peer *p;

    start_counter(r);
    p = join_pair(r);
    size = mixed_requests(bytes, answers, &answers_size);
    for (size_t n = 1; n < answers_size; n++) {
        if (n % 2)
            fault_short("send", 1, n);
        else
            fault_inject(n % 4 ? "send" : "recv", 1, EINTR);
        say_bytes(r, p, bytes, size);
        expect_bytes(r, p, answers, answers_size);
        assert_true(fault_hit());
        fault_clear();
    }

    assert_int_equal(bytes_kept(r), 0);
}

CASE(a_connection_that_cannot_be_watched_is_not_taken, r)
{
    struct peer *p;

    diag_init("test_live_server", DIAG_ERROR);
    start_listening(r, (struct live_options){.kind = LIVE_COUNTER});
    fault_inject("epoll_ctl", 1, ENOSPC);
    p = join_tcp(r);
    expect_end(r, p);
    fault_clear();

    assert_int_equal(r->listener->used, 0);
    ask_noop(r, join_tcp(r));
}

CASE(a_budget_that_is_too_small_is_no_start, r)
{
    struct live_options o = {.kind = LIVE_COUNTER,
                             .holders = 10,
                             .places = 1000,
                             .window_s = 10,
                             .budget = &r->budget};
    struct loop *loop = loop_new();

    assert_non_null(loop);
    for (uint64_t max = 16; max <= MIB; max *= 2) {
        r->budget.max = max;
        if (live_server_init(&r->server, loop, &o) == 0) {
            assert_true(r->budget.used <= max);
            live_server_fini(&r->server);
        }
        assert_int_equal(r->budget.used, 0);
    }
    loop_free(loop);
}
