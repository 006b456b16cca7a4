/* reader/pool.c - see pool.h. */
#include "reader/pool.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* Pages of an anonymous map are not there until they are touched. */
static void *
map(size_t size)
{
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return at == MAP_FAILED ? NULL : at;
}

int
rpool_init(struct rpool *p, size_t chunks)
{
    assert(chunks > 0 && chunks < UINT32_MAX);
    *p = (struct rpool){.count = chunks, .free_count = chunks};
    p->bytes = map(chunks * POOL_CHUNK_SIZE);
    if (!p->bytes)
        return -ENOMEM;
    p->next = map(chunks * sizeof *p->next);
    if (!p->next) {
        rpool_fini(p);
        return -ENOMEM;
    }
    for (size_t i = 0; i < chunks; i++)
        p->next[i] = (uint32_t)i + 1;
    return 0;
}

void
rpool_fini(struct rpool *p)
{
    /* Whole maps of ours: munmap cannot fail. */
    if (p->bytes)
        (void)munmap(p->bytes, p->count * POOL_CHUNK_SIZE);
    if (p->next)
        (void)munmap(p->next, p->count * sizeof *p->next);
    *p = (struct rpool){0};
}

size_t
rpool_chunks(size_t size)
{
    return (size + POOL_CHUNK_SIZE - 1) / POOL_CHUNK_SIZE;
}

static uint32_t
take_chunk(struct rpool *p)
{
    const uint32_t chunk = p->free;

    assert(p->free_count > 0);
    p->free = p->next[chunk];
    p->free_count--;
    return chunk;
}

static uint8_t *
chunk_at(const struct rpool *p, uint32_t chunk)
{
    return p->bytes + (size_t)chunk * POOL_CHUNK_SIZE;
}

void
rchain_push(struct rpool *p, struct rchain *c, const void *bytes, size_t size)
{
    const uint8_t *from = bytes;
    size_t end, room, n;
    uint32_t chunk;

    while (size > 0) {
        end = (c->at + c->size) % POOL_CHUNK_SIZE;
        if (c->size == 0 || end == 0) {
            chunk = take_chunk(p);
            if (c->size == 0) {
                c->first = chunk;
                c->at = 0;
            } else {
                p->next[c->last] = chunk;
            }
            c->last = chunk;
            end = 0;
        }
        room = POOL_CHUNK_SIZE - end;
        n = size < room ? size : room;
        memcpy(chunk_at(p, c->last) + end, from, n);
        c->size += n;
        from += n;
        size -= n;
    }
}

size_t
rchain_pieces(const struct rpool *p, const struct rchain *c, struct iovec *pieces,
             size_t max)
{
    size_t left = c->size, at = c->at, count = 0, n;
    uint32_t chunk = c->first;

    while (left > 0 && count < max) {
        n = POOL_CHUNK_SIZE - at;
        if (n > left)
            n = left;
        pieces[count].iov_base = chunk_at(p, chunk) + at;
        pieces[count].iov_len = n;
        count++;
        left -= n;
        at = 0;
        chunk = p->next[chunk];
    }
    return count;
}

void
rchain_drop(struct rpool *p, struct rchain *c, size_t size)
{
    uint32_t chunk;
    size_t n;

    assert(size <= c->size);
    while (size > 0) {
        n = POOL_CHUNK_SIZE - c->at;
        if (n > size)
            n = size;
        c->at += n;
        c->size -= n;
        size -= n;
        if (c->at < POOL_CHUNK_SIZE && c->size > 0)
            continue;
        chunk = c->first;
        c->first = p->next[chunk];
        c->at = 0;
        p->next[chunk] = p->free;
        p->free = chunk;
        p->free_count++;
    }
}
