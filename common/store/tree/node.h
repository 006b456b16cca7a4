/* common/store/tree/node.h - nodes of a tree's directory.
 *
 * A node has `count` children, and the block header's `more` is its level
 * (groups are level 0).  Behind the block header:
 *
 *     24    16  per child: rows of it and those before it u64 |
 *               id << 16 | separator at, u64
 *            separators: rows, keys cut short
 *
 * A child holds the rows from its separator up to the next one's, the first
 * child those from where the node itself begins: that its parent says, and the
 * first separator is only what the parent once said.
 *
 * Errors: 0 or a negative errno, as common/store/tree/tree.h has them.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_TREE_NODE_H
#define COUNTD_COMMON_STORE_TREE_NODE_H

#include "common/store/tree/block.h"

#define NODE_CAPACITY (BLOCK_SIZE - BLOCK_HEAD)
#define NODE_ENTRY    16

struct tree;

/* A checked node. */
struct node {
    const uint8_t *bytes;
    uint16_t count;
    uint16_t level; /* the caller's, before node_get() */
};

/* Fetches a node of level out->level whose parent says that it holds `rows`.
 * `copy` is value_get()'s. */
int node_get(struct tree *t, uint64_t id, uint64_t rows, uint8_t *copy,
             struct node *out);

/* The structure of a node, checksum apart. */
int node_check(const uint8_t *bytes, size_t size);

/* Whether a separator lies inside a value, at or behind `first`. */
bool node_separator_inside(const uint8_t *bytes, size_t size, size_t at,
                           size_t first);

/* The child that would hold `r`. */
static inline unsigned
node_find(const struct node *n, enum block_order order, const struct row *r)
{
    return row_find_separator(n->bytes, BLOCK_HEAD + 8, NODE_ENTRY, n->count,
                              order, r);
}

/* The child with row `offset` of the node, which exists. */
unsigned node_find_offset(const struct node *n, uint64_t offset);

/* Rows of the children before i. */
static inline uint64_t
node_before(const struct node *n, unsigned i)
{
    return i == 0
               ? 0
               : get_le64(n->bytes + BLOCK_HEAD + NODE_ENTRY * ((size_t)i - 1));
}

static inline uint64_t
node_rows(const struct node *n, unsigned i)
{
    return node_before(n, i + 1) - node_before(n, i);
}

static inline uint64_t
node_child(const struct node *n, unsigned i)
{
    return get_le64(n->bytes + BLOCK_HEAD + NODE_ENTRY * (size_t)i + 8) >> 16;
}

static inline const uint8_t *
node_separator_at(const struct node *n, unsigned i)
{
    return n->bytes +
           get_le16(n->bytes + BLOCK_HEAD + NODE_ENTRY * (size_t)i + 8);
}

static inline struct row
node_separator(const struct node *n, unsigned i)
{
    return row_get(node_separator_at(n, i));
}

#endif
