/* common/net/gate.c - answers that wait until a group commit is durable; see
 * conn.h. */
#include "common/net/conn_inside.h"

#include <errno.h>
#include <stdlib.h>

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
    struct conns *cs = conn_door(c)->conns;
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
gate_waits(const struct gate *g)
{
    return g->count[g->collecting] > 0;
}

void
gate_depart(struct gate *g)
{
    g->collecting = 1 - g->collecting;
    assert(g->count[g->collecting] == 0);
}

/* What one connection has behind the gate is free to go. */
static void
let_go(struct conn *c, unsigned group)
{
    const struct protocol *p = conn_door(c)->row->protocol;

    c->flags &= (uint16_t) ~(F_GATE_0 << group);
    if ((c->flags & F_GATES) == 0)
        c->gate = 0;
    if (c->state == CONN_CLOSED) {
        (void)conn_end_some(c); /* if it is not through: in the next turns */
        return;
    }
    if (p->pattern)
        c->owed += c->held[group];
    c->held[group] = 0;
    conn_queue(c);
}

void
gate_open(struct gate *g)
{
    const unsigned group = 1 - g->collecting;

    for (size_t i = 0; i < g->count[group]; i++)
        let_go(g->waiting[group][i], group);
    g->count[group] = 0;
}
