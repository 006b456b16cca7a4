/* common/journal/queue_index.c - the records that wait, by id: queue_next(),
 * queue_item_add(), queue_item_done(), queue_rebuild(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/journal/queue_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

size_t
queue_items_find(const struct queue *q, uint64_t id)
{
    size_t low = 0, high = q->items.count;

    while (low < high) {
        const size_t middle = (low + high) / 2;

        if (q->items.at[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uint64_t
queue_next(const struct queue *q, uint64_t after)
{
    const struct queue_items *items = &q->items;
    size_t i = queue_items_find(q, after + 1);

    if (i < items->first)
        i = items->first;
    /* Of a segment that is not needed a damaged record may be left. */
    while (i < items->count &&
           (items->at[i].segment == 0 || items->at[i].segment < q->oldest))
        i++;
    return i < items->count ? items->at[i].id : 0;
}

/* ---- items -------------------------------------------------------------- */

/* Counts an item that waits. */
static void
count_item(struct queue *q, const struct queue_item *item)
{
    q->stats.records++;
    q->stats.bytes += item->size + QUEUE_ENTRY;
    queue_segment_of(q, item->segment)->live += item->size + QUEUE_ENTRY;
}

/* It keeps its place until the index is built again. */
static void
mark_gone(struct queue *q, size_t i)
{
    struct queue_items *items = &q->items;
    struct queue_item *item = &items->at[i];

    q->stats.records--;
    q->stats.bytes -= item->size + QUEUE_ENTRY;
    if (item->segment >= q->lowest)
        queue_segment_of(q, item->segment)->live -= item->size + QUEUE_ENTRY;
    item->segment = 0;
    items->gone++;
    while (items->first < items->count && items->at[items->first].segment == 0)
        items->first++;
}

static bool
is_item(const struct queue *q, size_t i, uint64_t id)
{
    return i < q->items.count && q->items.at[i].id == id &&
           q->items.at[i].segment > 0;
}

/* The item of a record that was copied to where `item` says. */
static void
move_item(struct queue *q, const struct queue_item *item)
{
    const size_t i = queue_items_find(q, item->id);
    struct queue_item *old;

    if (!is_item(q, i, item->id))
        return; /* done in the same group */
    old = &q->items.at[i];
    queue_segment_of(q, old->segment)->live -= item->size + QUEUE_ENTRY;
    queue_segment_of(q, item->segment)->live += item->size + QUEUE_ENTRY;
    old->segment = item->segment;
    old->at = item->at;
}

int
queue_item_add(struct queue *q, const struct queue_item *item, bool is_copy,
               bool *is_new)
{
    struct queue_items *items = &q->items;
    int rc;

    *is_new = false;
    if (is_copy && q->loaded) {
        move_item(q, item);
        return 0;
    }
    rc = array_grow(&items->at, &items->capacity, items->count + 1,
                    sizeof *items->at);
    if (rc < 0)
        return rc;
    if (items->count > 0 && items->at[items->count - 1].id >= item->id)
        items->unsorted = true;
    items->at[items->count++] = *item;
    *is_new = true;
    if (q->loaded)
        count_item(q, item);
    return 0;
}

int
queue_item_done(struct queue *q, uint64_t id)
{
    struct queue_items *items = &q->items;
    const size_t i = q->loaded ? queue_items_find(q, id) : items->count;

    if (q->loaded && is_item(q, i, id)) {
        mark_gone(q, i);
        if (q->options.removed != NULL)
            q->options.removed(q->options.ctx, id);
    }
    if (q->loaded)
        return 0;
    if (array_grow(&items->at, &items->capacity, i + 1, sizeof *items->at) < 0)
        return -ENOMEM;
    items->at[items->count++] = (struct queue_item){.id = id};
    items->unsorted = true;
    return 0;
}

/* ---- building it again -------------------------------------------------- */

static int
compare_items(const void *a, const void *b)
{
    const struct queue_item *x = a, *y = b;

    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if (x->segment != y->segment) /* 0 first */
        return x->segment < y->segment ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static void
clear_index(struct queue *q)
{
    if (q->items.unsorted)
        qsort(q->items.at, q->items.count, sizeof *q->items.at, compare_items);
    for (uint32_t n = q->lowest; q->tail > 0 && n <= q->tail; n++)
        queue_segment_of(q, n)->live = 0;
    q->stats.records = q->stats.bytes = 0;
}

void
queue_rebuild(struct queue *q)
{
    struct queue_items *items = &q->items;
    size_t to = 0, next;

    clear_index(q);
    for (size_t i = 0; i < items->count; i = next) {
        const bool is_done = items->at[i].segment == 0;
        struct queue_item last;

        for (next = i + 1;
             next < items->count && items->at[next].id == items->at[i].id;)
            next++;
        last = items->at[next - 1];
        if (!is_done && last.segment >= q->oldest) {
            items->at[to++] = last;
            count_item(q, &last);
        } else if (last.segment > 0 && q->options.removed != NULL) {
            q->options.removed(q->options.ctx, last.id); /* it was added */
        }
    }
    items->count = to;
    items->gone = items->first = 0;
    items->unsorted = false;
}

void
queue_forget_gone(struct queue *q)
{
    if (q->items.gone > q->items.count / 2 + 64)
        queue_rebuild(q);
}
