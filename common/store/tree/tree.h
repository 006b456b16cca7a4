/* common/store/tree/tree.h - an ordered set of rows with order statistics, kept
 * as values of a kv (common/store/kv.h).
 *
 * A B-epsilon tree whose buffers sit at the leaf groups:
 *
 *     root -> nodes: (separator, child, rows up to and including it) ...
 *               |                                  (common/store/tree/node.h)
 *             group: header | base blocks, packed full | buffer of edits
 *                                                  (common/store/tree/group.h)
 *
 * An edit costs the rewrite of a small buffer; when the buffer has grown to a
 * share of the base, it is folded in.  Small groups are folded at once and have
 * no buffer.
 *
 * A value's key is that of its block header, big-endian: id << 16 | part; part
 * 0 is a group's header or a node, 1 ... the base blocks, GROUP_BUFFER_PART ...
 * the buffer.
 *
 * Damage: whatever a read or a change uses has the right checksum, place,
 * generation and number of rows, else -EBADMSG.  A change checks every value
 * that it rewrites itself, in the copy that it rewrites; a read may rely on a
 * check that a cache remembers.
 *
 * Ownership: struct tree is the caller's and lives within one transaction.
 * A change that fails leaves the values half changed: the caller drops the
 * transaction.
 *
 * Errors: 0 or a negative errno, the kv's and:
 *   -EBADMSG  damage
 *   -E2BIG    more than pages_max: start again with less
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_TREE_TREE_H
#define COUNTD_COMMON_STORE_TREE_TREE_H

#include "common/store/kv.h"
#include "common/store/store_query.h"
#include "common/store/tree/block.h"
#include "common/store/tree/group.h"

#define TREE_LEVELS 12
#define TREE_CACHE  8192

/* Where values were found and that they were good, direct-mapped.  A value of
 * the same snapshot need not be looked up again; one at the same address with
 * the same checksum need not be checked again. */
struct tree_slot {
    uint64_t snapshot;
    uint64_t key;
    const uint8_t *bytes;
    uint32_t crc;
    uint8_t order;
    uint8_t type;
};

struct tree_cache {
    struct tree_slot slots[TREE_CACHE];
};

/* Forgets all, so that every value is looked up and checked again: done now and
 * then, so that damage to a value in use is seen.  Memory never used is not
 * touched. */
static inline void
tree_cache_forget(struct tree_cache *cache)
{
    for (size_t i = 0; i < TREE_CACHE; i++)
        if (cache->slots[i].bytes != NULL)
            cache->slots[i] = (struct tree_slot){.bytes = NULL};
}

/* The state of a tree that its owner stores. */
struct tree_root {
    uint64_t id; /* 0: empty */
    uint64_t next_id;
    uint64_t count;
    uint16_t level;
};

struct tree_work;

struct tree {
    struct kv kv;
    enum block_order kind;
    struct tree_root root;
    /* for reads only */
    struct tree_cache *cache; /* NULL: none */
    uint64_t snapshot; /* its number, of all that use the cache; 0: none */
    /* for changes only */
    struct tree_work *work;
    uint32_t generation;
    uint64_t pages;      /* written so far in this transaction, about */
    size_t small;        /* bytes of the next one */
    uint64_t pages_fold; /* beyond: fold only what must be */
    uint64_t pages_max;  /* beyond: -E2BIG */
};

/* Where lookups in rising order left off, so that neighbours are cheap.
 * Starts with `valid` false; good while the tree is not changed. */
struct tree_finder {
    bool valid;
    bool has_upper;
    struct group group;
    struct buffer buffer;
    struct block base;
    unsigned base_index; /* 1 + index of `base`, 0: none */
    uint64_t before;     /* rows before the group */
    struct row upper;
};

/* ---- reading (find.c, scan.c) ---- */

/* Looks up a row: in the keys order by its key, in the rank order by both.
 * -ENOENT when it is not there. */
int tree_find(struct tree *t, const struct row *r, struct tree_finder *f,
              struct row *out);

/* The number of rows before `r`, which is there (else -ENOENT). */
int tree_rank(struct tree *t, const struct row *r, uint64_t *rank);

/* Copies rows from `offset` on in wire form, flags cleared; stops at *rows of
 * them, which it sets to how many it copied, or before the one that does not
 * fit.  Rank order only: its rows have no flags.  Returns bytes or an error. */
int64_t tree_range(struct tree *t, uint64_t offset, uint8_t *bytes, size_t size,
                   uint64_t *rows);

/* Copies the rows of a STORE_KEYS query to q->bytes, in wire form, flags
 * cleared; stops before the one that does not fit into `size` bytes.  Finds the
 * first one by search.  Keys order only.  Returns bytes or an error. */
int64_t tree_keys(struct tree *t, struct store_query *q, size_t size);

/* ---- changing (tree_apply.c) ---- */

struct tree_work *tree_work_new(void);
void tree_work_free(struct tree_work *w);

/* Applies edits, sorted by the order and each of another row (keys order: key;
 * rank order: count and key).  The sign is in row.flags: BLOCK_INSERT for a
 * row that is not there, BLOCK_UPDATE for one that is and gets another count
 * or flag, BLOCK_DELETE for one that is.  Signs that prove wrong are damage:
 * -EBADMSG (they may also be found out later, when a buffer is folded). */
int tree_apply(struct tree *t, const struct row *edits, size_t count);

/* ---- checking (tree_check.c) ---- */

struct tree_check {
    void (*fault)(void *ctx, const char *text); /* NULL: they are counted */
    /* Gets every row, in order. */
    void (*row)(void *ctx, const struct row *r);
    void *ctx;
    uint64_t values; /* how many the kv has */
    uint64_t blocks; /* values checked */
    uint64_t rows;
    uint64_t faults;
};

/* Reads all of it past the cache and reports each fault. */
void tree_check(const struct tree *t, struct tree_check *c);

#endif
