/* common/store/tree/block.h - the block codec: rows, blocks of rows, checksums.
 * Pure.
 *
 * A row is what a reader gets on the wire (common/wire/query.h):
 *
 *     count int64 | size uint16 | key       10 + size bytes
 *
 * and both trees of a keyspace are made of rows; they differ by comparison
 * only: BLOCK_KEYS by key (memcmp, shorter first), BLOCK_RANKS by count
 * descending, then by key.  On disk the high bits of `size` carry flags; base
 * blocks of the rank order have none, so a range reply is a copy.
 *
 * Every value of a tree begins with one header and is at most BLOCK_SIZE bytes,
 * which with a page's own header of 16 fill a page.  Little-endian:
 *
 *   at    size  field
 *      0     4  crc32        of everything behind it
 *      4     1  type         enum block_type
 *      5     1  order        enum block_order
 *      6     2  count        rows or entries
 *      8     8  key          where it is stored: node id << 16 | part
 *     16     4  generation   of the change that wrote it
 *     20     2  size         of all of it
 *     22     2  more         by type: buffer blocks, directory level, else 0
 *     24        contents
 *
 * so a block that is stale, torn or in the wrong place never counts.
 * Contents of BLOCK_BASE and BLOCK_BUFFER: the rows, then uint16 offsets of
 * the rows from the block's start, one per row.
 *
 * Errors: 0 or -EBADMSG.  Nothing is kept, nothing allocates.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_TREE_BLOCK_H
#define COUNTD_COMMON_STORE_TREE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/bytes.h"

#define BLOCK_SIZE     4080
#define BLOCK_HEAD     24
#define BLOCK_ROW_HEAD 10
#define BLOCK_KEY_MAX  256
#define BLOCK_ROW_MAX  (BLOCK_ROW_HEAD + BLOCK_KEY_MAX)
#define BLOCK_ROWS_MAX ((BLOCK_SIZE - BLOCK_HEAD) / (BLOCK_ROW_HEAD + 1 + 2))

/* Flags in a row's size field. */
#define BLOCK_SATURATED 0x8000u
#define BLOCK_SIGN      0x6000u
#define BLOCK_INSERT    0x2000u /* a row the base does not have */
#define BLOCK_DELETE    0x4000u /* a row of the base that is gone */
#define BLOCK_UPDATE    0x6000u /* a row of the base with another count */
#define BLOCK_KEY_MASK  0x1fffu

enum block_type {
    BLOCK_BASE = 1,
    BLOCK_BUFFER = 2,
    BLOCK_GROUP = 3,
    BLOCK_NODE = 4,
};

enum block_order { BLOCK_KEYS = 1, BLOCK_RANKS = 2 };

/* A row taken apart; `key` points into what it came from. */
struct row {
    int64_t count;
    const uint8_t *key;
    uint16_t key_size;
    uint16_t flags;
};

struct block_id {
    uint8_t type;
    uint8_t order;
    uint16_t more;
    uint32_t generation;
    uint64_t key;
};

/* A block that has been checked; points into the caller's bytes. */
struct block {
    const uint8_t *bytes;
    const uint8_t *offsets;
    uint16_t count;
    uint16_t size;
};

/* A block being written; `bytes` are the caller's BLOCK_SIZE bytes. */
struct block_writer {
    uint8_t *bytes;
    uint16_t at;
    uint16_t count;
    uint16_t offsets[BLOCK_ROWS_MAX];
};

static inline size_t
row_size(const uint8_t *at)
{
    return BLOCK_ROW_HEAD + (size_t)(get_le16(at + 8) & BLOCK_KEY_MASK);
}

static inline struct row
row_get(const uint8_t *at)
{
    const uint16_t size = get_le16(at + 8);

    return (struct row){
        .count = get_le64s(at),
        .key = at + BLOCK_ROW_HEAD,
        .key_size = (uint16_t)(size & BLOCK_KEY_MASK),
        .flags = (uint16_t)(size & ~BLOCK_KEY_MASK),
    };
}

/* Writes a row and returns its size. */
static inline size_t
row_put(uint8_t *at, const struct row *r)
{
    put_le64s(at, r->count);
    put_le16(at + 8, (uint16_t)(r->key_size | r->flags));
    memcpy(at + BLOCK_ROW_HEAD, r->key, r->key_size);
    return (size_t)BLOCK_ROW_HEAD + r->key_size;
}

static inline int
row_compare_keys(const struct row *a, const struct row *b)
{
    return bytes_compare(a->key, a->key_size, b->key, b->key_size);
}

static inline int
row_compare(enum block_order order, const struct row *a, const struct row *b)
{
    if (order == BLOCK_RANKS && a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return row_compare_keys(a, b);
}

/* Of a header's `count` separators, each where the le16 at `at` + its index *
 * `step` says, the last one that is not above `r`, or the first. */
static inline unsigned
row_find_separator(const uint8_t *header, size_t at, size_t step,
                   unsigned count, enum block_order order, const struct row *r)
{
    unsigned low = 0, high = count;

    while (high - low > 1) {
        const unsigned middle = (low + high) / 2;
        const struct row s =
            row_get(header + get_le16(header + at + step * middle));

        if (row_compare(order, &s, r) <= 0)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* A row with an empty key, which is not above any other. */
static inline struct row
row_lowest(enum block_order order)
{
    return (struct row){
        .count = order == BLOCK_RANKS ? INT64_MAX : 0,
        .key = (const uint8_t *)"",
    };
}

/* Writes into `at` (BLOCK_ROW_MAX bytes) a row S with low < S <= high, as
 * short as can be, and returns its size.  low < high. */
size_t row_between(enum block_order order, const struct row *low,
                   const struct row *high, uint8_t *at);

/* Writes the header of `size` bytes whose contents are complete. */
void block_seal(uint8_t *bytes, size_t size, uint16_t count,
                const struct block_id *id);

/* Checks the header and the checksum of any type.  generation and more are
 * not compared. */
int block_verify(const uint8_t *bytes, size_t size, const struct block_id *id);

static inline uint32_t
block_generation(const uint8_t *bytes)
{
    return get_le32(bytes + 16);
}

static inline uint16_t
block_count(const uint8_t *bytes)
{
    return get_le16(bytes + 6);
}

static inline uint16_t
block_more(const uint8_t *bytes)
{
    return get_le16(bytes + 22);
}

/* Checks the rows of a block of verified bytes: that every row lies inside,
 * that flags suit type and order; not that rows are sorted. */
int block_check(const uint8_t *bytes, size_t size);

/* Takes apart bytes that block_check has passed. */
static inline struct block
block_open(const uint8_t *bytes)
{
    const uint16_t size = get_le16(bytes + 20);
    const uint16_t count = block_count(bytes);

    return (struct block){
        .bytes = bytes,
        .offsets = bytes + size - 2 * (size_t)count,
        .count = count,
        .size = size,
    };
}

/* Row i, or for i == count the end of the rows. */
static inline const uint8_t *
block_at(const struct block *b, unsigned i)
{
    return i < b->count ? b->bytes + get_le16(b->offsets + 2 * (size_t)i)
                        : b->offsets;
}

static inline struct row
block_row(const struct block *b, unsigned i)
{
    return row_get(b->bytes + get_le16(b->offsets + 2 * (size_t)i));
}

/* The first row at or after `from` that is not before `r`; *found when it is
 * equal to it. */
unsigned block_find(const struct block *b, enum block_order order,
                    const struct row *r, unsigned from, bool *found);

void block_writer_init(struct block_writer *w, uint8_t *bytes);

static inline bool
block_writer_fits(const struct block_writer *w, size_t row)
{
    return w->at + row + 2 * ((size_t)w->count + 1) <= BLOCK_SIZE;
}

/* Adds a row that fits. */
static inline void
block_writer_add(struct block_writer *w, const struct row *r)
{
    w->offsets[w->count++] = w->at;
    w->at = (uint16_t)(w->at + row_put(w->bytes + w->at, r));
}

/* Adds as many of the rows from `from` to `to` as fit, unchanged, and returns
 * how many. */
unsigned block_writer_copy(struct block_writer *w, const struct block *b,
                           unsigned from, unsigned to);

/* Writes the offsets.  Returns the block's size; block_seal is next. */
size_t block_writer_finish(struct block_writer *w);

#endif
