/* worker/fold_memory.h - the memory of a fold: its regions and tables, and
 * fold_reserve(); and the order of its sums.
 *
 * The public part is in fold.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WORKER_FOLD_MEMORY_H
#define COUNTD_WORKER_FOLD_MEMORY_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "common/log/slot.h"
#include "common/wire/message.h"
#include "worker/fold.h"

#define FOLD_GROUP       SLOT_RUN
#define FOLD_CELLS_MIN   4096u
#define FOLD_ARENA_START 64 /* reference 0 means none */

/* Sorting takes an item and a delta per entry, and qsort() a copy of the items.
 */
#define FOLD_SCRATCH_SIZE                                                      \
    (2 * sizeof(struct sort_item) + sizeof(struct store_delta))

/* ---- sizes in the arena ------------------------------------------------ */

static inline size_t
round_up(size_t size)
{
    return (size + 7) / 8 * 8;
}

static inline unsigned
bit_words(const struct fold *f)
{
    return (f->logs_max + 63) / 64;
}

static inline size_t
keyspace_size(const struct fold *f, size_t name_size)
{
    return round_up(offsetof(struct fold_keyspace, name) + name_size) +
           sizeof(uint64_t) * bit_words(f);
}

static inline size_t
entry_size(size_t key_size)
{
    return round_up(offsetof(struct fold_entry, key) + key_size);
}

/* The most one record can add to the arena. */
static inline size_t
record_size_max(const struct fold *f)
{
    return keyspace_size(f, MESSAGE_NAME_MAX) + entry_size(MESSAGE_NAME_MAX);
}

/* ---- regions ----------------------------------------------------------- */

/* Reserves `size` bytes of zeros.  -ENOMEM */
int fold_region_open(struct fold_region *r, size_t size);
void fold_region_close(struct fold_region *r);

/* Returns what memory there is behind the first `keep` bytes, or some more. */
void fold_region_trim(struct fold_region *r, size_t keep);

/* ---- tables ------------------------------------------------------------ */

static inline struct fold_cell *
cells_of(const struct fold_table *t)
{
    return (struct fold_cell *)(void *)t->cells.at;
}

static inline size_t
table_size(const struct fold_table *t)
{
    return ((size_t)t->mask + 1) * sizeof(struct fold_cell);
}

/* `count` cells, a power of two. */
int fold_table_open(struct fold_table *t, uint32_t count);

/* Takes a free cell for `reference`. */
static inline void
table_put(struct fold_table *t, uint32_t tag, uint32_t reference)
{
    struct fold_cell *c = cells_of(t);
    uint32_t at = tag & t->mask;

    assert(t->used <= t->mask);
    while (c[at].reference != 0)
        at = (at + 1) & t->mask;
    c[at] = (struct fold_cell){.tag = tag, .reference = reference};
    t->used++;
}

/* Clears a table.  A table that was well used keeps its size, which saves the
 * next batch the growing. */
int fold_table_clear(struct fold_table *t);

/* ---- reserving ---------------------------------------------------------- */

/* Reserves memory for any FOLD_GROUP more records.
 *   -ENOBUFS  there is none */
int fold_reserve(struct fold *f);

/* ---- sort -------------------------------------------------------------- */

/* A keyspace's entries in the order the store wants. */

struct sort_item {
    uint64_t prefix; /* 8 bytes of the key */
    const struct fold_entry *entry;
};

#endif
