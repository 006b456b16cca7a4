/* common/table.h - an index from 32-bit hashes to 32-bit numbers that grows a
 * little with every insertion.
 *
 * Open addressing, kept in the order of the hashes (ordered linear probing),
 * so growing is a merge that can stop anywhere: hashes below `moved_below` are
 * in the new array, the others still in the old one.  No operation moves more
 * than TABLE_STEP entries to the new array, none allocates but the one that
 * begins to grow (one mmap), and what was moved goes back to the kernel piece
 * by piece.
 *
 * Hashes must be keyed (hash.h): who can choose them can make clusters.  Two
 * entries may have the same hash; the caller compares what they stand for.
 *
 * Ownership: the caller's, between init and fini.  One thread.
 */
#ifndef COUNTD_TABLE_H
#define COUNTD_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arena.h"

#define TABLE_STEP 16 /* entries moved by one operation, at most */

struct table_slot {
    uint32_t hash;
    uint32_t number; /* 0: free */
};

struct table_part {
    struct table_slot *slots;
    size_t count; /* of slots, without those behind the last home */
    size_t bytes; /* of the mapping */
};

struct table {
    struct budget *budget; /* borrowed */
    struct table_part now; /* the only one, or the one that is filled */
    struct table_part old; /* being moved; no slots: not growing */
    uint64_t moved_below;  /* hashes below are in `now` */
    size_t entries;
    uint64_t grown;    /* times */
    uint32_t step_max; /* entries that one operation moved, at most */
    /* ... */
};

/* `slots` is the size to begin with; memory is taken when it is touched. */
int table_init(struct table *t, struct budget *budget, size_t slots);
void table_fini(struct table *t);

/* Walks the entries with a hash: table_find() is the first number, or 0, and
 * table_more() the next one. */
struct table_at {
    const struct table_slot *slot;
};
static inline uint32_t table_find(const struct table *t, uint32_t hash,
                                  struct table_at *at);
static inline uint32_t table_more(struct table_at *at, uint32_t hash);

/* Fetches the cache line where table_find() will look. */
static inline void table_prefetch(const struct table *t, uint32_t hash);

/* -ENOMEM: over the budget, and nothing has changed. */
int table_insert(struct table *t, uint32_t hash, uint32_t number);
/* The entry must be there. */
void table_remove(struct table *t, uint32_t hash, uint32_t number);

/* Of each thousand entries, how many are not at their own place; from a
 * sample. */
uint32_t table_displaced(const struct table *t);

#endif
