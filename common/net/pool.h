/* common/net/pool.h - bounded memory for bytes that have to wait.
 *
 * A pool is a fixed number of chunks.  A chain is a queue of bytes in chunks of
 * one pool: a beginning of a request, or answers that a peer has not taken.
 *
 * Ownership: the caller owns both; a chain is empty when all zero.  Nothing
 * allocates after pool_init(), and memory never touched costs nothing.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_NET_POOL_H
#define COUNTD_COMMON_NET_POOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define POOL_CHUNK_SIZE 1024u

struct pool {
    uint8_t *bytes;
    uint32_t *next;   /* of each chunk: in its chain, or in the free list */
    uint32_t free;    /* first chunk that was used and is free again */
    uint32_t touched; /* chunks from here on were never used */
    uint32_t free_count;
    uint32_t count;
};

struct chain {
    uint32_t first, last; /* chunks; meaningful when size > 0 */
    uint32_t size;        /* bytes in the chain */
    uint16_t at;          /* bytes of `first` that are gone */
};

/*   -ENOMEM */
int pool_init(struct pool *p, size_t size);
void pool_fini(struct pool *p);

/* Chunks that `size` bytes take at most. */
static inline uint32_t
pool_chunks(size_t size)
{
    return (uint32_t)((size + POOL_CHUNK_SIZE - 1) / POOL_CHUNK_SIZE);
}

/* Chunks that a chain has. */
static inline uint32_t
chain_chunks(const struct chain *c)
{
    return c->size == 0 ? 0 : pool_chunks((size_t)c->at + c->size);
}

/* More chunks that a chain needs for `size` bytes behind its end. */
static inline uint32_t
chain_lacks(const struct chain *c, size_t size)
{
    if (c->size == 0)
        return pool_chunks(size);
    return pool_chunks((size_t)c->at + c->size + size) - chain_chunks(c);
}

/* Appends; the caller has seen to it that the chunks are there. */
void chain_push(struct pool *p, struct chain *c, const void *bytes,
                size_t size);

/* The first bytes of the chain, `size` of them at most, in at most `max`
 * pieces; returns how many pieces. */
size_t chain_pieces(const struct pool *p, const struct chain *c, size_t size,
                    struct iovec *pieces, size_t max);

/* Copies what is in the chain; returns how much that is. */
size_t chain_copy(const struct pool *p, const struct chain *c, uint8_t *to);

/* A place in a chain, for chain_write_at().  With only `chain`: its beginning. */
struct chain_cursor {
    const struct chain *chain;
    uint32_t chunk;
    size_t end; /* bytes of the chain up to the end of that chunk; 0: not set */
};

/* Overwrites `size` bytes from the `at`th on, all of which are in the cursor's
 * chain.  In it nothing has been dropped since, and `at` is not before the last
 * call's: a series of calls walks the chain once. */
void chain_write_at(const struct pool *p, struct chain_cursor *cursor,
                    size_t at, const void *bytes, size_t size);

/* Drops the first `size` bytes; their chunks are free again. */
void chain_drop(struct pool *p, struct chain *c, size_t size);

#endif
