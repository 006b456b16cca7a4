/* common/store/tree/tree.h - an ordered set of rows with order statistics,
 * kept in one LMDB database.  Internal to the keyspace engine
 * (common/store/lmdb/keyspace.h).
 *
 * A B-epsilon tree whose buffers sit at the leaf groups:
 *
 *     root -> nodes: (separator, child, rows up to and including it) ...
 *               |
 *             group: header | base blocks, packed full | buffer of edits
 *
 * A group is a run of neighbouring base blocks that is rewritten as a whole,
 * plus a buffer of sorted pending edits against them: an insert (+1 row), a
 * delete of a base row (-1) or an update of a base row's count (keys order
 * only).  An edit costs the rewrite of a small buffer; when the buffer has
 * grown to a share of the base, it is folded in.  Small groups are folded at
 * once and have no buffer.  Group header, behind the block header whose
 * `count` is the number of base blocks and `more` that of buffer blocks:
 *
 *     24     4  generation of the base blocks
 *     28     4  generation of the buffer blocks
 *     32     2  entries in the buffer     34  2  zero
 *     36     8  per base block: rows u16 | first buffer entry that belongs to
 *               it u16 | rows the buffer adds, int16 | separator at u16
 *            separators: rows, keys cut short
 *
 * A node, `count` children, `more` its level (groups are level 0):
 *
 *     24    16  per child: rows of it and those before it u64 |
 *               id << 16 | separator at, u64
 *            separators
 *
 * A child holds the rows from its separator up to the next one's; the first
 * child's separator is not above any row the node can get.  A value's LMDB key
 * is the block header's, big-endian: id << 16 | part; part 0 is the header or
 * node, 1 ... the base blocks, TREE_BUFFER_PART ... the buffer.
 *
 * Ownership: struct tree is the caller's and lives within one transaction.
 * Errors: 0 or a negative errno.
 *   -EBADMSG  damage
 *   -EXFULL   the map is too small: grow it and start again
 *   -E2BIG    too much for one transaction: start again with less
 */
#ifndef COUNTD_TREE_H
#define COUNTD_TREE_H

#include "common/store/tree/block.h"
#include "common/store/tree/pager.h"

#define TREE_GROUP_TARGET 16 /* base blocks a full group is cut to */
#define TREE_GROUP_MAX    24
#define TREE_GROUP_MIN    4 /* below: joined to the next, no buffer */
#define TREE_BUFFER_MAX   4 /* blocks */
#define TREE_BUFFER_PART  0x4000u
#define TREE_GROUP_HEAD   36
#define TREE_GROUP_SIZE   2000 /* stays inside an LMDB leaf page */
#define TREE_LEVELS       12
#define TREE_CACHE        8192

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

/* What the keyspace's state record keeps of an order. */
struct tree_root {
    uint64_t id; /* 0: empty */
    uint64_t next_id;
    uint64_t count;
    uint16_t level;
};

struct tree_work;

struct tree {
    struct pager pager;
    enum block_order kind;
    struct tree_root root;
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

/* A group's header, taken apart. */
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
    struct block blocks[TREE_BUFFER_MAX];
    unsigned count;
    unsigned entries;
};

/* Where lookups in rising order left off, so that neighbours are cheap.
 * Start with TREE_FINDER_NONE; valid while the order is not changed. */
struct tree_finder {
    bool valid;
    bool has_upper;
    bool has_buffer;
    struct group group;
    struct buffer buffer;
    struct block base;
    unsigned base_index; /* 1 + index of `base`, 0: none */
    uint64_t before;     /* rows before the group */
    struct row upper;
};

/* ---- reading (find.c) ---- */

/* Looks up a row: in the keys order by its key, in the rank order by both.
 * -ENOENT when it is not there. */
int tree_find(struct tree *t, const struct row *r, struct tree_finder *f,
              struct row *out);

/* The number of rows before `r`, which is there (else -ENOENT). */
int tree_rank(struct tree *t, const struct row *r, uint64_t *rank);

/* Copies rows from `offset` on in wire form, flags cleared; stops at `length`
 * rows or before the one that does not fit.  Returns bytes or an error. */
int64_t tree_range(struct tree *t, uint64_t offset, uint64_t length,
                   uint8_t *bytes, size_t size, uint64_t *rows);

/* Calls `row` for each row after `after` (NULL: from the first); stops when
 * it returns non-zero and returns that. */
int tree_scan(struct tree *t, const struct row *after,
              int (*row)(void *ctx, const struct row *r), void *ctx);

/* The same for one group, from base block `block` on. */
int tree_scan_group(struct tree *t, const struct group *g,
                    const struct buffer *buffer, unsigned block,
                    const struct row *after,
                    int (*row)(void *ctx, const struct row *r), void *ctx);

/* ---- changing (sweep.c) ---- */

struct tree_work *tree_work_new(void);
void tree_work_free(struct tree_work *w);

/* Applies edits, sorted by the order and each of another row (keys order: key;
 * rank order: count and key).  The sign is in row.flags: BLOCK_INSERT for a
 * row that is not there, BLOCK_UPDATE for one that is and gets another count
 * or flag, BLOCK_DELETE for one that is.  Signs that prove wrong are damage:
 * -EBADMSG (they may also be found out later, when a buffer is folded). */
int tree_apply(struct tree *t, const struct row *edits, size_t count);

/* ---- checking (check.c) ---- */

struct tree_check {
    void (*fault)(void *ctx, const char *text);
    /* Gets every row, in order. */
    void (*row)(void *ctx, const struct row *r);
    void *ctx;
    uint64_t values; /* how many the pager has */
    uint64_t blocks; /* values checked */
    uint64_t rows;
    uint64_t faults;
};

/* Reads all of it and reports each fault; an error only when it cannot go
 * on. */
int tree_check(struct tree *t, struct tree_check *c);

/* ---- nodes (node.c), for the files above ---- */

/* A checked directory node. */
struct node {
    const uint8_t *bytes;
    uint16_t count;
    uint16_t level;
};

static inline uint64_t
tree_key(uint64_t id, unsigned part)
{
    return id << 16 | part;
}

/* One base or buffer block. */
int tree_block(struct tree *t, enum block_type type, uint64_t key,
               uint32_t generation, struct block *out);

/* A group's header; `rows` is what its parent says it holds. */
int tree_group(struct tree *t, uint64_t id, uint64_t rows, struct group *out);
int tree_buffer(struct tree *t, const struct group *g, struct buffer *out);
int tree_node(struct tree *t, uint64_t id, unsigned level, struct node *out);

/* Stores a sealed value; removes one. */
int tree_put(struct tree *t, uint64_t key, const uint8_t *bytes, size_t size);
int tree_remove(struct tree *t, uint64_t key);

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
    return g->bytes + TREE_GROUP_HEAD + 8 * (size_t)i;
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

static inline struct row
group_separator(const struct group *g, unsigned i)
{
    return row_get(g->bytes + get_le16(group_entry(g, i) + 6));
}

/* The base block that would hold `r`. */
unsigned group_block_of(const struct group *g, enum block_order order,
                        const struct row *r);

/* Rows of the children before i. */
static inline uint64_t
node_before(const struct node *n, unsigned i)
{
    return i == 0 ? 0 : get_le64(n->bytes + BLOCK_HEAD + 16 * ((size_t)i - 1));
}

static inline uint64_t
node_rows(const struct node *n, unsigned i)
{
    return node_before(n, i + 1) - node_before(n, i);
}

static inline uint64_t
node_child(const struct node *n, unsigned i)
{
    return get_le64(n->bytes + BLOCK_HEAD + 16 * (size_t)i + 8) >> 16;
}

static inline const uint8_t *
node_separator_at(const struct node *n, unsigned i)
{
    return n->bytes + get_le16(n->bytes + BLOCK_HEAD + 16 * (size_t)i + 8);
}

static inline struct row
node_separator(const struct node *n, unsigned i)
{
    return row_get(node_separator_at(n, i));
}

/* The child that would hold `r`. */
unsigned node_find(const struct node *n, enum block_order order,
                   const struct row *r);

#endif
