/* common/net/gate.c - see gate.h: conn_gate(), gate_close_group(),
 * gate_release(), gate_replace(), gate_overwrite(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/conn_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int
gate_init(struct gate *g, size_t max, uint8_t id)
{
    struct conn **waiting = malloc(GATE_GROUPS * max * sizeof(struct conn *));

    *g = (struct gate){.id = id};
    if (!waiting)
        return -ENOMEM;
    for (unsigned i = 0; i < GATE_GROUPS; i++)
        g->waiting[i] = waiting + i * max;
    return 0;
}

void
gate_fini(struct gate *g)
{
    free(g->waiting[0]);
    *g = (struct gate){.id = g->id};
}

bool
conn_gate(struct conn *c, struct gate *g)
{
    struct conns *cs = c->listener->conns;
    const unsigned group = g->collecting;
    const uint16_t bit = (uint16_t)(F_GATE_0 << group);

    assert(cs->served == c);
    if (c->gate != 0 && c->gate != g->id + 1u)
        return false;
    c->gate = (uint8_t)(g->id + 1);
    if ((c->flags & bit) == 0) {
        c->flags |= bit;
        g->waiting[group][g->count[group]++] = c;
    }
    if (cs->gated_at == SIZE_MAX)
        cs->gated_at = cs->out_used;
    c->newest = (uint8_t)group;
    return true;
}

bool
gate_has_waiters(const struct gate *g)
{
    return g->count[g->collecting] > 0;
}

void
gate_close_group(struct gate *g)
{
    g->collecting = 1 - g->collecting;
    assert(g->count[g->collecting] == 0);
}

/* A connection is not named by this group any more.  False: it has closed. */
static bool
leave_group(struct conn *c, unsigned group)
{
    c->flags &= (uint16_t) ~(F_GATE_0 << group);
    if ((c->flags & F_GATES) == 0)
        c->gate = 0;
    if (c->state != CONN_CLOSED)
        return true;
    (void)conn_end_some(c); /* if it is not through: in the next turns */
    return false;
}

/* What one connection has behind the gate is free to go. */
static void
release_gated(struct conn *c, unsigned group)
{
    const struct protocol *p = c->listener->row->protocol;

    if (!leave_group(c, group))
        return;
    if (p->ack)
        c->acks_due += c->gated[group];
    c->gated[group] = 0;
    c->listener->released_ms = loop_now_ms(c->listener->conns->loop);
    conn_queue(c);
}

void
gate_release(struct gate *g)
{
    const unsigned group = 1 - g->collecting;

    for (size_t i = 0; i < g->count[group]; i++)
        release_gated(g->waiting[group][i], group);
    g->count[group] = 0;
}

/* ---- replaced answers ---------------------------------------------------- */

/* Puts bytes into `out` again.  False: the pool has no memory. */
static bool
put_again(struct conn *c, const void *bytes, size_t size)
{
    struct pool *p = &c->listener->conns->pool;

    if (chain_lacks(&c->out, size) > p->free_count)
        return false;
    chain_push(p, &c->out, bytes, size);
    return true;
}

/* False: there is no memory, and some of the answers are lost. */
static bool
replace_answers(struct conn *c, bool (*next)(struct conn *c, uint32_t gated,
                                             struct gate_answer *out))
{
    struct pool *p = &c->listener->conns->pool;
    const uint32_t gated = conn_gated(c);
    const size_t size = c->out.size, begin = size - gated;
    uint8_t *const all = malloc(size);
    struct gate_answer a;
    size_t done = 0;
    bool good = all != NULL;

    if (good)
        chain_drop(p, &c->out, chain_copy(p, &c->out, all));
    while (good && next(c, gated, &a)) {
        assert(begin + a.at >= done && a.at + a.size <= gated);
        good = put_again(c, all + done, begin + a.at - done) &&
               put_again(c, a.words, strlen(a.words));
        done = begin + a.at + a.size;
    }
    good = good && put_again(c, all + done, size - done);
    free(all);
    c->gated[0] = c->gated[1] = 0;
    return good;
}

void
gate_replace(struct gate *g, bool (*next)(struct conn *c, uint32_t gated,
                                          struct gate_answer *out))
{
    for (unsigned group = 0; group < GATE_GROUPS; group++) {
        for (size_t i = 0; i < g->count[group]; i++) {
            struct conn *c = g->waiting[group][i];

            assert(!c->listener->conns->served);
            if (!leave_group(c, group))
                continue;
            if (conn_gated(c) == 0 || replace_answers(c, next))
                conn_queue(c);
            else
                conn_close(c);
        }
        g->count[group] = 0;
    }
}

/* ---- answers that are completed later ------------------------------------ */

uint32_t
conn_gated_at(const struct conn *c)
{
    const struct conns *cs = c->listener->conns;

    assert(cs->served == c);
    if (conn_gated(c) > 0)
        return conn_gated(c) + (uint32_t)cs->out_used;
    assert(cs->gated_at <= cs->out_used);
    return (uint32_t)(cs->out_used - cs->gated_at);
}

void
gate_overwrite(struct chain_cursor *cursor, const struct conn *c, uint32_t at,
               const void *bytes, size_t size)
{
    const struct conns *cs = c->listener->conns;

    assert(!cs->served);
    if (c->state == CONN_CLOSED)
        return;
    if (cursor->chain != &c->out)
        *cursor = (struct chain_cursor){.chain = &c->out};
    chain_write_at(&cs->pool, cursor, c->out.size - conn_gated(c) + at, bytes,
                   size);
}
