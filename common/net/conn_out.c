/* common/net/conn_out.c - what a connection sends, and the memory for what
 * waits; see conn.h.
 *
 * conn_space(), conn_put() and conn_add_acks() are for protocols; conn_flush()
 * and conn_send_waiting() send; conns_reserve_chunks() makes memory available.
 *
 * The acks that are due are sent first, then `out`.  A protocol has either
 * acks, and then only its refusal is in `out`, or answers in bytes.  So gated[]
 * counts bytes of acks for the one and bytes at the end of `out` for the other,
 * and the bytes that may be sent always come first.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/conn_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#define PIECES_MAX 128
#define ACKS_SIZE  12288u

/* ---- memory ------------------------------------------------------------ */

void
conn_starve(struct conn *c, bool starved)
{
    struct conns *cs = c->listener->conns;

    if (((c->flags & F_STARVED) != 0) == starved)
        return;
    c->flags ^= F_STARVED;
    cs->starved += starved ? 1 : (size_t)-1;
}

/* A connection that waits for this process has not stalled. */
static bool
has_stalled(const struct conns *cs, const struct conn *c)
{
    return c->state != CONN_PAUSED && conn_gated(c) == 0 &&
           conns_now(cs) - c->moved_ms >= CONN_STALL_MS;
}

bool
conns_evict(struct conns *cs, bool stalled)
{
    struct conn *worst = NULL;
    uint32_t most = 0;

    for (size_t i = 0; i < cs->count; i++) {
        struct listener *d = conns_listener(cs, i);

        for (size_t n = 0; n < d->touched; n++) {
            struct conn *c = listener_conn(d, n);
            const uint32_t keeps = chain_chunks(&c->in) + chain_chunks(&c->out);

            if (c->source.fd < 0 || keeps <= most || c == cs->served ||
                (stalled && !has_stalled(cs, c)))
                continue;
            worst = c;
            most = keeps;
        }
    }
    if (!worst)
        return false;
    diag_repeating(&worst->listener->memory_warning, DIAG_WARNING,
                   "%s: memory for what waits is used up: the connection that "
                   "keeps most of it, bytes=%zu, is closed",
                   worst->listener->row->name, (size_t)most * POOL_CHUNK_SIZE);
    worst->listener->stats.evicted++;
    conn_close(worst);
    return true;
}

bool
conns_reserve_chunks(struct conns *cs, uint32_t chunks)
{
    while (cs->pool.free_count < chunks)
        if (!conns_evict(cs, true) && !conns_evict(cs, false))
            return false;
    return true;
}

/* Whether the pool has memory for `size` bytes of answers. */
static bool
has_memory(const struct conn *c, size_t size)
{
    const struct conns *cs = c->listener->conns;
    const uint32_t left = size > CONN_SMALL_ANSWER ? cs->reserve : 0;

    return chain_lacks(&c->out, size) + left <= cs->pool.free_count;
}

uint8_t *
conn_space(struct conn *c, size_t size)
{
    struct conns *cs = c->listener->conns;
    const size_t all = cs->out_used + size;

    assert(cs->served == c);
    assert(size <= cs->out_size);
    cs->is_short = false;
    if (all > cs->out_size || cs->out_used > (size_t)2 * CONN_SLICE)
        return NULL;
    if (has_memory(c, all) ||
        (all <= CONN_SMALL_ANSWER &&
         conns_reserve_chunks(cs, chain_lacks(&c->out, all))))
        return cs->out + cs->out_used;
    cs->is_short = cs->out_used == 0;
    return NULL;
}

void
conn_put(struct conn *c, size_t size)
{
    struct conns *cs = c->listener->conns;

    assert(cs->served == c && cs->out_used + size <= cs->out_size);
    cs->out_used += size;
}

void
conn_add_acks(struct conn *c, uint32_t count)
{
    struct conns *cs = c->listener->conns;
    const size_t size = count * strlen(c->listener->row->protocol->ack);

    assert(cs->served == c);
    if (cs->gated_at != SIZE_MAX || conn_gated(c) > 0)
        c->gated[c->newest] += (uint32_t)size;
    else
        c->acks_due += size;
}

/* ---- sending ----------------------------------------------------------- */

/* What a call of send said: bytes, 0 when the socket is full, or -errno. */
static inline ssize_t
note_sent(struct conn *c, ssize_t n)
{
    struct listener *d = c->listener;

    if (n < 0 && errno != EAGAIN && errno != EINTR)
        return -errno;
    /* From here on, space in the socket makes an event. */
    if (n < 0 && errno == EAGAIN)
        c->flags |= F_FULL;
    if (n < 0)
        n = 0;
    if (n > 0)
        c->moved_ms = (uint32_t)d->conns->now_ms;
    d->stats.sent += (uint64_t)n;
    return n;
}

static inline ssize_t
send_bytes(struct conn *c, const void *bytes, size_t size)
{
    return note_sent(
        c, send(c->source.fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT));
}

/* Sends the acks that are due.  False: the connection has failed. */
static bool
send_acks(struct conn *c)
{
    const char *ack = c->listener->row->protocol->ack;
    char text[ACKS_SIZE];
    size_t unit, size, i;
    ssize_t n;

    if (!ack)
        return true;
    unit = strlen(ack);
    while (c->acks_due > 0 && (c->flags & F_FULL) == 0) {
        size = sizeof text / unit * unit;
        size = size < c->acks_due ? size : (size_t)c->acks_due;
        for (i = 0; i < size; i++)
            text[i] = ack[(c->phase + i) % unit];
        n = send_bytes(c, text, size);
        if (n < 0)
            return false;
        c->acks_due -= (uint64_t)n;
        c->phase = (uint8_t)((c->phase + (size_t)n) % unit);
    }
    return true;
}

/* Bytes at the front of `out` that may go. */
static size_t
free_bytes(const struct conn *c)
{
    if (c->listener->row->protocol->ack)
        return c->acks_due + conn_gated(c) > 0 ? 0 : c->out.size;
    return c->out.size - conn_gated(c);
}

static bool
send_out(struct conn *c)
{
    struct conns *cs = c->listener->conns;
    struct iovec pieces[PIECES_MAX];
    size_t size;

    while ((size = free_bytes(c)) > 0 && (c->flags & F_FULL) == 0) {
        struct msghdr m = {.msg_iov = pieces};
        ssize_t n;

        m.msg_iovlen =
            chain_pieces(&cs->pool, &c->out, size, pieces, PIECES_MAX);
        n = note_sent(c,
                      sendmsg(c->source.fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT));
        if (n < 0)
            return false;
        chain_drop(&cs->pool, &c->out, (size_t)n);
    }
    return true;
}

bool
conn_has_waiting(const struct conn *c)
{
    return c->acks_due > 0 || free_bytes(c) > 0;
}

bool
conn_send_waiting(struct conn *c)
{
    return (c->acks_due == 0 || send_acks(c)) &&
           (c->out.size == 0 || send_out(c));
}

bool
conn_flush(struct conn *c)
{
    struct conns *cs = c->listener->conns;
    const size_t size = cs->out_used;
    size_t may = size, done = 0;
    ssize_t n;

    cs->out_used = 0;
    if (size == 0)
        return true;
    if (cs->gated_at < size)
        may = cs->gated_at;
    if (conn_gated(c) > 0 || conn_keeps_answers(c) || (c->flags & F_FULL) != 0)
        may = 0;
    if (may > 0) {
        n = send_bytes(c, cs->out, may);
        if (n < 0)
            return false;
        done = (size_t)n;
    }
    if (done == size)
        return true;
    if (c->listener->row->protocol->ack == NULL) {
        if (conn_gated(c) > 0)
            c->gated[c->newest] += (uint32_t)size;
        else if (cs->gated_at < size)
            c->gated[c->newest] += (uint32_t)(size - cs->gated_at);
    }
    if (!conns_reserve_chunks(cs, chain_lacks(&c->out, size - done)))
        return false;
    chain_push(&cs->pool, &c->out, cs->out + done, size - done);
    return true;
}
