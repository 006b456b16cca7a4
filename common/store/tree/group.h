/* common/store/tree/group.h - groups of rows: a run of neighbouring base
 * blocks that is rewritten as a whole, and a buffer of edits against them.
 *
 * The header's block header has the number of base blocks as `count` and that
 * of buffer blocks as `more`.  Behind it:
 *
 *     24     4  generation of the base blocks
 *     28     4  generation of the buffer blocks
 *     32     2  entries in the buffer
 *     34     2  zero
 *     36     8  per base block: rows u16 | first buffer entry that belongs to
 *               it u16 | rows the buffer adds, int16 | separator at u16
 *            separators: rows, keys cut short
 *
 * The buffer's entries are sorted edits: an insert (+1 row), a delete of a base
 * row (-1) or an update of a base row's count (keys order only).
 *
 * Errors: 0 or a negative errno, as common/store/tree/tree.h has them.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_TREE_GROUP_H
#define COUNTD_COMMON_STORE_TREE_GROUP_H

#include "common/store/tree/block.h"

#define GROUP_TARGET      32 /* base blocks a full group is cut to */
#define GROUP_MAX         48
#define GROUP_MIN         4 /* below: joined to the next, no buffer */
#define GROUP_HEAD        36
#define GROUP_ENTRY       8
#define GROUP_SIZE        2000 /* of a header, at most */
#define GROUP_BUFFER_MAX  8    /* blocks */
#define GROUP_BUFFER_PART 0x4000u

struct tree;

/* A checked header, taken apart. */
struct group {
    uint64_t id;
    const uint8_t *bytes;
    uint64_t count; /* rows */
    uint16_t blocks;
    uint16_t buffers;
    uint16_t entries;
    uint32_t base_generation;
    uint32_t buffer_generation;
};

struct buffer {
    struct block blocks[GROUP_BUFFER_MAX];
    unsigned count;
    unsigned entries;
};

/* Fetches a group's header; `rows` is what its parent says it holds.  In these
 * three `copy` is value_get()'s. */
int group_get(struct tree *t, uint64_t id, uint64_t rows, uint8_t *copy,
              struct group *out);

/* Fetches its buffer; `copies` are one for each block, or NULL. */
int group_buffer(struct tree *t, const struct group *g,
                 uint8_t (*copies)[BLOCK_SIZE], struct buffer *out);

/* Fetches base block i. */
int group_base(struct tree *t, const struct group *g, unsigned i, uint8_t *copy,
               struct block *out);

/* The structure of a header, checksum apart. */
int group_check(const uint8_t *bytes, size_t size);

/* The base block that would hold `r`. */
static inline unsigned
group_block_of(const struct group *g, enum block_order order,
               const struct row *r)
{
    return row_find_separator(g->bytes, GROUP_HEAD + 6, GROUP_ENTRY, g->blocks,
                              order, r);
}

static inline struct row
buffer_row(const struct buffer *b, unsigned i)
{
    unsigned at = 0;

    while (i >= b->blocks[at].count)
        i -= b->blocks[at++].count;
    return block_row(&b->blocks[at], i);
}

static inline const uint8_t *
group_entry(const struct group *g, unsigned i)
{
    return g->bytes + GROUP_HEAD + GROUP_ENTRY * (size_t)i;
}

static inline unsigned
group_rows(const struct group *g, unsigned i)
{
    return get_le16(group_entry(g, i));
}

/* First buffer entry of base block i; for i == blocks their number. */
static inline unsigned
group_first(const struct group *g, unsigned i)
{
    return i < g->blocks ? get_le16(group_entry(g, i) + 2) : g->entries;
}

static inline int
group_net(const struct group *g, unsigned i)
{
    return (int16_t)get_le16(group_entry(g, i) + 4);
}

/* Rows of base block i with the buffer's edits. */
static inline unsigned
group_total(const struct group *g, unsigned i)
{
    return (unsigned)((int)group_rows(g, i) + group_net(g, i));
}

/* Rows of the base blocks before block i, with the buffer's edits. */
static inline uint64_t
group_before(const struct group *g, unsigned i)
{
    uint64_t rows = 0;

    while (i-- > 0)
        rows += group_total(g, i);
    return rows;
}

static inline struct row
group_separator(const struct group *g, unsigned i)
{
    return row_get(g->bytes + get_le16(group_entry(g, i) + 6));
}

#endif
