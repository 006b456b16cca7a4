/* common/store/lmdb/page.h - LMDB 0.9's pages, 64 bit, native byte
 * order. Internal: for those who read a file without LMDB.
 *
 *     page      number u64 | pad u16 | flags u16 | lower u16 | upper u16
 *               (overflow: pages u32), then u16 offsets of nodes up to lower
 *     node      low u16 | high u16 | flags u16 | key size u16 | key | data
 *               branch: low, high, flags are the child's number; leaf: low,
 *               high the data's size, flags 1 data is a page number of
 *               overflow pages, 2 data is a database record
 *     database  pad u32 | flags u16 | depth u16 | branch, leaf, overflow
 *               pages, entries u64 | root u64
 *     meta      see file.c; free list record at 40, main at 88
 */
#ifndef COUNTD_KEYSPACE_PAGE_H
#define COUNTD_KEYSPACE_PAGE_H

#include <stdint.h>
#include <string.h>

#define PAGE_HEAD   16
#define PAGE_BRANCH 0x01u
#define PAGE_LEAF   0x02u
#define PAGE_OVER   0x04u
#define NODE_HEAD   8
#define NODE_BIG    0x01u
#define NODE_SUB    0x02u
#define DB_SIZE     48
#define DB_ROOT_AT  40
#define DB_FLAGS_AT 4
#define DB_DEPTH_AT 6
#define DEPTH_MAX   32

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

/* The page below a node of a branch. */
static inline uint64_t
branch_child(const uint8_t *node)
{
    return native16(node) | (uint64_t)native16(node + 2) << 16 |
           (uint64_t)native16(node + 4) << 32;
}

#endif
