/* common/store/cluster/outbox_index.c - the index of data/outbox: keyspaces,
 * their parts and entries, kept up to date by the journal's callbacks.
 *
 * Entry points: outbox_index_added(), outbox_index_removed(), outbox_find(). */
#include "common/store/cluster/outbox_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/base/hash.h"

/* ---- keyspaces ---------------------------------------------------------- */

static size_t
find_slot(const struct outbox *o, const uint8_t *name, size_t name_size)
{
    static const struct hash_key key = {.k0 = 0};
    size_t at = hash_name(&key, 0, name, name_size) & (o->slot_count - 1);

    while (o->slots[at] != 0) {
        const struct outbox_keyspace *k = o->keyspaces[o->slots[at] - 1];

        if (bytes_compare(k->name, k->name_size, name, name_size) == 0)
            break;
        at = (at + 1) & (o->slot_count - 1);
    }
    return at;
}

struct outbox_keyspace *
outbox_find(struct outbox *o, const uint8_t *name, size_t name_size)
{
    size_t at;

    if (o->slot_count == 0)
        return NULL;
    at = find_slot(o, name, name_size);
    return o->slots[at] == 0 ? NULL : o->keyspaces[o->slots[at] - 1];
}

static int
grow_slots(struct outbox *o)
{
    const size_t count = o->slot_count > 0 ? 2 * o->slot_count : 64;
    uint32_t *slots;

    if (2 * (o->keyspace_count + 1) <= o->slot_count)
        return 0;
    slots = calloc(count, sizeof *slots);
    if (slots == NULL)
        return -ENOMEM;
    free(o->slots);
    o->slots = slots;
    o->slot_count = count;
    for (size_t i = 0; i < o->keyspace_count; i++)
        o->slots[find_slot(o, o->keyspaces[i]->name,
                           o->keyspaces[i]->name_size)] = (uint32_t)i + 1;
    return 0;
}

static struct outbox_keyspace *
new_keyspace(const uint8_t *name, size_t name_size, uint32_t parts)
{
    struct outbox_keyspace *k = calloc(1, sizeof *k);

    if (k == NULL)
        return NULL;
    memcpy(k->name, name, name_size);
    k->name_size = name_size;
    k->part_count = parts;
    k->parts = calloc(parts, sizeof *k->parts);
    if (k->parts == NULL) {
        free(k);
        return NULL;
    }
    for (uint32_t i = 0; i < parts; i++) {
        k->parts[i].keyspace = k;
        k->parts[i].number = i;
    }
    return k;
}

struct outbox_keyspace *
outbox_make(struct outbox *o, const uint8_t *name, size_t name_size,
            uint32_t parts)
{
    struct outbox_keyspace *k = outbox_find(o, name, name_size);

    if (k != NULL)
        return k;
    if (grow_slots(o) < 0 ||
        array_grow(&o->keyspaces, &o->keyspace_capacity, o->keyspace_count + 1,
                   sizeof(struct outbox_keyspace *)) < 0)
        return NULL;
    k = new_keyspace(name, name_size, parts);
    if (k == NULL)
        return NULL;
    o->slots[find_slot(o, name, name_size)] = (uint32_t)o->keyspace_count + 1;
    o->keyspaces[o->keyspace_count++] = k;
    return k;
}

uint64_t
outbox_last(const struct outbox *o)
{
    return o->last;
}

size_t
outbox_keyspace_count(const struct outbox *o)
{
    return o->keyspace_count;
}

struct outbox_keyspace *
outbox_keyspace_at(struct outbox *o, size_t index)
{
    return o->keyspaces[index];
}

/* ---- records ------------------------------------------------------------ */

static int
take_state(struct outbox *o, uint64_t id, const uint8_t *bytes, size_t size)
{
    struct outbox_state_head head;
    struct outbox_keyspace *k;
    size_t at = 0, count = 0;

    if (!outbox_state_parse(bytes, size, &head))
        return 0;
    k = outbox_make(o, head.name, head.name_size, head.parts);
    if (k == NULL)
        return -ENOMEM;
    if (id < k->state_id || head.parts != k->part_count)
        return 0;
    k->state_id = id;
    k->generation = head.generation;
    for (uint32_t i = 0; i < head.parts; i++) {
        const uint8_t *last = head.lasts + (size_t)i * OUTBOX_LAST_SIZE;

        k->parts[i].last = get_le64(last);
        k->parts[i].last_digest = get_le64(last + 8);
    }
    free(k->marks);
    k->marks = calloc((size_t)head.marks + 1, sizeof *k->marks);
    k->mark_count = 0;
    if (k->marks == NULL)
        return -ENOMEM;
    while (count < head.marks && outbox_mark_next(&head, &at, &k->marks[count]))
        count++;
    k->mark_count = count;
    return 0;
}

/* Adds an entry behind those of its part.  The journal gives entries in the
 * order of their ids; one that was copied comes again while all is read. */
static int
take_entry(struct outbox *o, uint64_t id, const uint8_t *bytes, size_t size)
{
    struct outbox_entry_head head;
    struct outbox_keyspace *k;
    struct outbox_part *p;
    size_t at;

    if (!outbox_entry_parse(bytes, size, &head))
        return 0;
    k = outbox_make(o, head.name, head.name_size, head.parts);
    if (k == NULL)
        return -ENOMEM;
    if (head.parts != k->part_count)
        return 0;
    p = &k->parts[head.part];
    if (array_grow(&p->entries, &p->capacity, p->first + p->count + 1,
                   sizeof *p->entries) < 0 ||
        array_grow(&o->places, &o->place_capacity, o->place_count + 1,
                   sizeof *o->places) < 0)
        return -ENOMEM;
    for (at = p->first + p->count; at > p->first; at--)
        if (p->entries[at - 1].number <= head.number)
            break;
    if (at > p->first && p->entries[at - 1].number == head.number)
        return 0;
    memmove(p->entries + at + 1, p->entries + at,
            (p->first + p->count - at) * sizeof *p->entries);
    p->entries[at] = (struct outbox_entry){.id = id,
                                           .number = head.number,
                                           .digest = head.digest,
                                           .prev_digest = head.prev_digest,
                                           .first_ms = head.first_ms,
                                           .size = (uint32_t)size};
    p->count++;
    o->is_unsorted = o->is_unsorted || (o->place_count > 0 &&
                                        o->places[o->place_count - 1].id > id);
    o->places[o->place_count++] = (struct outbox_place){id, p};
    o->last = id > o->last ? id : o->last;
    return 0;
}

int
outbox_index_added(void *ctx, uint64_t id, uint64_t stream,
                   const uint8_t *bytes, size_t size)
{
    struct outbox *o = ctx;

    (void)stream;
    if (size >= 1 && bytes[0] == OUTBOX_STATE)
        return take_state(o, id, bytes, size);
    if (size >= 1 && bytes[0] == OUTBOX_ENTRY)
        return take_entry(o, id, bytes, size);
    if (size == OUTBOX_SENDER_SIZE && bytes[0] == OUTBOX_SENDER &&
        o->sender == 0)
        o->sender = get_le64(bytes + 8);
    return 0;
}

static int
compare_places(const void *a, const void *b)
{
    const struct outbox_place *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

static struct outbox_place *
find_place(struct outbox *o, uint64_t id)
{
    const struct outbox_place key = {.id = id};

    /* Ids rise but while all is read again. */
    if (o->is_unsorted)
        qsort(o->places, o->place_count, sizeof *o->places, compare_places);
    o->is_unsorted = false;
    return bsearch(&key, o->places, o->place_count, sizeof *o->places,
                   compare_places);
}

/* Forgets places that are gone once they are most. */
static void
pack_places(struct outbox *o)
{
    size_t kept = 0;

    if (o->places_gone < 1024 || 2 * o->places_gone < o->place_count)
        return;
    for (size_t i = 0; i < o->place_count; i++)
        if (o->places[i].part != NULL)
            o->places[kept++] = o->places[i];
    o->place_count = kept;
    o->places_gone = 0;
}

static void
remove_entry(struct outbox_part *p, uint64_t id)
{
    size_t i = 0;

    while (i < p->count && p->entries[p->first + i].id != id)
        i++;
    if (i == p->count)
        return;
    if (i == 0)
        p->first++;
    else
        memmove(p->entries + p->first + i, p->entries + p->first + i + 1,
                (p->count - i - 1) * sizeof *p->entries);
    p->count--;
    if (p->first > 64 && p->first > p->count) {
        memmove(p->entries, p->entries + p->first,
                p->count * sizeof *p->entries);
        p->first = 0;
    }
}

void
outbox_index_removed(void *ctx, uint64_t id)
{
    struct outbox *o = ctx;
    struct outbox_place *place;

    if (id == 0) {
        for (size_t i = 0; i < o->keyspace_count; i++) {
            o->keyspaces[i]->state_id = 0;
            for (uint32_t j = 0; j < o->keyspaces[i]->part_count; j++)
                o->keyspaces[i]->parts[j].count =
                    o->keyspaces[i]->parts[j].first = 0;
        }
        o->place_count = o->places_gone = 0;
        return;
    }
    place = o->place_count > 0 ? find_place(o, id) : NULL;
    if (place == NULL || place->part == NULL)
        return;
    remove_entry(place->part, id);
    place->part = NULL;
    o->places_gone++;
    pack_places(o);
}

void
outbox_index_fini(struct outbox *o)
{
    for (size_t i = 0; i < o->keyspace_count; i++) {
        struct outbox_keyspace *k = o->keyspaces[i];

        for (uint32_t j = 0; j < k->part_count; j++)
            free(k->parts[j].entries);
        free(k->sender);
        free(k->parts);
        free(k->marks);
        free(k);
    }
    free(o->keyspaces);
    free(o->slots);
    free(o->places);
}
