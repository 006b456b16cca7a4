/* tests/unit/test_live_server.c - the counter and semaphore protocols over
 * socket pairs and loopback connections, with a real loop and real objects. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/diag.h"
#include "tests/lib/checks.h"
#include "tests/lib/client.h"
#include "tests/lib/dialogue.h"
#include "tests/lib/fault.h"
#include "tests/lib/taker.h"
#include "tests/lib/turns.h"
#include "writer/live/protocol.h"
#include "writer/live/server.h"

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

struct rig {
    struct loop *loop;
    struct budget budget;
    struct live_server server;
    struct door_row row;
    struct conns *conns;
    struct door *door;
    size_t pool_size; /* 0: enough */
    bool stopped;
    bool (*until)(struct rig *r);
    struct peer peers[PEERS_MAX];
    size_t peer_count;
    size_t turns, want_turns;
    struct peer *peer; /* `until` looks at this one */
    size_t want;
    uint16_t port;
    unsigned fds;
    const struct dialogue_case *dialogue; /* of play() */
};

/* ---- the rig ----------------------------------------------------------- */

static void
pump_in(struct peer *p)
{
    ssize_t n;

    while (!p->deaf && !p->ended) {
        if (p->room < p->size + 65536) {
            p->room = 2 * p->room + 65536;
            p->in = realloc(p->in, p->room);
            assert_non_null(p->in);
        }
        n = read(p->fd, p->in + p->size, 65536);
        if (n < 0 && errno == EAGAIN)
            return;
        p->error = n < 0 ? errno : 0;
        p->ended = n <= 0;
        p->size += n > 0 ? (size_t)n : 0;
    }
}

static void
pump(struct peer *p)
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

static bool
after_turn(void *ctx)
{
    struct rig *r = ctx;
    size_t i;

    /* The next turn comes at once anyway. */
    (void)conn_turn(r->conns);
    (void)live_server_turn(&r->server);
    r->turns++;
    for (i = 0; i < r->peer_count; i++)
        pump(&r->peers[i]);
    if (r->until(r))
        loop_stop(r->loop);
    return true;
}

static void
run(struct rig *r, bool (*until)(struct rig *r))
{
    r->until = until;
    turns_run(r->loop);
}

static bool
turned(struct rig *r)
{
    return r->turns >= r->want_turns;
}

static void
turns(struct rig *r, size_t count)
{
    r->want_turns = r->turns + count;
    run(r, turned);
}

static bool
is_answered(struct rig *r)
{
    return r->peer->ended || r->peer->size >= r->want;
}

static bool
has_ended(struct rig *r)
{
    return r->peer->ended;
}

static bool
is_sent(struct rig *r)
{
    return r->peer->out_size == 0;
}

static bool
is_empty(struct rig *r)
{
    return r->door->used == 0;
}

static bool
is_swept(struct rig *r)
{
    return r->server.live.figures.swept >= r->want;
}

/* Bytes that wait, of all connections. */
static size_t
kept(const struct rig *r)
{
    size_t i, sum = 0;

    for (i = 0; i < r->door->touched; i++) {
        const struct conn *c =
            (const void *)(r->door->array + i * r->door->stride);

        sum += (size_t)c->in.size + c->out.size + c->small_size;
    }
    return sum;
}

/* `o.connections` are the most, where it is not 0; r->row may say more. */
static void
start(struct rig *r, struct live_server_options o)
{
    const struct conns_options conns = {
        .rows = &r->row,
        .count = 1,
        .shared = 4096,
        .pool_size = r->pool_size > 0 ? r->pool_size : 16 * MIB,
        .answer_max = REQUESTS_OUT_SIZE};

    if (r->budget.max == 0)
        r->budget.max = 256 * MIB;
    if (o.connections == 0)
        o.connections = 64;
    if (o.slots == 0)
        o.slots = 1000;
    if (o.interval_s == 0)
        o.interval_s = 86400;
    o.budget = &r->budget;
    r->row.name = "counter";
    r->row.max_key = "counter.max_connections";
    r->row.protocol = &live_protocol;
    r->row.ctx = &r->server;
    r->row.max = o.connections;
    r->row.keep_alive_s = LIVE_KEEP_ALIVE_S;
    r->loop = loop_new();
    assert_non_null(r->loop);
    assert_rc(live_server_init(&r->server, r->loop, &o), 0);
    assert_rc(conns_init(&r->conns, r->loop, &conns), 0);
    r->door = conns_door(r->conns, 0);
    r->server.door = r->door;
    loop_after_turn(r->loop, after_turn, r);
}

static void
start_counter(struct rig *r)
{
    start(r, (struct live_server_options){.kind = LIVE_COUNTER});
}

/* As start(), on a port. */
static void
start_listening(struct rig *r, struct live_server_options o)
{
    struct net_address address, bound;
    char text[NET_ADDRESS_SIZE];
    int fd;

    start(r, o);
    assert_rc(net_parse("127.0.0.1:0", &address), 0);
    fd = net_listen(&address, 0, &bound);
    assert_true(fd >= 0);
    assert_rc(conns_listen(r->conns, 0, fd), 0);
    net_format(&bound, text);
    r->port = (uint16_t)strtoul(strrchr(text, ':') + 1, NULL, 10);
}

static int
set_up(void **state)
{
    struct rig *r = calloc(1, sizeof *r);

    assert_non_null(r);
    diag_init("test_live_server", DIAG_ERROR);
    (void)signal(SIGPIPE, SIG_IGN); /* cannot fail */
    r->fds = fault_open_fds();
    r->dialogue = *state;
    *state = r;
    return 0;
}

static int
tear_down(void **state)
{
    struct rig *r = *state;
    size_t i;

    dialogue_tell();
    fault_clear();
    for (i = 0; i < r->peer_count; i++) {
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

static struct peer *
add_peer(struct rig *r, int fd)
{
    struct peer *p = &r->peers[r->peer_count++];

    assert_true(r->peer_count <= PEERS_MAX);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    p->fd = fd;
    return p;
}

static struct peer *
join(struct rig *r)
{
    int ends[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends),
                     0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    assert_rc(conns_take(r->conns, 0, ends[1]), 0);
    return add_peer(r, ends[0]);
}

static struct peer *
join_tcp(struct rig *r)
{
    return add_peer(r, client_connect(r->port));
}

/* Does not read from now on, and has little room. */
static void
go_deaf(struct peer *p)
{
    const int size = 16384;

    assert_int_equal(
        setsockopt(p->fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size), 0);
    p->deaf = true;
}

static void
leave(struct rig *r, struct peer *p)
{
    (void)r;
    close(p->fd);
    p->fd = -1;
}

static void
reset(struct peer *p)
{
    client_reset(p->fd);
    p->fd = -1;
}

static void
half_close(struct peer *p)
{
    assert_int_equal(shutdown(p->fd, SHUT_WR), 0);
}

/* The bytes must stay until they are sent. */
static void
send_later(struct peer *p, const uint8_t *bytes, size_t size)
{
    assert_int_equal(p->out_size, 0);
    p->out = bytes;
    p->out_size = size;
}

/* Sends, and waits until the server has read it all and answered. */
static void
say(struct rig *r, struct peer *p, const uint8_t *bytes, size_t size)
{
    send_later(p, bytes, size);
    r->peer = p;
    run(r, is_sent);
    turns(r, 3);
}

static void
await(struct rig *r, struct peer *p, size_t size)
{
    r->peer = p;
    r->want = size;
    run(r, is_answered);
    assert_false(p->ended && p->size < size);
}

/* The next bytes that came are these; they are taken. */
static void
expect(struct rig *r, struct peer *p, const uint8_t *bytes, size_t size)
{
    await(r, p, size);
    assert_memory_equal(p->in, bytes, size);
    memmove(p->in, p->in + size, p->size - size);
    p->size -= size;
}

static void
expect_nothing(struct rig *r, struct peer *p)
{
    turns(r, QUIET);
    assert_false(p->ended);
    assert_int_equal(p->size, 0);
}

static void
expect_end(struct rig *r, struct peer *p)
{
    r->peer = p;
    run(r, has_ended);
    assert_int_equal(p->size, 0);
}

/* ---- answers ----------------------------------------------------------- */

static size_t
answer(uint8_t *at, uint8_t opcode, uint8_t status, uint32_t opaque,
       const void *body, size_t size)
{
    at[0] = 0x91;
    at[1] = opcode;
    at[2] = status;
    at[3] = 0;
    put_be32(at + 4, (uint32_t)size);
    put_be32(at + 8, opaque);
    if (size > 0)
        memcpy(at + 12, body, size);
    return 12 + size;
}

static size_t
failure(uint8_t *at, uint8_t opcode, uint8_t status, uint32_t opaque)
{
    const char *text = status == TAKER_NOT_FOUND   ? "Not found"
                       : status == TAKER_INVALID   ? "Invalid arguments"
                       : status == TAKER_FULL      ? "Resource not available"
                       : status == TAKER_NOT_HELD  ? "Not acquired"
                       : status == TAKER_NO_MEMORY ? "OutOfMemory"
                                                   : "Unknown command";

    return answer(at, opcode, status, opaque, text, strlen(text));
}

static size_t
value(uint8_t *at, uint8_t opcode, uint32_t opaque, uint32_t v)
{
    uint8_t body[4];

    put_be32(body, v);
    return answer(at, opcode, TAKER_OK, opaque, body, sizeof body);
}

static void
expect_failure(struct rig *r, struct peer *p, uint8_t opcode, uint8_t status,
               uint32_t opaque)
{
    uint8_t bytes[64];

    expect(r, p, bytes, failure(bytes, opcode, status, opaque));
}

static void
expect_number(struct rig *r, struct peer *p, uint8_t opcode, uint32_t opaque,
              uint32_t v)
{
    uint8_t bytes[64];

    expect(r, p, bytes, value(bytes, opcode, opaque, v));
}

static void
expect_done(struct rig *r, struct peer *p, uint8_t opcode, uint32_t opaque)
{
    uint8_t bytes[64];

    expect(r, p, bytes, answer(bytes, opcode, TAKER_OK, opaque, NULL, 0));
}

/* ---- round trips ------------------------------------------------------- */

static void
noop(struct rig *r, struct peer *p)
{
    uint8_t bytes[TAKER_HEADER];

    say(r, p, bytes, taker_put(bytes, TAKER_NOOP, 0x6e6f6f70, NULL, 0));
    expect_done(r, p, TAKER_NOOP, 0x6e6f6f70);
}

static void
acquire(struct rig *r, struct peer *p, const char *name, uint32_t resources,
        uint32_t bound)
{
    uint8_t bytes[256];

    say(r, p, bytes,
        taker_put_acquire(bytes, 7, name, strlen(name), resources, bound));
    expect_number(r, p, TAKER_ACQUIRE, 7, resources);
}

static void
expect_get(struct rig *r, struct peer *p, const char *name, uint32_t v)
{
    uint8_t bytes[256];

    say(r, p, bytes, taker_put_get(bytes, 8, name, strlen(name)));
    expect_number(r, p, TAKER_GET, 8, v);
}

static void
expect_absent(struct rig *r, struct peer *p, const char *name)
{
    uint8_t bytes[256];

    say(r, p, bytes, taker_put_get(bytes, 8, name, strlen(name)));
    expect_failure(r, p, TAKER_GET, TAKER_NOT_FOUND, 8);
}

/* Acquires 1 of each of `count` names, pipelined. */
static void
acquire_many(struct rig *r, struct peer *p, size_t count)
{
    uint8_t *bytes = malloc(count * 64), *at = bytes;
    char name[32];
    size_t i, size;

    assert_non_null(bytes);
    for (i = 0; i < count; i++) {
        size = (size_t)snprintf(name, sizeof name, "many:%zu", i);
        at += taker_put_acquire(at, (uint32_t)i, name, size, 1, 10);
    }
    send_later(p, bytes, (size_t)(at - bytes));
    await(r, p, 16 * count);
    assert_int_equal(p->size, 16 * count);
    for (i = 0; i < count; i++) {
        assert_int_equal(p->in[16 * i + 2], TAKER_OK);
        assert_int_equal(get_be32(p->in + 16 * i + 8), i);
    }
    p->size = 0;
    free(bytes);
}

/* ---- the stream -------------------------------------------------------- */

/* One of each kind; leaves nothing behind that the next time would see. */
static size_t
mixed_requests(uint8_t *bytes, uint8_t *answers, size_t *answers_size)
{
    static const char name[] = "a name above what is kept in the struct: "
                               "sixty four bytes and some more";
    const size_t size = sizeof name - 1;
    uint8_t *at = bytes, *to = answers;

    at += taker_put(at, TAKER_NOOP, 1, NULL, 0);
    to += answer(to, TAKER_NOOP, TAKER_OK, 1, NULL, 0);
    at += taker_put_acquire(at, 2, "short", 5, 2, 3);
    to += value(to, TAKER_ACQUIRE, 2, 2);
    at += taker_put(at, TAKER_GET, 3, "\0\5short and surplus", 2 + 17);
    to += value(to, TAKER_GET, 3, 2);
    at += taker_put_acquire(at, 4, name, size, 1, 3);
    to += value(to, TAKER_ACQUIRE, 4, 1);
    at += taker_put_release(at, 5, name, size, 1);
    to += answer(to, TAKER_RELEASE, TAKER_OK, 5, NULL, 0);
    at += taker_put(at, TAKER_GET, 6, "\0\0", 2);
    to += failure(to, TAKER_GET, TAKER_INVALID, 6);
    at += taker_put(at, TAKER_ACQUIRE, 6, "short", 5);
    to += failure(to, TAKER_ACQUIRE, TAKER_INVALID, 6);
    at += taker_put(at, TAKER_RELEASE, 6, "\0\0\0\1\0\7runs on", 12);
    to += failure(to, TAKER_RELEASE, TAKER_INVALID, 6);
    at += taker_put(at, 0x33, 7, "body of nothing", 15);
    to += failure(to, 0x33, TAKER_UNKNOWN, 7);
    at += taker_put(at, TAKER_NOOP, 8, "0123456789012345678901234567890", 31);
    to += answer(to, TAKER_NOOP, TAKER_OK, 8, NULL, 0);
    at += taker_put_release(at, 9, "short", 5, 2);
    to += answer(to, TAKER_RELEASE, TAKER_OK, 9, NULL, 0);
    *answers_size = (size_t)(to - answers);
    return (size_t)(at - bytes);
}

static void
requests_may_be_cut_anywhere(void **state)
{
    struct rig *r = *state;
    uint8_t bytes[1024], answers[1024];
    size_t size, answers_size, cut;
    struct peer *p;

    start_counter(r);
    p = join(r);
    size = mixed_requests(bytes, answers, &answers_size);
    for (cut = 1; cut < size; cut++) {
        say(r, p, bytes, cut);
        say(r, p, bytes + cut, size - cut);
        expect(r, p, answers, answers_size);
        assert_int_equal(p->size, 0);
    }

    assert_int_equal(kept(r), 0);
}

static void
requests_may_come_byte_by_byte(void **state)
{
    struct rig *r = *state;
    uint8_t bytes[1024], answers[1024];
    size_t size, answers_size, i;
    struct peer *p;

    start_counter(r);
    p = join(r);
    size = mixed_requests(bytes, answers, &answers_size);
    for (i = 0; i < size; i++)
        say(r, p, bytes + i, 1);

    expect(r, p, answers, answers_size);
    expect_nothing(r, p);
}

static void
a_thousand_requests_in_one_write_are_answered_in_order(void **state)
{
    struct rig *r = *state;
    uint8_t bytes[1000 * 32], answers[1000 * 32], *at = bytes, *to = answers;
    struct peer *p;
    uint32_t i;

    start_counter(r);
    p = join(r);
    for (i = 0; i < 1000; i++) {
        if (i % 3 == 0) {
            at += taker_put_acquire(at, i, "n", 1, 1, 1);
            to += value(to, TAKER_ACQUIRE, i, 1);
        } else if (i % 3 == 1) {
            at += taker_put_get(at, i, "n", 1);
            to += value(to, TAKER_GET, i, 1);
        } else {
            at += taker_put_release(at, i, "n", 1, 1);
            to += answer(to, TAKER_RELEASE, TAKER_OK, i, NULL, 0);
        }
    }
    send_later(p, bytes, (size_t)(at - bytes));

    expect(r, p, answers, (size_t)(to - answers));
    expect_nothing(r, p);
}

static void
names_have_up_to_65535_bytes(void **state)
{
    static const size_t cuts[] = {11, 12, 21, 22, 23, 47, 48, 49, 60000, 65556};
    static uint8_t name[LONG_NAME], bytes[LONG_NAME + 64];
    struct rig *r = *state;
    struct peer *p;
    size_t size, i;

    start_counter(r);
    p = join(r);
    for (i = 0; i < sizeof name; i++)
        name[i] = (uint8_t)(i * 7);
    for (i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        size = taker_put_acquire(bytes, 1, name, sizeof name, 1, 100);
        say(r, p, bytes, cuts[i]);
        assert_int_equal(p->size, 0);
        say(r, p, bytes + cuts[i], size - cuts[i]);
        expect_number(r, p, TAKER_ACQUIRE, 1, 1);
    }
    say(r, p, bytes, taker_put_get(bytes, 2, name, sizeof name));
    expect_number(r, p, TAKER_GET, 2, (uint32_t)i);

    /* The last byte counts. */
    say(r, p, bytes, taker_put_get(bytes, 3, name, sizeof name - 1));
    expect_failure(r, p, TAKER_GET, TAKER_NOT_FOUND, 3);
    assert_int_equal(kept(r), 0);
}

static void
an_unfinished_request_is_dropped_at_the_end(void **state)
{
    struct rig *r = *state;
    uint8_t bytes[128];
    struct peer *p, *q;
    size_t size;

    start_counter(r);
    q = join(r);
    for (size = 1; size < TAKER_FIXED + 1; size++) {
        p = join(r);
        taker_put_acquire(bytes, 1, "n", 1, 1, 1);
        say(r, p, bytes, size);
        half_close(p);
        expect_end(r, p);
        leave(r, p);
        r->peer_count--;
        free(p->in);
        *p = (struct peer){0};
    }

    expect_absent(r, q, "n");
}

/* ---- surplus ----------------------------------------------------------- */

/* Sends `head`, then `size` bytes of nothing in particular. */
static void
say_with_surplus(struct rig *r, struct peer *p, const uint8_t *head,
                 size_t head_size, size_t size)
{
    uint8_t *surplus = calloc(1, size);

    assert_non_null(surplus);
    say(r, p, head, head_size);
    assert_int_equal(p->size, 0); /* not before the body is there */
    say(r, p, surplus, size - 1);
    turns(r, 3);
    assert_int_equal(p->size, 0);
    /* Never more than the request itself. */
    assert_true(kept(r) <= head_size);
    say(r, p, surplus, 1);
    free(surplus);
}

static void
surplus_is_thrown_away_as_it_comes(void **state)
{
    static uint8_t name[LONG_NAME], head[LONG_NAME + 64];
    struct rig *r = *state;
    uint8_t bytes[64];
    struct peer *p;
    size_t size;

    start_counter(r);
    p = join(r);

    taker_put(head, TAKER_NOOP, 1, NULL, 0);
    put_be32(head + 4, (uint32_t)(29 * MIB));
    say_with_surplus(r, p, head, 12, 29 * MIB);
    expect_done(r, p, TAKER_NOOP, 1);

    size = taker_put_acquire(head, 2, name, sizeof name, 1, 2);
    put_be32(head + 4, (uint32_t)(29 * MIB));
    say_with_surplus(r, p, head, size, 29 * MIB - (size - 12));
    expect_number(r, p, TAKER_ACQUIRE, 2, 1);

    size = taker_put_get(head, 3, name, sizeof name);
    put_be32(head + 4, FRAME_BODY_MAX);
    say_with_surplus(r, p, head, size, FRAME_BODY_MAX - (size - 12));
    expect_number(r, p, TAKER_GET, 3, 1);

    taker_put(head, 0x42, 4, NULL, 0);
    put_be32(head + 4, (uint32_t)MIB);
    say_with_surplus(r, p, head, 12, MIB);
    expect_failure(r, p, 0x42, TAKER_UNKNOWN, 4);

    head[0] = 0x12;
    say_with_surplus(r, p, head, 12, MIB);
    expect_failure(r, p, 0x42, TAKER_INVALID, 4);

    /* A body that is long, with a name of no bytes. */
    taker_put_acquire(head, 5, "", 0, 1, 2);
    put_be32(head + 4, (uint32_t)MIB);
    say_with_surplus(r, p, head, 22, MIB - 10);
    expect_failure(r, p, TAKER_ACQUIRE, TAKER_INVALID, 5);

    taker_put(head, TAKER_DUMP, 6, NULL, 0);
    put_be32(head + 4, (uint32_t)MIB);
    say_with_surplus(r, p, head, 12, MIB);
    await(r, p, 12 + 10 + sizeof name + 12);
    p->size = 0;

    say(r, p, bytes, taker_put(bytes, TAKER_NOOP, 7, NULL, 0));
    expect_done(r, p, TAKER_NOOP, 7);
    assert_int_equal(kept(r), 0);
}

static void
a_body_above_30_mib_ends_the_connection_at_once(void **state)
{
    struct rig *r = *state;
    uint8_t bytes[64];
    struct peer *p;
    size_t size;

    start_counter(r);
    p = join(r);
    acquire(r, p, "held", 1, 1);
    size = taker_put(bytes, TAKER_NOOP, 1, NULL, 0);
    taker_put(bytes + size, TAKER_GET, 2, NULL, 0);
    put_be32(bytes + size + 4, FRAME_BODY_MAX + 1);
    say(r, p, bytes, size + 11);
    expect_done(r, p, TAKER_NOOP, 1); /* what came before it is answered */
    expect_nothing(r, p);
    say(r, p, bytes + size + 11, 1);
    expect_end(r, p);

    expect_get(r, join(r), "held", 0);
}

static void
a_web_page_does_nothing(void **state)
{
    /* The header is a whole number of requests, if it were any. */
    static const char head[] = "POST /\0\0\0\0\0\0";
    struct rig *r = *state;
    uint8_t bytes[64];
    struct peer *p;
    size_t size = 12;

    start_counter(r);
    memcpy(bytes, head, size);
    size += taker_put_acquire(bytes + size, 1, "n", 1, 1, 1);
    p = join(r);
    say(r, p, bytes, size);
    expect_end(r, p);

    assert_int_equal(r->door->figures.http, 1);
    assert_int_equal(r->server.live.count, 0);
}

/* ---- ends -------------------------------------------------------------- */

static void
a_reset_releases_in_the_same_turn(void **state)
{
    struct rig *r = *state;
    struct peer *p, *q;

    start_listening(r, (struct live_server_options){.kind = LIVE_COUNTER});
    p = join_tcp(r);
    q = join_tcp(r);
    acquire(r, p, "n", 3, 5);
    reset(p);

    expect_get(r, q, "n", 0);
    assert_int_equal(r->door->open, 1);
}

static void
many_holdings_are_released_in_steps(void **state)
{
    const size_t count = 300000;
    struct rig *r = *state;
    struct peer *p, *q;

    start(r,
          (struct live_server_options){.kind = LIVE_COUNTER, .connections = 2});
    p = join(r);
    q = join(r);
    acquire_many(r, p, count);
    leave(r, p);
    turns(r, 1);

    /* The socket is closed, its number is not free. */
    assert_int_equal(r->door->open, 1);
    assert_int_equal(r->door->used, 2);
    noop(r, q);
    while (r->door->used == 2)
        turns(r, 1);

    expect_get(r, q, "many:0", 0);
    expect_get(r, q, "many:299999", 0);
    assert_true(live_check(&r->server.live));
}

static void
ten_thousand_holdings_take_few_turns(void **state)
{
    struct rig *r = *state;
    struct peer *p, *q;
    size_t before;

    start_counter(r);
    p = join(r);
    q = join(r);
    acquire_many(r, p, 10000);
    leave(r, p);
    before = r->turns;
    while (r->door->used == 2)
        turns(r, 1);

    assert_true(r->turns - before <= 10);
    expect_get(r, q, "many:9999", 0);
}

#define ENDS 200
#define MANY 600

static void
many_ends_in_one_turn_are_worked_off(void **state)
{
    struct rig *r = *state;
    int ends[ENDS][2];
    uint8_t bytes[64];
    char name[16];
    size_t size;
    int i;

    start(r, (struct live_server_options){.kind = LIVE_COUNTER,
                                          .connections = ENDS});
    for (i = 0; i < ENDS; i++) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i]), 0);
        assert_int_equal(fcntl(ends[i][1], F_SETFL, O_NONBLOCK), 0);
        assert_rc(conns_take(r->conns, 0, ends[i][1]), 0);
        size = (size_t)snprintf(name, sizeof name, "n%d", i % 7);
        size = taker_put_acquire(bytes, 1, name, size, 1, 100);
        assert_int_equal(write(ends[i][0], bytes, size), size);
    }
    turns(r, 3);
    assert_int_equal(r->server.figures.acquire, ENDS);
    for (i = 0; i < ENDS; i++)
        close(ends[i][0]);
    run(r, is_empty);

    expect_get(r, join(r), "n6", 0);
}

static void
note_stopped(void *ctx)
{
    ((struct rig *)ctx)->stopped = true;
}

static bool
has_stopped(struct rig *r)
{
    return r->stopped;
}

static void
a_stop_releases_everything(void **state)
{
    struct rig *r = *state;
    struct peer *p, *q;
    struct live_record record;
    uint32_t from = 0, looks = UINT32_MAX;
    size_t seen = 0;

    start_listening(r, (struct live_server_options){.kind = LIVE_COUNTER});
    p = join_tcp(r);
    q = join_tcp(r);
    acquire_many(r, p, 5000);
    acquire(r, q, "many:1", 1, 10);
    conns_stop(r->conns, 1000, note_stopped, r);
    run(r, has_stopped);
    turns(r, 3);

    assert_true(p->ended && q->ended);
    assert_int_equal(r->door->used, 0);
    while (live_next(&r->server.live, &from, &looks, &record) == 1) {
        assert_int_equal(record.current, 0);
        seen++;
    }
    assert_int_equal(seen, 5000);
    assert_int_equal(kept(r), 0);
}

/* More than are closed in one turn, some of them long gone. */
static void
a_stop_closes_many_connections(void **state)
{
    struct rig *r = *state;
    int fds[MANY], ends[2];
    size_t i;

    start(r, (struct live_server_options){.kind = LIVE_COUNTER,
                                          .connections = MANY});
    for (i = 0; i < MANY; i++) {
        assert_int_equal(
            socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
        assert_rc(conns_take(r->conns, 0, ends[1]), 0);
        fds[i] = ends[0];
    }
    close(fds[0]);
    turns(r, 3);
    conns_stop(r->conns, 1000, note_stopped, r);
    run(r, has_stopped);
    assert_int_equal(r->door->used, 0);

    for (i = 1; i < MANY; i++)
        close(fds[i]);
}

/* ---- slow readers ------------------------------------------------------ */

#define SLOW_REQUESTS 200000

static void
who_does_not_read_is_not_read_from(void **state)
{
    struct rig *r = *state;
    uint8_t *bytes = malloc(SLOW_REQUESTS * 32), *at = bytes;
    uint8_t *answers = malloc(SLOW_REQUESTS * 64), *to = answers;
    struct peer *p, *q;
    uint32_t i;

    assert_non_null(bytes);
    assert_non_null(answers);
    start_counter(r);
    p = join(r);
    q = join(r);
    acquire(r, q, "n", 5, 5);
    for (i = 0; i < SLOW_REQUESTS; i++) {
        at += taker_put_get(at, i, i % 5 ? "n" : "m", 1);
        to += i % 5 ? value(to, TAKER_GET, i, 5)
                    : failure(to, TAKER_GET, TAKER_NOT_FOUND, i);
    }
    go_deaf(p);
    send_later(p, bytes, (size_t)(at - bytes));
    turns(r, 2000);

    /* It is stuck, in bounded memory, and harms nobody. */
    assert_true(p->out_size > 0);
    assert_true(kept(r) <= REQUESTS_OUT_SIZE + 2 * CONN_SLICE);
    noop(r, q);
    p->deaf = false;
    fault_short("send", 1, 100); /* what was kept goes out in pieces */
    expect(r, p, answers, (size_t)(to - answers));
    assert_true(fault_hit());
    assert_int_equal(p->size, 0);
    assert_int_equal(kept(r), 0);
    noop(r, p);
    free(bytes);
    free(answers);
}

static void
who_does_not_read_and_goes_is_forgotten(void **state)
{
    struct rig *r = *state;
    uint8_t *bytes = malloc(SLOW_REQUESTS * 32), *at = bytes;
    struct peer *p, *q;
    uint32_t i;

    assert_non_null(bytes);
    start_counter(r);
    p = join(r);
    q = join(r);
    acquire(r, p, "n", 5, 5);
    for (i = 0; i < SLOW_REQUESTS; i++)
        at += taker_put(at, TAKER_STATS, i, NULL, 0);
    go_deaf(p);
    send_later(p, bytes, (size_t)(at - bytes));
    turns(r, QUIET);
    /* Answers and requests. */
    assert_in_range(kept(r), CONN_SLICE / 2,
                    REQUESTS_OUT_SIZE + 2 * CONN_SLICE);
    leave(r, p);

    r->peer = q;
    expect_get(r, q, "n", 0);
    assert_int_equal(kept(r), 0);
    free(bytes);
}

static void
answers_much_longer_than_requests_come_in_order(void **state)
{
    const uint32_t count = 20000;
    struct rig *r = *state;
    uint8_t *bytes = malloc(count * 12), *at = bytes;
    struct peer *p;
    size_t seen = 0;
    uint32_t i;

    assert_non_null(bytes);
    start_counter(r);
    p = join(r);
    for (i = 0; i < count; i++)
        at += taker_put(at, TAKER_STATS, i, NULL, 0);
    send_later(p, bytes, (size_t)(at - bytes));
    for (i = 0; i < count; i++) {
        await(r, p, seen + 12);
        assert_int_equal(get_be32(p->in + seen), 0x91100000);
        assert_int_equal(get_be32(p->in + seen + 8), i);
        seen += 12 + get_be32(p->in + seen + 4);
    }
    await(r, p, seen);
    turns(r, QUIET);

    assert_int_equal(p->size, seen);
    assert_int_equal(kept(r), 0);
    free(bytes);
}

/* ---- many who send much ------------------------------------------------ */

#define FLOODERS 50

/* What is longer than the part that each may send of a turn comes through. */
static void
long_requests_of_many_are_put_together(void **state)
{
    enum { EACH = LONG_NAME + 22 + 200000 + 12 };
    uint8_t *bytes = calloc(1, EACH), *at = bytes;
    struct rig *r = *state;
    uint8_t answers[64], *to = answers;
    static uint8_t name[LONG_NAME];
    size_t i;

    assert_non_null(bytes);
    start_counter(r);
    memset(name, 'x', sizeof name);
    at += taker_put_acquire(at, 1, name, sizeof name, 1, FLOODERS);
    put_be32(bytes + 4, LONG_NAME + 10 + 200000);
    at += 200000; /* surplus */
    at += taker_put(at, TAKER_NOOP, 2, NULL, 0);
    to += value(to, TAKER_ACQUIRE, 1, 1);
    to += answer(to, TAKER_NOOP, TAKER_OK, 2, NULL, 0);
    for (i = 0; i < FLOODERS; i++)
        send_later(join(r), bytes, (size_t)(at - bytes));
    for (i = 0; i < FLOODERS; i++)
        expect(r, &r->peers[i], answers, (size_t)(to - answers));

    at = bytes + taker_put_get(bytes, 3, name, sizeof name);
    send_later(&r->peers[0], bytes, (size_t)(at - bytes));
    expect_number(r, &r->peers[0], TAKER_GET, 3, FLOODERS);
    assert_int_equal(kept(r), 0);
    free(bytes);
}

static void
a_half_close_behind_unsent_answers_waits_for_them(void **state)
{
    const size_t count = 50000;
    struct rig *r = *state;
    uint8_t *bytes = malloc(count * 32), *at = bytes;
    struct peer *p, *q;
    uint32_t i;

    assert_non_null(bytes);
    start_listening(r, (struct live_server_options){.kind = LIVE_COUNTER});
    p = join_tcp(r);
    q = join_tcp(r);
    acquire(r, p, "n", 5, 5);
    for (i = 0; i < count; i++)
        at += taker_put_get(at, i, "none", 4);
    go_deaf(p);
    send_later(p, bytes, (size_t)(at - bytes));
    r->peer = p;
    run(r, is_sent);
    half_close(p);
    turns(r, 100);
    p->deaf = false;

    await(r, p, count * 21);
    assert_int_equal(p->size, count * 21);
    p->size = 0;
    expect_end(r, p);
    expect_get(r, q, "n", 0);
    free(bytes);
}

/* ---- Dump -------------------------------------------------------------- */

/* Takes a whole dump of names many:N and others; how many there were, and how
 * many of many:N. */
static size_t
take_dump(struct peer *p, uint32_t opaque, uint8_t *seen, size_t count)
{
    size_t at = 0, records = 0, body, number;
    char name[32];

    for (;; at += 12 + body) {
        assert_true(p->size >= at + 12);
        assert_int_equal(get_be32(p->in + at), 0x91110000);
        assert_int_equal(get_be32(p->in + at + 8), opaque);
        body = get_be32(p->in + at + 4);
        if (body == 0)
            break;
        assert_true(p->size >= at + 12 + body);
        assert_int_equal(body, 10 + get_be16(p->in + at + 20));
        records++;
        if (memcmp(p->in + at + 22, "many:", 5) != 0 || body >= sizeof name)
            continue;
        memcpy(name, p->in + at + 22, body - 10);
        name[body - 10] = '\0';
        number = strtoull(name + 5, NULL, 10);
        assert_true(number < count);
        assert_int_equal(get_be32(p->in + at + 12), 1);
        assert_int_equal(get_be32(p->in + at + 16), 1);
        seen[number]++;
    }
    memmove(p->in, p->in + at + 12, p->size - at - 12);
    p->size -= at + 12;
    return records;
}

static void
requests_behind_a_dump_wait_for_its_end(void **state)
{
    struct rig *r = *state;
    uint8_t bytes[256], *at = bytes, seen[10] = {0};
    struct peer *p;
    size_t i;

    start_counter(r);
    p = join(r);
    acquire_many(r, p, 10);
    at += taker_put(at, TAKER_NOOP, 1, NULL, 0);
    at += taker_put(at, TAKER_DUMP, 2, NULL, 0);
    at += taker_put(at, TAKER_DUMP, 3, NULL, 0);
    at += taker_put(at, TAKER_NOOP, 4, NULL, 0);
    say(r, p, bytes, (size_t)(at - bytes));

    expect_done(r, p, TAKER_NOOP, 1);
    assert_int_equal(take_dump(p, 2, seen, 10), 10);
    assert_int_equal(take_dump(p, 3, seen, 10), 10);
    expect_done(r, p, TAKER_NOOP, 4);
    for (i = 0; i < 10; i++)
        assert_int_equal(seen[i], 2);
}

static void
a_dump_to_a_slow_reader_disturbs_nobody(void **state)
{
    const size_t count = 100000;
    struct rig *r = *state;
    uint8_t bytes[256], *at = bytes, *seen = calloc(count, 1);
    struct peer *p, *q;
    size_t i;

    assert_non_null(seen);
    start_counter(r);
    p = join(r);
    q = join(r);
    acquire_many(r, p, count);
    go_deaf(p);
    at += taker_put(at, TAKER_DUMP, 2, NULL, 0);
    at += taker_put(at, TAKER_NOOP, 3, NULL, 0);
    say(r, p, bytes, (size_t)(at - bytes));

    /* Others come and go while it waits. */
    for (i = 0; i < 50; i++) {
        acquire(r, q, "other", 1, 100);
        noop(r, q);
    }
    assert_true(kept(r) <= REQUESTS_OUT_SIZE);
    assert_int_equal(r->server.figures.noop, 50);
    p->deaf = false;
    await(r, p, count * 30);
    r->want = 0;
    turns(r, 1000);

    i = take_dump(p, 2, seen, count);
    assert_true(i == count || i == count + 1); /* "other" came meanwhile */
    expect_done(r, p, TAKER_NOOP, 3);
    for (i = 0; i < count; i++)
        assert_int_equal(seen[i], 1);
    assert_int_equal(kept(r), 0);
    free(seen);
}

static void
a_dump_of_long_names_goes_out(void **state)
{
    static uint8_t name[LONG_NAME], bytes[LONG_NAME + 64];
    struct rig *r = *state;
    struct peer *p;
    uint32_t i;

    start_counter(r);
    p = join(r);
    for (i = 0; i < 20; i++) {
        name[0] = (uint8_t)i;
        say(r, p, bytes, taker_put_acquire(bytes, i, name, sizeof name, 1, 1));
        expect_number(r, p, TAKER_ACQUIRE, i, 1);
    }
    say(r, p, bytes, taker_put(bytes, TAKER_DUMP, 5, NULL, 0));
    await(r, p, 20 * (size_t)(22 + LONG_NAME) + 12);

    assert_int_equal(take_dump(p, 5, NULL, 0), 20);
    expect_nothing(r, p);
}

static void
a_reset_in_the_middle_of_a_dump_is_survived(void **state)
{
    struct rig *r = *state;
    uint8_t bytes[64];
    struct peer *p, *q;

    start_listening(r, (struct live_server_options){.kind = LIVE_COUNTER});
    p = join_tcp(r);
    q = join_tcp(r);
    acquire_many(r, p, 300000); /* more than the sockets hold */
    go_deaf(p);
    say(r, p, bytes, taker_put(bytes, TAKER_DUMP, 2, NULL, 0));
    turns(r, 300);
    assert_true(kept(r) <= REQUESTS_OUT_SIZE);
    reset(p);
    turns(r, 3);

    assert_int_equal(r->door->open, 1);
    assert_int_equal(kept(r), 0);
    while (r->door->used > 1)
        turns(r, 1);
    expect_get(r, q, "many:0", 0);
}

/* ---- limits ------------------------------------------------------------ */

static void
connections_without_a_place_wait(void **state)
{
    struct rig *r = *state;
    struct peer *a, *b, *c;

    start_listening(r, (struct live_server_options){.kind = LIVE_COUNTER,
                                                    .connections = 2});
    a = join_tcp(r);
    b = join_tcp(r);
    noop(r, a);
    noop(r, b);
    c = join_tcp(r);
    expect_nothing(r, c);
    leave(r, a);

    noop(r, c);
    noop(r, b);
}

static void
a_number_in_use_by_holdings_is_not_given_out(void **state)
{
    struct rig *r = *state;
    struct peer *p, *q;

    start_listening(r, (struct live_server_options){.kind = LIVE_COUNTER,
                                                    .connections = 1});
    p = join_tcp(r);
    acquire_many(r, p, 200000);
    leave(r, p);
    q = join_tcp(r);

    noop(r, q); /* waits until then */
    expect_get(r, q, "many:7", 0);
}

static void
above_the_budget_nothing_changes(void **state)
{
    static uint8_t name[LONG_NAME], bytes[LONG_NAME + 64];
    struct rig *r = *state;
    struct peer *p;
    uint32_t i;

    r->budget.max = 4 * MIB;
    start_counter(r);
    p = join(r);
    for (i = 0; i < 1000; i++) {
        name[0] = (uint8_t)i;
        name[1] = (uint8_t)(i >> 8);
        say(r, p, bytes, taker_put_acquire(bytes, i, name, sizeof name, 1, 1));
        await(r, p, 12);
        if (p->in[2] != TAKER_OK)
            break;
        expect_number(r, p, TAKER_ACQUIRE, i, 1);
    }
    assert_in_range(i, 10, 999);
    expect_failure(r, p, TAKER_ACQUIRE, TAKER_NO_MEMORY, i);
    say(r, p, bytes, taker_put_get(bytes, 1, name, sizeof name));
    expect_failure(r, p, TAKER_GET, TAKER_NOT_FOUND, 1);

    assert_int_equal(r->server.live.count, i);
    assert_true(r->budget.used <= r->budget.max);
}

/* A name above what is kept in the struct of a connection. */
#define LOCK "the name of a lock that has more than forty-eight bytes in it"

/* With as little as there may be for what must wait. */
static void
start_short_of_memory(struct rig *r)
{
    r->pool_size = 160 << 10;
    start(r, (struct live_server_options){.kind = LIVE_COUNTER,
                                          .connections = PEERS_MAX});
}

/* The first `size` bytes of a request that announces a long name. */
static struct peer *
join_half(struct rig *r, size_t size)
{
    static uint8_t name[LONG_NAME], bytes[LONG_NAME + 64];
    struct peer *p = join(r);

    taker_put_acquire(bytes, 1, name, sizeof name, 1, 100);
    say(r, p, bytes, size);
    return p;
}

static size_t
ended_from(const struct rig *r, size_t first)
{
    size_t i, count = 0;

    for (i = first; i < r->peer_count; i++)
        count += r->peers[i].ended;
    return count;
}

/* It holds LOCK; then its Release is cut in two, with others between. */
static void
begin_release(struct rig *r, struct peer *p)
{
    uint8_t bytes[128];

    taker_put_release(bytes, 5, LOCK, strlen(LOCK), 1);
    say(r, p, bytes, TAKER_HEADER + 40);
}

static void
end_release(struct rig *r, struct peer *p)
{
    uint8_t bytes[128];
    size_t size;

    size = taker_put_release(bytes, 5, LOCK, strlen(LOCK), 1);
    say(r, p, bytes + TAKER_HEADER + 40, size - TAKER_HEADER - 40);
    expect_done(r, p, TAKER_RELEASE, 5);
}

/* It reads nothing, and its socket takes little: `count` answers wait. */
static struct peer *
join_stuck(struct rig *r, uint32_t count, const char *lock)
{
    static uint8_t bytes[PEERS_MAX * TAKER_HEADER];
    const int size = 4096;
    uint8_t *at = bytes;
    struct peer *p;
    int ends[2];
    uint32_t i;

    assert_true(count <= PEERS_MAX);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends),
                     0);
    assert_int_equal(
        setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof size), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
    assert_rc(conns_take(r->conns, 0, ends[1]), 0);
    p = add_peer(r, ends[0]);
    if (lock)
        acquire(r, p, lock, 1, 1);
    p->deaf = true;
    for (i = 0; i < count; i++)
        at += taker_put(at, TAKER_STATS, i, NULL, 0);
    say(r, p, bytes, (size_t)(at - bytes));
    return p;
}

/* All `count` answers of a stuck one come in the end. */
static void
expect_all(struct rig *r, struct peer *p, uint32_t count)
{
    size_t at = 0;
    uint32_t i;

    p->deaf = false;
    for (i = 0; i < count; i++) {
        await(r, p, at + TAKER_HEADER);
        assert_int_equal(get_be32(p->in + at), 0x91100000);
        assert_int_equal(get_be32(p->in + at + 8), i);
        at += TAKER_HEADER + get_be32(p->in + at + 4);
    }
    await(r, p, at);
    assert_int_equal(p->size, at);
    p->size = 0;
}

static void
a_long_name_that_is_announced_takes_no_memory(void **state)
{
    struct rig *r = *state;
    size_t i;

    start_short_of_memory(r);
    for (i = 0; i < 100; i++)
        (void)join_half(r, 64); /* they stay */
    assert_int_equal(kept(r), 6400);
    assert_int_equal(ended_from(r, 0), 0);
}

static void
those_who_waste_memory_end_each_other_and_not_a_release_in_pieces(void **state)
{
    struct rig *r = *state;
    struct peer *p, *q;
    size_t i;

    start_short_of_memory(r);
    p = join(r);
    q = join(r);
    acquire(r, p, LOCK, 1, 1);
    begin_release(r, p);
    for (i = 0; i < 100; i++)
        (void)join_half(r, 3000);
    for (i = 0; i < 20; i++)
        (void)join_stuck(r, 100, NULL);
    turns(r, 3);
    assert_in_range(ended_from(r, 0), 20, 119);

    assert_false(p->ended);
    expect_get(r, q, LOCK, 1);
    end_release(r, p);
    expect_get(r, q, LOCK, 0);
    acquire(r, q, LOCK, 1, 1);
}

static void
where_memory_is_short_answers_still_come(void **state)
{
    struct rig *r = *state;
    struct peer *p, *q;

    start_short_of_memory(r);
    (void)join_stuck(r, 200, NULL);
    p = join_stuck(r, 200, LOCK);
    q = join(r);
    expect_get(r, q, LOCK, 1);
    expect_all(r, p, 200);
    noop(r, p);
}

/* ---- windows and sweeps ------------------------------------------------ */

static void
unused_counters_are_removed_after_their_window(void **state)
{
    struct rig *r = *state;
    uint8_t bytes[64];
    struct peer *p;

    start(r, (struct live_server_options){.kind = LIVE_COUNTER,
                                          .interval_s = 3600});
    p = join(r);
    r->want = 1; /* one at the start */
    run(r, is_swept);
    acquire(r, p, "used", 1, 1);
    acquire(r, p, "unused", 1, 1);
    say(r, p, bytes, taker_put_release(bytes, 1, "unused", 6, 1));
    expect_done(r, p, TAKER_RELEASE, 1);
    expect_get(r, p, "unused", 0);
    fault_clock(3600 * 1000);
    noop(r, p); /* a clock that is set is seen at the next event */
    r->want = 2;
    run(r, is_swept);

    expect_absent(r, p, "unused");
    expect_get(r, p, "used", 1);
    assert_int_equal(r->server.live.figures.swept, 2);
}

static void
the_clock_may_be_set_back(void **state)
{
    struct rig *r = *state;
    struct peer *p;

    start(r,
          (struct live_server_options){.kind = LIVE_COUNTER, .interval_s = 10});
    p = join(r);
    acquire(r, p, "n", 1, 2);
    fault_clock(-3600 * 1000);
    acquire(r, p, "n", 1, 2);
    turns(r, QUIET);

    expect_get(r, p, "n", 2);
}

static void
unused_semaphores_are_removed_at_each_interval(void **state)
{
    struct rig *r = *state;
    uint8_t bytes[64];
    struct peer *p;

    start(r, (struct live_server_options){.kind = LIVE_SEMAPHORE,
                                          .interval_s = 1});
    p = join(r);
    r->want = 1;
    run(r, is_swept);
    acquire(r, p, "unused", 1, 3);
    acquire(r, p, "used", 1, 3);
    say(r, p, bytes, taker_put_release(bytes, 1, "unused", 6, 1));
    expect_done(r, p, TAKER_RELEASE, 1);
    r->want = r->server.live.figures.swept + 1;
    run(r, is_swept); /* the loop's timer */

    expect_absent(r, p, "unused");
    expect_get(r, p, "used", 2);
}

/* ---- sockets ----------------------------------------------------------- */

/* The server's end of a connection: the descriptor whose peer this is. */
static int
other_end(const struct peer *p)
{
    struct sockaddr_in mine, theirs;
    socklen_t size = sizeof mine;
    int fd;

    assert_int_equal(getsockname(p->fd, (struct sockaddr *)&mine, &size), 0);
    for (fd = 3; fd < 1024; fd++) {
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
option(int fd, int level, int name)
{
    socklen_t size = sizeof(int);
    int v = 0;

    assert_int_equal(getsockopt(fd, level, name, &v, &size), 0);
    return v;
}

static void
vanished_peers_are_found_by_keepalive(void **state)
{
    struct rig *r = *state;
    struct peer *p;
    int fd;

    start_listening(r, (struct live_server_options){.kind = LIVE_COUNTER});
    p = join_tcp(r);
    noop(r, p);
    fd = other_end(p);

    assert_int_equal(option(fd, SOL_SOCKET, SO_KEEPALIVE), 1);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPIDLE), 300);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_KEEPINTVL), 5);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), 345000);
    assert_int_equal(option(fd, IPPROTO_TCP, TCP_NODELAY), 1);
}

static void
errors_of_a_socket_end_its_connection_only(void **state)
{
    static const char *const calls[] = {"recv", "send"};
    struct rig *r = *state;
    uint8_t bytes[64];
    struct peer *p, *q;
    size_t i;

    start_counter(r);
    q = join(r);
    for (i = 0; i < 2; i++) {
        p = join(r);
        acquire(r, p, "n", 1, 1);
        fault_inject(calls[i], 1, ECONNRESET);
        say(r, p, bytes, taker_put(bytes, TAKER_NOOP, 1, NULL, 0));
        assert_true(fault_hit());
        fault_clear();
        expect_end(r, p);
        expect_get(r, q, "n", 0);
    }
}

static void
a_send_may_fail_while_answers_wait(void **state)
{
    struct rig *r = *state;
    struct peer *p, *q;

    start_counter(r);
    q = join(r);
    p = join_stuck(r, 200, "n");
    assert_in_range(kept(r), 1, REQUESTS_OUT_SIZE);
    fault_inject("sendmsg", 1, ECONNRESET);
    p->deaf = false;
    r->peer = p;
    run(r, has_ended);
    fault_clear();

    expect_get(r, q, "n", 0);
    assert_int_equal(kept(r), 0);
}

static void
a_send_may_fail_in_each_piece_of_a_dump(void **state)
{
    struct rig *r = *state;
    struct peer *p, *q;
    uint8_t bytes[64];
    unsigned n;

    start_counter(r);
    q = join(r);
    acquire_many(r, q, 10000); /* five pieces */
    for (n = 1; n <= 5; n++) {
        p = join(r);
        acquire(r, p, "n", 1, 1);
        fault_inject("send", n, ECONNRESET);
        say(r, p, bytes, taker_put(bytes, TAKER_DUMP, 1, NULL, 0));
        r->peer = p;
        run(r, has_ended);
        assert_true(fault_hit());
        fault_clear();
        expect_get(r, q, "n", 0);
    }

    assert_int_equal(kept(r), 0);
}

static void
what_is_not_taken_stays_the_callers(void **state)
{
    struct rig *r = *state;
    int ends[2];

    start(r,
          (struct live_server_options){.kind = LIVE_COUNTER, .connections = 1});
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);

    fault_inject("epoll_ctl", 1, ENOSPC);
    assert_rc(conns_take(r->conns, 0, ends[1]), -ENOSPC);
    fault_clear();
    /* No socket of the kind that can be kept alive. */
    assert_true(conns_listen(r->conns, 0, ends[1]) < 0);
    noop(r, join(r));
    assert_rc(conns_take(r->conns, 0, ends[1]), -EMFILE);

    close(ends[0]);
    close(ends[1]);
}

static void
interrupted_and_short_calls_are_made_again(void **state)
{
    struct rig *r = *state;
    uint8_t bytes[1024], answers[1024];
    size_t size, answers_size, n;
    struct peer *p;

    start_counter(r);
    p = join(r);
    size = mixed_requests(bytes, answers, &answers_size);
    for (n = 1; n < answers_size; n++) {
        if (n % 2)
            fault_short("send", 1, n);
        else
            fault_inject(n % 4 ? "send" : "recv", 1, EINTR);
        say(r, p, bytes, size);
        expect(r, p, answers, answers_size);
        assert_true(fault_hit());
        fault_clear();
    }

    assert_int_equal(kept(r), 0);
}

static void
a_connection_that_cannot_be_watched_is_not_taken(void **state)
{
    struct rig *r = *state;
    struct peer *p;

    diag_init("test_live_server", DIAG_ERROR);
    start_listening(r, (struct live_server_options){.kind = LIVE_COUNTER});
    fault_inject("epoll_ctl", 1, ENOSPC);
    p = join_tcp(r);
    expect_end(r, p);
    fault_clear();

    assert_int_equal(r->door->used, 0);
    noop(r, join_tcp(r));
}

static void
a_budget_that_is_too_small_is_no_start(void **state)
{
    struct rig *r = *state;
    struct live_server_options o = {.kind = LIVE_COUNTER,
                                    .connections = 10,
                                    .slots = 1000,
                                    .interval_s = 10,
                                    .budget = &r->budget};
    struct loop *loop = loop_new();
    uint64_t max;

    assert_non_null(loop);
    for (max = 16; max <= MIB; max *= 2) {
        r->budget.max = max;
        if (live_server_init(&r->server, loop, &o) == 0) {
            assert_true(r->budget.used <= max);
            live_server_fini(&r->server);
        }
        assert_int_equal(r->budget.used, 0);
    }
    loop_free(loop);
}

/* ---- races ------------------------------------------------------------- */

#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static const struct CMUnitTest tests[] = {
    T(requests_may_be_cut_anywhere),
    T(requests_may_come_byte_by_byte),
    T(a_thousand_requests_in_one_write_are_answered_in_order),
    T(names_have_up_to_65535_bytes),
    T(an_unfinished_request_is_dropped_at_the_end),
    T(surplus_is_thrown_away_as_it_comes),
    T(a_body_above_30_mib_ends_the_connection_at_once),
    T(a_web_page_does_nothing),
    T(a_reset_releases_in_the_same_turn),
    T(many_holdings_are_released_in_steps),
    T(ten_thousand_holdings_take_few_turns),
    T(many_ends_in_one_turn_are_worked_off),
    T(a_stop_releases_everything),
    T(a_stop_closes_many_connections),
    T(who_does_not_read_is_not_read_from),
    T(who_does_not_read_and_goes_is_forgotten),
    T(answers_much_longer_than_requests_come_in_order),
    T(long_requests_of_many_are_put_together),
    T(a_half_close_behind_unsent_answers_waits_for_them),
    T(requests_behind_a_dump_wait_for_its_end),
    T(a_dump_to_a_slow_reader_disturbs_nobody),
    T(a_dump_of_long_names_goes_out),
    T(a_reset_in_the_middle_of_a_dump_is_survived),
    T(connections_without_a_place_wait),
    T(a_number_in_use_by_holdings_is_not_given_out),
    T(above_the_budget_nothing_changes),
    T(a_long_name_that_is_announced_takes_no_memory),
    T(those_who_waste_memory_end_each_other_and_not_a_release_in_pieces),
    T(where_memory_is_short_answers_still_come),
    T(unused_counters_are_removed_after_their_window),
    T(the_clock_may_be_set_back),
    T(unused_semaphores_are_removed_at_each_interval),
    T(vanished_peers_are_found_by_keepalive),
    T(errors_of_a_socket_end_its_connection_only),
    T(a_send_may_fail_while_answers_wait),
    T(a_send_may_fail_in_each_piece_of_a_dump),
    T(what_is_not_taken_stays_the_callers),
    T(interrupted_and_short_calls_are_made_again),
    T(a_connection_that_cannot_be_watched_is_not_taken),
    T(a_budget_that_is_too_small_is_no_start),
};

/* ---- dialogues --------------------------------------------------------- */

static void
turn_for_taker(void *ctx)
{
    turns(ctx, 3);
}

static void
open_door(void *ctx, struct taker *t)
{
    struct rig *r = ctx;

    taker_open(t, r->port);
    t->turn = turn_for_taker;
    t->turn_ctx = r;
}

static void
play(void **state)
{
    struct rig *r = *state;
    const struct dialogue *d = r->dialogue->dialogue;
    const unsigned kind = r->dialogue->kind;

    r->row.close_over = d->connections > 0;
    start_listening(
        r, (struct live_server_options){
               .kind = kind == COUNTERS ? LIVE_COUNTER : LIVE_SEMAPHORE,
               .connections = d->connections});
    dialogue_run(
        d, &(struct dialogue_stage){.ctx = r, .kind = kind, .open = open_door});
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest one = T(play);

    return dialogue_main(__FILE__, tests, sizeof tests / sizeof *tests, BOTH,
                         &one, argc, argv);
}
