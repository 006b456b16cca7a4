/* common/base/table.h - an index from 32-bit hashes to 32-bit numbers that
 * grows a little with every insertion.
 *
 * Open addressing, kept in the order of the hashes (ordered linear probing),
 * so growing is a merge that can stop anywhere: hashes below `moved_below` are
 * in the new array, the others still in the old one.  No operation moves more
 * than TABLE_STEP entries to the new array, none allocates but the one that
 * begins to grow (one mmap), and what was moved goes back to the kernel piece
 * by piece.  It shrinks in the same way, though not below the size it began
 * with.
 *
 * Hashes must be keyed (hash.h): who can choose them can make clusters.  Two
 * entries may have the same hash; the caller compares what they stand for.
 *
 * Ownership: the caller's, between init and fini.  One thread.
 */
#ifndef COUNTD_COMMON_BASE_TABLE_H
#define COUNTD_COMMON_BASE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/arena.h"

#define TABLE_STEP 16 /* entries moved by one operation, at most */
#define TABLE_SAME 16 /* entries with one hash, at most */

struct table_slot {
    uint32_t hash;
    uint32_t number; /* 0: free */
};

struct table_part {
    struct table_slot *slots;
    size_t count; /* of slots, without those behind the last home */
    size_t all;   /* of slots; the last one is always free */
    size_t bytes; /* of the mapping */
};

struct table {
    struct budget *budget; /* borrowed */
    uint64_t taken;        /* bytes of the budget */
    struct table_part now; /* the only one, or the one that is filled */
    struct table_part old; /* being moved; no slots: not growing */
    uint64_t moved_below;  /* hashes below are in `now` */
    size_t moved_at;       /* slots of `old` before it are done with */
    size_t given;          /* bytes of `old` given back */
    size_t least;          /* slots at start: does not shrink below */
    size_t entries;
    uint64_t grown;    /* times; shrunk too */
    uint32_t step_max; /* entries that one operation moved, at most */
};

/* `slots` is the size to begin with; memory is taken when it is touched, but
 * the budget has all of it at once.  -ENOMEM. */
int table_init(struct table *t, struct budget *budget, size_t slots);
void table_fini(struct table *t);

/* Where a hash belongs.  The order of places is that of hashes. */
static inline size_t
table_home(const struct table_part *part, uint32_t hash)
{
    return (size_t)((uint64_t)hash * part->count >> 32);
}

static inline const struct table_part *
table_part(const struct table *t, uint32_t hash)
{
    return hash < t->moved_below ? &t->now : &t->old;
}

/* Walks the entries with a hash: table_find() is the first number, or 0, and
 * table_more() the next one. */
struct table_at {
    const struct table_slot *slot;
};

static inline uint32_t
table_find(const struct table *t, uint32_t hash, struct table_at *at)
{
    const struct table_part *part = table_part(t, hash);
    const struct table_slot *slot = part->slots + table_home(part, hash);

    while (slot->number != 0 && slot->hash < hash)
        slot++;
    at->slot = slot;
    return slot->hash == hash ? slot->number : 0;
}

static inline uint32_t
table_more(struct table_at *at, uint32_t hash)
{
    const struct table_slot *slot = ++at->slot;

    return slot->hash == hash ? slot->number : 0;
}

/* Fetches the cache lines where table_find() will look: what is not at home
 * often is on the next one. */
static inline void
table_prefetch(const struct table *t, uint32_t hash)
{
    const struct table_part *part = table_part(t, hash);
    const struct table_slot *slot = part->slots + table_home(part, hash);

    __builtin_prefetch(slot);
    __builtin_prefetch(slot + 8);
}

/* -ENOMEM: over the budget, or TABLE_SAME entries have this hash already;
 * nothing has changed. */
int table_insert(struct table *t, uint32_t hash, uint32_t number);
/* The entry must be there. */
void table_remove(struct table *t, uint32_t hash, uint32_t number);

/* How many of a thousand entries are not at their home slot; from a sample. */
uint32_t table_displaced(const struct table *t);

#endif
