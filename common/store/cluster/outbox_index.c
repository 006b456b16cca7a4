/* common/store/cluster/outbox_index.c - the index of data/outbox: keyspaces,
 * their parts and entries, kept up to date by the journal's callbacks.
 *
 * Entry points: outbox_index_added(), outbox_index_removed(), outbox_find(). */
#include "common/store/cluster/outbox_internal.h"

#include <errno.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/bytes.h"

/* ---- keyspaces ---------------------------------------------------------- */

/* Orders the names of keyspaces. */
static int
compare_names(const void *a, const void *b)
{
    const struct outbox_keyspace *x = a, *y = b;

    return bytes_compare(x->name, x->name_size, y->name, y->name_size);
}

struct outbox_keyspace *
outbox_find(struct outbox *o, const uint8_t *name, size_t name_size)
{
    struct outbox_keyspace key = {.name_size = name_size};
    struct outbox_keyspace **found;

    if (name_size > sizeof key.name)
        return NULL;
    memcpy(key.name, name, name_size);
    found = tfind(&key, &o->names, compare_names);
    return found ? *found : NULL;
}

static void
free_keyspace(struct outbox_keyspace *k)
{
    for (uint32_t i = 0; i < k->part_count; i++)
        free(k->parts[i].entries);
    free(k->sender);
    free(k->parts);
    free(k->marks);
    free(k);
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
    if (array_grow(&o->keyspaces, &o->keyspace_capacity, o->keyspace_count + 1,
                   sizeof(struct outbox_keyspace *)) < 0)
        return NULL;
    k = new_keyspace(name, name_size, parts);
    if (k == NULL)
        return NULL;
    if (tsearch(k, &o->names, compare_names) == NULL) {
        free_keyspace(k);
        return NULL;
    }
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
        const uint8_t *last =
            head.last_entries + (size_t)i * OUTBOX_LAST_ENTRY_SIZE;

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
                   sizeof *p->entries) < 0)
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
    o->last = id > o->last ? id : o->last;
    return 0;
}

int
outbox_index_added(void *ctx, uint64_t id, const uint8_t *bytes, size_t size)
{
    struct outbox *o = ctx;

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
compare_ids(const void *a, const void *b)
{
    const struct outbox_entry *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

/* Removes an entry from its part, in which ids rise.  False: it is of another
 * one. */
static bool
remove_entry(struct outbox_part *p, uint64_t id)
{
    const struct outbox_entry key = {.id = id};
    const struct outbox_entry *first, *found;
    size_t i;

    if (p->count == 0)
        return false;
    first = p->entries + p->first;
    found = bsearch(&key, first, p->count, sizeof key, compare_ids);
    if (found == NULL)
        return false;
    i = (size_t)(found - first);
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
    return true;
}

static bool
remove_from(struct outbox_keyspace *k, uint64_t id)
{
    for (uint32_t i = 0; i < k->part_count; i++)
        if (remove_entry(&k->parts[i], id))
            return true;
    return false;
}

void
outbox_index_removed(void *ctx, uint64_t id)
{
    struct outbox *o = ctx;

    for (size_t i = 0; id == 0 && i < o->keyspace_count; i++) {
        o->keyspaces[i]->state_id = 0;
        for (uint32_t j = 0; j < o->keyspaces[i]->part_count; j++)
            o->keyspaces[i]->parts[j].count = o->keyspaces[i]->parts[j].first =
                0;
    }
    /* Entries are removed in the order of keyspaces: the next one is mostly of
     * the same. */
    for (size_t i = 0; id != 0 && i < o->keyspace_count; i++) {
        const size_t at = (o->removing + i) % o->keyspace_count;

        if (remove_from(o->keyspaces[at], id)) {
            o->removing = at;
            break;
        }
    }
}

static void
keep_keyspace(void *k)
{
    (void)k; /* the list frees it */
}

void
outbox_index_fini(struct outbox *o)
{
    tdestroy(o->names, keep_keyspace);
    for (size_t i = 0; i < o->keyspace_count; i++)
        free_keyspace(o->keyspaces[i]);
    free(o->keyspaces);
}
