/* common/base/list.h - doubly linked lists through the members of a struct.
 *
 * A list is a struct list_link that points at itself when it is empty; so
 * does a link that is in no list.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_BASE_LIST_H
#define COUNTD_COMMON_BASE_LIST_H

#include <stdbool.h>

struct list_link {
    struct list_link *next;
    struct list_link *prev;
};

static inline void
list_init(struct list_link *l)
{
    l->next = l;
    l->prev = l;
}

/* True if a list is empty, or an element is in no list. */
static inline bool
list_alone(const struct list_link *l)
{
    return l->next == l;
}

static inline void
list_remove(struct list_link *l)
{
    l->prev->next = l->next;
    l->next->prev = l->prev;
    list_init(l);
}

/* Takes the first element out of a list that has one. */
static inline struct list_link *
list_pop(struct list_link *list)
{
    struct list_link *l = list->next;

    list->next = l->next;
    l->next->prev = list;
    list_init(l);
    return l;
}

/* Puts `l`, which is in no list, at the end. */
static inline void
list_add(struct list_link *list, struct list_link *l)
{
    l->prev = list->prev;
    l->next = list;
    list->prev->next = l;
    list->prev = l;
}

#endif
