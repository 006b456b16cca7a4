/* common/net/pool.c - see pool.h: pool_init(), chain_push(), chain_pieces(),
 * chain_write_at(), chain_drop(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/pool.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define NO_CHUNK UINT32_MAX

int
pool_init(struct pool *p, size_t size)
{
    *p = (struct pool){.free = NO_CHUNK, .count = pool_chunks(size)};
    p->free_count = p->count;

    /* Large enough to be maps of their own: untouched pages cost nothing. */
    p->bytes = malloc((size_t)p->count * POOL_CHUNK_SIZE);
    p->next = malloc(p->count * sizeof *p->next);
    if (p->bytes && p->next)
        return 0;
    pool_fini(p);
    return -ENOMEM;
}

void
pool_fini(struct pool *p)
{
    free(p->bytes);
    free(p->next);
    *p = (struct pool){.free = NO_CHUNK};
}

static uint8_t *
chunk_at(const struct pool *p, uint32_t chunk)
{
    return p->bytes + (size_t)chunk * POOL_CHUNK_SIZE;
}

/* The chunk that was freed last: few chains touch little memory. */
static uint32_t
take_chunk(struct pool *p)
{
    const uint32_t chunk = p->free;

    assert(p->free_count > 0);
    p->free_count--;
    if (chunk == NO_CHUNK)
        return p->touched++;
    p->free = p->next[chunk];
    return chunk;
}

static void
give_chunk(struct pool *p, uint32_t chunk)
{
    p->next[chunk] = p->free;
    p->free = chunk;
    p->free_count++;
}

void
chain_push(struct pool *p, struct chain *c, const void *bytes, size_t size)
{
    const uint8_t *from = bytes;

    while (size > 0) {
        size_t end = (c->at + (size_t)c->size) % POOL_CHUNK_SIZE, part;

        if (c->size == 0 || end == 0) {
            const uint32_t chunk = take_chunk(p);

            if (c->size == 0) {
                c->first = chunk;
                c->at = 0;
                end = 0;
            } else {
                p->next[c->last] = chunk;
            }
            c->last = chunk;
        }
        part = POOL_CHUNK_SIZE - end;
        if (part > size)
            part = size;
        memcpy(chunk_at(p, c->last) + end, from, part);
        c->size += (uint32_t)part;
        from += part;
        size -= part;
    }
}

size_t
chain_pieces(const struct pool *p, const struct chain *c, size_t size,
             struct iovec *pieces, size_t max)
{
    size_t left = size < c->size ? size : c->size, at = c->at, n = 0;
    uint32_t chunk = c->first;

    while (left > 0 && n < max) {
        size_t part = POOL_CHUNK_SIZE - at;

        if (part > left)
            part = left;
        pieces[n].iov_base = chunk_at(p, chunk) + at;
        pieces[n++].iov_len = part;
        left -= part;
        at = 0;
        if (left > 0)
            chunk = p->next[chunk];
    }
    return n;
}

size_t
chain_copy(const struct pool *p, const struct chain *c, uint8_t *to)
{
    size_t done = 0, at = c->at, part;
    uint32_t chunk = c->first;

    for (; done < c->size; done += part) {
        part = POOL_CHUNK_SIZE - at;
        if (part > c->size - done)
            part = c->size - done;
        memcpy(to + done, chunk_at(p, chunk) + at, part);
        at = 0;
        if (done + part < c->size)
            chunk = p->next[chunk];
    }
    return done;
}

void
chain_write_at(const struct pool *p, struct chain_cursor *cursor, size_t at,
               const void *bytes, size_t size)
{
    const struct chain *c = cursor->chain;
    const uint8_t *from = bytes;

    assert(at + size <= c->size);
    if (cursor->end == 0)
        *cursor = (struct chain_cursor){c, c->first, POOL_CHUNK_SIZE - c->at};
    assert(at + POOL_CHUNK_SIZE >= cursor->end);
    while (size > 0) {
        size_t left, part;

        for (; at >= cursor->end; cursor->end += POOL_CHUNK_SIZE)
            cursor->chunk = p->next[cursor->chunk];
        left = cursor->end - at;
        part = size < left ? size : left;
        memcpy(chunk_at(p, cursor->chunk) + POOL_CHUNK_SIZE - left, from, part);
        from += part;
        at += part;
        size -= part;
    }
}

void
chain_drop(struct pool *p, struct chain *c, size_t size)
{
    size_t at = c->at + size;

    assert(size <= c->size);
    while (size > 0 && at >= POOL_CHUNK_SIZE && c->first != c->last) {
        const uint32_t chunk = c->first;

        c->first = p->next[chunk];
        give_chunk(p, chunk);
        at -= POOL_CHUNK_SIZE;
    }
    c->size -= (uint32_t)size;
    c->at = (uint16_t)(at % POOL_CHUNK_SIZE);
    if (size > 0 && c->size == 0) {
        give_chunk(p, c->last);
        *c = (struct chain){.size = 0};
    }
}
