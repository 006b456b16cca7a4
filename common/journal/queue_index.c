/* common/journal/queue_index.c - the records that wait, by id and by stream:
 * queue_item_add(), queue_item_done(), queue_rebuild(), queue_next(). */
#include "common/journal/queue_internal.h"

#include <errno.h>
#include <stdlib.h>

int
queue_grow(void *at, size_t *capacity, size_t need, size_t item_size)
{
    void **where = at, *moved;
    const size_t larger = *capacity * 2 > need ? *capacity * 2 : need + 16;

    if (need <= *capacity)
        return 0;
    moved = realloc(*where, larger * item_size);
    if (moved == NULL)
        return -ENOMEM;
    *where = moved;
    *capacity = larger;
    return 0;
}

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

/* The slot of a stream, or the free one where it belongs. */
static uint32_t *
find_slot(const struct queue *q, uint64_t name)
{
    size_t i = (size_t)(name * UINT64_C(0x9e3779b97f4a7c15) >> 32);

    for (;; i++) {
        uint32_t *slot = &q->slots[i & (2 * (size_t)q->stream_capacity - 1)];

        if (*slot == 0 || q->streams[*slot - 1].name == name)
            return slot;
    }
}

static int
grow_streams(struct queue *q)
{
    const uint32_t capacity = q->stream_count > 0 ? 2 * q->stream_capacity : 16;
    void *moved = realloc(q->streams, capacity * sizeof *q->streams);
    uint32_t *slots = calloc(2 * (size_t)capacity, sizeof *slots);

    if (moved != NULL)
        q->streams = moved;
    if (moved == NULL || slots == NULL) {
        free(slots);
        return -ENOMEM;
    }
    free(q->slots);
    q->slots = slots;
    q->stream_capacity = capacity;
    for (uint32_t i = 0; i < q->stream_count; i++)
        *find_slot(q, q->streams[i].name) = i + 1;
    return 0;
}

/* The stream's index in slots; *out is 1 + its index.  -ENOMEM */
static int
add_stream(struct queue *q, uint64_t name, uint32_t *out)
{
    if (q->stream_count == q->stream_capacity && grow_streams(q) < 0)
        return -ENOMEM;
    if (*find_slot(q, name) == 0) {
        q->streams[q->stream_count++] = (struct queue_stream){.name = name};
        *find_slot(q, name) = q->stream_count;
    }
    *out = *find_slot(q, name);
    return 0;
}

uint64_t
queue_next(const struct queue *q, uint64_t stream, uint64_t after)
{
    const uint32_t s = q->stream_capacity > 0 ? *find_slot(q, stream) : 0;
    const struct queue_item *items = q->items.at;
    const size_t i = queue_items_find(q, after);
    uint32_t n;

    if (s == 0)
        return 0;
    n = q->streams[s - 1].first;
    if (i < q->items.count && items[i].id == after && items[i].segment > 0 &&
        items[i].stream == s)
        n = items[i].next;
    while (n > 0 && items[n - 1].id <= after)
        n = items[n - 1].next;
    return n > 0 ? items[n - 1].id : 0;
}

/* ---- items -------------------------------------------------------------- */

static void
link_item(struct queue *q, size_t i)
{
    struct queue_item *item = &q->items.at[i];
    struct queue_stream *s = &q->streams[item->stream - 1];

    item->next = 0;
    item->prev = s->last;
    if (s->last > 0)
        q->items.at[s->last - 1].next = (uint32_t)i + 1;
    else
        s->first = (uint32_t)i + 1;
    s->last = (uint32_t)i + 1;
    s->count++;
    s->bytes += item->size;
    q->stats.records++;
    q->stats.bytes += item->size + QUEUE_ENTRY;
    queue_segment_of(q, item->segment)->live += item->size + QUEUE_ENTRY;
}

static void
unlink_item(struct queue *q, size_t i)
{
    struct queue_item *item = &q->items.at[i];
    struct queue_stream *s = &q->streams[item->stream - 1];

    *(item->prev > 0 ? &q->items.at[item->prev - 1].next : &s->first) =
        item->next;
    *(item->next > 0 ? &q->items.at[item->next - 1].prev : &s->last) =
        item->prev;
    s->count--;
    s->bytes -= item->size;
    q->stats.records--;
    q->stats.bytes -= item->size + QUEUE_ENTRY;
    if (item->segment >= q->lowest)
        queue_segment_of(q, item->segment)->live -= item->size + QUEUE_ENTRY;
    item->segment = 0;
    q->items.gone++;
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
queue_item_add(struct queue *q, const struct queue_item *place, uint64_t stream,
               bool is_copy, bool *is_new)
{
    struct queue_items *items = &q->items;
    struct queue_item item = *place;
    int rc;

    *is_new = false;
    rc = add_stream(q, stream, &item.stream);
    if (rc < 0)
        return rc;
    if (is_copy && q->loaded) {
        move_item(q, &item);
        return 0;
    }
    rc = queue_grow(&items->at, &items->capacity, items->count + 1,
                    sizeof *items->at);
    if (rc < 0)
        return rc;
    if (items->count > 0 && items->at[items->count - 1].id >= item.id)
        items->unsorted = true;
    items->at[items->count++] = item;
    *is_new = true;
    if (q->loaded)
        link_item(q, items->count - 1);
    return 0;
}

int
queue_item_done(struct queue *q, uint64_t id)
{
    size_t i;
    int rc;

    if (q->loaded) {
        i = queue_items_find(q, id);
        if (!is_item(q, i, id))
            return 0;
        unlink_item(q, i);
        if (q->options.removed != NULL)
            q->options.removed(q->options.ctx, id);
        return 0;
    }
    rc = queue_grow(&q->done.at, &q->done.capacity, q->done.count + 1,
                    sizeof *q->done.at);
    if (rc == 0)
        q->done.at[q->done.count++] = id;
    return rc;
}

/* ---- building it again -------------------------------------------------- */

static int
compare_items(const void *a, const void *b)
{
    const struct queue_item *x = a, *y = b;

    if (x->id != y->id)
        return x->id < y->id ? -1 : 1;
    if (x->segment != y->segment)
        return x->segment < y->segment ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

static int
compare_ids(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static void
clear_index(struct queue *q)
{
    if (q->items.unsorted)
        qsort(q->items.at, q->items.count, sizeof *q->items.at, compare_items);
    if (q->done.count > 1)
        qsort(q->done.at, q->done.count, sizeof *q->done.at, compare_ids);
    for (uint32_t i = 0; i < q->stream_count; i++)
        q->streams[i] = (struct queue_stream){.name = q->streams[i].name};
    for (uint32_t n = q->lowest; q->tail > 0 && n <= q->tail; n++)
        queue_segment_of(q, n)->live = 0;
    q->stats.records = q->stats.bytes = 0;
}

/* The owner knows it, and it waits no more. */
static void
report_removed(struct queue *q, const struct queue_item *item)
{
    if (item->segment > 0 && q->options.removed != NULL)
        q->options.removed(q->options.ctx, item->id);
}

void
queue_rebuild(struct queue *q)
{
    struct queue_items *items = &q->items;
    size_t to = 0, d = 0;

    clear_index(q);
    for (size_t i = 0; i < items->count; i++) {
        const struct queue_item item = items->at[i];

        while (d < q->done.count && q->done.at[d] < item.id)
            d++;
        if (i + 1 < items->count && items->at[i + 1].id == item.id)
            continue; /* a later copy follows */
        if ((d < q->done.count && q->done.at[d] == item.id) ||
            item.segment < q->oldest) {
            report_removed(q, &item);
            continue;
        }
        if (item.segment == 0)
            continue;
        items->at[to] = item;
        link_item(q, to++);
    }
    items->count = to;
    items->gone = q->done.count = 0;
    items->unsorted = false;
}
