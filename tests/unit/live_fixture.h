/* tests/unit/live_fixture.h - a server of counters or semaphores on a loop in
 * this process, and peers of it over socket pairs and loopback connections.
 *
 *     start_counter(r);
 *     a = join_pair(r);
 *     expect_taken(a, "lamps", 3, 10);
 *     assert_int_equal(live_client_get(a, "lamps"), 3);
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_UNIT_LIVE_FIXTURE_H
#define COUNTD_TESTS_UNIT_LIVE_FIXTURE_H

#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/diag.h"
#include "tests/lib/checks.h"
#include "tests/lib/client.h"
#include "tests/lib/dialogue.h"
#include "tests/lib/fault.h"
#include "tests/lib/live_client.h"
#include "tests/lib/turns.h"
#include "writer/live/live_server.h"

#define PEERS_MAX 256
#define MIB       ((size_t)1 << 20)
#define LONG_NAME 65535

struct fixture {
    struct loop *loop;
    struct budget budget;
    struct live_server server;
    struct listener_config row;
    struct conns *conns;
    struct listener *listener;
    size_t pool_size; /* 0: enough */
    bool stopped;
    bool (*until)(struct fixture *r);
    struct live_client peers[PEERS_MAX];
    size_t peer_count;
    size_t turns, want_turns;
    size_t want;
    uint16_t port;
    unsigned fds;
    const struct dialogue_case *dialogue; /* of play() */
};

/* ---- the fixture -----------------------------------------------------------
 */

static inline bool
after_turn(void *ctx)
{
    struct fixture *r = ctx;

    /* The next turn comes at once anyway. */
    (void)conn_turn(r->conns);
    (void)live_server_turn(&r->server);
    r->turns++;
    if (r->until(r))
        loop_stop(r->loop);
    return true;
}

static inline void
run_until(struct fixture *r, bool (*until)(struct fixture *r))
{
    r->until = until;
    turns_run(r->loop);
}

static inline bool
has_turned(struct fixture *r)
{
    return r->turns >= r->want_turns;
}

static inline void
run_turns(struct fixture *r, size_t count)
{
    r->want_turns = r->turns + count;
    run_until(r, has_turned);
}

static inline bool
is_swept(struct fixture *r)
{
    return r->server.live.stats.swept >= r->want;
}

/* Bytes that wait, of all connections. */
static inline size_t
bytes_kept(const struct fixture *r)
{
    size_t sum = 0;

    for (size_t i = 0; i < r->listener->touched; i++) {
        const struct conn *c =
            (const void *)(r->listener->array + i * r->listener->stride);

        sum += (size_t)c->in.size + c->out.size;
    }
    return sum;
}

/* `o.holders` are the most, where it is not 0; r->row may say more. */
static inline void
start_server(struct fixture *r, struct live_options o)
{
    const struct conns_options conns = {
        .rows = &r->row,
        .count = 1,
        .shared = 4096,
        .pool_size = r->pool_size > 0 ? r->pool_size : 16 * MIB,
        .answer_max = LIVE_PROTOCOL_OUT_SIZE};

    if (r->budget.max == 0)
        r->budget.max = 256 * MIB;
    if (o.holders == 0)
        o.holders = 64;
    if (o.places == 0)
        o.places = 100000;
    if (o.window_s == 0)
        o.window_s = 86400;
    o.budget = &r->budget;
    r->row.name = "counter";
    r->row.max_key = "counter.max_connections";
    r->row.protocol = &live_protocol;
    r->row.ctx = &r->server;
    r->row.max = o.holders;
    r->row.keep_alive_s = LIVE_KEEP_ALIVE_S;
    r->loop = loop_new();
    assert_non_null(r->loop);
    assert_rc(live_server_init(&r->server, r->loop, &o), 0);
    assert_rc(conns_init(&r->conns, r->loop, &conns), 0);
    r->listener = conns_listener(r->conns, 0);
    r->server.listener = r->listener;
    loop_after_turn(r->loop, after_turn, r);
}

static inline void
start_counter(struct fixture *r)
{
    start_server(r, (struct live_options){.kind = LIVE_COUNTER});
}

/* As start_server(), on a port. */
static inline void
start_listening(struct fixture *r, struct live_options o)
{
    start_server(r, o);
    assert_rc(conns_listen(r->conns, 0, client_listen(&r->port)), 0);
}

static inline int
set_up(void **state)
{
    struct fixture *r = test_memory(calloc(1, sizeof *r));

    diag_init("test", DIAG_ERROR);
    (void)signal(SIGPIPE, SIG_IGN);
    r->fds = fault_open_fds();
    r->dialogue = *state;
    *state = r;
    return 0;
}

static inline int
tear_down(void **state)
{
    struct fixture *r = *state;

    dialogue_tell();
    fault_clear();
    for (size_t i = 0; i < r->peer_count; i++) {
        if (r->peers[i].fd >= 0)
            live_client_drop(&r->peers[i]);
    }
    if (r->loop) {
        assert_true(live_check(&r->server.live));
        conns_fini(r->conns);
        live_server_fini(&r->server);
        loop_free(r->loop);
    }
    assert_int_equal(r->budget.used, 0);
    assert_int_equal(fault_open_fds(), r->fds);
    free(r);
    return 0;
}

/* ---- peers ------------------------------------------------------------- */

static inline void
give_turns(void *ctx)
{
    run_turns(ctx, 3);
}

static inline void
join_on(struct fixture *r, struct live_client *p, int fd)
{
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    live_client_take(p, fd);
    p->turn = give_turns;
    p->turn_ctx = r;
}

static inline struct live_client *
add_peer(struct fixture *r, int fd)
{
    struct live_client *p = &r->peers[r->peer_count++];

    assert_true(r->peer_count <= PEERS_MAX);
    join_on(r, p, fd);
    return p;
}

/* `room`: of what the server sends; 0: the usual. */
static inline struct live_client *
join_with_room(struct fixture *r, int room)
{
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends),
                     0);
    if (room > 0)
        assert_int_equal(
            setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    assert_rc(conns_take(r->conns, 0, ends[1]), 0);
    return add_peer(r, ends[0]);
}

static inline struct live_client *
join_pair(struct fixture *r)
{
    return join_with_room(r, 0);
}

static inline struct live_client *
join_tcp(struct fixture *r)
{
    return add_peer(r, client_connect(r->port));
}

/* Sends, and lets the server read it. */
static inline void
say_bytes(struct fixture *r, struct live_client *p, const uint8_t *bytes,
          size_t size)
{
    live_client_send(p, bytes, size);
    run_turns(r, 3);
}

/* Reads whatever comes until the server closes. */
static inline void
read_to_end(struct fixture *r, const struct live_client *p)
{
    uint8_t bytes[4096];
    ssize_t n;

    do {
        run_turns(r, 1);
        n = read(p->fd, bytes, sizeof bytes);
    } while (n > 0 || (n < 0 && errno == EAGAIN));
}

static inline void
expect_taken(struct live_client *p, const char *name, uint32_t resources,
             uint32_t bound)
{
    assert_int_equal(live_client_acquire(p, name, resources, bound),
                     LIVE_CLIENT_OK);
}

/* Acquires 1 of each of `count` names, many of them at a time. */
static inline void
acquire_many(struct live_client *p, uint32_t count)
{
    enum { AHEAD = 1000 };
    static uint8_t bytes[AHEAD * 64];
    char name[32];

    for (uint32_t from = 0; from < count; from += AHEAD) {
        const uint32_t end = from + AHEAD < count ? from + AHEAD : count;
        uint8_t *at = bytes;

        for (uint32_t i = from; i < end; i++)
            at += live_client_put_acquire(
                at, i, name, (size_t)snprintf(name, sizeof name, "many:%u", i),
                1, 10);
        live_client_send(p, bytes, (size_t)(at - bytes));
        for (uint32_t i = from; i < end; i++)
            live_client_expect_u32(p, LIVE_CLIENT_ACQUIRE, i, 1);
    }
}

#define MIXED_MAX     1024
#define MIXED_ANSWERS 210 /* bytes of them */

/* Requests of each kind, which leave nothing behind that the next time would
 * see. */
static inline size_t
put_mixed(uint8_t bytes[MIXED_MAX])
{
    static const char name[] = "a name above what is kept in the struct: "
                               "sixty four bytes and some more";
    const size_t size = sizeof name - 1;
    uint8_t *at = bytes;

    at += live_client_put(at, LIVE_CLIENT_NOOP, 1, NULL, 0);
    at += live_client_put_acquire(at, 2, "short", 5, 2, 3);
    at += live_client_put(at, LIVE_CLIENT_GET, 3, "\0\5short and surplus",
                          2 + 17);
    at += live_client_put_acquire(at, 4, name, size, 1, 3);
    at += live_client_put_release(at, 5, name, size, 1);
    at += live_client_put(at, LIVE_CLIENT_GET, 6, "\0\0", 2);
    at += live_client_put(at, LIVE_CLIENT_ACQUIRE, 6, "short", 5);
    at +=
        live_client_put(at, LIVE_CLIENT_RELEASE, 6, "\0\0\0\1\0\7runs on", 12);
    at += live_client_put(at, 0x33, 7, "body of nothing", 15);
    at += live_client_put(at, LIVE_CLIENT_NOOP, 8,
                          "0123456789012345678901234567890", 31);
    at += live_client_put_release(at, 9, "short", 5, 2);
    return (size_t)(at - bytes);
}

static inline void
expect_mixed(struct live_client *p)
{
    live_client_expect(p, LIVE_CLIENT_NOOP, 1, LIVE_CLIENT_OK, NULL, 0);
    live_client_expect_u32(p, LIVE_CLIENT_ACQUIRE, 2, 2);
    live_client_expect_u32(p, LIVE_CLIENT_GET, 3, 2);
    live_client_expect_u32(p, LIVE_CLIENT_ACQUIRE, 4, 1);
    live_client_expect(p, LIVE_CLIENT_RELEASE, 5, LIVE_CLIENT_OK, NULL, 0);
    live_client_expect(p, LIVE_CLIENT_GET, 6, LIVE_CLIENT_INVALID, NULL, 0);
    live_client_expect(p, LIVE_CLIENT_ACQUIRE, 6, LIVE_CLIENT_INVALID, NULL, 0);
    live_client_expect(p, LIVE_CLIENT_RELEASE, 6, LIVE_CLIENT_INVALID, NULL, 0);
    live_client_expect(p, 0x33, 7, LIVE_CLIENT_UNKNOWN, NULL, 0);
    live_client_expect(p, LIVE_CLIENT_NOOP, 8, LIVE_CLIENT_OK, NULL, 0);
    live_client_expect(p, LIVE_CLIENT_RELEASE, 9, LIVE_CLIENT_OK, NULL, 0);
}

#endif
