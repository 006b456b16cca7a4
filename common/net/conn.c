/* common/net/conn.c - one service of a connection; see conn.h.
 *
 * A service: send what waits; then, unless the socket is full, receive once,
 * give the input to the protocol, keep what it leaves, send what it put; then
 * file the connection by what it waits for now.
 *
 * Order of what is sent: the patterns owed, then `out`.  A protocol has either
 * patterns, and then only its refusal is in `out`, or answers in bytes.  So
 * held[] counts patterns for the one and bytes at the end of `out` for the
 * other, and what is free to go is always a beginning.
 */
#include "common/net/conn_inside.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define SMALL_ANSWER 4096 /* bytes that may use the reserve of the pool */
#define PIECES_MAX   128
#define DISCARDS_MAX 16 /* receives thrown away in one service */
#define PATTERN_SIZE 12288u

static uint32_t
now_cut(const struct conns *cs)
{
    return (uint32_t)loop_now_ms(cs->loop);
}

static uint32_t
held_of(const struct conn *c)
{
    return c->held[0] + c->held[1];
}

/* ---- states ------------------------------------------------------------ */

void
conn_enter(struct conn *c, enum conn_state state)
{
    struct door *d = c->door;

    list_remove(&c->link);
    c->state = (uint8_t)state;
    list_add(&d->lists[state], &c->link);
}

void
conn_queue(struct conn *c)
{
    if (c->state == CONN_IDLE || c->state == CONN_HELD)
        conn_enter(c, CONN_QUEUED);
}

void
conn_wake(struct conn *c)
{
    c->flags &= (uint16_t)~F_HOLD;
    conn_queue(c);
}

static void
set_starved(struct conn *c, bool starved)
{
    struct conns *cs = c->door->conns;

    if (((c->flags & F_STARVED) != 0) == starved)
        return;
    c->flags ^= F_STARVED;
    cs->starved += starved ? 1 : (size_t)-1;
}

bool
conn_end_some(struct conn *c)
{
    struct door *d = c->door;

    assert(c->state == CONN_CLOSED);
    if ((c->flags & F_DONE) == 0) {
        if (d->row->protocol->ended && !d->row->protocol->ended(c))
            return false;
        c->flags |= F_DONE;
    }
    if ((c->flags & F_GATES) != 0)
        return false;
    conn_enter(c, CONN_FREE);
    d->used--;
    door_closed(d);
    return true;
}

void
conn_close(struct conn *c)
{
    struct door *d = c->door;
    struct conns *cs = d->conns;
    const int fd = c->source.fd;

    assert(fd >= 0);
    if (c->in.size + c->small_size > 0)
        d->figures.cut_off++;
    set_starved(c, false);
    chain_drop(&cs->pool, &c->in, c->in.size);
    chain_drop(&cs->pool, &c->out, c->out.size);
    c->small_size = 0;
    c->owed = c->held[0] = c->held[1] = 0;
    loop_remove(cs->loop, &c->source);
    (void)close(fd); /* what it could tell is about bytes to the peer */
    d->open--;
    conn_enter(c, CONN_CLOSED);
    /* At once, when it is little: who is served next finds it released. */
    if (!conn_end_some(c))
        door_closed(d);
}

/* ---- memory ------------------------------------------------------------ */

bool
conns_evict(struct conns *cs, bool stalled)
{
    struct conn *worst = NULL;
    uint32_t most = 0;

    for (size_t i = 0; i < cs->count; i++) {
        struct door *d = door_at(cs, i);

        for (size_t n = 0; n < d->touched; n++) {
            struct conn *c = door_conn(d, n);
            const uint32_t keeps = chain_chunks(&c->in) + chain_chunks(&c->out);

            if (c->source.fd < 0 || keeps <= most || c == cs->served)
                continue;
            /* Who waits for us has not stalled. */
            if (stalled && ((c->flags & (F_STARVED | F_HOLD)) != 0 ||
                            now_cut(cs) - c->moved_ms < cs->stall_ms))
                continue;
            worst = c;
            most = keeps;
        }
    }
    if (!worst)
        return false;
    diag_repeating(&worst->door->said_memory, DIAG_WARNING,
                   "%s: memory for what waits is used up: the connection that "
                   "keeps most of it, bytes=%zu, is closed",
                   worst->door->row->name, (size_t)most * POOL_CHUNK_SIZE);
    worst->door->figures.evicted++;
    conn_close(worst);
    return true;
}

/* Makes sure that there are so many chunks.  False: the connection that is
 * served must end, as nobody else keeps any. */
static bool
make_room(struct conns *cs, uint32_t chunks)
{
    while (cs->pool.free_count < chunks)
        if (!conns_evict(cs, true) && !conns_evict(cs, false))
            return false;
    return true;
}

uint8_t *
conn_space(struct conn *c, size_t size)
{
    struct conns *cs = c->door->conns;
    const size_t all = cs->out_used + size;
    const uint32_t lacks = chain_lacks(&c->out, all);

    assert(cs->served == c);
    assert(size <= cs->out_size);
    if (all > cs->out_size || cs->slice > 2 * CONN_SLICE)
        return NULL;
    if (lacks + (all > SMALL_ANSWER ? cs->reserve : 0) <= cs->pool.free_count)
        return cs->out + cs->out_used;
    if (all <= SMALL_ANSWER && make_room(cs, lacks))
        return cs->out + cs->out_used;
    if (cs->out_used == 0)
        cs->wanted = size;
    return NULL;
}

void
conn_put(struct conn *c, size_t size)
{
    struct conns *cs = c->door->conns;

    assert(cs->served == c && cs->out_used + size <= cs->out_size);
    cs->out_used += size;
    cs->slice += size;
}

void
conn_owe(struct conn *c, uint32_t count)
{
    struct conns *cs = c->door->conns;
    const size_t size = count * strlen(c->door->row->protocol->pattern);

    assert(cs->served == c);
    if (cs->gated_at != SIZE_MAX || held_of(c) > 0)
        c->held[c->newest] += (uint32_t)size;
    else
        c->owed += size;
}

/* ---- sending ----------------------------------------------------------- */

/* What a call of send said: bytes, 0 when the socket is full, or -errno. */
static ssize_t
sent(struct conn *c, ssize_t n, size_t size)
{
    struct door *d = c->door;

    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return -errno;
    if (n < 0)
        n = 0;
    if ((size_t)n < size)
        c->flags |= F_FULL;
    if (n > 0)
        c->moved_ms = now_cut(d->conns);
    d->figures.sent += (uint64_t)n;
    return n;
}

static ssize_t
send_bytes(struct conn *c, const void *bytes, size_t size)
{
    return sent(c, send(c->source.fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT),
                size);
}

/* Patterns that are free to go.  False: the connection has failed. */
static bool
send_owed(struct conn *c)
{
    const char *pattern = c->door->row->protocol->pattern;
    const size_t unit = pattern ? strlen(pattern) : 1;
    char text[PATTERN_SIZE];
    size_t size, i;
    ssize_t n;

    while (c->owed > 0 && (c->flags & F_FULL) == 0) {
        size = sizeof text / unit * unit;
        size = size < c->owed ? size : (size_t)c->owed;
        for (i = 0; i < size; i++)
            text[i] = pattern[(c->phase + i) % unit];
        n = send_bytes(c, text, size);
        if (n < 0)
            return false;
        c->owed -= (uint64_t)n;
        c->phase = (uint8_t)((c->phase + (size_t)n) % unit);
    }
    return true;
}

/* Bytes at the front of `out` that may go. */
static size_t
free_bytes(const struct conn *c)
{
    if (c->door->row->protocol->pattern)
        return c->owed + held_of(c) > 0 ? 0 : c->out.size;
    return c->out.size - held_of(c);
}

static bool
send_kept(struct conn *c)
{
    struct conns *cs = c->door->conns;
    struct iovec pieces[PIECES_MAX];
    size_t size;

    while ((size = free_bytes(c)) > 0 && (c->flags & F_FULL) == 0) {
        struct msghdr m = {.msg_iov = pieces};
        size_t asked = 0;
        ssize_t n;

        m.msg_iovlen =
            chain_pieces(&cs->pool, &c->out, size, pieces, PIECES_MAX);
        for (size_t i = 0; i < m.msg_iovlen; i++)
            asked += pieces[i].iov_len;
        n = sent(c, sendmsg(c->source.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT),
                 asked);
        if (n < 0)
            return false;
        chain_drop(&cs->pool, &c->out, (size_t)n);
    }
    return true;
}

/* Sends all that waits and may go.  False: the connection has failed. */
static bool
send_waiting(struct conn *c)
{
    return send_owed(c) && send_kept(c);
}

/* Sends what was put into the send buffer, as far as it may go, and keeps the
 * rest, for which there is memory.  False: the connection has failed. */
static bool
flush(struct conn *c)
{
    struct conns *cs = c->door->conns;
    const bool pattern = c->door->row->protocol->pattern != NULL;
    size_t size = cs->out_used, may = size, done = 0;
    ssize_t n;

    cs->out_used = 0;
    if (size == 0)
        return true;
    if (cs->gated_at < size)
        may = cs->gated_at;
    if (held_of(c) > 0 || c->out.size > 0 || c->owed > 0 ||
        (c->flags & F_FULL) != 0)
        may = 0;
    if (may > 0) {
        n = send_bytes(c, cs->out, may);
        if (n < 0)
            return false;
        done = (size_t)n;
    }
    if (!pattern && held_of(c) > 0)
        c->held[c->newest] += (uint32_t)size;
    else if (!pattern && cs->gated_at < size)
        c->held[c->newest] += (uint32_t)(size - cs->gated_at);
    if (done == size)
        return true;
    if (!make_room(cs, chain_lacks(&c->out, size - done)))
        return false;
    chain_push(&cs->pool, &c->out, cs->out + done, size - done);
    return true;
}

/* ---- input ------------------------------------------------------------- */

/* Puts what was kept into the receive buffer. */
static size_t
load(struct conn *c)
{
    struct conns *cs = c->door->conns;
    size_t size = c->small_size;

    if (size > 0) {
        memcpy(cs->in, c->small, CONN_SMALL);
        c->small_size = 0;
        return size;
    }
    size = chain_copy(&cs->pool, &c->in, cs->in);
    chain_drop(&cs->pool, &c->in, size);
    return size;
}

/* False: there is no memory for it. */
static bool
keep(struct conn *c, const uint8_t *bytes, size_t size)
{
    struct conns *cs = c->door->conns;

    if (size <= CONN_SMALL) {
        memcpy(c->small, bytes, size);
        c->small_size = (uint8_t)size;
        return true;
    }
    if (!make_room(cs, chain_lacks(&c->in, size)))
        return false;
    chain_push(&cs->pool, &c->in, bytes, size);
    return true;
}

/* What a call of recv said: bytes, 0 when there is nothing, -1 at the end of
 * input or when the peer is gone. */
static ssize_t
received(struct conn *c, ssize_t n, size_t asked)
{
    struct door *d = c->door;

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (errno == EAGAIN)
            c->flags &= (uint16_t)~F_READABLE;
        return 0;
    }
    if (n <= 0) {
        c->flags |= F_EOF;
        c->flags &= (uint16_t)~F_READABLE;
        return -1;
    }
    /* Less than asked was all: the next byte makes an event. */
    if ((size_t)n < asked && (c->flags & F_EOF) == 0)
        c->flags &= (uint16_t)~F_READABLE;
    c->moved_ms = now_cut(d->conns);
    d->moved_ms = loop_now_ms(d->conns->loop);
    d->figures.received += (uint64_t)n;
    return n;
}

/* Throws away surplus.  False: there is more of it to come. */
static bool
skip_some(struct conn *c)
{
    struct conns *cs = c->door->conns;

    for (int i = 0; i < DISCARDS_MAX && c->skip > 0; i++) {
        const size_t size = c->skip < CONN_SLICE ? c->skip : CONN_SLICE;
        /* MSG_TRUNC: TCP need not even copy it. */
        const ssize_t n = received(
            c, recv(c->source.fd, cs->in, size, MSG_DONTWAIT | MSG_TRUNC),
            size);

        if (n <= 0)
            break;
        c->skip -= (uint32_t)n;
    }
    return c->skip == 0;
}

/* Whether bytes begin with an HTTP method; *more: they may yet. */
static bool
is_http(const uint8_t *bytes, size_t size, bool *more)
{
    static const char *const methods[] = {"GET ",   "POST ",    "PUT ",
                                          "HEAD ",  "OPTIONS ", "DELETE ",
                                          "PATCH ", "TRACE ",   "CONNECT "};

    *more = false;
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        const size_t want = strlen(methods[i]);

        if (memcmp(bytes, methods[i], size < want ? size : want) != 0)
            continue;
        if (size >= want)
            return true;
        *more = true;
    }
    return false;
}

static void
peer_of(const struct conn *c, char text[NET_ADDRESS_SIZE])
{
    struct net_address a = {.size = sizeof a.sa};

    if (getpeername(c->source.fd, (struct sockaddr *)&a.sa, &a.size) < 0)
        (void)snprintf(text, NET_ADDRESS_SIZE, "-"); /* it has gone */
    else
        net_format(&a, text);
}

static enum conn_next
refuse_http(struct conn *c)
{
    struct door *d = c->door;
    char peer[NET_ADDRESS_SIZE];

    d->figures.http++;
    peer_of(c, peer);
    diag_repeating(&d->said_http, DIAG_WARNING,
                   "%s: a connection from %s speaks HTTP, which this port does "
                   "not; it was closed",
                   d->row->name, peer);
    return CONN_CUT;
}

enum conn_next
conn_refuse(struct conn *c, const char *why)
{
    struct door *d = c->door;
    const char *text = d->row->protocol->refusal;
    char peer[NET_ADDRESS_SIZE];
    uint8_t *at;

    d->figures.malformed++;
    peer_of(c, peer);
    diag_repeating(&d->said_malformed, DIAG_WARNING,
                   "%s: malformed input from %s: %s; the connection ends",
                   d->row->name, peer, why);
    if (text) {
        at = conn_space(c, strlen(text));
        if (!at)
            return CONN_CUT;
        memcpy(at, text, strlen(text));
        conn_put(c, strlen(text));
    }
    c->flags |= F_LINGER;
    return CONN_END;
}

/* ---- a service --------------------------------------------------------- */

/* Has the input of this service in the buffer: its size, or -1 when there is
 * nothing to give to the protocol now. */
static ssize_t
gather(struct conn *c, size_t room)
{
    struct conns *cs = c->door->conns;
    size_t size, asked;
    ssize_t n;

    if ((c->flags & F_SKIPPING) != 0)
        return skip_some(c) ? (ssize_t)load(c) : -1;
    size = load(c);
    if ((c->flags & F_AGAIN) != 0)
        return (ssize_t)size;
    asked = c->skip > 0 ? c->need - size : CONN_SLICE;
    if (asked > room - size)
        asked = room - size;
    n = received(c, recv(c->source.fd, cs->in + size, asked, MSG_DONTWAIT),
                 asked);
    if (n > 0)
        size += (size_t)n;
    if (n > 0 && size >= c->need && c->skip == 0)
        return (ssize_t)size;
    if (!keep(c, cs->in, size)) {
        c->flags |= F_CLOSING; /* for want of memory */
        return -1;
    }
    if (n <= 0 || size < c->need)
        return -1;
    c->flags |= F_SKIPPING;
    return skip_some(c) ? (ssize_t)load(c) : -1;
}

/* Keeps what take() left. */
static bool
keep_rest(struct conn *c, struct input *in, enum conn_next next)
{
    c->flags &= (uint16_t) ~(F_AGAIN | F_SKIPPING);
    c->need = c->skip = 0;
    if (next == CONN_MORE) {
        c->need = in->need > 0 ? in->need : (uint32_t)in->size + 1;
        c->skip = in->skip;
        if (in->skip > 0 && in->need <= in->size) {
            /* What is here of the surplus goes now. */
            c->skip -= (uint32_t)(in->size - in->need);
            in->size = in->need;
            c->flags |= F_SKIPPING;
        }
    } else {
        c->flags |= F_AGAIN;
    }
    return keep(c, in->at, in->size);
}

/* What the protocol said.  False: the connection is to be closed. */
static bool
obey(struct conn *c, enum conn_next next)
{
    struct conns *cs = c->door->conns;

    if (next == CONN_CUT)
        return false;
    if (next == CONN_END)
        c->flags |= F_CLOSING;
    if (next == CONN_HOLD)
        c->flags |= F_HOLD;
    if (next == CONN_LONG)
        c->flags |= F_LONG;
    if (!flush(c))
        return false;
    if (next == CONN_FULL && cs->wanted > 0) {
        set_starved(c, true);
        c->skip = (uint32_t)cs->wanted;
    }
    return true;
}

static bool
take(struct conn *c, size_t size)
{
    const struct protocol *p = c->door->row->protocol;
    struct conns *cs = c->door->conns;
    struct input in = {
        .at = cs->in, .size = size, .skipped = (c->flags & F_SKIPPING) != 0};
    enum conn_next next;
    bool more;

    if ((c->flags & F_FRESH) != 0 && (p->flags & CONN_REFUSES_HTTP) != 0) {
        if (is_http(cs->in, size, &more))
            return obey(c, refuse_http(c));
        if (!more)
            c->flags &= (uint16_t)~F_FRESH;
    }
    c->need = c->skip = 0;
    next = p->take(c, &in);
    if (next != CONN_END && next != CONN_CUT && !keep_rest(c, &in, next))
        return false;
    return obey(c, next);
}

/* Lets the protocol work.  False: the connection is to be closed. */
static bool
work(struct conn *c)
{
    struct door *d = c->door;
    const struct protocol *p = d->row->protocol;
    size_t room = SIZE_MAX;
    enum conn_next next;
    ssize_t size;

    if ((c->flags & F_LONG) != 0) {
        next = p->more(c);
        if (next == CONN_MORE)
            c->flags &= (uint16_t)~F_LONG;
        return obey(c, next);
    }
    if ((c->flags & (F_AGAIN | F_READABLE | F_EOF)) == 0)
        return true;
    if (p->room) {
        room = p->room(d);
        if (room == 0) {
            c->flags |= F_BLOCKED;
            d->blocked = true;
            return true;
        }
    }
    size = gather(c, room);
    if (size >= 0)
        return take(c, (size_t)size);
    if ((c->flags & (F_EOF | F_READABLE)) == F_EOF) {
        c->flags |= F_CLOSING;
        return (p->flags & CONN_ANSWERS_EOF) != 0;
    }
    if (d->stopping && (c->flags & F_READABLE) == 0)
        c->flags |= F_CLOSING; /* what has arrived is answered */
    return true;
}

/* Nothing is left to wait for: ends the connection in the way it has to. */
static void
finish(struct conn *c)
{
    struct conns *cs = c->door->conns;

    if ((c->flags & (F_LINGER | F_EOF)) != F_LINGER ||
        shutdown(c->source.fd, SHUT_WR) < 0 ||
        loop_change(cs->loop, &c->source, EPOLLIN) < 0) {
        conn_close(c);
        return;
    }
    c->need = 0; /* bytes thrown away */
    c->moved_ms = now_cut(cs);
    chain_drop(&cs->pool, &c->in, c->in.size);
    c->small_size = 0;
    conn_enter(c, CONN_ENDING);
}

/* Files the connection by what it waits for. */
static void
file(struct conn *c)
{
    const bool waits = c->owed > 0 || free_bytes(c) > 0;
    const bool gated = held_of(c) > 0 || (c->flags & F_GATES) != 0;

    if ((c->flags & F_CLOSING) != 0 && !waits && !gated) {
        finish(c);
        return;
    }
    if (waits && (c->flags & F_FULL) != 0)
        conn_enter(c, CONN_IDLE);
    else if ((c->flags & F_CLOSING) != 0)
        conn_enter(c, waits ? CONN_QUEUED : CONN_HELD);
    else if ((c->flags & (F_HOLD | F_STARVED | F_BLOCKED)) != 0 ||
             ((c->flags & F_AGAIN) != 0 && gated))
        conn_enter(c, CONN_HELD);
    else if (waits || (c->flags & (F_AGAIN | F_LONG | F_READABLE)) != 0)
        conn_enter(c, CONN_QUEUED);
    else
        conn_enter(c, CONN_IDLE);
}

/* Throws away what still comes after the last answer; events are of the level
 * by then, so what is left comes again. */
static void
discard(struct conn *c)
{
    struct conns *cs = c->door->conns;

    for (int i = 0; i < DISCARDS_MAX; i++) {
        const ssize_t n =
            recv(c->source.fd, cs->in, CONN_SLICE, MSG_DONTWAIT | MSG_TRUNC);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n > 0)
            c->need += (uint32_t)n;
        if (n <= 0 || c->need > CONN_ENDING_MAX) {
            conn_close(c);
            return;
        }
    }
}

void
conn_serve(struct conn *c)
{
    struct conns *cs = c->door->conns;
    bool good;

    assert(!cs->served && c->source.fd >= 0);
    cs->served = c;
    cs->out_used = cs->slice = cs->wanted = 0;
    cs->gated_at = SIZE_MAX;
    good = send_waiting(c);
    if (good && (c->flags & (F_FULL | F_CLOSING | F_HOLD)) == 0)
        good = work(c) && send_waiting(c);
    cs->served = NULL;
    if (!good)
        conn_close(c);
    else
        file(c);
}

/* ---- events ------------------------------------------------------------ */

/* Events only say what there may be; all else is done in a turn. */
static void
conn_ready(struct loop_source *source, uint32_t events)
{
    struct conn *c = LOOP_OWNER(source, struct conn, source);

    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        c->flags |= F_EOF;
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        c->flags |= F_READABLE;
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR))
        c->flags &= (uint16_t)~F_FULL;
    if (c->state == CONN_ENDING)
        discard(c);
    else if (c->state == CONN_IDLE)
        conn_enter(c, CONN_QUEUED);
}

int
conn_begin(struct conn *c, struct door *d, int fd)
{
    int rc;

    memset(c, 0, d->stride);
    list_init(&c->link);
    c->door = d;
    c->source = (struct loop_source){.fd = -1, .ready = conn_ready};
    c->flags = F_FRESH;
    c->moved_ms = now_cut(d->conns);
    rc = loop_add(d->conns->loop, &c->source, fd,
                  EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
    if (rc < 0)
        return rc;
    conn_enter(c, CONN_IDLE);
    return 0;
}
