/* tests/unit/live_fixture.h - a server of counters or semaphores on a loop in
 * this process, and peers of it over socket pairs and loopback connections.
 *
 *     start_counter(r);
 *     a = join_pair(r);
 *     ask_acquire(r, a, "lamps", 3, 10);
 *     expect_get(r, a, "lamps", 3);
 *
 * The last two are of live_requests.h.  `say_bytes` and what uses it turn the
 * loop until the server has answered; `send_later` leaves that to the next
 * turns.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_UNIT_LIVE_FIXTURE_H
#define COUNTD_TESTS_UNIT_LIVE_FIXTURE_H

#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
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
#include "writer/live/live_protocol.h"
#include "writer/live/live_server.h"

#define PEERS_MAX 256
#define MIB       ((size_t)1 << 20)
#define LONG_NAME 65535
#define QUIET     20 /* turns that change nothing */

/* A client.  It sends `out` as the socket takes it and gathers what comes. */
struct peer {
    int fd;
    bool deaf; /* does not read */
    bool ended;
    int error;
    const uint8_t *out;
    size_t out_size;
    uint8_t *in;
    size_t size, room;
};

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
    struct peer peers[PEERS_MAX];
    size_t peer_count;
    size_t turns, want_turns;
    struct peer *peer; /* `until` looks at this one */
    size_t want;
    uint16_t port;
    unsigned fds;
    const struct dialogue_case *dialogue; /* of play() */
};

/* ---- the fixture -----------------------------------------------------------
 */

static inline void
pump_in(struct peer *p)
{
    ssize_t n;

    while (!p->deaf && !p->ended) {
        if (p->room < p->size + 65536) {
            p->room = 2 * p->room + 65536;
            p->in = test_memory(realloc(p->in, p->room));
        }
        n = read(p->fd, p->in + p->size, 65536);
        if (n < 0 && errno == EAGAIN)
            return;
        p->error = n < 0 ? errno : 0;
        p->ended = n <= 0;
        p->size += n > 0 ? (size_t)n : 0;
    }
}

static inline void
pump_peer(struct peer *p)
{
    ssize_t n = 1;

    if (p->fd < 0)
        return;
    while (p->out_size > 0 && n > 0) {
        n = write(p->fd, p->out, p->out_size);
        if (n < 0 && errno != EAGAIN)
            p->out_size = 0; /* the other side has gone */
        if (n > 0) {
            p->out += n;
            p->out_size -= (size_t)n;
        }
    }
    pump_in(p);
}

static inline bool
after_turn(void *ctx)
{
    struct fixture *r = ctx;

    /* The next turn comes at once anyway. */
    (void)conn_turn(r->conns);
    (void)live_server_turn(&r->server);
    r->turns++;
    for (size_t i = 0; i < r->peer_count; i++)
        pump_peer(&r->peers[i]);
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
is_answered(struct fixture *r)
{
    return r->peer->ended || r->peer->size >= r->want;
}

static inline bool
has_ended(struct fixture *r)
{
    return r->peer->ended;
}

static inline bool
is_sent(struct fixture *r)
{
    return r->peer->out_size == 0;
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
        o.places = 1000;
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
    struct net_address address, bound;
    char text[NET_ADDRESS_SIZE];
    int fd;

    start_server(r, o);
    assert_rc(net_parse("127.0.0.1:0", &address), 0);
    fd = net_listen(&address, 0, &bound);
    assert_true(fd >= 0);
    assert_rc(conns_listen(r->conns, 0, fd), 0);
    net_format(&bound, text);
    r->port = (uint16_t)strtoul(strrchr(text, ':') + 1, NULL, 10);
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
            close(r->peers[i].fd);
        free(r->peers[i].in);
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

static inline struct peer *
add_peer(struct fixture *r, int fd)
{
    struct peer *p = &r->peers[r->peer_count++];

    assert_true(r->peer_count <= PEERS_MAX);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    p->fd = fd;
    return p;
}

static inline struct peer *
join_pair(struct fixture *r)
{
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends),
                     0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    assert_rc(conns_take(r->conns, 0, ends[1]), 0);
    return add_peer(r, ends[0]);
}

static inline struct peer *
join_tcp(struct fixture *r)
{
    return add_peer(r, client_connect(r->port));
}

/* Does not read from now on, and has little room. */
static inline void
go_deaf(struct peer *p)
{
    const int size = 16384;

    assert_int_equal(
        setsockopt(p->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size), 0);
    p->deaf = true;
}

static inline void
leave_server(struct fixture *r, struct peer *p)
{
    (void)r;
    close(p->fd);
    p->fd = -1;
}

static inline void
reset_peer(struct peer *p)
{
    client_reset(p->fd);
    p->fd = -1;
}

static inline void
half_close(struct peer *p)
{
    assert_int_equal(shutdown(p->fd, SHUT_WR), 0);
}

/* The bytes must stay until they are sent. */
static inline void
send_later(struct peer *p, const uint8_t *bytes, size_t size)
{
    assert_int_equal(p->out_size, 0);
    p->out = bytes;
    p->out_size = size;
}

/* Sends, and waits until the server has read it all and answered. */
static inline void
say_bytes(struct fixture *r, struct peer *p, const uint8_t *bytes, size_t size)
{
    send_later(p, bytes, size);
    r->peer = p;
    run_until(r, is_sent);
    run_turns(r, 3);
}

static inline void
await_bytes(struct fixture *r, struct peer *p, size_t size)
{
    r->peer = p;
    r->want = size;
    run_until(r, is_answered);
    assert_false(p->ended && p->size < size);
}

/* The next bytes that came are these; they are taken. */
static inline void
expect_bytes(struct fixture *r, struct peer *p, const uint8_t *bytes,
             size_t size)
{
    await_bytes(r, p, size);
    assert_memory_equal(p->in, bytes, size);
    memmove(p->in, p->in + size, p->size - size);
    p->size -= size;
}

static inline void
expect_nothing(struct fixture *r, struct peer *p)
{
    run_turns(r, QUIET);
    assert_false(p->ended);
    assert_int_equal(p->size, 0);
}

static inline void
expect_end(struct fixture *r, struct peer *p)
{
    r->peer = p;
    run_until(r, has_ended);
    assert_int_equal(p->size, 0);
}

#endif
