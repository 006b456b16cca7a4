/* reader/pool.h - bounded memory for bytes that have to wait.
 *
 * A pool is a fixed number of chunks.  A chain is a queue of bytes in chunks
 * of one pool: what a slow peer has not taken yet, or requests it sent ahead.
 *
 * Ownership: the caller owns both; a chain is empty when all zero.  Nothing
 * allocates after rpool_init, and memory never touched costs nothing.
 */
#ifndef COUNTD_READER_POOL_H
#define COUNTD_READER_POOL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define POOL_CHUNK_SIZE ((size_t)16384)

struct rpool {
    uint8_t *bytes;
    uint32_t *next; /* of each chunk: in its chain, or in the free list */
    uint32_t free;  /* first free chunk */
    size_t free_count;
    size_t count;
};

struct rchain {
    uint32_t first, last; /* chunks; meaningful when size > 0 */
    size_t at;            /* bytes of `first` that are gone */
    size_t size;          /* bytes in the chain */
};

/*   -ENOMEM */
int rpool_init(struct rpool *p, size_t chunks);
void rpool_fini(struct rpool *p);

/* Chunks that `size` bytes take. */
size_t rpool_chunks(size_t size);

/* Appends; the caller has seen to it that the chunks are there. */
void rchain_push(struct rpool *p, struct rchain *c, const void *bytes,
                size_t size);

/* The first bytes of the chain, in at most `max` pieces; returns how many. */
size_t rchain_pieces(const struct rpool *p, const struct rchain *c,
                    struct iovec *pieces, size_t max);

/* Drops the first `size` bytes; their chunks are free again. */
void rchain_drop(struct rpool *p, struct rchain *c, size_t size);

#endif
