/* reader/scratch.c - see scratch.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/scratch.h"

#include <stdlib.h>
#include <string.h>

#define ALIGNMENT  16
#define CHUNK_SIZE ((size_t)65536) /* a larger piece has one of its own */

struct scratch_chunk {
    struct scratch_chunk *next;
    size_t unused; /* keeps the bytes after it aligned */
};

void
scratch_init(struct scratch *s, size_t max)
{
    *s = (struct scratch){.max = max};
}

void
scratch_free(struct scratch *s)
{
    while (s->chunks) {
        struct scratch_chunk *next = s->chunks->next;

        free(s->chunks);
        s->chunks = next;
    }
    if (s->share)
        s->share->total -= s->total;
    *s = (struct scratch){.max = s->max, .share = s->share};
}

/* Adds a chunk with at least `size` bytes. */
static struct scratch_chunk *
add_chunk(struct scratch *s, size_t size)
{
    struct scratch_chunk *chunk;

    if (size > s->max || s->total > s->max - size)
        return NULL;
    s->has_no_share = s->share && size > s->share->max - s->share->total;
    if (s->has_no_share)
        return NULL;
    chunk = calloc(1, sizeof *chunk + size);
    if (!chunk)
        return NULL;
    s->total += size;
    if (s->share)
        s->share->total += size;
    return chunk;
}

void *
scratch_take(struct scratch *s, size_t size)
{
    struct scratch_chunk *chunk;

    if (size > s->max)
        return NULL;
    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (s->chunks && size <= s->size - s->used) {
        s->used += size;
        return (uint8_t *)(s->chunks + 1) + s->used - size;
    }
    chunk = add_chunk(s, size > CHUNK_SIZE ? size : CHUNK_SIZE);
    if (!chunk)
        return NULL;
    if (size > CHUNK_SIZE && s->chunks) {
        /* The newest chunk stays the one that small pieces are taken from. */
        chunk->next = s->chunks->next;
        s->chunks->next = chunk;
        return chunk + 1;
    }
    chunk->next = s->chunks;
    s->chunks = chunk;
    s->size = size > CHUNK_SIZE ? size : CHUNK_SIZE;
    s->used = size;
    return chunk + 1;
}

char *
scratch_copy(struct scratch *s, const void *bytes, size_t size)
{
    char *copy = scratch_take(s, size + 1);

    if (copy && size > 0)
        memcpy(copy, bytes, size);
    return copy;
}
