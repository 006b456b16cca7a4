/* common/net/listener_stop.c - the end of all connections: conns_stop(),
 * conns_stop_some(); see conn.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/conn_internal.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#define STOP_LONGEST 4 /* times the time to drain, while blocked */
#define ANSWER_MS                                                              \
    1000 /* for answers, after the input of a listener that drains             \
          */

/* Connections that the kernel has taken are ours to serve. */
static void
accept_rest(struct listener *d, struct acceptor *l)
{
    uint64_t before;

    do {
        before = d->stats.accepted;
        if (l->paused || l->source.fd < 0)
            break;
        l->source.ready(&l->source, EPOLLIN);
    } while (d->stats.accepted > before);
}

/* A socket of the data directory takes no more from now on: its client knows
 * what was not sent.  TCP would throw that away. */
static void
end_input(const struct conn *c)
{
    if (c->is_local)
        (void)shutdown(c->source.fd, SHUT_RD); /* else it is cut later */
}

/* Every connection of the listener answers what has arrived, and ends; in later
 * looks, those that await a last request no longer. */
static void
answer_rest(struct listener *d)
{
    for (size_t n = 0; n < d->touched; n++) {
        struct conn *c = listener_conn(d, n);

        if (c->state == CONN_FREE || c->state == CONN_CLOSED ||
            c->state == CONN_ENDING)
            continue;
        if (!conn_awaits_last(c))
            end_input(c);
        c->flags |= F_READABLE;
        conn_queue(c);
    }
}

static void
accept_last(struct listener *d)
{
    for (size_t k = 0; k < LISTENER_ACCEPTORS; k++)
        accept_rest(d, &d->acceptors[k]);
    conns_stop_accepting(d);
}

/* All input is drained.  Connections with answers, which went on until now, end,
 * too. */
static void
end_listener(struct listener *d)
{
    if (d->row->protocol->stop == STOP_CUT)
        return;
    if (d->row->protocol->stop == STOP_ANSWER)
        accept_last(d);
    d->stopping = true;
}

/* Too late for those who do not read; a disk that is slow is waited for, and what
 * it releases is sent at the end of this turn. */
static void
close_deaf(struct listener *d)
{
    size_t closed = 0;

    if (d->released_ms == loop_now_ms(d->conns->loop))
        return;
    for (size_t n = 0; n < d->touched && closed < CONN_CLOSES_MAX; n++) {
        struct conn *c = listener_conn(d, n);

        if (c->source.fd < 0 || conn_gated(c) > 0)
            continue;
        conn_close(c);
        closed++;
    }
}

/* Clock: when those who do not take their answers are closed, some in each look;
 * all at once where nothing is answered. */
static uint64_t
deaf_ms(const struct conns *cs, const struct listener *d)
{
    if (d->row->protocol->stop == STOP_CUT)
        return 0;
    if (!cs->ending)
        return UINT64_MAX;
    return d->row->protocol->stop == STOP_ANSWER ? cs->answer_ms : cs->stop_ms;
}

/* Whether the listeners that drain have heard nothing for a while. */
static bool
is_quiet(struct conns *cs, uint64_t now)
{
    for (size_t i = 0; i < cs->count; i++) {
        const struct listener *d = &cs->listeners[i];

        if (d->row->protocol->stop != STOP_DRAIN || d->open == 0)
            continue;
        if (d->blocked || d->working > 0 || now < d->moved_ms + CONN_QUIET_MS)
            return false;
    }
    return true;
}

void
conns_stop_longer(struct conns *cs)
{
    const uint64_t end = loop_now_ms(cs->loop) + cs->drain_ms;

    /* What its senders have is still to be read.  A listener that stays blocked
     * ends, too. */
    if (cs->stopping && !cs->ending)
        cs->stop_ms = end < cs->give_up_ms ? end : cs->give_up_ms;
}

void
conns_stop_some(struct conns *cs)
{
    const uint64_t now = loop_now_ms(cs->loop);
    bool blocked = false;
    size_t used = 0;

    for (size_t i = 0; i < cs->count; i++)
        blocked |= cs->listeners[i].blocked;
    if (blocked)
        conns_stop_longer(cs);
    if (!cs->ending && (now >= cs->stop_ms || is_quiet(cs, now))) {
        cs->ending = true;
        cs->stop_ms = now + ANSWER_MS;
        cs->answer_ms = now + cs->drain_ms;
        for (size_t i = 0; i < cs->count; i++)
            end_listener(&cs->listeners[i]);
    }
    for (size_t i = 0; i < cs->count; i++) {
        struct listener *d = &cs->listeners[i];

        if (d->stopping)
            answer_rest(d);
        if (now >= deaf_ms(cs, d))
            close_deaf(d);
        used += d->used;
    }
    if (used == 0 && cs->ending && cs->done) {
        void (*done)(void *ctx) = cs->done;

        cs->done = NULL;
        done(cs->ctx);
    }
}

void
conns_stop(struct conns *cs, uint64_t ms, void (*done)(void *ctx), void *ctx)
{
    const uint64_t now = loop_now_ms(cs->loop);

    if (cs->stopping)
        return;
    cs->done = done;
    cs->ctx = ctx;
    for (size_t i = 0; i < cs->count; i++) {
        struct listener *d = conns_listener(cs, i);

        d->moved_ms = now;
        if (d->row->protocol->stop == STOP_DRAIN)
            accept_last(d);
        else if (d->row->protocol->stop == STOP_CUT)
            conns_stop_accepting(d);
    }
    cs->stopping = true;
    cs->drain_ms = ms;
    cs->stop_ms = now + ms;
    cs->give_up_ms = now + STOP_LONGEST * ms;
    loop_arm(cs->loop, &cs->tick, now + 1);
}
