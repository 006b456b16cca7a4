/* common/net/conn_in.c - the input of a connection: received, kept for a
 * request that is not whole, dropped, refused.
 *
 * conn_gather() receives; conn_keep_rest() keeps what take() left;
 * conn_is_late() judges it; conn_refuse() and conn_last() are for protocols. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/conn_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "common/wire/first_bytes.h"

/* ---- what is kept ------------------------------------------------------- */

void
conn_forget(struct conn *c)
{
    chain_drop(&c->listener->conns->pool, &c->in, c->in.size);
}

/* Puts what is kept into the receive buffer. */
static inline size_t
load_pooled_input(struct conn *c)
{
    struct conns *cs = c->listener->conns;
    const size_t size = c->in.size;

    if (size > 0) {
        (void)chain_copy(&cs->pool, &c->in, cs->in); /* all of it */
        conn_forget(c);
    }
    return size;
}

/* Keeps bytes behind those that are kept.  False: there is no memory. */
static bool
keep_bytes(struct conn *c, const uint8_t *bytes, size_t size)
{
    struct conns *cs = c->listener->conns;

    if (!conns_reserve_chunks(cs, chain_lacks(&c->in, size)))
        return false;
    chain_push(&cs->pool, &c->in, bytes, size);
    return true;
}

/* ---- time --------------------------------------------------------------- */

bool
conn_is_late(const struct conn *c)
{
    const uint32_t request_s = c->listener->row->request_s;

    return request_s > 0 && (c->flags & F_AGAIN) == 0 && c->in.size > 0 &&
           conns_now(c->listener->conns) - c->began_ms >= request_s * 1000;
}

/* Ends a connection whose request is late, after the answers to the requests
 * before it.  A request is late only once all that its peer has sent is
 * received: time in which this process does not receive is not the peer's. */
static void
end_late_request(struct conn *c)
{
    struct listener *d = c->listener;
    const char *key = d->row->request_key;
    char peer[NET_ADDRESS_SIZE];

    if ((c->flags & F_READABLE) != 0 || !conn_is_late(c))
        return;
    d->stats.late++;
    conn_peer(c, peer);
    diag_repeating(&d->late_warning, DIAG_WARNING,
                   "%s: a message or request from %s is not whole seconds=%u "
                   "after its first byte; the connection is closed%s%s",
                   d->row->name, peer, d->row->request_s,
                   key ? ": send it at once, or raise " : "", key ? key : "");
    conn_forget(c);
    c->flags |= F_CLOSING;
}

bool
conn_keep_rest(struct conn *c, const struct input *in, enum conn_next next)
{
    const size_t size = in->size;

    c->flags &= (uint16_t)~F_AGAIN;
    c->need = 0;
    if (in->at != c->listener->conns->in)
        c->began_ms = conns_now(c->listener->conns); /* what follows is new */
    if (next != CONN_NEED_INPUT) {
        c->flags |= F_AGAIN;
        return keep_bytes(c, in->at, size);
    }
    c->need = in->need > 0 ? in->need : (uint32_t)size + 1;
    assert(c->need <= c->listener->conns->input_max);
    if (size == 0) /* nearly always; and a request not begun is not late */
        return true;
    if (!keep_bytes(c, in->at, size))
        return false;
    end_late_request(c);
    return true;
}

/* ---- receiving ---------------------------------------------------------- */

/* What a call of recv said: bytes, 0 when there is nothing, -1 at the end of
 * input or when the peer is gone. */
static inline ssize_t
note_received(struct conn *c, ssize_t n, size_t asked)
{
    struct listener *d = c->listener;

    if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
        if (errno == EAGAIN)
            c->flags &= (uint16_t)~F_READABLE;
        return 0;
    }
    if (n <= 0) {
        c->flags |= n < 0 ? F_EOF | F_GONE : F_EOF;
        c->flags &= (uint16_t)~F_READABLE;
        return -1;
    }
    /* A short receive took all there was: the next byte makes an event.  A stop
     * does not wait for events, so it receives again. */
    if ((size_t)n < asked && (c->flags & F_EOF) == 0 && !d->stopping)
        c->flags &= (uint16_t)~F_READABLE;
    d->moved_ms = d->conns->now_ms;
    c->moved_ms = (uint32_t)d->moved_ms;
    d->stats.received += (uint64_t)n;
    c->sent_much = n > CONN_LITTLE;
    return n;
}

ssize_t
conn_gather(struct conn *c, size_t limit, bool *failed)
{
    struct conns *cs = c->listener->conns;
    size_t size = c->in.size, asked;
    ssize_t n;

    *failed = false;
    if ((c->flags & F_AGAIN) != 0)
        return (ssize_t)load_pooled_input(c);
    asked = conn_slice(c->listener->row->protocol);
    if (asked > limit - size)
        asked = limit - size;
    assert(asked > 0);
    n = note_received(c, recv(c->source.fd, cs->in + size, asked, MSG_DONTWAIT),
                      asked);
    if (n > 0 && size == 0)
        c->began_ms = conns_now(cs);
    if (n > 0 && size + (size_t)n >= c->need)
        return n + (ssize_t)load_pooled_input(c);
    /* A long name that comes byte by byte is not parsed before it is whole. */
    *failed = n > 0 && !keep_bytes(c, cs->in + size, (size_t)n);
    if (!*failed)
        end_late_request(c);
    return -1;
}

void
conn_give_rest(struct conn *c)
{
    const struct protocol *p = c->listener->row->protocol;
    struct input in = {.at = c->listener->conns->in};

    if (!p->rest || (c->flags & F_GONE) != 0)
        return;
    in.size = load_pooled_input(c);
    if (in.size > 0)
        p->rest(c, &in);
}

/* ---- refusing ----------------------------------------------------------- */

/* A process of this machine, as it was when it connected. */
static void
format_process(int fd, char text[NET_ADDRESS_SIZE])
{
    struct ucred who = {.pid = 0};
    socklen_t size = sizeof who;

    /* Cannot fail: it is a socket of this machine. */
    (void)getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size);
    (void)snprintf(text, NET_ADDRESS_SIZE, "pid=%ld,uid=%ld", (long)who.pid,
                   (long)who.uid);
}

void
conn_peer(const struct conn *c, char text[NET_ADDRESS_SIZE])
{
    struct net_address a = {.size = sizeof a.sa};

    if (getpeername(c->source.fd, (struct sockaddr *)&a.sa, &a.size) < 0)
        (void)snprintf(text, NET_ADDRESS_SIZE, "-"); /* it has gone */
    else if (a.sa.ss_family == AF_UNIX)
        format_process(c->source.fd, text);
    else
        net_format(&a, text);
}

enum conn_next
conn_refuse_browser(struct conn *c, const char *words)
{
    const bool is_text = words == first_bytes_text;
    struct listener *d = c->listener;
    char peer[NET_ADDRESS_SIZE];

    d->stats.browsers++;
    conn_peer(c, peer);
    diag_repeating(&d->browser_warning, DIAG_WARNING,
                   is_text ? "%s: a connection from %s sends text, not %s; it "
                             "is closed, and nothing is counted"
                           : "%s: a connection from %s speaks %s, which this "
                             "port does not; it is closed, and nothing is "
                             "counted",
                   d->row->name, peer,
                   is_text ? d->row->protocol->takes : words);
    return conn_last(c);
}

enum conn_next
conn_last(struct conn *c)
{
    c->flags |= F_LINGER;
    return CONN_END;
}

enum conn_next
conn_refuse(struct conn *c, const char *why)
{
    struct listener *d = c->listener;
    struct conns *cs = d->conns;
    const char *text = d->row->protocol->refusal;
    char peer[NET_ADDRESS_SIZE];

    assert(cs->served == c);
    d->stats.malformed++;
    conn_peer(c, peer);
    diag_repeating(&d->malformed_warning, DIAG_WARNING,
                   "%s: malformed input from %s: %s; the connection ends",
                   d->row->name, peer, why);
    if (!text)
        return CONN_CUT;
    /* The send buffer has CONN_REFUSAL_MAX bytes after the largest answer. */
    assert(strlen(text) <= CONN_REFUSAL_MAX);
    memcpy(cs->out + cs->out_used, text, strlen(text));
    cs->out_used += strlen(text);
    return conn_last(c);
}
