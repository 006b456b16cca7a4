/* tests/lib/echo.c - see echo.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/echo.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "tests/lib/client.h"
#include "tests/lib/fault.h"
#include "tests/lib/test.h"
#include "tests/lib/turns.h"

#define WORK_NS    100000
#define HEARD_SIZE ((size_t)20 << 20)

static struct echo *
echo_of(struct conn *c)
{
    return conn_ctx(c);
}

/* ---- the protocol ------------------------------------------------------ */

static size_t
echo_room(struct listener *d)
{
    return ((struct echo *)d->row->ctx)->room;
}

/* `bytes` NULL: as many b. */
static enum conn_next
put_bytes(struct conn *c, const uint8_t *bytes, size_t size)
{
    uint8_t *at = conn_space(c, size);

    if (!at)
        return CONN_FULL;
    if (bytes)
        memcpy(at, bytes, size);
    else
        memset(at, 'b', size);
    conn_put(c, size);
    return CONN_ANSWERED;
}

static enum conn_next
echo_more(struct conn *c)
{
    struct echo_state *s = conn_state(c);
    const uint16_t part = s->whole ? s->left : 1;

    while (s->left > 0) {
        if (put_bytes(c, NULL, (size_t)part * 1024) == CONN_FULL)
            return CONN_FULL;
        s->left = (uint16_t)(s->left - part);
    }
    return CONN_ANSWERED;
}

static enum conn_next
begin_long(struct conn *c, uint16_t kib, bool whole)
{
    struct echo_state *s = conn_state(c);

    s->left = kib;
    s->whole = whole;
    return CONN_LONG;
}

static enum conn_next
hold_conn(struct conn *c, const uint8_t *body, size_t size, struct gate *gate)
{
    struct echo *f = echo_of(c);

    if (f->held == c) {
        f->held = NULL;
        return put_bytes(c, body, size);
    }
    f->held = c;
    return gate && conn_gate(c, gate) ? CONN_FULL : CONN_PAUSE;
}

static enum conn_next
do_work(struct conn *c)
{
    struct echo *f = echo_of(c);

    fault_pass_ns(WORK_NS);
    if (f->served_count < ECHO_SERVED)
        f->served[f->served_count++] =
            (unsigned)(c->listener - conns_listener(f->conns, 0)) * 1000u +
            conn_number(c);
    return CONN_ANSWERED;
}

static enum conn_next
owe_acks(struct conn *c, uint16_t count)
{
    if (!conn_gate(c, echo_of(c)->gate))
        return CONN_FULL;
    conn_add_acks(c, count);
    return CONN_ANSWERED;
}

static enum conn_next
do_request(struct conn *c, const uint8_t *at, size_t size)
{
    struct echo *f = echo_of(c);
    const uint8_t *body = at + ECHO_HEAD;

    switch (at[2]) {
    case 'e':
        return put_bytes(c, body, size);
    case 'g':
        return conn_gate(c, f->gate) ? put_bytes(c, body, size) : CONN_FULL;
    case 'G':
        return conn_gate(c, &f->other) ? put_bytes(c, body, size) : CONN_FULL;
    case 'b':
        return put_bytes(c, NULL, (size_t)get_be16(body) * 1024);
    case 'l':
    case 'L':
        return begin_long(c, get_be16(body), at[2] == 'L');
    case 'h':
    case 'H':
        return hold_conn(c, body, size, at[2] == 'H' ? f->gate : NULL);
    case 'w':
        return do_work(c);
    case 'o':
        return owe_acks(c, get_be16(body));
    case 'c':
        return CONN_CUT;
    default:
        return conn_refuse(c, "no such kind");
    }
}

static enum conn_next
echo_take(struct conn *c, struct input *in)
{
    while (in->size >= ECHO_HEAD) {
        const size_t size = get_be16(in->at), used = ECHO_HEAD + size;
        enum conn_next next;

        if (in->size < used) {
            in->need = (uint32_t)used;
            return CONN_NEED_INPUT;
        }
        next = do_request(c, in->at, size);
        if (next == CONN_FULL || next == CONN_PAUSE)
            return next;
        in->at += used;
        in->size -= used;
        if (next != CONN_ANSWERED)
            return next;
    }
    in->need = 0;
    return CONN_NEED_INPUT;
}

static bool
echo_ended(struct conn *c)
{
    struct echo *f = echo_of(c);
    struct echo_state *s = conn_state(c);

    if (s->ends++ < f->ends) {
        fault_pass_ns(WORK_NS);
        return false;
    }
    f->ended++;
    return true;
}

static const struct protocol protocols[ECHO_LISTENERS] = {
    {.stop = STOP_ANSWER,
     .refusal = "NO",
     .more = echo_more,
     .ended = echo_ended,
     .state_size = sizeof(struct echo_state),
     .input_limit = echo_room,
     .take = echo_take},
    {.stop = STOP_CUT,
     .more = echo_more,
     .ended = echo_ended,
     .state_size = sizeof(struct echo_state),
     .input_limit = echo_room,
     .take = echo_take},
    {.stop = STOP_DRAIN,
     .ack = "WIN",
     .refusal = "FAIL",
     .state_size = sizeof(struct echo_state),
     .input_limit = echo_room,
     .take = echo_take},
    {.flags = CONN_EOF_WAKES,
     .stop = STOP_CUT,
     .takes = "bytes",
     .ended = echo_ended,
     .state_size = sizeof(struct echo_state),
     .input_limit = echo_room,
     .take = echo_take}};

/* ---- the fixture -----------------------------------------------------------
 */

static bool
after_turn(void *ctx)
{
    struct echo *f = ctx;
    const bool more = conn_turn(f->conns);

    if (f->after)
        f->after(f->ctx);
    if (f->enough(f))
        loop_stop(f->loop);
    return more || conns_have_work(f->conns);
}

void
echo_run(struct echo *f, bool (*enough)(struct echo *f))
{
    f->enough = enough;
    turns_run(f->loop);
}

static bool
had_turns(struct echo *f)
{
    return f->want-- <= 1;
}

void
echo_turns(struct echo *f, size_t count)
{
    f->want = count;
    echo_run(f, had_turns);
}

struct echo *
echo_new(void)
{
    static const char *const names[] = {"echo", "cut", "wins", "raw"};
    struct echo *f = test_memory(calloc(1, sizeof *f));

    f->room = SIZE_MAX;
    f->gate = &f->own;
    f->heard = test_memory(malloc(HEARD_SIZE));
    f->loop = loop_new();
    assert_non_null(f->loop);
    for (size_t i = 0; i < ECHO_LISTENERS; i++)
        f->rows[i] = (struct listener_config){.name = names[i],
                                              .max_key = "max",
                                              .protocol = &protocols[i],
                                              .ctx = f,
                                              .max = ECHO_PEERS,
                                              .reserved = 4};
    f->options = (struct conns_options){.rows = f->rows,
                                        .count = ECHO_LISTENERS,
                                        .shared = ECHO_PEERS,
                                        .pool_size = (size_t)2 << 20,
                                        .answer_max = (size_t)1 << 20};
    loop_after_turn(f->loop, after_turn, f);
    return f;
}

void
echo_start(struct echo *f)
{
    size_t most = f->options.shared;

    assert_rc(conns_init(&f->conns, f->loop, &f->options), 0);
    assert_rc(gate_init(&f->own, most, 0), 0);
    assert_rc(gate_init(&f->other, most, 1), 0);
    f->peers = test_memory(calloc(most + 16, sizeof *f->peers));
}

void
echo_free(struct echo *f)
{
    conns_fini(f->conns);
    gate_fini(&f->own);
    gate_fini(&f->other);
    loop_free(f->loop);
    for (size_t i = 0; i < f->peer_count; i++)
        (void)close(f->peers[i]); /* of a test that is over */
    free(f->peers);
    free(f->heard);
    free(f);
}

void
echo_commit(struct gate *g)
{
    gate_close_group(g);
    gate_release(g);
}

const struct listener_stats *
echo_stats(const struct echo *f, size_t listener)
{
    return &conns_listener(f->conns, listener)->stats;
}

int
echo_join(struct echo *f, size_t listener)
{
    struct net_address a, bound;
    const int least = 32768;
    int l, client, server;

    assert_rc(net_parse("127.0.0.1:0", &a), 0);
    l = net_bind(&a, SOCK_STREAM, 0, &bound);
    assert_true(l >= 0);
    client = client_connect_to(&bound);
    assert_true(client >= 0);
    server = accept4(l, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    assert_true(server >= 0);
    assert_int_equal(close(l), 0);
    if (f->narrow) {
        /* Cannot fail: both are sockets. */
        (void)setsockopt(client, SOL_SOCKET, SO_RCVBUF, &least, sizeof least);
        (void)setsockopt(server, SOL_SOCKET, SO_SNDBUF, &least, sizeof least);
    }
    assert_rc(conns_take(f->conns, listener, server), 0);
    assert_true(f->peer_count < f->options.shared + 16);
    f->peers[f->peer_count++] = client;
    return client;
}

/* ---- peers ------------------------------------------------------------- */

void
echo_say(int fd, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;

    while (size > 0) {
        const ssize_t n = send(fd, at, size, MSG_NOSIGNAL);
        struct pollfd p = {.fd = fd, .events = POLLOUT};

        if (n < 0 && errno == EAGAIN) {
            assert_true(poll(&p, 1, 10000) > 0);
            continue;
        }
        assert_true(n > 0);
        at += n;
        size -= (size_t)n;
    }
}

size_t
echo_request(uint8_t *at, char kind, const char *body)
{
    const size_t size = strlen(body);

    put_be16(at, (uint16_t)size);
    at[2] = (uint8_t)kind;
    memcpy(at + ECHO_HEAD, body, size);
    return ECHO_HEAD + size;
}

void
echo_ask(int fd, char kind, const char *body)
{
    uint8_t bytes[600];

    echo_say(fd, bytes, echo_request(bytes, kind, body));
}

void
echo_ask_number(int fd, char kind, uint16_t number)
{
    uint8_t bytes[ECHO_HEAD + 2] = {0, 2, (uint8_t)kind};

    put_be16(bytes + ECHO_HEAD, number);
    echo_say(fd, bytes, sizeof bytes);
}

static bool
heard_enough(struct echo *f)
{
    while (f->heard_size < f->heard_max && !f->heard_end) {
        const ssize_t n = recv(f->fd, f->heard + f->heard_size,
                               f->heard_max - f->heard_size, MSG_DONTWAIT);

        if (n < 0 && errno == EAGAIN)
            break;
        if (n > 0)
            f->heard_size += (size_t)n;
        f->heard_end = n <= 0;
    }
    return f->heard_end || f->heard_size >= f->want;
}

/* Hears until `want` bytes or the end, at most `max`. */
static void
hear_bytes(struct echo *f, int fd, size_t want, size_t max)
{
    f->fd = fd;
    f->heard_size = 0;
    f->heard_end = false;
    f->heard_max = max;
    f->want = want;
    echo_run(f, heard_enough);
}

void
echo_hear_size(struct echo *f, int fd, size_t size)
{
    assert_true(size <= HEARD_SIZE);
    hear_bytes(f, fd, size, size);
    assert_int_equal(f->heard_size, size);
}

void
echo_hear(struct echo *f, int fd, const char *text)
{
    hear_bytes(f, fd, strlen(text), HEARD_SIZE);
    assert_int_equal(f->heard_size, strlen(text));
    assert_memory_equal(f->heard, text, strlen(text));
}

void
echo_hear_end(struct echo *f, int fd, const char *text)
{
    hear_bytes(f, fd, SIZE_MAX, HEARD_SIZE);
    assert_true(f->heard_end);
    assert_int_equal(f->heard_size, strlen(text));
    assert_memory_equal(f->heard, text, strlen(text));
}

void
echo_hear_nothing(struct echo *f, int fd)
{
    int waiting = 0;

    echo_turns(f, 4);
    assert_int_equal(ioctl(fd, FIONREAD, &waiting), 0);
    assert_int_equal(waiting, 0);
}

static void
note_stopped(void *ctx)
{
    ((struct echo *)ctx)->stopped = true;
}

void
echo_stop(struct echo *f, uint64_t ms)
{
    conns_stop(f->conns, ms, note_stopped, f);
}

bool
echo_has_stopped(struct echo *f)
{
    return f->stopped;
}
