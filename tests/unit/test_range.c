/* tests/unit/test_range.c - connections of countd-read: order, splits,
 * pressure.
 *
 * The server runs in a thread of this test, over a real store; what it holds
 * is asked for through a pipe that its loop watches. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/answer_fixture.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "common/base/clock.h"
#include "common/net/conn_internal.h"
#include "reader/range.h"
#include "tests/lib/client.h"

#define CONNECTIONS 100
#define BIG_ROWS    QUERY_ROWS_MAX
#define BIG_SIZE    (QUERY_REPLY_SIZE + (size_t)BIG_ROWS * (10 + 256))
#define POOL_SIZE   ((size_t)32 << 20)
#define STOP_MS     2000

/* Of sockets, so that they take the same whatever the kernel remembers of
 * connections before. */
#define SOCKET_ROOM (64 * 1024)

struct server {
    struct fixture *site;
    struct loop *loop;
    struct range range;
    struct jobs jobs;
    struct listener_config row;
    struct conns *conns;
    struct loop_source control;
    int ask; /* the test's end */
    uint16_t port;
    pthread_t thread;
    bool running;
};

/* What the server says about itself. */
struct state {
    size_t counts[CONN_STATES];
    size_t draining; /* have answers that their peers have not taken */
    size_t open;
    size_t accepted;
    size_t memory; /* in use */
    struct listener_stats stats;
    bool snapshot_kept;
};

/* ---- the store --------------------------------------------------------- */

/* Whether something was read since the last store_read_end(); of the server's
 * thread. */
static bool snapshot_kept;
static const struct store_engine *spied;
static struct store_engine spy;

static size_t
spy_read(struct store *s, struct store_reads *reads)
{
    snapshot_kept = true;
    return spied->read(s, reads);
}

static void
spy_read_end(struct store *s)
{
    snapshot_kept = false;
    spied->read_end(s);
}

static void
spy_on(struct store *s)
{
    spied = s->engine;
    spy = *spied;
    spy.read = spy_read;
    spy.read_end = spy_read_end;
    s->engine = &spy;
    snapshot_kept = false;
}

/* ---- the server -------------------------------------------------------- */

static void
stopped(void *ctx)
{
    loop_stop(((struct server *)ctx)->loop);
}

static struct state
look(struct server *f)
{
    struct listener *d = conns_listener(f->conns, 0);
    struct state now = {.open = d->open,
                        .accepted = (size_t)d->stats.accepted,
                        .memory =
                            POOL_SIZE -
                            (size_t)f->conns->pool.free_count * POOL_CHUNK_SIZE,
                        .stats = d->stats,
                        .snapshot_kept = snapshot_kept};
    struct list_link *l;

    for (int i = 0; i < CONN_STATES; i++)
        for (l = d->lists[i].next; l != &d->lists[i]; l = l->next) {
            now.counts[i]++;
            now.draining += LOOP_OWNER(l, struct conn, link)->out.size > 0;
        }
    return now;
}

static void
control_ready(struct loop_source *source, uint32_t events)
{
    struct server *f = LOOP_OWNER(source, struct server, control);
    struct state now;
    char byte;

    (void)events; /* readable is all it can be */
    if (recv(source->fd, &byte, 1, 0) != 1)
        return;
    if (byte == 's') {
        conns_stop(f->conns, STOP_MS, stopped, f);
        return;
    }
    now = look(f);
    /* A test that does not get it fails. */
    (void)!send(source->fd, &now, sizeof now, MSG_NOSIGNAL);
}

static struct state
tell(struct server *f, char what)
{
    struct state now;

    assert_int_equal(send(f->ask, &what, 1, 0), 1);
    assert_int_equal(recv(f->ask, &now, sizeof now, MSG_WAITALL), sizeof now);
    return now;
}

static struct state
ask(struct server *f)
{
    return tell(f, '?');
}

/* Asks until so many connections are in a state. */
static void
await(struct server *f, enum conn_state state, size_t count)
{
    const uint64_t until = clock_ms() + 20000;

    while (ask(f).counts[state] != count)
        assert_true(clock_ms() < until);
}

/* Asks until none is left. */
static void
await_none(struct server *f)
{
    const uint64_t until = clock_ms() + 20000;

    while (ask(f).open > 0)
        assert_true(clock_ms() < until);
    assert_int_equal(ask(f).memory, 0);
}

/* Asks until a connection has answers that its peer does not take. */
static void
await_draining(struct server *f)
{
    const uint64_t until = clock_ms() + 20000;

    while (ask(f).draining == 0)
        assert_true(clock_ms() < until);
}

static bool
after_turn(void *ctx)
{
    return conn_turn(((struct server *)ctx)->conns);
}

static void *
serve(void *ctx)
{
    struct server *f = ctx;

    return loop_run(f->loop) == 0 ? f : NULL;
}

static void
start(struct server *f)
{
    const struct conns_options options = {.rows = &f->row,
                                          .count = 1,
                                          .shared = CONNECTIONS,
                                          .pool_size = POOL_SIZE,
                                          .answer_max = ANSWER_SIZE_MAX};
    char text[NET_ADDRESS_SIZE];
    const int room = SOCKET_ROOM;
    struct net_address a;
    int pair[2], fd;

    f->loop = loop_new();
    assert_non_null(f->loop);
    jobs_init(&f->jobs, f->loop, f->site->store, &f->site->as_of, 10000);
    range_init(&f->range, f->loop, &f->site->answer, &f->jobs);
    f->row = (struct listener_config){.name = "read",
                                      .max_key = "read.max_connections",
                                      .protocol = &range_protocol,
                                      .ctx = &f->range,
                                      .max = CONNECTIONS,
                                      .request_s = 300,
                                      .yield_s = 60};
    assert_rc(conns_init(&f->conns, f->loop, &options), 0);
    loop_after_turn(f->loop, after_turn, f);
    assert_rc(net_parse("127.0.0.1:0", &a), 0);
    fd = net_listen(&a, 0, &a);
    assert_true(fd >= 0);
    net_format(&a, text);
    assert_int_equal(sscanf(text, "127.0.0.1:%hu", &f->port), 1);
    /* Those that it accepts have it, too. */
    assert_rc(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room), 0);
    assert_rc(conns_listen(f->conns, 0, fd), 0);
    assert_rc(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    f->ask = pair[0];
    f->control.ready = control_ready;
    assert_rc(loop_add(f->loop, &f->control, pair[1], EPOLLIN), 0);
    assert_rc(pthread_create(&f->thread, NULL, serve, f), 0);
    f->running = true;
}

/* Stops as SIGTERM does, and waits. */
static void
stop(struct server *f)
{
    void *rc;

    assert_int_equal(send(f->ask, "s", 1, 0), 1);
    assert_rc(pthread_join(f->thread, &rc), 0);
    f->running = false;
    assert_ptr_equal(rc, f);
}

/* ---- what it serves ---------------------------------------------------- */

/* Keyspace `name` with keys 000000 ... counting `keys`, `keys - 1` ... */
static void
fill(struct store *s, const char *name, size_t keys, uint16_t key_size)
{
    struct store_delta *deltas = calloc(keys, sizeof *deltas);
    uint8_t *bytes = malloc(keys * key_size + 1);
    char digits[16];

    assert_non_null(deltas);
    assert_non_null(bytes);
    memset(bytes, 'x', keys * key_size);
    for (size_t i = 0; i < keys; i++) {
        uint8_t *key = bytes + i * key_size;

        (void)snprintf(digits, sizeof digits, "%06d", (int)i); /* it fits */
        memcpy(key, digits, 6);
        deltas[i] = (struct store_delta){
            .key = key, .key_size = key_size, .sum_low = keys - i};
    }
    assert_rc(stored_apply(s, name, NULL, deltas, keys), 0);
    free(bytes);
    free(deltas);
}

static void
fill_some(struct fixture *f)
{
    fill(f->store, "small", 10, 6);
    fill(f->store, "other", 3, 6);
    fill(f->store, "big", BIG_ROWS, 256);
}

static int
setup_with(void **state, void (*put)(struct fixture *f))
{
    static struct server f;

    f = (struct server){.site = fixture_make(NULL, put, 1)};
    answer_end_turn(&f.site->answer);
    spy_on(f.site->store);
    start(&f);
    *state = &f;
    return 0;
}

static int
setup(void **state)
{
    return setup_with(state, fill_some);
}

static int
end(void **state)
{
    struct server *f = *state;
    const int control = f->control.fd;
    void *site = f->site;

    if (f->running)
        stop(f);
    loop_remove(f->loop, &f->control);
    (void)close(control); /* sockets of a test */
    (void)close(f->ask);
    conns_fini(f->conns);
    loop_free(f->loop);
    return teardown(&site);
}

#define CASE(name, f) TEST_IN(name, struct server *f, setup, end)

/* ---- clients ----------------------------------------------------------- */

/* The reply is rows `offset` ... of a keyspace made by fill(). */
static void
expect_rows(int fd, int64_t keys, int64_t offset, int64_t rows)
{
    struct client_rows r;
    char digits[16];

    client_reply(fd, &r);
    assert_int_equal(r.rows, rows);
    for (int64_t i = 0; i < rows; i++) {
        (void)snprintf(digits, sizeof digits, "%06d", (int)(offset + i));
        assert_int_equal(r.row[i].count, keys - offset - i);
        assert_memory_equal(r.row[i].key, digits, 6);
    }
    client_rows_free(&r);
}

static void
expect_error(int fd, int error)
{
    struct client_rows r;

    client_reply(fd, &r);
    assert_int_equal(r.rows, error);
    assert_int_equal(r.size, 0);
    client_rows_free(&r);
}

static void
request(int fd, const char *keyspace, int64_t offset, int64_t length)
{
    uint8_t bytes[QUERY_SIZE];

    client_send(fd, bytes,
                client_range_request(bytes, keyspace, offset, length));
}

/* A connection whose kernel takes little that nobody reads. */
static int
connect_small(struct server *f)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(f->port),
                                   .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int room = SOCKET_ROOM;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_rc(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
    assert_rc(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* A connection that asks for much and takes nothing. */
static int
connect_greedy(struct server *f, unsigned requests)
{
    const int fd = connect_small(f);

    for (unsigned i = 0; i < requests; i++)
        request(fd, "big", 0, BIG_ROWS);
    return fd;
}

/* It takes what it asked for, after all. */
static void
take_greedy(int fd, unsigned requests)
{
    for (unsigned i = 0; i < requests; i++)
        expect_rows(fd, BIG_ROWS, 0, BIG_ROWS);
    client_close(fd);
}

/* ---- order and splits -------------------------------------------------- */

CASE(requests_may_be_split_at_every_byte, f)
{
    uint8_t bytes[2 * QUERY_SIZE];
    const size_t first = client_range_request(bytes, "small", 1, 1);
    const size_t size =
        first + client_range_request(bytes + first, "small", 4, 1);
    int fd = client_connect(f->port);

    for (size_t cut = 1; cut < size; cut++) {
        client_send(fd, bytes, cut);
        if (cut >= first)
            expect_rows(fd, 10, 1, 1);
        else
            (void)ask(f); /* the server has had a turn with the first part */
        client_send(fd, bytes + cut, size - cut);
        if (cut < first)
            expect_rows(fd, 10, 1, 1);
        expect_rows(fd, 10, 4, 1);
    }
    client_close(fd);
}

CASE(more_requests_than_a_turn_takes_are_all_answered, f)
{
    enum { COUNT = 5000 };
    static uint8_t bytes[COUNT * QUERY_SIZE];
    size_t size = 0;
    int fd = client_connect(f->port);

    for (int i = 0; i < COUNT; i++)
        size += client_range_request(bytes + size, "small", i % 10, 1);
    client_send(fd, bytes, size);

    for (int i = 0; i < COUNT; i++)
        expect_rows(fd, 10, i % 10, 1);
    client_close(fd);
}

CASE(a_half_closed_connection_gets_all_its_answers, f)
{
    int fd = client_connect(f->port);

    for (int i = 0; i < 8; i++)
        request(fd, "big", i, 4000);
    client_send(fd, "fragment", 8);
    assert_rc(shutdown(fd, SHUT_WR), 0);

    for (int i = 0; i < 8; i++)
        expect_rows(fd, BIG_ROWS, i, 4000);
    client_expect_end(fd);
    client_close(fd);
    await_none(f);
}

/* ---- errors ------------------------------------------------------------ */

CASE(a_malformed_request_ends_the_connection_after_what_was_owed, f)
{
    static uint8_t rest[1 << 18];
    uint8_t bytes[3 * QUERY_SIZE];
    int fd = client_connect(f->port);

    (void)client_range_request(bytes, "small", 0, 3);
    (void)client_range_request(bytes + QUERY_SIZE, "small", 0, -1);
    (void)client_range_request(bytes + 2 * QUERY_SIZE, "small", 0, 3);
    client_send(fd, bytes, sizeof bytes);
    /* More, which must not turn the answer into a reset. */
    client_send(fd, rest, sizeof rest);

    expect_rows(fd, 10, 0, 3);
    expect_error(fd, -EINVAL);
    client_expect_end(fd);
    await(f, CONN_ENDING, 1);
    client_close(fd);
    await_none(f);
    assert_int_equal(ask(f).stats.malformed, 1);
}

CASE(a_keyspace_that_cannot_be_read_ends_the_connection, f)
{
    static uint8_t rest[1 << 18];
    int fd = client_connect(f->port);

    break_keyspace(f->site, "sick");
    request(fd, "small", 0, 3);
    request(fd, "sick", 0, 3);
    request(fd, "small", 0, 3);
    client_send(fd, rest, sizeof rest); /* which must not make a reset */

    expect_rows(fd, 10, 0, 3);
    expect_error(fd, -EIO);
    client_expect_end(fd);
    client_close(fd);
    await_none(f);
    assert_int_equal(ask(f).stats.malformed, 0);
    assert_int_equal(f->range.unreadable, 1);
}

CASE(a_request_must_be_whole_in_time, f)
{
    uint8_t bytes[QUERY_SIZE];
    int fd, idle;

    (void)client_range_request(bytes, "small", 0, 3);
    idle = client_connect(f->port);
    fd = client_connect(f->port);
    client_send(fd, bytes, sizeof bytes);
    expect_rows(fd, 10, 0, 3);
    for (size_t n = 0; n < 4; n++) {
        const uint64_t received = ask(f).stats.received;

        client_send(fd, bytes + n, 1);
        while (ask(f).stats.received == received)
            continue;
        fault_pass_ns(UINT64_C(75) * 1000000000);
    }
    client_expect_end(fd);
    client_close(fd);
    assert_int_equal(ask(f).stats.late, 1);
    client_send(idle, bytes, sizeof bytes);
    expect_rows(idle, 10, 0, 3);
    client_close(idle);
    await_none(f);
    fault_clear();
}

/* ---- pressure ---------------------------------------------------------- */

CASE(a_peer_that_takes_nothing_holds_little_and_harms_nobody, f)
{
    struct state now;
    int fd, slow = connect_greedy(f, 40);

    await_draining(f);
    now = ask(f);
    assert_false(now.snapshot_kept);
    assert_true(now.memory <= BIG_SIZE + CONN_SLICE);

    fd = client_connect(f->port);
    for (int i = 0; i < 100; i++) {
        request(fd, "small", 0, 10);
        expect_rows(fd, 10, 0, 10);
    }
    client_close(fd);

    take_greedy(slow, 40);
    await_none(f);
}

CASE(a_clean_stop_answers_what_has_arrived, f)
{
    int idle = client_connect(f->port), busy = client_connect(f->port);

    await(f, CONN_IDLE, 2);
    for (int i = 0; i < 200; i++)
        request(busy, "small", i % 10, 1);

    stop(f);

    for (int i = 0; i < 200; i++)
        expect_rows(busy, 10, i % 10, 1);
    client_expect_end(busy);
    client_expect_end(idle);
    client_close(busy);
    client_close(idle);
    assert_rc(client_try_connect(f->port), -ECONNREFUSED);
}

CASE(a_snapshot_ends_with_its_turn, f)
{
    int fd = client_connect(f->port);

    for (int i = 0; i < 10; i++) {
        request(fd, "small", 0, 1);
        expect_rows(fd, 10, 0, 1);
        assert_false(ask(f).snapshot_kept);
    }
    client_close(fd);
}

CASE(a_hundred_pipelined_requests_are_answered_in_order, f)
{
    static uint8_t bytes[100 * QUERY_SIZE];
    size_t size = 0;
    int fd = client_connect(f->port);

    for (int i = 0; i < 100; i++)
        size += client_range_request(bytes + size,
                                     i % 3   ? "small"
                                     : i % 2 ? "other"
                                             : "none",
                                     i % 4, 2);
    client_send(fd, bytes, size);

    for (int i = 0; i < 100; i++) {
        if (i % 3)
            expect_rows(fd, 10, i % 4, 2);
        else if (i % 2)
            expect_rows(fd, 3, i % 4, i % 4 == 1 ? 2 : 0);
        else
            expect_rows(fd, 0, 0, 0);
    }
    client_close(fd);
}

CASE(each_way_to_be_malformed_is_refused, f)
{
    uint8_t bytes[QUERY_SIZE];
    size_t size;
    int fd;

    for (int i = 0; i < 3; i++) {
        size = client_range_request(bytes, "small", 0, 1);
        if (i == 0)
            size = client_range_request(bytes, "", 0, 1);
        if (i == 1)
            bytes[16 + 200] = 'x';
        if (i == 2)
            size = client_range_request(bytes, "small", INT64_MIN, 1);
        fd = client_connect(f->port);
        client_send(fd, bytes, size);

        expect_error(fd, -EINVAL);
        client_expect_end(fd);
        client_close(fd);
    }
}
