/* common/journal/queue_index.c - the records that wait, by id and by stream:
 * queue_item_add(), queue_item_done(), queue_rebuild(), queue_next(). */
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

/* ---- streams ------------------------------------------------------------ */

/* The place of a stream, or the one where it belongs. */
static size_t
find_stream(const struct queue *q, uint64_t name)
{
    size_t low = 0, high = q->stream_count;

    while (low < high) {
        const size_t middle = (low + high) / 2;

        if (q->streams[middle].name < name)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool
is_stream(const struct queue *q, size_t i, uint64_t name)
{
    return i < q->stream_count && q->streams[i].name == name;
}

static int
add_stream(struct queue *q, uint64_t name)
{
    const size_t i = find_stream(q, name);

    if (is_stream(q, i, name))
        return 0;
    if (array_grow(&q->streams, &q->stream_capacity, q->stream_count + 1,
                   sizeof *q->streams) < 0)
        return -ENOMEM;
    memmove(q->streams + i + 1, q->streams + i,
            (q->stream_count++ - i) * sizeof *q->streams);
    q->streams[i] = (struct queue_stream){.name = name};
    return 0;
}

uint64_t
queue_next(const struct queue *q, uint64_t stream, uint64_t after)
{
    const size_t s = find_stream(q, stream), i = queue_items_find(q, after);
    const struct queue_item *items = q->items.at;
    uint32_t n;

    if (!is_stream(q, s, stream))
        return 0;
    n = q->streams[s].first;
    if (i < q->items.count && items[i].id == after && items[i].stream == stream)
        n = items[i].next;
    while (n > 0 && (items[n - 1].id <= after || items[n - 1].segment == 0))
        n = items[n - 1].next;
    return n > 0 ? items[n - 1].id : 0;
}

/* ---- items -------------------------------------------------------------- */

/* Appends an item to the list of its stream, which was added. */
static void
link_item(struct queue *q, size_t i)
{
    struct queue_item *item = &q->items.at[i];
    struct queue_stream *s = &q->streams[find_stream(q, item->stream)];

    item->next = 0;
    if (s->first > 0)
        q->items.at[s->last - 1].next = (uint32_t)i + 1;
    else
        s->first = (uint32_t)i + 1;
    s->last = (uint32_t)i + 1;
    q->stats.records++;
    q->stats.bytes += item->size + QUEUE_ENTRY;
    queue_segment_of(q, item->segment)->live += item->size + QUEUE_ENTRY;
}

/* It stays in the list, so that queue_next() finds what follows it. */
static void
mark_gone(struct queue *q, size_t i)
{
    struct queue_item *item = &q->items.at[i];
    struct queue_stream *s = &q->streams[find_stream(q, item->stream)];

    q->stats.records--;
    q->stats.bytes -= item->size + QUEUE_ENTRY;
    if (item->segment >= q->lowest)
        queue_segment_of(q, item->segment)->live -= item->size + QUEUE_ENTRY;
    item->segment = 0;
    q->items.gone++;
    while (s->first > 0 && q->items.at[s->first - 1].segment == 0)
        s->first = q->items.at[s->first - 1].next;
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
    rc = add_stream(q, item->stream);
    if (rc == 0)
        rc = array_grow(&items->at, &items->capacity, items->count + 1,
                        sizeof *items->at);
    if (rc < 0)
        return rc;
    if (items->count > 0 && items->at[items->count - 1].id >= item->id)
        items->unsorted = true;
    items->at[items->count++] = *item;
    *is_new = true;
    if (q->loaded)
        link_item(q, items->count - 1);
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
    for (size_t i = 0; i < q->stream_count; i++)
        q->streams[i] = (struct queue_stream){.name = q->streams[i].name};
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
            items->at[to] = last;
            link_item(q, to++);
        } else if (last.segment > 0 && q->options.removed != NULL) {
            q->options.removed(q->options.ctx, last.id); /* it was added */
        }
    }
    items->count = to;
    items->gone = 0;
    items->unsorted = false;
}
