/* common/store/tree/level.h - the directory during a change: a level of open
 * nodes above the groups.
 *
 * Each level has one node open: the old node, as far as it has been passed, and
 * the list of entries that take its place.  Level 1's entries are groups.  When
 * a level's old node is passed, the rest of its entries is copied, the list is
 * written as one or more nodes, and these are appended to the list of the level
 * above.  At the end all levels are closed; a list of one entry at the top is
 * the new root.
 *
 *     level 2   [old: . . . . . . .]  -> list       (root)
 *                        |
 *     level 1   [old: . . . . .]      -> list
 *                        |
 *     groups    buffer or stage
 *
 * A node that came out too small takes in its right neighbour.
 *
 * Where a node's rows begin its parent knows: when what lay before a node goes,
 * the parent's separator for it falls, but not the node's own first one.
 *
 * Errors: 0 or a negative errno, as common/store/tree/tree.h has them.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_TREE_LEVEL_H
#define COUNTD_COMMON_STORE_TREE_LEVEL_H

#include "common/store/tree/node.h"
#include "common/store/tree/tree.h"

#define LIST_FULL  (2 * NODE_CAPACITY - NODE_ENTRY - BLOCK_ROW_MAX)
#define LIST_MAX   (2 * NODE_CAPACITY / (NODE_ENTRY + BLOCK_ROW_HEAD) + 2)
#define LIST_BYTES (2 * NODE_CAPACITY + BLOCK_ROW_MAX)

/* Entries of a node to be: filled at the end, written from the front. */
struct level_entries {
    unsigned count;
    size_t used;  /* bytes the entries take in a node */
    size_t bytes; /* bytes of separators */
    struct {
        uint64_t child;
        uint64_t rows;
        size_t at; /* of the separator */
        size_t size;
    } entries[LIST_MAX];
    uint8_t separators[LIST_BYTES];
};

struct level {
    bool open;
    bool fresh; /* no entry has been added: the first begins at `lower` */
    bool has_upper;
    struct node old;      /* its bytes are `copy` */
    unsigned at;          /* next entry of `old` */
    const uint8_t *lower; /* where the old node's rows begin; lies above */
    struct row upper;     /* and where they end */
    uint8_t copy[BLOCK_SIZE];
    struct level_entries list;
};

struct levels {
    struct tree *tree;
    unsigned top;                   /* highest open level */
    unsigned low;                   /* lowest open level */
    uint8_t lowest[BLOCK_ROW_HEAD]; /* separator, where all rows begin */
    struct level levels[TREE_LEVELS + 1];
};

/* A group that a level 1 entry names. */
struct level_group {
    uint64_t id;
    uint64_t rows;
    const uint8_t *separator;
    bool has_upper;
    struct row upper; /* end of its rows */
};

/* Opens the top level: the root node, or an entry made up for a root that is
 * a group. */
int levels_start(struct levels *d, struct tree *t);

/* Brings level 1 to the entry whose group would hold `r`. */
int levels_seek(struct levels *d, const struct row *r);

/* Takes the entry at hand of level 1, whose node is not passed yet; whether
 * there is one. */
bool levels_take(struct levels *d, struct level_group *out);

/* Adds a child to the new entries of a level; to those of level 1 a group.  The
 * separator is copied. */
int level_append(struct levels *d, unsigned level, uint64_t child,
                 uint64_t rows, const uint8_t *separator);

/* Closes all levels; what is left at the top is the tree's root. */
int levels_finish(struct levels *d);

#endif
