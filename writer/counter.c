/* writer/counter.c - see counter.h.
 *
 * What a connection's input waits for is its `input` state:
 *
 *   IN_SMALL  more bytes; those of the unfinished request are in `small`,
 *             from where they are put in front of the next receive
 *   IN_FILL   more bytes of a long request, the beginning of which is in `rest`
 *   IN_SKIP   the surplus of a body; what the request needs is in `small` or
 *             in `rest`, and it is done when the surplus has passed
 *   IN_RUN    its turn: requests, in `rest`, that came behind answers that are
 *             not sent
 *
 * IN_RUN, unsent answers and a Dump wait for EPOLLOUT; all else for EPOLLIN.
 * Errors and hang-ups are reported always and end the connection.
 */
#include "writer/counter.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/diag.h"
#include "writer/requests.h"

#define SMALL      48 /* bytes of a request kept without a chunk */
#define ANSWERS    2  /* bytes that may be answered for one received */
#define IN_SIZE    (SMALL + COUNTER_RECEIVE_MAX)
#define SKIPS_MAX  16    /* receives of surplus in one turn, at most */
#define DUMP_PIECE 16384 /* bytes, but for a last long name */
#define DUMP_SENDS 4     /* such pieces in one turn, at most */

#define KEEP_IDLE_S     300
#define KEEP_INTERVAL_S 5
#define KEEP_COUNT      9
/* A peer that acknowledges nothing, or takes nothing: as for a silent one. */
#define PEER_TIMEOUT_MS ((KEEP_IDLE_S + KEEP_INTERVAL_S * KEEP_COUNT) * 1000)

/* Looks at the clock at least so often: it may have been set. */
#define SWEEP_WAIT_MAX_MS 60000

enum input { IN_SMALL, IN_FILL, IN_SKIP, IN_RUN };

/* All that is kept is in chunks of one size: room that one connection gives up
 * is room for any other. */
#define CHUNK_ROOM 508

struct chunk {
    uint32_t next;
    uint8_t bytes[CHUNK_ROOM];
};

struct chain {
    uint32_t last;  /* its next is the first one; 0: no chunk */
    uint32_t size;  /* bytes kept */
    uint16_t at;    /* where they begin in the first chunk */
    uint16_t count; /* chunks */
};

struct counter_conn {
    struct loop_source source; /* fd -1: free, or dropping */
    struct counter *counter;
    struct list_link link; /* free, dropping, or a list of keepers */

    struct chain rest;   /* input beyond `small` */
    struct chain unsent; /* answers */
    uint32_t need;       /* IN_FILL, IN_SKIP: bytes that the request needs */
    uint32_t skip;       /* IN_FILL, IN_SKIP: bytes of surplus to come */
    uint32_t dump_from;
    uint8_t dump_opaque[4];
    bool dumping;
    bool waiting; /* its chunks count as kept for one who waits */
    uint8_t input;
    uint8_t small_size;
    uint8_t small[SMALL];
};

static_assert(sizeof(struct counter_conn) <= 136, "idle connections are cheap");
static_assert((IN_SIZE + REQUESTS_OUT_SIZE) / CHUNK_ROOM + 4 <
                  1 << (COUNTER_RANKS - 1),
              "all that one may keep has a rank");

static void end(struct counter_conn *k);

/* ---- what one may have of a turn --------------------------------------- */

/* Bytes of one receive.  Who else sends in this turn is not known before its
 * end: as many as in the one before, or as there were already. */
static size_t
receive_size(const struct counter *c)
{
    const size_t served =
        c->served > c->served_before ? c->served : c->served_before;
    const size_t share = COUNTER_TURN_BYTES / (served > 0 ? served : 1);

    if (share < COUNTER_RECEIVE_MIN)
        return COUNTER_RECEIVE_MIN;
    return share < COUNTER_RECEIVE_MAX ? share : COUNTER_RECEIVE_MAX;
}

/* The same part of `most` as a receive is of the longest; at least 1. */
static unsigned
part_of(const struct counter *c, unsigned most)
{
    const size_t part = most * receive_size(c) / COUNTER_RECEIVE_MAX;

    return part > 0 ? (unsigned)part : 1;
}

/* ---- who keeps how much ------------------------------------------------ */

static unsigned
chunks_of(const struct counter_conn *k)
{
    return (unsigned)k->rest.count + k->unsent.count;
}

/* 0 for none, else one more than the logarithm. */
static unsigned
rank_of(const struct counter_conn *k)
{
    const unsigned count = chunks_of(k);

    return count == 0 ? 0 : 32 - (unsigned)__builtin_clz(count);
}

static void
set_waiting(struct counter_conn *k, bool waiting)
{
    struct counter *c = k->counter;

    c->chunks[k->waiting] -= chunks_of(k);
    k->waiting = waiting;
    c->chunks[k->waiting] += chunks_of(k);
}

/* After its turn: it has moved on, so it is the last of its list. */
static void
file_keeper(struct counter_conn *k, bool waiting)
{
    const unsigned rank = rank_of(k);

    assert(list_alone(&k->link));
    set_waiting(k, waiting);
    if (rank > 0)
        list_add(&k->counter->keepers[waiting][rank], &k->link);
}

/* Whom to end so that `k`, whose turn it is, gets a chunk: of the unfinished
 * requests or of those who wait, whichever keep more, one that keeps most, and
 * of these the one that has moved on last of all.  It may be `k`. */
static struct counter_conn *
worst_keeper(struct counter_conn *k)
{
    const struct counter *c = k->counter;
    const bool waiting = c->chunks[true] > c->chunks[false];
    const unsigned own = k->waiting == waiting ? rank_of(k) : 0;
    const struct list_link *keepers;
    unsigned rank;

    for (rank = COUNTER_RANKS - 1; rank > 0 && rank >= own; rank--) {
        keepers = &c->keepers[waiting][rank];
        if (!list_alone(keepers))
            return LOOP_OWNER(keepers->next, struct counter_conn, link);
    }
    return k;
}

/* 0: the connection has ended. */
static uint32_t
take_chunk(struct counter_conn *k)
{
    static struct diag_repeat repeat;
    struct counter *c = k->counter;
    struct counter_conn *worst = NULL;
    uint32_t chunk;

    while (worst != k) {
        chunk = arena_take(&c->kept, sizeof(struct chunk));
        if (chunk != 0)
            return chunk;
        worst = worst_keeper(k);
        diag_repeating(&repeat, DIAG_WARNING,
                       "memory for what waits is used up: the connection that "
                       "keeps most of it is closed");
        end(worst);
    }
    return 0;
}

/* ---- what is kept ------------------------------------------------------ */

static struct chunk *
chunk_at(const struct counter *c, uint32_t chunk)
{
    return arena_at(&c->kept, chunk);
}

static bool
add_chunk(struct counter_conn *k, struct chain *chain)
{
    struct counter *c = k->counter;
    const uint32_t chunk = take_chunk(k);

    if (chunk == 0)
        return false;
    if (chain->count == 0) {
        chunk_at(c, chunk)->next = chunk;
    } else {
        chunk_at(c, chunk)->next = chunk_at(c, chain->last)->next;
        chunk_at(c, chain->last)->next = chunk;
    }
    chain->last = chunk;
    chain->count++;
    c->chunks[k->waiting]++;
    return true;
}

static void
drop_first_chunk(struct counter_conn *k, struct chain *chain)
{
    struct counter *c = k->counter;
    const uint32_t chunk = chunk_at(c, chain->last)->next;

    chunk_at(c, chain->last)->next = chunk_at(c, chunk)->next;
    arena_give(&c->kept, chunk);
    chain->count--;
    if (chain->count == 0)
        chain->last = 0;
    c->chunks[k->waiting]--;
}

/* Keeps more bytes in a chain.  False: the connection has ended, others may
 * have, too. */
static bool
keep(struct counter_conn *k, struct chain *chain, const uint8_t *bytes,
     size_t size)
{
    while (size > 0) {
        const size_t room =
            (size_t)chain->count * CHUNK_ROOM - chain->at - chain->size;
        const size_t part = size < room ? size : room;

        if (room == 0) {
            if (!add_chunk(k, chain))
                return false;
            continue;
        }
        memcpy(chunk_at(k->counter, chain->last)->bytes + CHUNK_ROOM - room,
               bytes, part);
        chain->size += (uint32_t)part;
        bytes += part;
        size -= part;
    }
    return true;
}

/* Copies what a chain keeps; how much that is. */
static size_t
copy_kept(const struct counter *c, const struct chain *chain, uint8_t *to)
{
    uint32_t chunk = chain->last;
    size_t done, part, at = chain->at;

    for (done = 0; done < chain->size; done += part) {
        chunk = chunk_at(c, chunk)->next;
        part = CHUNK_ROOM - at;
        if (part > chain->size - done)
            part = chain->size - done;
        memcpy(to + done, chunk_at(c, chunk)->bytes + at, part);
        at = 0;
    }
    return done;
}

/* The first `size` bytes need not be kept any more. */
static void
drop_kept(struct counter_conn *k, struct chain *chain, size_t size)
{
    size_t at = chain->at + size;

    assert(size <= chain->size);
    chain->size -= (uint32_t)size;
    while (chain->count > 0 && (at >= CHUNK_ROOM || chain->size == 0)) {
        drop_first_chunk(k, chain);
        at -= at < CHUNK_ROOM ? at : CHUNK_ROOM;
    }
    chain->at = (uint16_t)at;
}

/* ---- the end of a connection ------------------------------------------- */

/* Who is accepted: as many as there is memory for; but when more than
 * max_connections would only be closed again, there is no need to wait. */
static void
limit_accepting(struct counter *c)
{
    const size_t max = c->options.max_connections;

    c->listener.max =
        max > 0 && c->open >= max ? SIZE_MAX : c->options.connections;
    listener_resume(&c->listener);
}

/* Releases of what a closed connection holds as much as this turn allows;
 * true when that was all, and its number is free again. */
static bool
drop_some(struct counter_conn *k)
{
    struct counter *c = k->counter;
    const uint32_t holder = (uint32_t)(k - c->conns);

    assert(k->source.fd < 0);
    do {
        if (c->drops == 0)
            return false;
        c->drops--;
    } while (!live_drop(&c->live, holder, COUNTER_DROP_STEP));
    list_remove(&k->link);
    list_add(&c->free, &k->link);
    c->used--;
    listener_closed(&c->listener);
    return true;
}

static void
close_socket(struct counter_conn *k)
{
    struct counter *c = k->counter;
    const int fd = k->source.fd;

    assert(fd >= 0);
    loop_remove(c->loop, &k->source);
    (void)close(fd); /* what it could tell is about bytes to the peer */
    drop_kept(k, &k->rest, k->rest.size);
    drop_kept(k, &k->unsent, k->unsent.size);
    list_remove(&k->link); /* of keepers, if it was in one */
    list_add(&c->dropping, &k->link);
    c->open--;
}

/* Ends a connection and releases what it holds, at once when that is little. */
static void
end(struct counter_conn *k)
{
    struct counter *c = k->counter;

    close_socket(k);
    (void)drop_some(k); /* if it was not all: in the next turns */
    limit_accepting(c);
}

/* ---- sending ----------------------------------------------------------- */

/* The number of bytes sent, 0 when the socket is full, or -errno. */
static ssize_t
send_some(const struct counter_conn *k, const uint8_t *bytes, size_t size)
{
    ssize_t n;

    do
        n = send(k->source.fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN ? 0 : -errno;
    return n;
}

/* Sends the answers in the shared buffer and keeps what the socket does not
 * take.  False: the connection has ended. */
static bool
flush(struct counter_conn *k)
{
    struct counter *c = k->counter;
    const size_t size = c->out_size;
    ssize_t n;

    assert(k->unsent.size == 0);
    c->out_size = 0;
    if (size == 0)
        return true;
    n = send_some(k, c->out, size);
    if (n < 0) {
        end(k);
        return false;
    }
    if ((size_t)n == size)
        return true;
    set_waiting(k, true);
    return keep(k, &k->unsent, c->out + n, size - (size_t)n);
}

/* Sends more of what was kept.  False: the connection has ended. */
static bool
send_kept(struct counter_conn *k)
{
    struct counter *c = k->counter;
    ssize_t n;

    assert(c->out_size == 0);
    n = send_some(k, c->out, copy_kept(c, &k->unsent, c->out));
    if (n < 0) {
        end(k);
        return false;
    }
    drop_kept(k, &k->unsent, (size_t)n);
    return true;
}

/* Some pieces of a dump.  They are small because the one that the socket does
 * not take must be kept.  False: the connection has ended. */
static bool
dump_pieces(struct counter_conn *k)
{
    struct counter *c = k->counter;
    const unsigned sends = part_of(c, DUMP_SENDS);
    unsigned i;

    for (i = 0; i < sends && k->dumping && k->unsent.size == 0; i++) {
        struct requests r = {.out = c->out, .piece = DUMP_PIECE};

        if (requests_dump(c, &k->dump_from, k->dump_opaque, &r))
            k->dumping = false;
        else if (r.out_size == 0)
            break; /* it has looked at many places: enough for this turn */
        c->out_size = r.out_size;
        if (!flush(k))
            return false;
    }
    return true;
}

/* ---- input that must wait ---------------------------------------------- */

static void
keep_small(struct counter_conn *k, const uint8_t *bytes, size_t size)
{
    assert(size <= SMALL);
    memcpy(k->small, bytes, size);
    k->small_size = (uint8_t)size;
}

/* Keeps requests until their answers can be sent.  False: the connection has
 * ended. */
static bool
keep_run(struct counter_conn *k, const uint8_t *bytes, size_t size)
{
    keep_small(k, bytes, 0);
    k->input = size == 0 ? IN_SMALL : IN_RUN;
    set_waiting(k, true);
    return keep(k, &k->rest, bytes, size);
}

/* Keeps the beginning of a request, or nothing, until more comes.  Memory is
 * taken for what has come, not for what is announced.  False: the connection
 * has ended. */
static bool
keep_rest(struct counter_conn *k, const uint8_t *bytes, size_t size)
{
    size_t need, whole;

    need = requests_need(k->counter, bytes, size);
    if (size < need && need <= SMALL) {
        keep_small(k, bytes, size);
        k->input = IN_SMALL;
        return true;
    }
    whole = FRAME_HEADER + (size_t)get_be32(bytes + 4);
    assert(size < whole && need <= whole);
    k->need = (uint32_t)need;
    k->input = size < need ? IN_FILL : IN_SKIP;
    k->skip = (uint32_t)(whole - (size < need ? need : size));
    if (need <= SMALL) {
        keep_small(k, bytes, need);
        return true;
    }
    set_waiting(k, k->unsent.size > 0);
    return keep(k, &k->rest, bytes, size < need ? size : need);
}

/* ---- doing ------------------------------------------------------------- */

/* Begins a Dump behind what is in the shared buffer.  False: the connection
 * has ended. */
static bool
start_dump(struct counter_conn *k, const uint8_t opaque[4])
{
    memcpy(k->dump_opaque, opaque, sizeof k->dump_opaque);
    k->dump_from = 0;
    k->dumping = true;
    return flush(k) && dump_pieces(k);
}

/* Does the requests of `bytes`, which are in the shared buffer, and keeps what
 * must wait. */
static void
do_run(struct counter_conn *k, const uint8_t *bytes, size_t size)
{
    struct counter *c = k->counter;
    const uint32_t holder = (uint32_t)(k - c->conns);
    size_t left = ANSWERS * receive_size(c);
    struct requests r = {.in = bytes, .in_size = size, .out = c->out};
    enum requests_stop stop;

    assert(c->out_size == 0);
    while (left > 0) {
        r.out_size = 0;
        r.piece = left < REQUESTS_PIECE ? left : REQUESTS_PIECE;
        stop = requests_do(c, holder, &r);
        c->out_size = r.out_size;
        left -= left < r.out_size ? left : r.out_size;
        if (stop == REQUESTS_DUMP) {
            if (!start_dump(k, r.dump))
                return;
        } else if (!flush(k)) {
            return;
        }
        if (stop == REQUESTS_LONG) {
            end(k);
            return;
        }
        if (stop == REQUESTS_MORE) {
            (void)keep_rest(k, r.in, r.in_size); /* nothing follows anyway */
            return;
        }
        if (k->unsent.size > 0 || k->dumping)
            break;
    }
    (void)keep_run(k, r.in, r.in_size); /* likewise */
}

/* The surplus of a request has passed: does it. */
static void
do_skipped(struct counter_conn *k)
{
    struct counter *c = k->counter;
    struct requests r = {.in = c->in, .out = c->out};
    enum requests_stop stop;

    assert(c->out_size == 0);
    assert(k->skip == 0);
    if (k->need <= SMALL) {
        assert(k->small_size == k->need);
        memcpy(c->in, k->small, k->need);
    } else {
        assert(k->rest.size == k->need);
        copy_kept(c, &k->rest, c->in);
        drop_kept(k, &k->rest, k->need);
    }
    r.in_size = k->need;
    stop = requests_do_one(c, (uint32_t)(k - c->conns), &r);
    keep_small(k, c->in, 0);
    k->input = IN_SMALL;
    c->out_size = r.out_size;
    if (stop == REQUESTS_DUMP)
        (void)start_dump(k, r.dump); /* false: nothing follows anyway */
    else
        (void)flush(k); /* likewise */
}

/* Does the requests that waited for their turn. */
static void
run_kept(struct counter_conn *k)
{
    struct counter *c = k->counter;
    const size_t size = copy_kept(c, &k->rest, c->in);

    drop_kept(k, &k->rest, size);
    do_run(k, c->in, size);
}

/* ---- receiving --------------------------------------------------------- */

/* As recv: 0 when there is nothing yet; at the end of input, or on an error,
 * the connection ends and -1 is returned. */
static ssize_t
receive_some(struct counter_conn *k, uint8_t *bytes, size_t size, int flags)
{
    ssize_t n;

    n = recv(k->source.fd, bytes, size, MSG_DONTWAIT | flags);
    if (n > 0)
        return n;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    end(k);
    return -1;
}

static void
receive(struct counter_conn *k)
{
    struct counter *c = k->counter;
    const size_t kept = k->small_size;
    ssize_t n;

    /* A constant size is two moves; what is too much is overwritten. */
    memcpy(c->in, k->small, SMALL);
    n = receive_some(k, c->in + kept, receive_size(c), 0);
    if (n > 0)
        do_run(k, c->in, kept + (size_t)n);
}

static void
receive_fill(struct counter_conn *k)
{
    struct counter *c = k->counter;
    const size_t most = receive_size(c), lacks = k->need - k->rest.size;
    ssize_t n;

    n = receive_some(k, c->in, lacks < most ? lacks : most, 0);
    if (n <= 0 || !keep(k, &k->rest, c->in, (size_t)n))
        return;
    if (k->rest.size < k->need)
        return;
    k->input = IN_SKIP;
    if (k->skip == 0)
        do_skipped(k);
}

static void
receive_surplus(struct counter_conn *k)
{
    const unsigned receives = part_of(k->counter, SKIPS_MAX);
    size_t size;
    ssize_t n;
    unsigned i;

    for (i = 0; i < receives && k->skip > 0; i++) {
        size = k->skip < COUNTER_RECEIVE_MAX ? k->skip : COUNTER_RECEIVE_MAX;
        /* MSG_TRUNC: TCP need not even copy it. */
        n = receive_some(k, k->counter->in, size, MSG_TRUNC);
        if (n < 0)
            return;
        if (n == 0)
            break;
        k->skip -= (uint32_t)n;
    }
    if (k->skip == 0)
        do_skipped(k);
}

/* ---- events ------------------------------------------------------------ */

/* Tells the objects the time, once per turn. */
static void
look_at_clock(struct counter *c)
{
    const uint64_t unix_ms = loop_unix_ms(c->loop);

    if (unix_ms == c->clock_ms)
        return;
    c->clock_ms = unix_ms;
    c->sweeping = live_clock(&c->live, unix_ms);
}

static void
take_input(struct counter_conn *k)
{
    switch ((enum input)k->input) {
    case IN_SMALL:
        receive(k);
        break;
    case IN_FILL:
        receive_fill(k);
        break;
    case IN_SKIP:
        receive_surplus(k);
        break;
    case IN_RUN:
        run_kept(k);
        break;
    }
}

/* Asks the loop for what the connection waits for. */
static void
end_turn(struct counter_conn *k)
{
    const bool waits = k->unsent.size > 0 || k->dumping || k->input == IN_RUN;
    int rc;

    file_keeper(k, waits);
    rc = loop_change(k->counter->loop, &k->source, waits ? EPOLLOUT : EPOLLIN);
    if (rc < 0) {
        diag_errno(DIAG_WARNING, rc, "cannot watch a connection");
        end(k);
    }
}

static void
conn_ready(struct loop_source *source, uint32_t events)
{
    struct counter_conn *k = LOOP_OWNER(source, struct counter_conn, source);

    look_at_clock(k->counter);
    k->counter->served++;
    if (events & (EPOLLERR | EPOLLHUP)) {
        end(k); /* nobody is left to answer */
        return;
    }
    list_remove(&k->link);
    if (k->unsent.size > 0 && !send_kept(k))
        return;
    if (k->unsent.size == 0) {
        if (!k->dumping)
            take_input(k);
        else if (!dump_pieces(k))
            return;
    }
    if (k->source.fd >= 0)
        end_turn(k);
}

/* ---- accepting --------------------------------------------------------- */

static struct counter_conn *
free_conn(struct counter *c)
{
    struct counter_conn *k;

    if (list_alone(&c->free))
        return c->touched < c->options.connections ? &c->conns[c->touched++]
                                                   : NULL;
    /* The one freed last: few connections touch little memory. */
    k = LOOP_OWNER(c->free.prev, struct counter_conn, link);
    list_remove(&k->link);
    return k;
}

static int
take(struct counter *c, int fd)
{
    struct counter_conn *k;
    int rc;

    k = free_conn(c);
    if (!k)
        return -EMFILE;
    *k = (struct counter_conn){.source = {.fd = -1, .ready = conn_ready},
                               .counter = c};
    list_init(&k->link);
    rc = loop_add(c->loop, &k->source, fd, EPOLLIN);
    if (rc < 0) {
        list_add(&c->free, &k->link);
        return rc;
    }
    c->open++;
    c->used++;
    c->figures.connections++;
    return 0;
}

int
counter_take(struct counter *c, int fd)
{
    int rc;

    rc = take(c, fd);
    if (rc < 0)
        return rc;
    c->listener.open++;
    limit_accepting(c);
    return 0;
}

static void
accepted(struct listener *l, int fd)
{
    struct counter *c = LOOP_OWNER(l, struct counter, listener);
    const size_t max = c->options.max_connections;
    int rc = 0;

    if (max == 0 || c->open < max)
        rc = take(c, fd);
    else
        rc = -EMFILE; /* as documented: closed without a byte */
    if (rc < 0) {
        if (rc != -EMFILE)
            diag_errno(DIAG_WARNING, rc, "cannot take a connection");
        (void)close(fd); /* nothing was read from it */
        l->open--;
    }
    limit_accepting(c);
}

/* Accepted sockets inherit all of it: one call fewer for each. */
static int
keep_alive(int fd)
{
    const int one = 1, idle = KEEP_IDLE_S, interval = KEEP_INTERVAL_S,
              count = KEEP_COUNT;
    const unsigned timeout = PEER_TIMEOUT_MS;

    if (setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval) <
            0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout,
                   sizeof timeout) < 0)
        return -errno;
    return 0;
}

int
counter_listen(struct counter *c, int fd)
{
    int rc;

    rc = keep_alive(fd);
    if (rc < 0)
        return rc;
    c->listener.accepted = accepted;
    rc = listener_start(&c->listener, c->loop, fd, c->options.connections);
    if (rc < 0)
        return rc;
    c->listener.open = c->used;
    limit_accepting(c);
    return 0;
}

/* ---- sweeps and releases ----------------------------------------------- */

/* Until the next window, or the next sweep of semaphores. */
static uint64_t
sweep_wait_ms(const struct counter *c)
{
    const uint64_t interval_ms = (uint64_t)c->options.interval_s * 1000;
    const uint64_t unix_ms = loop_unix_ms(c->loop);
    const uint64_t next_ms = c->live.swept_ms + interval_ms + 1;
    uint64_t wait_ms;

    if (c->options.kind == LIVE_COUNTER)
        wait_ms = interval_ms - unix_ms % interval_ms;
    else
        wait_ms = next_ms > unix_ms ? next_ms - unix_ms : 1;
    return wait_ms < SWEEP_WAIT_MAX_MS ? wait_ms : SWEEP_WAIT_MAX_MS;
}

static void
sweep_due(struct loop_timer *timer)
{
    struct counter *c = LOOP_OWNER(timer, struct counter, sweep_timer);

    look_at_clock(c);
    /* The timer has just fired, so there is room for it. */
    (void)loop_arm(c->loop, timer, loop_now_ms(c->loop) + sweep_wait_ms(c));
}

static void
stop_some(struct counter *c)
{
    for (int i = 0; i < COUNTER_CLOSES && c->stop_at < c->touched; i++) {
        struct counter_conn *k = &c->conns[c->stop_at++];

        if (k->source.fd >= 0)
            close_socket(k);
    }
}

bool
counter_turn(struct counter *c)
{
    struct list_link *link;

    if (c->stopping)
        stop_some(c);
    while (c->drops > 0 && !list_alone(&c->dropping)) {
        link = c->dropping.next;
        if (drop_some(LOOP_OWNER(link, struct counter_conn, link)))
            continue;
        list_remove(link); /* behind the others, which may have little */
        list_add(&c->dropping, link);
    }
    c->drops = COUNTER_DROPS;
    c->served_before = c->served;
    c->served = 0;
    c->sweeping |= c->live.hungry;
    if (c->sweeping) {
        look_at_clock(c);
        c->sweeping = !live_sweep(&c->live, COUNTER_SWEEP_STEP);
    }
    return c->sweeping || !list_alone(&c->dropping) ||
           (c->stopping && c->stop_at < c->touched);
}

void
counter_stop(struct counter *c)
{
    listener_stop(&c->listener);
    c->stopping = true;
}

/* ---- open and close ---------------------------------------------------- */

static int
open_live(struct counter *c)
{
    const struct counter_options *o = &c->options;
    const struct live_options options = {.kind = o->kind,
                                         .budget = o->budget,
                                         .slots = o->slots,
                                         .holders = (uint32_t)o->connections,
                                         .window_s = o->interval_s,
                                         .history = o->history};

    return live_init(&c->live, &options);
}

int
counter_init(struct counter *c, struct loop *loop,
             const struct counter_options *options)
{
    int rc = -ENOMEM;

    assert(options->connections > 0 && options->connections < UINT32_MAX);
    assert(options->interval_s > 0);
    *c = (struct counter){.options = *options,
                          .loop = loop,
                          .listener = {.source = {.fd = -1}},
                          .drops = COUNTER_DROPS,
                          .sweep_timer = {.slot = -1, .due = sweep_due}};
    list_init(&c->free);
    list_init(&c->dropping);
    for (unsigned i = 0; i < COUNTER_RANKS; i++) {
        list_init(&c->keepers[false][i]);
        list_init(&c->keepers[true][i]);
    }
    c->kept_budget.max = options->budget->max / COUNTER_KEPT_SHARE;
    if (!budget_take(options->budget, c->kept_budget.max))
        return -ENOMEM;
    c->conns = calloc(options->connections, sizeof *c->conns);
    c->in = malloc(IN_SIZE);
    c->out = malloc(REQUESTS_OUT_SIZE);
    if (!c->conns || !c->in || !c->out)
        goto free_memory;
    rc = arena_init(&c->kept, &c->kept_budget);
    if (rc < 0)
        goto free_memory;
    rc = open_live(c);
    if (rc < 0)
        goto fini_kept;
    look_at_clock(c);
    rc = loop_arm(loop, &c->sweep_timer, loop_now_ms(loop) + sweep_wait_ms(c));
    if (rc < 0)
        goto fini_live;
    return 0;

fini_live:
    live_fini(&c->live);
fini_kept:
    arena_fini(&c->kept);
free_memory:
    free(c->conns);
    free(c->in);
    free(c->out);
    budget_give(options->budget, c->kept_budget.max);
    return rc;
}

void
counter_fini(struct counter *c)
{
    size_t i;

    listener_stop(&c->listener);
    for (i = 0; i < c->touched; i++)
        if (c->conns[i].source.fd >= 0)
            close_socket(&c->conns[i]);
    loop_disarm(c->loop, &c->sweep_timer);
    live_fini(&c->live);
    arena_fini(&c->kept);
    free(c->conns);
    free(c->in);
    free(c->out);
    budget_give(c->options.budget, c->kept_budget.max);
}
