/* reader/waiting_line.c - see waiting_line.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/waiting_line.h"

void
waiting_line_init(struct waiting_line *l)
{
    l->served = NULL;
    list_init(&l->waiting);
}

bool
waiting_line_enter(struct waiting_line *l, struct conn *c,
                   struct waiting_line_place *place)
{
    struct list_link *own = &place->link;

    if (!own->next)
        list_init(own);
    place->conn = c;
    if (l->served || (!list_alone(&l->waiting) && l->waiting.next != own)) {
        if (list_alone(own))
            list_add(&l->waiting, own);
        return false;
    }
    list_remove(own);
    l->served = c;
    return true;
}

void
waiting_line_leave(struct waiting_line *l, struct conn *c,
                   struct waiting_line_place *place)
{
    const bool is_first = l->waiting.next == &place->link;

    if (place->link.next)
        list_remove(&place->link);
    if (l->served != c && (!is_first || l->served))
        return;
    l->served = NULL;
    if (!list_alone(&l->waiting))
        conn_wake(
            LOOP_OWNER(l->waiting.next, struct waiting_line_place, link)->conn);
}
