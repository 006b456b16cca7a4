/* tests/unit/test_live_limits.c - counters and semaphores where places, memory
 * or a call of a socket fail. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/live_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- limits ------------------------------------------------------------ */

#define CASE(name, r) TEST_IN(name, struct fixture *r, set_up, tear_down)

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
static struct live_client *
join_half(struct fixture *r, size_t size)
{
    static uint8_t name[LONG_NAME], bytes[LONG_NAME + 64];
    struct live_client *p = join_pair(r);

    live_client_put_acquire(bytes, 1, name, sizeof name, 1, 100);
    say_bytes(r, p, bytes, size);
    return p;
}

/* It reads nothing, and its socket takes little: `count` answers wait. */
static struct live_client *
join_stuck(struct fixture *r, uint32_t count, const char *lock)
{
    static uint8_t bytes[PEERS_MAX * LIVE_CLIENT_HEADER];
    struct live_client *p = join_with_room(r, 4096);
    uint8_t *at = bytes;

    assert_true(count <= PEERS_MAX);
    if (lock)
        expect_taken(p, lock, 1, 1);
    for (uint32_t i = 0; i < count; i++)
        at += live_client_put(at, LIVE_CLIENT_STATS, i, NULL, 0);
    say_bytes(r, p, bytes, (size_t)(at - bytes));
    return p;
}

CASE(a_long_name_that_is_announced_takes_no_memory, r)
{
    start_short_of_memory(r);
    for (size_t i = 0; i < 100; i++)
        (void)join_half(r, 64); /* they stay */
    assert_int_equal(bytes_kept(r), 6400);
    for (size_t i = 0; i < r->peer_count; i++)
        live_client_expect_nothing(&r->peers[i], 0);
}

CASE(where_memory_is_short_answers_still_come, r)
{
    struct live_client_stats stats;
    struct live_client *p, *q;

    start_short_of_memory(r);
    (void)join_stuck(r, 200, NULL);
    p = join_stuck(r, 200, LOCK);
    q = join_pair(r);
    assert_int_equal(live_client_get(q, LOCK), 1);
    for (uint32_t i = 0; i < 200; i++)
        live_client_read_stats(p, i, &stats);
    live_client_noop(p);
}

/* ---- sockets ----------------------------------------------------------- */

CASE(errors_of_a_socket_end_its_connection_only, r)
{
    static const char *const calls[] = {"recv", "send"};
    uint8_t bytes[64];
    struct live_client *p, *q;

    start_counter(r);
    q = join_pair(r);
    for (size_t i = 0; i < 2; i++) {
        p = join_pair(r);
        expect_taken(p, "n", 1, 1);
        fault_inject(calls[i], 1, ECONNRESET);
        live_client_send(p, bytes,
                         live_client_put(bytes, LIVE_CLIENT_NOOP, 1, NULL, 0));
        live_client_expect_end(p);
        assert_true(fault_hit());
        fault_clear();
        assert_int_equal(live_client_get(q, "n"), 0);
    }
}

CASE(a_send_may_fail_while_answers_wait, r)
{
    struct live_client *p, *q;

    start_counter(r);
    q = join_pair(r);
    p = join_stuck(r, 200, "n");
    assert_in_range(bytes_kept(r), 1, LIVE_PROTOCOL_OUT_SIZE);
    fault_inject("sendmsg", 1, ECONNRESET);
    read_to_end(r, p);
    fault_clear();

    assert_int_equal(live_client_get(q, "n"), 0);
    assert_int_equal(bytes_kept(r), 0);
}

CASE(a_send_may_fail_in_each_piece_of_a_dump, r)
{
    struct live_client *p, *q;
    uint8_t bytes[64];

    start_counter(r);
    q = join_pair(r);
    acquire_many(q, 10000); /* five pieces */
    for (unsigned n = 1; n <= 5; n++) {
        p = join_pair(r);
        expect_taken(p, "n", 1, 1);
        fault_inject("send", n, ECONNRESET);
        live_client_send(p, bytes,
                         live_client_put(bytes, LIVE_CLIENT_DUMP, 1, NULL, 0));
        read_to_end(r, p);
        assert_true(fault_hit());
        fault_clear();
        assert_int_equal(live_client_get(q, "n"), 0);
    }

    assert_int_equal(bytes_kept(r), 0);
}

CASE(what_cannot_be_watched_is_not_taken, r)
{
    int ends[2];

    start_listening(r,
                    (struct live_options){.kind = LIVE_COUNTER, .holders = 1});
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);

    fault_inject("epoll_ctl", 1, ENOSPC);
    assert_rc(conns_take(r->conns, 0, ends[1]), -ENOSPC);
    fault_inject("epoll_ctl", 1, ENOSPC);
    assert_rc(conns_listen(r->conns, 0, ends[1]), -ENOSPC);
    fault_inject("epoll_ctl", 1, ENOSPC);
    live_client_expect_end(join_tcp(r)); /* it was accepted */
    fault_clear();
    assert_int_equal(r->listener->used, 0);
    live_client_noop(join_tcp(r));
    assert_rc(conns_take(r->conns, 0, ends[1]), -EMFILE);

    close(ends[0]);
    close(ends[1]);
}

CASE(interrupted_and_short_calls_are_made_again, r)
{
    uint8_t bytes[MIXED_MAX];
    const size_t size = put_mixed(bytes);
    struct live_client *p;

    start_counter(r);
    p = join_pair(r);
    for (size_t n = 1; n < MIXED_ANSWERS; n++) {
        if (n % 2)
            fault_short("send", 1, n);
        else
            fault_inject(n % 4 ? "send" : "recv", 1, EINTR);
        live_client_send(p, bytes, size);
        expect_mixed(p);
        assert_true(fault_hit());
        fault_clear();
    }

    assert_int_equal(bytes_kept(r), 0);
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
