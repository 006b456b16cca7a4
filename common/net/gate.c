/* common/net/gate.c - answers that wait until a group commit is durable; see
 * conn.h. */
#include "common/net/conn_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int
gate_init(struct gate *g, size_t max, uint8_t id)
{
    *g = (struct gate){.id = id};
    for (unsigned i = 0; i < CONN_GATES; i++) {
        g->waiting[i] = malloc(max * sizeof(struct conn *));
        if (!g->waiting[i]) {
            gate_fini(g);
            return -ENOMEM;
        }
    }
    return 0;
}

void
gate_fini(struct gate *g)
{
    for (unsigned i = 0; i < CONN_GATES; i++)
        free(g->waiting[i]);
    *g = (struct gate){.id = g->id};
}

bool
conn_gate(struct conn *c, struct gate *g)
{
    struct conns *cs = conn_listener(c)->conns;
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
leave(struct conn *c, unsigned group)
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
let_go(struct conn *c, unsigned group)
{
    const struct protocol *p = conn_listener(c)->row->protocol;

    if (!leave(c, group))
        return;
    if (p->pattern)
        c->owed += c->held[group];
    c->held[group] = 0;
    conn_queue(c);
}

void
gate_release(struct gate *g)
{
    const unsigned group = 1 - g->collecting;

    for (size_t i = 0; i < g->count[group]; i++)
        let_go(g->waiting[group][i], group);
    g->count[group] = 0;
}

/* One connection gets `words` instead of what it has behind the gate. */
static void
refuse(struct conn *c, const char *words)
{
    struct conns *cs = conn_listener(c)->conns;
    const size_t size = strlen(words);

    assert(!cs->served && !conn_listener(c)->row->protocol->pattern);
    chain_trim(&cs->pool, &c->out, conn_gated(c));
    c->held[0] = c->held[1] = 0;
    conn_starve(c, false);
    conn_forget(c);
    c->flags |= F_CLOSING;
    /* What is trimmed was longer but for a few bytes: there is memory. */
    if (size > 0 && conn_fits(c, size)) {
        c->flags |= F_LINGER;
        chain_push(&cs->pool, &c->out, words, size);
    }
    conn_queue(c);
}

void
gate_fail(struct gate *g, const char *words)
{
    for (unsigned group = 0; group < CONN_GATES; group++) {
        for (size_t i = 0; i < g->count[group]; i++) {
            struct conn *c = g->waiting[group][i];

            if (leave(c, group) && conn_gated(c) > 0)
                refuse(c, words);
        }
        g->count[group] = 0;
    }
}
