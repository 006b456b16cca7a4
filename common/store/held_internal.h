/* common/store/held_internal.h - what the files of held.h share: held.c,
 * held_index.c, held_admin.c. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_HELD_INTERNAL_H
#define COUNTD_COMMON_STORE_HELD_INTERNAL_H

#include "common/journal/queue.h"
#include "common/store/held.h"
#include "common/store/held_record.h"

#define HELD_SEGMENT_SIZE (1u << 18)
#define HELD_GROUP_SIZE   ((size_t)8 << 20) /* a step is cut into such groups */

/* The index entry of a record. */
struct held_entry {
    uint64_t id;
    uint64_t oldest_ms; /* first_ms of its fills */
    uint64_t newest_ms;
    uint64_t held_ms;
    size_t at; /* in bytes: the name of its keyspace, its marks */
    uint32_t fill_count;
    uint32_t size;
    int error;
    uint16_t name_size;
};

#define HELD_GONE_MAX 1024

/* An index of all records: made by the queue's callbacks. */
struct held_index {
    struct held_entry *entries; /* by keyspace, then id, once sorted */
    size_t count, capacity;
    size_t sorted_count; /* the first ones, which are in order */
    uint8_t *bytes;      /* names and marks, as the records have them */
    size_t byte_count, byte_capacity;
    size_t gone_count; /* records whose entries are to be dropped */
    uint64_t gone[HELD_GONE_MAX];
};

struct held {
    struct held_options options;
    struct queue *queue; /* NULL: there is none yet */
    int dir_fd;          /* of the folder; -1 */
    struct held_index index;
    uint8_t *record; /* being put */
    size_t record_capacity;

    /* The marks and deltas of the record that was read last. */
    struct store_fill *marks;
    struct store_delta *deltas;
    size_t mark_capacity, delta_capacity;
};

/* ---- held_index.c ------------------------------------------------------- */

/* Callbacks of the queue; ctx is the struct held. */
int held_index_added(void *ctx, uint64_t id, const uint8_t *bytes, size_t size);
void held_index_removed(void *ctx, uint64_t id);

/* Puts all entries in order.  After it, threads may look at the index at once
 * until the next callback. */
void held_index_sort(struct held_index *x);

void held_index_fini(struct held_index *x);

static inline const uint8_t *
held_entry_name(const struct held_index *x, const struct held_entry *e)
{
    return x->bytes + e->at;
}

static inline const uint8_t *
held_entry_mark(const struct held_index *x, const struct held_entry *e,
                uint32_t i)
{
    return x->bytes + e->at + e->name_size + (size_t)i * HELD_MARK_SIZE;
}

/* The first entry that is not before this id of this keyspace, or NULL.
 * Entries stay where they are until a record is read or a snapshot taken. */
const struct held_entry *held_index_find(struct held_index *x,
                                         const uint8_t *name, size_t name_size,
                                         uint64_t id);

/* ---- held.c ------------------------------------------------------------- */

/* The entry after this id of a keyspace, or NULL. */
const struct held_entry *held_next_entry(struct held *h, const uint8_t *name,
                                         size_t name_size, uint64_t after);

/* Reads a record's bytes and head; may refresh, so entries move.  -EBADMSG */
int held_read(struct held *h, uint64_t id, struct held_head *head);

#endif
