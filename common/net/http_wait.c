/* common/net/http_wait.c - requests that wait: see http_hold() in http.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/http_internal.h"

#include <assert.h>

#include "common/base/clock.h"

struct list_link *
http_waits_of(struct conn *c)
{
    struct list_link *link = &((struct http_state *)conn_state(c))->waits;

    if (!link->next)
        list_init(link);
    return link;
}

void
http_line_init(struct http_line *line)
{
    list_init(&line->link);
}

enum conn_next
http_hold(struct http_call *x, struct http_line *line)
{
    struct list_link *own = http_waits_of(x->conn);
    struct http_state *s = conn_state(x->conn);

    assert(list_alone(own));
    if (s->held_ms == 0)
        s->held_ms = (uint32_t)clock_ms() | 1; /* 0 is "it has not" */
    list_add(&line->link, own);
    return CONN_PAUSE;
}

/* Since a time that is kept in 32 bits; a wait is shorter than 49 days. */
static uint64_t
elapsed_ms(uint32_t since_ms)
{
    const uint32_t now = (uint32_t)clock_ms() | 1;

    return now - since_ms;
}

uint64_t
http_waited_ms(struct http_call *x)
{
    const struct http_state *s = conn_state(x->conn);

    if (conn_has_left(x->conn))
        return UINT64_MAX;
    return s->held_ms == 0 ? 0 : elapsed_ms(s->held_ms);
}

uint64_t
http_wake_late(struct http_line *line, uint64_t waited_ms)
{
    while (!list_alone(&line->link)) {
        struct list_link *link = line->link.next;
        struct http_state *s = LOOP_OWNER(link, struct http_state, waits);
        const uint64_t waited = elapsed_ms(s->held_ms);

        if (waited < waited_ms)
            return waited_ms - waited;
        list_remove(link);
        conn_wake(conn_of_state(s));
    }
    return 0;
}

void
http_wake(struct http_line *line)
{
    (void)http_wake_late(line, 0);
}
