/* common/net/conn.c - one service of a connection: conn_serve(), at the end of
 * the file; before it the states: conn_queue(), conn_close().
 *
 * A service: send what waits; then, unless the socket is full, receive once,
 * give the input to the protocol, keep what it leaves, send what it put; then
 * file the connection by what it waits for now.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/conn_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/wire/first_bytes.h"

/* ---- states ------------------------------------------------------------ */

static bool
is_work(unsigned state)
{
    return state == CONN_QUEUED || state == CONN_BUSY;
}

/* Puts a connection into a state, at the end of its listener's list. */
static void
enter_state(struct conn *c, enum conn_state state)
{
    struct listener *d = c->listener;

    d->working += is_work(state);
    d->working -= is_work(c->state);
    list_remove(&c->link);
    c->state = (uint8_t)state;
    list_add(&d->lists[state], &c->link);
}

void
conn_queue(struct conn *c)
{
    if (c->state == CONN_IDLE || c->state == CONN_PAUSED)
        enter_state(c, c->sent_much ? CONN_BUSY : CONN_QUEUED);
}

void
conn_wake(struct conn *c)
{
    c->flags &= (uint16_t)~F_HOLD;
    conn_queue(c);
}

bool
conn_end_some(struct conn *c)
{
    struct listener *d = c->listener;

    assert(c->state == CONN_CLOSED);
    if ((c->flags & F_DONE) == 0) {
        if (d->row->protocol->ended && !d->row->protocol->ended(c))
            return false;
        c->flags |= F_DONE;
    }
    if ((c->flags & F_GATES) != 0)
        return false;
    enter_state(c, CONN_FREE);
    d->used--;
    conns_note_closed(d);
    return true;
}

void
conn_close(struct conn *c)
{
    struct listener *d = c->listener;
    struct conns *cs = d->conns;
    const int fd = c->source.fd;

    assert(fd >= 0);
    if (c->in.size > 0)
        d->stats.cut_off++;
    conn_starve(c, false);
    conn_forget(c);
    chain_drop(&cs->pool, &c->out, c->out.size);
    c->acks_due = c->gated[0] = c->gated[1] = 0;
    loop_remove(cs->loop, &c->source);
    (void)close(fd);
    d->open--;
    d->clients[c->client]--;
    enter_state(c, CONN_CLOSED);
    /* At once, when it is little: who is served next finds it released. */
    if (!conn_end_some(c))
        conns_note_closed(d);
}

/* ---- a service --------------------------------------------------------- */

bool
conn_has_left(const struct conn *c)
{
    return (c->flags & (F_EOF | F_GONE)) != 0;
}

/* What the protocol said.  False: the connection is to be closed. */
static bool
apply_next(struct conn *c, enum conn_next next)
{
    struct conns *cs = c->listener->conns;

    if (next == CONN_CUT || (next == CONN_PAUSE && (c->flags & F_GONE) != 0))
        return false;
    if (next == CONN_END)
        c->flags |= F_CLOSING;
    if (next == CONN_PAUSE)
        c->flags |= F_HOLD;
    if (next == CONN_LONG)
        c->flags |= F_LONG;
    cs->yields = next == CONN_YIELD;
    if (!conn_flush(c))
        return false;
    if (next == CONN_FULL && cs->is_short)
        conn_starve(c, true);
    return true;
}

static bool
take_input(struct conn *c, size_t size)
{
    const struct protocol *p = c->listener->row->protocol;
    struct conns *cs = c->listener->conns;
    struct input in = {.at = cs->in, .size = size};
    const char *browser;
    enum conn_next next;

    if ((c->flags & F_FRESH) != 0 && p->takes) {
        if (size < FIRST_BYTES_SIZE) {
            in.need = FIRST_BYTES_SIZE;
            return conn_keep_rest(c, &in, CONN_NEED_INPUT);
        }
        browser = first_bytes_browser(cs->in);
        if (browser) {
            (void)conn_refuse_browser(c, browser);
            return false;
        }
    }
    c->flags &= (uint16_t)~F_FRESH;
    next = p->take(c, &in);
    if (next != CONN_END && next != CONN_CUT && !conn_keep_rest(c, &in, next))
        return false;
    return apply_next(c, next);
}

/* Pauses a connection whose listener is blocked.  False: its input has ended,
 * and nothing can be received any more. */
static bool
pause_without_capacity(struct conn *c)
{
    uint8_t byte;

    if ((c->flags & F_EOF) != 0 &&
        recv(c->source.fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 0)
        return false;
    c->flags |= F_BLOCKED;
    c->listener->blocked = true;
    return true;
}

static bool
continue_answer(struct conn *c)
{
    enum conn_next next;

    if ((c->flags & F_GONE) != 0)
        return false;
    next = c->listener->row->protocol->more(c);
    if (next == CONN_ANSWERED)
        c->flags &= (uint16_t)~F_LONG;
    return apply_next(c, next);
}

/* Lets the protocol work.  False: the connection is to be closed. */
static bool
serve_input(struct conn *c)
{
    struct listener *d = c->listener;
    const struct protocol *p = d->row->protocol;
    size_t limit = SIZE_MAX;
    ssize_t size;
    bool failed;

    if ((c->flags & F_STARVED) != 0)
        conn_starve(c, false);
    c->flags &= (uint16_t)~F_BLOCKED;
    if ((c->flags & F_LONG) != 0)
        return continue_answer(c);
    if ((c->flags & (F_AGAIN | F_READABLE | F_EOF)) == 0)
        return true;
    if (p->input_limit) {
        limit = p->input_limit(d);
        if (limit == 0)
            return pause_without_capacity(c);
    }
    size = conn_gather(c, limit, &failed);
    if (size >= 0)
        return take_input(c, (size_t)size);
    if ((c->flags & (F_EOF | F_READABLE)) == F_EOF) {
        if (!failed)
            conn_give_rest(c);
        c->flags |= F_CLOSING;
        return !failed && p->stop != STOP_CUT;
    }
    return !failed;
}

/* Nothing is left to wait for: ends the connection in the way it has to. */
static void
end_conn(struct conn *c)
{
    struct conns *cs = c->listener->conns;

    if ((c->flags & (F_LINGER | F_EOF)) != F_LINGER ||
        shutdown(c->source.fd, SHUT_WR) < 0 ||
        loop_change(cs->loop, &c->source, EPOLLIN) < 0) {
        conn_close(c);
        return;
    }
    c->need = 0; /* bytes thrown away */
    c->moved_ms = conns_now(cs);
    if (c->in.size > 0)
        c->listener->stats.cut_off++;
    conn_forget(c);
    enter_state(c, CONN_ENDING);
}

/* Its listener stops, and all that had arrived is done: a beginning of a
 * request that is kept, and what there is no room for, will not be. */
static bool
has_finished(const struct conn *c)
{
    return c->listener->stopping &&
           ((c->flags & F_BLOCKED) != 0 ||
            ((c->flags & (F_AGAIN | F_LONG | F_READABLE | F_HOLD)) == 0 &&
             !conn_awaits_last(c)));
}

/* Whether a reset could throw away answers, or acks, that are on their way. */
static bool
has_answers(const struct conn *c)
{
    const struct protocol *p = c->listener->row->protocol;

    return p->stop == STOP_ANSWER || p->ack;
}

/* A connection is not received from while its peer does not take its answers,
 * unless these are acks: they take no memory, so a peer may send all before it
 * reads. */
static bool
is_received_from(const struct conn *c)
{
    return (c->flags & F_FULL) == 0 || c->listener->row->protocol->ack;
}

/* What a connection waits for that has not said all. */
static enum conn_state
state_of(const struct conn *c, bool waits, bool gated)
{
    const bool stuck = waits && (c->flags & F_FULL) != 0;

    if (stuck && ((c->flags & F_CLOSING) != 0 || !is_received_from(c)))
        return CONN_IDLE;
    if ((c->flags & F_CLOSING) != 0)
        return waits ? CONN_BUSY : CONN_PAUSED;
    if ((c->flags & (F_HOLD | F_STARVED | F_BLOCKED)) != 0 ||
        ((c->flags & F_AGAIN) != 0 && gated && !c->listener->conns->yields) ||
        conn_gated(c) >= CONN_GATED_MAX)
        return CONN_PAUSED;
    if ((waits && !stuck) || (c->flags & (F_AGAIN | F_LONG | F_READABLE)) != 0)
        return CONN_BUSY;
    return CONN_IDLE;
}

/* Files the connection by what it waits for. */
static void
file_conn(struct conn *c)
{
    const bool waits = conn_has_waiting(c);
    const bool gated = conn_gated(c) > 0 || (c->flags & F_GATES) != 0;

    if (has_finished(c))
        c->flags |= has_answers(c) ? F_CLOSING | F_LINGER : F_CLOSING;
    if ((c->flags & F_CLOSING) != 0 && !waits && !gated) {
        end_conn(c);
        return;
    }
    enter_state(c, state_of(c, waits, gated));
}

/* Throws away what still comes after the last answer; events are of the level
 * by then, so what is left comes again. */
static void
discard_input(struct conn *c)
{
    struct conns *cs = c->listener->conns;

    for (int i = 0; i < CONN_DISCARDS; i++) {
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
    struct conns *cs = c->listener->conns;
    bool good;

    assert(!cs->served && c->source.fd >= 0);
    cs->served = c;
    cs->out_used = 0;
    cs->yields = cs->is_short = false;
    cs->gated_at = SIZE_MAX;
    good = conn_send_waiting(c);
    if (good && is_received_from(c) && (c->flags & (F_CLOSING | F_HOLD)) == 0 &&
        conn_gated(c) < CONN_GATED_MAX)
        good = serve_input(c) && conn_send_waiting(c);
    cs->served = NULL;
    if (!good)
        conn_close(c);
    else
        file_conn(c);
}

/* ---- events ------------------------------------------------------------ */

/* Events only say what there may be; all else is done in a turn. */
static void
conn_ready(struct loop_source *source, uint32_t events)
{
    struct conn *c = LOOP_OWNER(source, struct conn, source);
    const bool wakes =
        (c->flags & (F_HOLD | F_EOF)) == F_HOLD &&
        (c->listener->row->protocol->flags & CONN_EOF_WAKES) != 0;
    bool held = c->state == CONN_PAUSED;

    if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) {
        held &= (c->flags & F_BLOCKED) == 0; /* it need not wait to end */
        c->flags |= F_EOF;
    }
    if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
        c->flags |= F_READABLE;
    if (events & (EPOLLOUT | EPOLLHUP | EPOLLERR)) {
        held &= (c->flags & F_FULL) == 0;
        c->flags &= (uint16_t)~F_FULL;
    }
    if (events & (EPOLLHUP | EPOLLERR))
        c->flags |= F_GONE;
    /* The client has gone: nothing can be sent to it, or is waited for. */
    if ((c->flags & F_GONE) != 0 && (c->flags & (F_STARVED | F_HOLD)) != 0)
        conn_close(c);
    else if (c->state == CONN_ENDING)
        discard_input(c);
    else if (wakes && (c->flags & F_EOF) != 0)
        conn_wake(c);
    else if (!held)
        conn_queue(c);
}

int
conn_begin(struct conn *c, struct listener *d, int fd,
           const struct net_address *peer)
{
    int rc;

    memset(c, 0, d->stride);
    list_init(&c->link);
    c->listener = d;
    c->source = (struct loop_source){.fd = -1, .ready = conn_ready};
    c->flags = F_FRESH;
    c->client = networks_client(peer);
    c->is_local = peer->sa.ss_family == AF_UNIX;
    c->moved_ms = conns_now(d->conns);
    rc = loop_add(d->conns->loop, &c->source, fd,
                  EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET);
    if (rc < 0)
        return rc;
    enter_state(c, CONN_IDLE);
    if (d->row->protocol->began != NULL)
        d->row->protocol->began(c);
    return 0;
}

struct conn *
listener_open_conn(const struct listener *d, uint32_t number)
{
    struct conn *c;

    if (number >= d->touched)
        return NULL;
    c = listener_conn(d, number);
    return c->source.fd < 0 ? NULL : c;
}

uint64_t
conn_unix_ms(const struct conn *c)
{
    return loop_unix_ms(c->listener->conns->loop);
}
