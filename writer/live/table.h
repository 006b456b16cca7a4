/* writer/live/table.h - an index from 32-bit hashes to 32-bit numbers that
 * grows a little with every insertion.
 *
 * Open addressing with linear probing, in the order of hashes.  To grow, each
 * insertion or removal moves the next few slots of the old array to a larger
 * one; hashes whose home in the old array was passed are in the new one.  Pages
 * of moved slots go back to the kernel piece by piece, and the new array is
 * touched only where it is filled. It shrinks in the same way, though not below
 * the size it began with. So no operation moves more than TABLE_STEP slots, and
 * none allocates but the one that begins to grow (one mmap).
 *
 * Hashes must be keyed (hash.h): who can choose them can make clusters.  Two
 * entries may have the same hash; the caller compares what they stand for.
 *
 * Ownership: the caller's, between init and fini.  One thread.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_LIVE_TABLE_H
#define COUNTD_WRITER_LIVE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "writer/live/arena.h"

#define TABLE_STEP 24         /* slots moved by one operation, at most */
#define TABLE_GONE UINT32_MAX /* number of a slot of `old` that was removed */

struct table_slot {
    uint32_t hash;
    uint32_t number; /* 0: free */
};

struct table_part {
    struct table_slot *slots;
    size_t count; /* slots, without those after the last home */
    size_t all;   /* slots; the last one is always free */
    size_t bytes; /* bytes of the mapping */
    size_t moved; /* slots before it have nothing any more: of `old` */
};

struct table {
    struct budget *budget; /* borrowed */
    uint64_t taken;        /* bytes of the budget */
    struct table_part now; /* the only one, or the one that is filled */
    struct table_part old; /* being moved; no slots: not growing */
    size_t given;          /* bytes of `old` given back */
    size_t least;          /* slots at start: does not shrink below */
    size_t entries;
    uint64_t grown; /* times; shrunk too */
};

/* `slots` is the size to begin with; memory is taken when it is touched, but
 * the budget has all of it at once.  -ENOMEM. */
int table_init(struct table *t, struct budget *budget, size_t slots);
void table_fini(struct table *t);

/* Where a hash belongs. */
static inline size_t
table_home(const struct table_part *part, uint32_t hash)
{
    return (size_t)((uint64_t)hash * part->count >> 32);
}

/* Whether an entry with this hash was, or would be, moved already. */
static inline bool
table_is_moved(const struct table *t, uint32_t hash)
{
    return t->old.slots == NULL || table_home(&t->old, hash) < t->old.moved;
}

/* Where a search for a hash begins: slots before it cannot have it. */
static inline const struct table_slot *
table_start(const struct table_part *part, uint32_t hash)
{
    const size_t home = table_home(part, hash);

    return part->slots + (home < part->moved ? part->moved : home);
}

/* Walks the entries with a hash: table_find() is the first number, or 0, and
 * table_more() the next one. */
struct table_at {
    const struct table_slot *slot;
    bool in_old; /* or there is no old array */
};

static inline uint32_t
table_more(const struct table *t, struct table_at *at, uint32_t hash)
{
    for (;;) {
        const struct table_slot slot = *at->slot;

        if (slot.number == 0 || slot.hash > hash) {
            if (at->in_old)
                return 0;
            /* An entry from before `moved` may be after it. */
            at->in_old = true;
            at->slot = table_start(&t->old, hash);
            continue;
        }
        at->slot++;
        if (slot.hash == hash && slot.number != TABLE_GONE)
            return slot.number;
    }
}

static inline uint32_t
table_find(const struct table *t, uint32_t hash, struct table_at *at)
{
    const bool moved = table_is_moved(t, hash);

    at->in_old = !moved || t->old.slots == NULL;
    at->slot = table_start(moved ? &t->now : &t->old, hash);
    return table_more(t, at, hash);
}

/* Fetches the cache lines where table_find() will look first: what is not at
 * home often is on the next one. */
static inline void
table_prefetch(const struct table *t, uint32_t hash)
{
    const struct table_slot *slot =
        table_start(table_is_moved(t, hash) ? &t->now : &t->old, hash);

    __builtin_prefetch(slot);
    __builtin_prefetch(slot + 8);
}

/* -ENOMEM: over the budget; nothing has changed. */
int table_insert(struct table *t, uint32_t hash, uint32_t number);
/* The entry must be there. */
void table_remove(struct table *t, uint32_t hash, uint32_t number);

/* How many of a thousand entries are not at their home slot; from a sample. */
uint32_t table_displaced(const struct table *t);

#endif
