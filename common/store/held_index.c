/* common/store/held_index.c - what is known in memory of the records of
 * data/held.
 *
 * Entry points: held_stream(), held_fill_hash(), held_index_keyspace(),
 * held_index_next(), held_index_find(). */
#include "common/store/held_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/hash.h"

#define MARK_SIZE 32

static const struct hash_key zeros;

uint64_t
held_stream(const uint8_t *name, size_t name_size)
{
    return hash_name(&zeros, 0, name, name_size);
}

uint64_t
held_fill_hash(const struct store_fill *mark)
{
    uint8_t bytes[MARK_SIZE];

    memcpy(bytes, mark->uuid, sizeof mark->uuid);
    put_le64(bytes + 16, mark->epoch);
    put_le64(bytes + 24, mark->first_ms);
    return hash_name(&zeros, 0, bytes, sizeof bytes);
}

/* ---- keyspaces ----------------------------------------------------------- */

/* The slot of a keyspace, or the free one where it belongs. */
static uint32_t *
find_slot(struct held_index *x, uint64_t stream, const uint8_t *name,
          size_t name_size)
{
    for (size_t i = (size_t)stream;; i++) {
        uint32_t *slot = &x->slots[i & (x->slot_count - 1)];
        const struct held_keyspace *k =
            *slot > 0 ? &x->keyspaces[*slot - 1] : NULL;

        if (k == NULL ||
            (k->stream == stream &&
             bytes_compare(k->name, k->name_size, name, name_size) == 0))
            return slot;
    }
}

static int
grow_slots(struct held_index *x)
{
    const size_t count = x->slot_count > 0 ? 2 * x->slot_count : 64;
    uint32_t *slots = calloc(count, sizeof *slots);

    if (slots == NULL)
        return -ENOMEM;
    free(x->slots);
    x->slots = slots;
    x->slot_count = count;
    for (size_t i = 0; i < x->keyspace_count; i++) {
        const struct held_keyspace *k = &x->keyspaces[i];

        *find_slot(x, k->stream, k->name, k->name_size) = (uint32_t)i + 1;
    }
    return 0;
}

static int
add_keyspace(struct held_index *x, uint64_t stream, const uint8_t *name,
             size_t name_size, uint32_t *index)
{
    struct held_keyspace k = {.name_size = name_size, .stream = stream};
    uint32_t *slot;
    int rc = 0;

    if (2 * (x->keyspace_count + 1) > x->slot_count)
        rc = grow_slots(x);
    if (rc == 0)
        rc = array_grow(&x->keyspaces, &x->keyspace_capacity,
                        x->keyspace_count + 1, sizeof *x->keyspaces);
    if (rc < 0)
        return rc;
    slot = find_slot(x, stream, name, name_size);
    if (*slot == 0) {
        k.name = malloc(name_size);
        if (k.name == NULL)
            return -ENOMEM;
        memcpy(k.name, name, name_size);
        x->keyspaces[x->keyspace_count++] = k;
        *slot = (uint32_t)x->keyspace_count;
        x->names_sorted = false;
    }
    *index = *slot - 1;
    return 0;
}

struct held_keyspace *
held_index_keyspace(struct held_index *x, const uint8_t *name, size_t name_size)
{
    const uint32_t slot =
        x->slot_count > 0
            ? *find_slot(x, held_stream(name, name_size), name, name_size)
            : 0;

    return slot > 0 && x->keyspaces[slot - 1].records > 0
               ? &x->keyspaces[slot - 1]
               : NULL;
}

static int
compare_keyspaces(const void *a, const void *b, void *ctx)
{
    const struct held_keyspace *all = ctx;
    const struct held_keyspace *x = &all[*(const uint32_t *)a];
    const struct held_keyspace *y = &all[*(const uint32_t *)b];

    return bytes_compare(x->name, x->name_size, y->name, y->name_size);
}

static int
sort_names(struct held_index *x)
{
    uint32_t *moved;

    if (x->names_sorted || x->keyspace_count == 0)
        return 0;
    moved = realloc(x->by_name, x->keyspace_count * sizeof *moved);
    if (moved == NULL)
        return -ENOMEM;
    x->by_name = moved;
    for (size_t i = 0; i < x->keyspace_count; i++)
        x->by_name[i] = (uint32_t)i;
    qsort_r(x->by_name, x->keyspace_count, sizeof *x->by_name,
            compare_keyspaces, x->keyspaces);
    x->names_sorted = true;
    return 0;
}

struct held_keyspace *
held_index_next(struct held_index *x, const uint8_t *name, size_t name_size)
{
    size_t low = 0, high = x->keyspace_count;

    if (sort_names(x) < 0)
        return NULL;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        const struct held_keyspace *k = &x->keyspaces[x->by_name[middle]];

        if (name_size > 0 &&
            bytes_compare(k->name, k->name_size, name, name_size) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    while (low < x->keyspace_count &&
           x->keyspaces[x->by_name[low]].records == 0)
        low++;
    return low < x->keyspace_count ? &x->keyspaces[x->by_name[low]] : NULL;
}

/* ---- entries ------------------------------------------------------------ */

static int
compare_entries(const void *a, const void *b)
{
    const struct held_entry *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

/* Sorts the entries; one that was added again under its id is one. */
static void
sort_entries(struct held_index *x)
{
    size_t to = 0;

    if (!x->unsorted)
        return;
    qsort(x->entries, x->count, sizeof *x->entries, compare_entries);
    for (size_t i = 0; i < x->count; i++) {
        if (to > 0 && x->entries[to - 1].id == x->entries[i].id)
            x->keyspaces[x->entries[i].keyspace].records--;
        else
            x->entries[to++] = x->entries[i];
    }
    x->count = to;
    x->unsorted = false;
}

struct held_entry *
held_index_find(struct held_index *x, uint64_t id)
{
    size_t low = 0, high;

    sort_entries(x);
    high = x->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;

        if (x->entries[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < x->count && x->entries[low].id == id &&
                   x->entries[low].fills > 0
               ? &x->entries[low]
               : NULL;
}

/* The fills of a record: hashes, oldest and newest. */
static int
add_fills(struct held_index *x, const struct held_head *head,
          struct held_entry *e)
{
    const uint8_t *at = head->body;
    int rc;

    rc = array_grow(&x->fills, &x->fill_capacity, x->fill_count + head->marks,
                    sizeof *x->fills);
    if (rc < 0)
        return rc;
    e->fill_at = x->fill_count;
    e->oldest_ms = UINT64_MAX;
    for (uint32_t i = 0; i < head->marks; i++, at += MARK_SIZE) {
        const uint64_t first_ms = get_le64(at + 24);

        x->fills[x->fill_count++] = hash_name(&zeros, 0, at, MARK_SIZE);
        e->oldest_ms = first_ms < e->oldest_ms ? first_ms : e->oldest_ms;
        e->newest_ms = first_ms > e->newest_ms ? first_ms : e->newest_ms;
    }
    return 0;
}

int
held_index_added(void *ctx, uint64_t id, uint64_t stream, const uint8_t *bytes,
                 size_t size)
{
    struct held_index *x = &((struct held *)ctx)->index;
    struct held_entry e = {.id = id, .size = (uint32_t)size};
    struct held_head head;
    int rc;

    if (!held_head_parse(bytes, size, &head) ||
        held_stream(head.name, head.name_size) != stream)
        return 0; /* not a record of this program's: it stays in the queue */
    e.fills = head.marks;
    e.held_ms = head.held_ms;
    e.error = head.error;
    rc = add_keyspace(x, stream, head.name, head.name_size, &e.keyspace);
    if (rc == 0)
        rc = array_grow(&x->entries, &x->capacity, x->count + 1,
                        sizeof *x->entries);
    if (rc == 0)
        rc = add_fills(x, &head, &e);
    if (rc < 0)
        return rc;
    if (x->count > 0 && x->entries[x->count - 1].id >= id)
        x->unsorted = true;
    x->entries[x->count++] = e;
    x->keyspaces[e.keyspace].records++;
    return 0;
}

/* Closes the gaps that removed entries left.  Fills move to new memory, since
 * they are not in the order of the entries; without it the gaps stay. */
static void
close_gaps(struct held_index *x)
{
    uint64_t *fills = malloc(x->fill_capacity * sizeof *fills);
    size_t to = 0, fill = 0;

    if (fills == NULL)
        return;
    for (size_t i = 0; i < x->count; i++) {
        struct held_entry e = x->entries[i];

        if (e.fills == 0)
            continue;
        memcpy(&fills[fill], &x->fills[e.fill_at], e.fills * sizeof *fills);
        e.fill_at = fill;
        fill += e.fills;
        x->entries[to++] = e;
    }
    free(x->fills);
    x->fills = fills;
    x->count = to;
    x->fill_count = fill;
    x->gone = 0;
}

static void
clear_index(struct held_index *x)
{
    for (size_t i = 0; i < x->keyspace_count; i++)
        x->keyspaces[i].records = 0;
    x->count = x->gone = x->fill_count = 0;
    x->unsorted = false;
}

void
held_index_removed(void *ctx, uint64_t id)
{
    struct held_index *x = &((struct held *)ctx)->index;
    struct held_entry *e;

    if (id == 0) {
        clear_index(x);
        return;
    }
    e = held_index_find(x, id);
    if (e == NULL)
        return;
    x->keyspaces[e->keyspace].records--;
    e->fills = 0;
    x->gone++;
    if (x->gone > x->count / 2 + 64)
        close_gaps(x);
}

void
held_index_fini(struct held_index *x)
{
    for (size_t i = 0; i < x->keyspace_count; i++)
        free(x->keyspaces[i].name);
    free(x->keyspaces);
    free(x->entries);
    free(x->fills);
    free(x->slots);
    free(x->by_name);
}
