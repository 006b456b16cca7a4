/* common/store/lmdb/pages_layout.h - LMDB 0.9's files, 64 bit, native byte
 * order.  Only for pages.c and pages_check.c; other files use pages.h.
 *
 *     page      number u64 | pad u16 | flags u16 | lower u16 | upper u16
 *               (overflow: pages u32), then u16 offsets of nodes up to lower;
 *               the nodes fill the page from upper to its end
 *     node      low u16 | high u16 | flags u16 | key size u16 | key | data, at
 *               an even offset
 *               branch: low, high, flags are the child's number; leaf: low,
 *               high the data's size, flags 1 data is the number u64 of the
 *               first of its overflow pages, 2 data is a database record
 *     database  pad u32 | flags u16 | depth u16 | branch, leaf, overflow
 *               pages, entries u64 | root u64
 *     meta      a page whose head is followed by magic u32, version u32,
 *               address u64, map size u64, the records of the free list and of
 *               the main database, last page u64, transaction u64.  The page
 *               size is the pad of the free list's record
 *     free list key: a transaction u64; value: a count u64, and that many page
 *               numbers, the largest first
 *     lock file two heads and the readers, each of one cache line
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_LMDB_PAGES_LAYOUT_H
#define COUNTD_COMMON_STORE_LMDB_PAGES_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/store/lmdb/pages.h"

#define PAGE_HEAD       16
#define PAGE_FLAGS_AT   10
#define PAGE_LOWER_AT   12
#define PAGE_UPPER_AT   14
#define PAGE_COUNT_AT   12
#define PAGE_BRANCH     0x01u
#define PAGE_LEAF       0x02u
#define PAGE_OVER       0x04u
#define PAGE_META       0x08u
#define NODE_HEAD       8
#define NODE_BIG        0x01u
#define NODE_SUB        0x02u
#define DB_FLAGS_AT     4
#define DB_DEPTH_AT     6
#define DB_ROOT_AT      40
#define DB_ROOT_NONE    UINT64_MAX
#define DEPTH_MAX       32
#define META_MAGIC      0xbeefc0deu
#define META_VERSION    1u
#define META_MAGIC_AT   16
#define META_VERSION_AT 20
#define META_MAP_AT     32
#define META_FREE_AT    40
#define META_MAIN_AT    88
#define META_LAST_AT    136
#define META_TXN_AT     144
#define META_SIZE       152
#define LOCK_LINE       64

static inline uint64_t
native64(const uint8_t *at)
{
    uint64_t v;

    memcpy(&v, at, sizeof v);
    return v;
}

static inline uint32_t
native32(const uint8_t *at)
{
    uint32_t v;

    memcpy(&v, at, sizeof v);
    return v;
}

static inline uint16_t
native16(const uint8_t *at)
{
    uint16_t v;

    memcpy(&v, at, sizeof v);
    return v;
}

/* Whether LMDB writes pages of this size. */
static inline bool
page_size_ok(uint64_t size)
{
    return size >= 4096 && size <= PAGES_SIZE_MAX && (size & (size - 1)) == 0;
}

/* The number of nodes of a branch or leaf page; 0 if its head is damaged. */
static inline unsigned
page_count(const uint8_t *page, size_t page_size, uint64_t number, bool leaf)
{
    const unsigned lower = native16(page + PAGE_LOWER_AT);
    const unsigned upper = native16(page + PAGE_UPPER_AT);

    /* Exactly these flags: LMDB stops the process at some others. */
    if (native64(page) != number ||
        native16(page + PAGE_FLAGS_AT) != (leaf ? PAGE_LEAF : PAGE_BRANCH) ||
        lower <= PAGE_HEAD || (lower & 1) != 0 || lower > upper ||
        upper > page_size)
        return 0;
    return (lower - PAGE_HEAD) / 2;
}

/* A node of a branch or leaf page. */
struct page_node {
    const uint8_t *key;
    size_t key_size;
    unsigned flags;      /* leaf */
    const uint8_t *data; /* leaf: the value, or with NODE_BIG its page */
    size_t size;         /* leaf: of the value, wherever it is */
    uint64_t child;      /* branch */
    size_t at;           /* first byte of the node in its page */
    size_t end;
};

/* Parses node i; false if it is not entirely inside the page. */
static inline bool
page_node(const uint8_t *page, size_t page_size, bool leaf, size_t i,
          struct page_node *out)
{
    const size_t offset = PAGE_HEAD + 2 * i;
    size_t at, end, inside;
    const uint8_t *node;

    if (offset + 2 > page_size)
        return false;
    at = native16(page + offset);
    if (at < offset + 2 || (at & 1) != 0 || at + NODE_HEAD > page_size)
        return false;
    node = page + at;
    out->key = node + NODE_HEAD;
    out->key_size = native16(node + 6);
    out->flags = native16(node + 4);
    out->data = node + NODE_HEAD + out->key_size;
    out->size = native16(node) | (size_t)native16(node + 2) << 16;
    out->child = out->size | (uint64_t)out->flags << 32;
    inside = (out->flags & NODE_BIG) != 0 ? 8 : out->size;
    end = at + NODE_HEAD + out->key_size + (leaf ? inside : 0);
    out->at = at;
    out->end = end + (end & 1);
    return out->end <= page_size;
}

#endif
