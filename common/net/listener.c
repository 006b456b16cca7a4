/* common/net/listener.c - the listeners of a loop: turns, time, memory.
 *
 * conns_init() and conns_fini() are at the end; conn_turn() serves, and
 * tick_due() ends what is idle or late.  Accepting: listener_accept.c; a stop:
 * listener_stop.c. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/conn_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/clock.h"

#define OUT_LEAST    (4 * (size_t)CONN_SLICE)
#define TICK_MS      250
#define TICK_SOON_MS 10 /* while there is more to close */
#define PAGE         ((size_t)4096)

struct listener *
conns_listener(struct conns *cs, size_t index)
{
    assert(index < cs->count);
    return &cs->listeners[index];
}

uint32_t
conn_number(const struct conn *c)
{
    const struct listener *d = c->listener;

    return (uint32_t)((size_t)((const uint8_t *)c - d->array) / d->stride);
}

/* ---- turns ------------------------------------------------------------- */

static uint64_t
turn_end_ns(void)
{
    return clock_ns() + CONN_TURN_US * UINT64_C(1000);
}

/* Serves the connections of a queue before `mark`, until `until_ns`, but at
 * least one.  The clock is read only if another connection waits. */
static void
serve_queue(struct list_link *queue, const struct list_link *mark,
            uint64_t until_ns)
{
    while (queue->next != mark) {
        conn_serve(LOOP_OWNER(queue->next, struct conn, link));
        if (queue->next != mark && clock_ns() >= until_ns)
            break;
    }
}

bool
conn_goes_first(const struct conn *c)
{
    return c->state == CONN_QUEUED && c->listener->working > 1;
}

/* Serves each connection that has work now at most once, for CONN_TURN_US: a
 * connection that has more is BUSY, and waits for the others. */
static void
serve_listener(struct listener *d)
{
    const uint64_t until_ns = turn_end_ns();
    struct list_link queued_mark, busy_mark;

    list_add(&d->lists[CONN_QUEUED], &queued_mark);
    list_add(&d->lists[CONN_BUSY], &busy_mark);
    serve_queue(&d->lists[CONN_QUEUED], &queued_mark, until_ns);
    serve_queue(&d->lists[CONN_BUSY], &busy_mark, until_ns);
    list_remove(&queued_mark);
    list_remove(&busy_mark);
}

/* Serves connections that wait for memory, in the order they came, when there is
 * more or less of it: what needs little may have it before what needs much. */
static void
feed_starved(struct conns *cs)
{
    if (cs->starved == 0 || cs->pool.free_count == cs->starved_free)
        return;
    cs->starved_free = cs->pool.free_count;
    for (size_t i = 0; i < cs->count; i++) {
        struct list_link *list = &cs->listeners[i].lists[CONN_PAUSED];
        struct list_link *link, *next;

        for (link = list->next; link != list; link = next) {
            struct conn *c = LOOP_OWNER(link, struct conn, link);

            next = link->next;
            if ((c->flags & F_STARVED) != 0)
                conn_queue(c);
        }
    }
}

/* What closed connections have left behind is done for CONN_TURN_US, the oldest
 * first.  True: there is more to do. */
static bool
end_some(struct listener *d)
{
    struct list_link *list = &d->lists[CONN_CLOSED], *link, *next;
    const uint64_t until_ns = turn_end_ns();

    for (link = list->next; link != list; link = next) {
        struct conn *c = LOOP_OWNER(link, struct conn, link);

        next = link->next;
        /* Those that are done are still named by a gate. */
        while ((c->flags & F_DONE) == 0) {
            (void)conn_end_some(c);
            if (clock_ns() >= until_ns)
                return true;
        }
    }
    return false;
}

bool
conn_turn(struct conns *cs)
{
    bool more = false;

    cs->now_ms = loop_now_ms(cs->loop);
    feed_starved(cs);
    for (size_t i = 0; i < cs->count; i++) {
        struct listener *d = &cs->listeners[i];

        if (d->used == 0)
            continue;
        if (d->working > 0)
            serve_listener(d);
        if (!list_alone(&d->lists[CONN_CLOSED]))
            more |= end_some(d);
    }
    return more;
}

bool
conns_have_work(const struct conns *cs)
{
    for (size_t i = 0; i < cs->count; i++)
        if (cs->listeners[i].working > 0)
            return true;
    return cs->starved > 0 && cs->starved_free != cs->pool.free_count;
}

void
listener_wake(struct listener *d)
{
    struct list_link *list = &d->lists[CONN_PAUSED], *link, *next;

    if (!d->blocked)
        return;
    d->blocked = false;
    d->moved_ms = loop_now_ms(d->conns->loop); /* it was not they who paused */
    conns_stop_longer(d->conns);
    for (link = list->next; link != list; link = next) {
        struct conn *c = LOOP_OWNER(link, struct conn, link);

        next = link->next;
        if ((c->flags & F_BLOCKED) == 0)
            continue;
        c->flags &= (uint16_t)~F_BLOCKED;
        conn_queue(c);
    }
}

/* ---- time -------------------------------------------------------------- */

/* Whether the time of a connection is over that waits for its peer, or whose
 * peer ended its input a while ago and whose answers are still behind a gate, or
 * not there. */
static bool
is_over(const struct conn *c)
{
    const struct listener *d = c->listener;
    const uint32_t still_ms = conns_now(d->conns) - c->moved_ms;

    switch (c->state) {
    case CONN_IDLE:
        return d->row->idle_s > 0 && still_ms >= d->row->idle_s * 1000;
    case CONN_PAUSED:
        return (d->row->protocol->flags & CONN_EOF_WAKES) != 0 &&
               (c->flags & (F_EOF | F_STARVED)) == F_EOF &&
               still_ms >= CONN_LEFT_MS;
    case CONN_ENDING:
        return still_ms >=
               (d->conns->stopping ? CONN_QUIET_MS : CONN_ENDING_MS);
    default:
        return false;
    }
}

/* Closes the connections whose time is over, and serves those whose request is
 * late: that receives what is there, and ends those whose request is not whole
 * then.  Looks at all of them, because a peer that sends byte by byte is at no
 * known place in the list of those that wait.  True: there are more to close. */
static bool
end_old(struct listener *d)
{
    int closed = 0;

    for (size_t n = 0; n < d->touched; n++) {
        struct conn *c = listener_conn(d, n);

        if (is_over(c)) {
            if (closed++ == CONN_CLOSES_MAX)
                return true;
            conn_close(c);
        } else if (c->state == CONN_IDLE && conn_is_late(c)) {
            c->flags |= F_READABLE;
            conn_queue(c);
        }
    }
    return false;
}

static void
tick_due(struct loop_timer *timer)
{
    struct conns *cs = LOOP_OWNER(timer, struct conns, tick);
    const uint64_t now = loop_now_ms(cs->loop);
    bool more = cs->stopping;

    for (size_t i = 0; i < cs->count; i++) {
        struct listener *d = conns_listener(cs, i);

        more |= end_old(d);
        /* Where clients wait: a connection may yield by now, or there are
         * descriptors again. */
        conns_go_on_accepting(d);
    }
    if (cs->starved > 0)
        (void)conns_evict(cs, true);
    if (cs->stopping)
        conns_stop_some(cs);
    loop_arm(cs->loop, timer, now + (more ? TICK_SOON_MS : TICK_MS));
}

/* ---- open and close ---------------------------------------------------- */

/* See CONN_CLIENT_LEAST. */
static size_t
bound_client(size_t places)
{
    const size_t most = places - places / 8;

    if (places / 2 > CONN_CLIENT_LEAST)
        return places / 2;
    return most < CONN_CLIENT_LEAST ? most : CONN_CLIENT_LEAST;
}

/* `places` are what the other listeners have not reserved. */
static int
listener_init(struct listener *d, struct conns *cs,
              const struct listener_config *row, size_t places)
{
    const char *wrong;
    size_t size;
    int rc;

    assert(row->max > 0 && row->protocol->state_size % 8 == 0);
    *d = (struct listener){
        .row = row,
        .conns = cs,
        .acceptors = {{.source = {.fd = -1}}, {.source = {.fd = -1}}},
        .client_max = bound_client(row->max < places ? row->max : places),
        .stride = sizeof(struct conn) + row->protocol->state_size};
    for (unsigned i = 0; i < CONN_STATES; i++)
        list_init(&d->lists[i]);
    rc = row->allow ? networks_parse(row->allow, &d->allow, &wrong, &size) : 0;
    assert(rc == 0); /* the settings have checked it */
    d->array = calloc(row->max, d->stride);
    return d->array ? 0 : -ENOMEM;
}

/* What the kernel copies to and from: faster where a page begins. */
static void *
take_pages(size_t size)
{
    return aligned_alloc(PAGE, (size + PAGE - 1) / PAGE * PAGE);
}

/* The receive buffer: what is kept of a request, and the largest slice behind
 * it. */
static int
take_input_memory(struct conns *cs, const struct conns_options *o)
{
    size_t size, slice = CONN_SLICE;

    for (size_t i = 0; i < o->count; i++)
        if (conn_slice(o->rows[i].protocol) > slice)
            slice = conn_slice(o->rows[i].protocol);
    cs->input_max = o->input_max > CONN_NEED_MAX ? o->input_max : CONN_NEED_MAX;
    size = cs->input_max + slice;
    cs->in = take_pages(size);
    return cs->in ? 0 : -ENOMEM;
}

int
conns_init(struct conns **out, struct loop *loop, const struct conns_options *o)
{
    struct conns *cs = calloc(1, sizeof *cs);
    size_t places = o->shared;
    int rc = -ENOMEM;

    if (!cs)
        return -ENOMEM;
    cs->loop = loop;
    cs->shared = o->shared;
    cs->out_size = o->answer_max > OUT_LEAST ? o->answer_max : OUT_LEAST;
    cs->out_size += CONN_SLICE;
    cs->tick = (struct loop_timer){.due = tick_due};
    cs->listeners = calloc(o->count, sizeof *cs->listeners);
    cs->out = take_pages(cs->out_size + CONN_REFUSAL_MAX);
    if (!cs->listeners || !cs->out || take_input_memory(cs, o) < 0)
        goto fail;
    rc = pool_init(&cs->pool, o->pool_size);
    if (rc < 0)
        goto fail;
    cs->reserve = cs->pool.count / 16;
    assert(pool_chunks(o->answer_max) + cs->reserve <= cs->pool.count);
    for (size_t i = 0; i < o->count; i++)
        places -= o->rows[i].reserved < places ? o->rows[i].reserved : places;
    for (size_t i = 0; i < o->count; i++) {
        rc = listener_init(&cs->listeners[i], cs, &o->rows[i],
                           places + o->rows[i].reserved);
        if (rc < 0)
            goto fail;
        cs->count++;
    }
    loop_arm(loop, &cs->tick, loop_now_ms(loop) + TICK_MS);
    *out = cs;
    return 0;

fail:
    conns_fini(cs);
    return rc;
}

void
conns_fini(struct conns *cs)
{
    if (!cs)
        return;
    cs->stopping = true;
    for (size_t i = 0; i < cs->count; i++) {
        struct listener *d = conns_listener(cs, i);

        conns_stop_accepting(d);
        for (size_t n = 0; n < d->touched; n++)
            if (listener_conn(d, n)->source.fd >= 0)
                conn_close(listener_conn(d, n));
        free(d->array);
    }
    loop_disarm(&cs->tick);
    pool_fini(&cs->pool);
    free(cs->listeners);
    free(cs->in);
    free(cs->out);
    free(cs);
}
