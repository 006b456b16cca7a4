/* common/store/held_index.c - what is known in memory of the records of
 * data/held, ordered by keyspace and id.
 *
 * The queue's callbacks only note what came and went; the order is made when it
 * is asked for.
 *
 * Entry points: held_index_sort(), held_index_find(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/held_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/bytes.h"

#define INSERT_MAX 64

/* ---- order -------------------------------------------------------------- */

static int
compare_entry(const struct held_index *x, const struct held_entry *e,
              const uint8_t *name, size_t name_size, uint64_t id)
{
    const int d =
        bytes_compare(held_entry_name(x, e), e->name_size, name, name_size);

    return d != 0 ? d : (e->id > id) - (e->id < id);
}

static int
compare_entries(const void *a, const void *b, void *ctx)
{
    const struct held_entry *e = b;

    return compare_entry(ctx, a, held_entry_name(ctx, e), e->name_size, e->id);
}

static int
compare_ids(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

/* Bytes of an entry's name and marks. */
static size_t
entry_bytes(const struct held_entry *e)
{
    return e->name_size + (size_t)e->fill_count * HELD_MARK_SIZE;
}

/* Closes the gaps that dropped entries left, if they are more than what is
 * used. Bytes move to new memory, since they are not in the order of the
 * entries; without it the gaps stay. */
static void
close_gaps(struct held_index *x)
{
    size_t used = 0, to = 0;
    uint8_t *bytes;

    for (size_t i = 0; i < x->count; i++)
        used += entry_bytes(&x->entries[i]);
    if (x->byte_count < 2 * used + 8192)
        return;
    bytes = malloc(used + 1);
    if (bytes == NULL)
        return;
    for (size_t i = 0; i < x->count; i++) {
        struct held_entry *e = &x->entries[i];

        memcpy(bytes + to, x->bytes + e->at, entry_bytes(e));
        e->at = to;
        to += entry_bytes(e);
    }
    free(x->bytes);
    x->bytes = bytes;
    x->byte_count = x->byte_capacity = used;
}

/* Drops the entries of records that are gone. */
static void
drop_gone(struct held_index *x)
{
    size_t to = 0, sorted = 0;

    if (x->gone_count == 0)
        return;
    qsort(x->gone, x->gone_count, sizeof *x->gone, compare_ids);
    for (size_t i = 0; i < x->count; i++) {
        if (bsearch(&x->entries[i].id, x->gone, x->gone_count, sizeof *x->gone,
                    compare_ids) != NULL)
            continue;
        x->entries[to++] = x->entries[i];
        sorted += i < x->sorted_count;
    }
    x->count = to;
    x->sorted_count = sorted;
    x->gone_count = 0;
    close_gaps(x);
}

/* The place of the first sorted entry that is not before this id. */
static size_t
find_place(const struct held_index *x, const uint8_t *name, size_t name_size,
           uint64_t id)
{
    size_t low = 0, high = x->sorted_count;

    while (low < high) {
        const size_t middle = (low + high) / 2;

        if (compare_entry(x, &x->entries[middle], name, name_size, id) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Puts an entry among the sorted ones, unless it is there already. */
static void
insert_sorted(struct held_index *x, struct held_entry e)
{
    const size_t at = find_place(x, held_entry_name(x, &e), e.name_size, e.id);

    if (at < x->sorted_count && compare_entries(&x->entries[at], &e, x) == 0)
        return;
    memmove(&x->entries[at + 1], &x->entries[at],
            (x->sorted_count - at) * sizeof e);
    x->entries[at] = e;
    x->sorted_count++;
}

/* An entry that was added again under its id stays once.  A few new entries are
 * inserted, so that a batch that holds one more record does not sort all that
 * are held. */
void
held_index_sort(struct held_index *x)
{
    if (x->gone_count == 0 && x->sorted_count == x->count)
        return; /* lanes of a worker look at once, and write nothing */
    drop_gone(x);
    if (x->count - x->sorted_count > INSERT_MAX) {
        qsort_r(x->entries, x->count, sizeof *x->entries, compare_entries, x);
        x->sorted_count = 0;
        for (size_t i = 0; i < x->count; i++)
            if (x->sorted_count == 0 ||
                compare_entries(&x->entries[x->sorted_count - 1],
                                &x->entries[i], x) != 0)
                x->entries[x->sorted_count++] = x->entries[i];
        x->count = x->sorted_count;
    }
    for (size_t i = x->sorted_count; i < x->count; i++)
        insert_sorted(x, x->entries[i]);
    x->count = x->sorted_count;
}

const struct held_entry *
held_index_find(struct held_index *x, const uint8_t *name, size_t name_size,
                uint64_t id)
{
    size_t at;

    held_index_sort(x);
    at = find_place(x, name, name_size, id);
    return at < x->count ? &x->entries[at] : NULL;
}

/* ---- callbacks of the queue --------------------------------------------- */

/* Copies the name and the marks of a record, which follow each other. */
static int
copy_marks(struct held_index *x, const struct held_head *head,
           struct held_entry *e)
{
    const size_t size = entry_bytes(e);
    int rc;

    rc = array_grow(&x->bytes, &x->byte_capacity, x->byte_count + size, 1);
    if (rc < 0)
        return rc;
    e->at = x->byte_count;
    x->byte_count += size;
    memcpy(x->bytes + e->at, head->name, size);
    for (uint32_t i = 0; i < e->fill_count; i++) {
        const uint64_t first_ms = get_le64(held_entry_mark(x, e, i) + 24);

        e->oldest_ms = first_ms < e->oldest_ms ? first_ms : e->oldest_ms;
        e->newest_ms = first_ms > e->newest_ms ? first_ms : e->newest_ms;
    }
    return 0;
}

int
held_index_added(void *ctx, uint64_t id, const uint8_t *bytes, size_t size)
{
    struct held_index *x = &((struct held *)ctx)->index;
    struct held_head head;
    struct held_entry e;
    int rc;

    if (!held_head_parse(bytes, size, &head))
        return 0; /* not a record of this program's: it stays in the queue */
    e = (struct held_entry){.id = id,
                            .oldest_ms = UINT64_MAX,
                            .held_ms = head.held_ms,
                            .fill_count = head.marks,
                            .size = (uint32_t)size,
                            .error = head.error,
                            .name_size = (uint16_t)head.name_size};
    drop_gone(x); /* the id may have been another record's */
    rc =
        array_grow(&x->entries, &x->capacity, x->count + 1, sizeof *x->entries);
    if (rc == 0)
        rc = copy_marks(x, &head, &e);
    if (rc < 0)
        return rc;
    if (x->sorted_count == x->count &&
        (x->count == 0 ||
         compare_entries(&x->entries[x->count - 1], &e, x) < 0))
        x->sorted_count++;
    x->entries[x->count++] = e;
    return 0;
}

void
held_index_removed(void *ctx, uint64_t id)
{
    struct held_index *x = &((struct held *)ctx)->index;

    if (id == 0) {
        x->count = x->sorted_count = x->byte_count = x->gone_count = 0;
        return;
    }
    if (x->gone_count == HELD_GONE_MAX)
        drop_gone(x);
    x->gone[x->gone_count++] = id;
}

void
held_index_fini(struct held_index *x)
{
    free(x->entries);
    free(x->bytes);
}
