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
 * node, 1 ... the base blocks, ORDER_BUFFER_PART ... the buffer.
 *
 * Ownership: struct order is the caller's and lives within one transaction.
 * Errors: 0 or a negative errno.
 *   -EBADMSG  damage
 *   -EXFULL   the map is too small: grow it and start again
 *   -E2BIG    too much for one transaction: start again with less
 */
#ifndef COUNTD_ORDER_H
#define COUNTD_ORDER_H

#include <lmdb.h>

#include "common/store/tree/block.h"

#define ORDER_GROUP_TARGET 16 /* base blocks a full group is cut to */
#define ORDER_GROUP_MAX    24
#define ORDER_GROUP_MIN    4 /* below: joined to the next, no buffer */
#define ORDER_BUFFER_MAX   4 /* blocks */
#define ORDER_BUFFER_PART  0x4000u
#define ORDER_GROUP_HEAD   36
#define ORDER_GROUP_SIZE   2000 /* stays inside an LMDB leaf page */
#define ORDER_LEVELS       12
#define ORDER_CACHE        8192

/* Where values were found and that they were good, direct-mapped.  A value of
 * the same snapshot need not be looked up again; one at the same address with
 * the same checksum need not be checked again. */
struct order_slot {
    uint64_t snapshot;
    uint64_t key;
    const uint8_t *bytes;
    uint32_t crc;
    uint8_t order;
    uint8_t type;
};

struct order_cache {
    struct order_slot slots[ORDER_CACHE];
};

/* What the keyspace's state record keeps of an order. */
struct order_root {
    uint64_t id; /* 0: empty */
    uint64_t next_id;
    uint64_t count;
    uint16_t level;
};

struct order_work;

struct order {
    MDB_txn *txn;
    MDB_cursor *cursor; /* of the order's database */
    enum block_order kind;
    struct order_root root;
    struct order_cache *cache; /* NULL: none */
    uint64_t snapshot; /* its number, of all that use the cache; 0: none */
    bool renew;        /* the cursor must be, before it is used */
    /* for changes only */
    struct order_work *work;
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
    struct block blocks[ORDER_BUFFER_MAX];
    unsigned count;
    unsigned entries;
};

/* Where lookups in rising order left off, so that neighbours are cheap.
 * Start with ORDER_FINDER_NONE; valid while the order is not changed. */
struct order_finder {
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
int order_find(struct order *o, const struct row *r, struct order_finder *f,
               struct row *out);

/* The number of rows before `r`, which is there (else -ENOENT). */
int order_rank(struct order *o, const struct row *r, uint64_t *rank);

/* Copies rows from `offset` on in wire form, flags cleared; stops at `length`
 * rows or before the one that does not fit.  Returns bytes or an error. */
int64_t order_range(struct order *o, uint64_t offset, uint64_t length,
                    uint8_t *bytes, size_t size, uint64_t *rows);

/* Calls `row` for each row after `after` (NULL: from the first); stops when
 * it returns non-zero and returns that. */
int order_scan(struct order *o, const struct row *after,
               int (*row)(void *ctx, const struct row *r), void *ctx);

/* The same for one group, from base block `block` on. */
int order_scan_group(struct order *o, const struct group *g,
                     const struct buffer *buffer, unsigned block,
                     const struct row *after,
                     int (*row)(void *ctx, const struct row *r), void *ctx);

/* ---- changing (sweep.c) ---- */

struct order_work *order_work_new(void);
void order_work_free(struct order_work *w);

/* Applies edits, sorted by the order and each of another row (keys order: key;
 * rank order: count and key).  The sign is in row.flags: BLOCK_INSERT for a
 * row that is not there, BLOCK_UPDATE for one that is and gets another count
 * or flag, BLOCK_DELETE for one that is.  Signs that prove wrong are damage:
 * -EBADMSG (they may also be found out later, when a buffer is folded). */
int order_apply(struct order *o, const struct row *edits, size_t count);

/* ---- checking (check.c) ---- */

struct order_check {
    void (*fault)(void *ctx, const char *text);
    /* Gets every row, in order. */
    void (*row)(void *ctx, const struct row *r);
    void *ctx;
    uint64_t blocks; /* values checked */
    uint64_t rows;
    uint64_t faults;
};

/* Reads all of it and reports each fault; an error only when it cannot go
 * on. */
int order_check(struct order *o, struct order_check *c);

/* ---- nodes (node.c), for the files above ---- */

/* A checked directory node. */
struct node {
    const uint8_t *bytes;
    uint16_t count;
    uint16_t level;
};

/* LMDB's code as ours. */
int order_error(int code);

static inline uint64_t
order_key(uint64_t id, unsigned part)
{
    return id << 16 | part;
}

/* One base or buffer block. */
int order_block(struct order *o, enum block_type type, uint64_t key,
                uint32_t generation, struct block *out);

/* A group's header; `rows` is what its parent says it holds. */
int order_group(struct order *o, uint64_t id, uint64_t rows, struct group *out);
int order_buffer(struct order *o, const struct group *g, struct buffer *out);
int order_node(struct order *o, uint64_t id, unsigned level, struct node *out);

/* Stores a sealed value; removes one. */
int order_put(struct order *o, uint64_t key, const uint8_t *bytes, size_t size);
int order_remove(struct order *o, uint64_t key);

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
    return g->bytes + ORDER_GROUP_HEAD + 8 * (size_t)i;
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
