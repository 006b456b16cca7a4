/* reader/pool.h - bounded memory for bytes that have to wait.
 *
 * A pool is a fixed number of chunks.  A chain is a queue of bytes in chunks
 * of one pool: what a slow peer has not taken yet, or requests it sent ahead.
 *
 * Ownership: the caller owns both; a chain is empty when all zero.  Nothing
 * allocates after pool_init, and memory never touched costs nothing.
 */
#ifndef COUNTD_READER_POOL_H
#define COUNTD_READER_POOL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define POOL_CHUNK_SIZE ((size_t)16384)

struct pool {
    uint8_t *bytes;
    uint32_t *next; /* of each chunk: in its chain, or in the free list */
    uint32_t free;  /* first free chunk */
    size_t free_count;
    size_t count;
};

struct chain {
    uint32_t first, last; /* chunks; meaningful when size > 0 */
    size_t at;            /* bytes of `first` that are gone */
    size_t size;          /* bytes in the chain */
};

/*   -ENOMEM */
int pool_init(struct pool *p, size_t chunks);
void pool_fini(struct pool *p);

/* Chunks that `size` bytes take. */
size_t pool_chunks(size_t size);

/* Appends; the caller has seen to it that the chunks are there. */
void chain_push(struct pool *p, struct chain *c, const void *bytes,
                size_t size);

/* The first bytes of the chain, in at most `max` pieces; returns how many. */
size_t chain_pieces(const struct pool *p, const struct chain *c,
                    struct iovec *pieces, size_t max);

/* Drops the first `size` bytes; their chunks are free again. */
void chain_drop(struct pool *p, struct chain *c, size_t size);

#endif
