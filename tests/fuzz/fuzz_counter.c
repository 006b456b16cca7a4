/* tests/fuzz/fuzz_counter.c - any bytes as requests of several connections,
 * with the objects behind them.
 *
 * The first byte chooses: 1 semaphores, 2 little memory.
 * Then come actions: a byte (two bits connection, three bits what),
 * and for some of them more:
 *
 *   0-3  send the bytes that follow, as many as the next byte says
 *   4    send one byte many times: its value, 16 bits of number
 *   5    stop reading answers, or go on
 *   6    the connection ends: half of it, or all
 *   7    time goes on, a sweep is done
 *
 * Whatever the bytes: each complete request has its answer, in order, with its
 * opcode and opaque; what cannot be a request is refused as it should be; the
 * objects agree with what is held of them after every action; when all have
 * gone nothing is held, and a sweep leaves nothing. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/wire/first_bytes.h"
#include "common/wire/frame.h"
#include "tests/fuzz/fuzz_turn.h"
#include "tests/lib/checks.h"
#include "writer/live/live_server.h"

#define PEERS       4
#define ASKED_MAX   32768 /* requests of one connection in one input */
#define SENT_MAX    (400 * 1024)
#define QUIET_TURNS 3
#define TURNS_MAX   20000
#define ANSWER_MAX  (FRAME_HEADER + 10 + FRAME_NAME_MAX)
#define DAY_MS      UINT64_C(86400000)

/* A complete request that was sent. */
struct asked {
    uint8_t magic, opcode;
    uint8_t opaque[4];
};

struct peer {
    int fd; /* -1: not open */
    bool deaf;
    bool half;   /* it will send nothing more */
    bool doomed; /* a body was too long: it is to be closed */
    bool ended;  /* the server has closed */
    size_t sent;
    char start[10]; /* its first bytes */
    /* The request being sent. */
    uint8_t header[FRAME_HEADER];
    size_t have;   /* bytes of the header */
    uint32_t body; /* bytes of the body to come */
    /* Requests without their answers, a ring without an end. */
    struct asked asked[ASKED_MAX];
    size_t first, count;
    uint8_t in[ANSWER_MAX];
    size_t in_size;
};

static struct peer peers[PEERS];
static struct live_server server;
static struct listener_config row;
static struct conns *conns;
static struct loop *loop;
static struct budget budget;
static bool semaphores, little;
static uint64_t ahead_ms; /* of the clock, that was ever told */

/* ---- the server --------------------------------------------------------- */

static bool
one_turn(void *ctx)
{
    (void)ctx;
    (void)conn_turn(conns);          /* there are turns enough */
    (void)live_server_turn(&server); /* there are turns enough */
    loop_stop(loop);
    return true;
}

static void
start_server(uint8_t flags)
{
    const struct conns_options places = {.rows = &row,
                                         .count = 1,
                                         .shared = PEERS + 1,
                                         .pool_size = 1 << 20,
                                         .answer_max = LIVE_PROTOCOL_OUT_SIZE};
    struct live_options o = {.kind = flags & 1 ? LIVE_SEMAPHORE : LIVE_COUNTER,
                             .holders = PEERS + 1,
                             .places = 1,
                             .window_s = 86400,
                             .budget = &budget};

    semaphores = (flags & 1) != 0;
    little = (flags & 2) != 0;
    ahead_ms = 0;
    budget = (struct budget){.max = little ? 3 << 20 : 64 << 20};
    loop = loop_new();
    assert(loop);
    loop_after_turn(loop, one_turn, NULL);
    row = (struct listener_config){.name = "live",
                                   .max_key = "max",
                                   .protocol = &live_protocol,
                                   .ctx = &server,
                                   .max = PEERS + 1};
    assert(live_server_init(&server, loop, &o) == 0);
    assert(conns_init(&conns, loop, &places) == 0);
    server.listener = conns_listener(conns, 0);
    for (int i = 0; i < PEERS; i++)
        peers[i].fd = -1;
}

static void
open_peer(struct peer *p)
{
    const int small = 1; /* the kernel makes it its smallest */
    int fds[2];

    assert(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0,
                      fds) == 0);
    assert(setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof small) ==
           0);
    p->fd = fds[0];
    p->deaf = p->half = p->doomed = p->ended = false;
    p->sent = p->have = p->body = 0;
    memset(p->start, 0, sizeof p->start);
    p->first = p->count = p->in_size = 0;
    if (conns_take(conns, 0, fds[1]) == 0)
        return;
    /* The places of those that went are still being cleared. */
    (void)close(fds[0]); /* sockets */
    (void)close(fds[1]);
    p->fd = -1;
}

static void
finish_server(void)
{
    struct live_record record;
    struct live_walk walk = {.steps = UINT32_MAX};

    conns_fini(conns);
    while (live_next(&server.live, &walk, &record) == 1)
        assert(record.current == 0);
    (void)live_clock(&server.live,
                     server.clock_ms + ahead_ms + 2 * DAY_MS); /* due */
    /* The first may be the rest of one that began before. */
    for (int sweeps = 0; sweeps < 2;)
        sweeps += live_sweep(&server.live, 1000);
    assert(server.live.count == 0);
    assert(live_check(&server.live));
    live_server_fini(&server);
    loop_free(loop);
    assert(budget.used == 0);
}

/* ---- what was asked ----------------------------------------------------- */

/* Browsers are not let in. */
static bool
is_web(const struct peer *p)
{
    return p->sent >= FIRST_BYTES_SIZE &&
           first_bytes_browser((const uint8_t *)p->start) != NULL;
}

/* A header has gone out.  The answer may come before the body is whole. */
static void
note_request(struct peer *p)
{
    struct asked *a = &p->asked[(p->first + p->count++) % ASKED_MAX];

    assert(p->count <= ASKED_MAX);
    a->magic = p->header[0];
    a->opcode = p->header[1];
    memcpy(a->opaque, p->header + 8, sizeof a->opaque);
}

/* These bytes have gone out: which requests have begun? */
static void
note_sent(struct peer *p, const uint8_t *bytes, size_t size)
{
    size_t n;

    for (n = 0; n < size && p->sent + n < sizeof p->start - 1; n++)
        p->start[p->sent + n] = (char)bytes[n];
    p->sent += size;
    p->doomed |= is_web(p);
    while (size > 0 && !p->doomed) {
        if (p->have < FRAME_HEADER) {
            p->header[p->have++] = *bytes++;
            size--;
            if (p->have == FRAME_HEADER) {
                p->body = get_be32(p->header + 4);
                p->doomed = p->body > FRAME_BODY_MAX;
                note_request(p);
            }
        } else {
            n = size < p->body ? size : p->body;
            p->body -= (uint32_t)n;
            bytes += n;
            size -= n;
        }
        if (p->have == FRAME_HEADER && p->body == 0)
            p->have = 0;
    }
}

static bool
is_known(uint8_t opcode)
{
    return opcode <= FRAME_RELEASE || opcode == FRAME_STATS ||
           (opcode == FRAME_DUMP && !semaphores);
}

static void
check_answer(struct peer *p, const struct frame_header *h, const uint8_t *body)
{
    const struct asked *a = &p->asked[p->first % ASKED_MAX];
    const enum frame_status status = (enum frame_status)h->status;
    const bool has_value = h->opcode == FRAME_GET || h->opcode == FRAME_ACQUIRE;

    assert(p->count > 0);
    assert(h->opcode == a->opcode);
    assert(memcmp(h->opaque, a->opaque, sizeof a->opaque) == 0);
    if (a->magic != FRAME_REQUEST)
        assert(status == FRAME_INVALID);
    else if (!is_known(a->opcode))
        assert(status == FRAME_UNKNOWN);
    else
        assert(status == FRAME_OK ||
               (a->opcode >= FRAME_GET && a->opcode <= FRAME_RELEASE &&
                status != FRAME_UNKNOWN && *frame_text(status) != '\0'));
    assert(little || status != FRAME_NO_MEMORY);
    if (status != FRAME_OK) {
        assert(h->body_size == strlen(frame_text(status)));
        assert(memcmp(body, frame_text(status), h->body_size) == 0);
    } else if (h->opcode != FRAME_STATS && h->opcode != FRAME_DUMP) {
        assert(h->body_size == (has_value ? 4 : 0));
    }
    /* Records of a dump are followed by more of it. */
    if (h->opcode == FRAME_DUMP && status == FRAME_OK && h->body_size > 0) {
        assert(h->body_size == 10u + get_be16(body + 8));
        return;
    }
    p->first++;
    p->count--;
}

static void
take_answers(struct peer *p)
{
    struct frame_header h;
    size_t at = 0;

    while (p->in_size - at >= FRAME_HEADER) {
        frame_get_header(p->in + at, &h);
        assert(h.magic == FRAME_ANSWER && p->in[at + 3] == 0);
        assert(h.body_size <= ANSWER_MAX - FRAME_HEADER);
        if (p->in_size - at < FRAME_HEADER + h.body_size)
            break;
        check_answer(p, &h, p->in + at + FRAME_HEADER);
        at += FRAME_HEADER + h.body_size;
    }
    memmove(p->in, p->in + at, p->in_size - at);
    p->in_size -= at;
}

/* Whether all are answered, but perhaps one that has begun. */
static bool
is_answered(const struct peer *p)
{
    return p->count == 0 || (p->count == 1 && p->have == FRAME_HEADER);
}

/* True when something came. */
static bool
listen_to(struct peer *p)
{
    ssize_t n;

    if (p->fd < 0 || p->deaf || p->ended)
        return false;
    n = recv(p->fd, p->in + p->in_size, sizeof p->in - p->in_size, 0);
    if (n < 0 && errno == EAGAIN)
        return false;
    if (n <= 0) {
        /* Only for a reason. */
        assert(p->doomed || p->half || little);
        assert(n < 0 || p->doomed || little || is_answered(p));
        p->ended = true;
        return true;
    }
    p->in_size += (size_t)n;
    take_answers(p);
    return true;
}

/* Until nothing moves any more. */
static void
pump_peers(void)
{
    int quiet = 0;

    for (int turns = 0; quiet < QUIET_TURNS; turns++) {
        bool moved = false;

        assert(turns < TURNS_MAX);
        fuzz_turn(loop);
        for (int i = 0; i < PEERS; i++)
            moved = listen_to(&peers[i]) || moved;
        quiet = moved ? 0 : quiet + 1;
    }
    for (int i = 0; i < PEERS; i++) {
        const struct peer *p = &peers[i];

        if (p->fd >= 0 && !p->deaf && !p->ended)
            assert(is_answered(p) && p->in_size == 0 && !p->doomed && !p->half);
    }
    assert(live_check(&server.live));
}

/* ---- actions ------------------------------------------------------------ */

static void
say_bytes(struct peer *p, const uint8_t *bytes, size_t size)
{
    ssize_t n = 1;

    while (size > 0 && n > 0 && !p->half && !p->ended && !p->doomed &&
           p->sent + size < SENT_MAX) {
        n = send(p->fd, bytes, size, MSG_NOSIGNAL);
        if (n > 0) {
            note_sent(p, bytes, (size_t)n);
            bytes += n;
            size -= (size_t)n;
        }
        pump_peers();
    }
}

static void
hang_up(struct peer *p, bool all)
{
    if (!all && !p->half && !p->ended) {
        assert(shutdown(p->fd, SHUT_WR) == 0);
        p->half = true;
        pump_peers();
        return;
    }
    (void)close(p->fd); /* a socket */
    p->fd = -1;
    pump_peers();
}

static void
pass_time(uint8_t days)
{
    /* The next turn sets it back: clocks do that. */
    ahead_ms += (uint64_t)days * DAY_MS / 2;
    (void)live_clock(&server.live, server.clock_ms + ahead_ms); /* or not */
    (void)live_sweep(&server.live, days);                       /* a piece */
    pump_peers();
}

/* Bytes of the action that starts here, which is done. */
static size_t
do_action(const uint8_t *bytes, size_t size)
{
    static uint8_t many[65536];
    struct peer *p = &peers[bytes[0] % PEERS];
    const unsigned what = bytes[0] / PEERS % 8;
    size_t n;

    if (p->fd < 0)
        open_peer(p);
    if (what <= 3) {
        if (size < 2)
            return size;
        n = bytes[1] < size - 2 ? bytes[1] : size - 2;
        if (p->fd >= 0)
            say_bytes(p, bytes + 2, n);
        return 2 + n;
    }
    if (what == 4) {
        if (size < 4)
            return size;
        n = get_be16(bytes + 2);
        memset(many, bytes[1], n);
        if (p->fd >= 0)
            say_bytes(p, many, n);
        return 4;
    }
    if (what == 5)
        p->deaf = !p->deaf;
    else if (what == 6 && p->fd >= 0)
        hang_up(p, (bytes[0] & 0x80) != 0);
    else if (what == 7)
        pass_time(bytes[0] / 32);
    pump_peers();
    return 1;
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    if (size < 1)
        return 0;
    start_server(bytes[0]);
    for (size_t at = 1; at < size; at += do_action(bytes + at, size - at))
        continue;
    for (int i = 0; i < PEERS; i++)
        peers[i].deaf = false;
    pump_peers();
    for (int i = 0; i < PEERS; i++)
        if (peers[i].fd >= 0)
            hang_up(&peers[i], true);
    finish_server();
    return 0;
}
