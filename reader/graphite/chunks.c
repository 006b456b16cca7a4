/* reader/graphite/chunks.c - see chunks.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/chunks.h"

#include <errno.h>
#include <string.h>

void
chunks_init(struct chunks *c, struct scratch *scratch, size_t max)
{
    *c = (struct chunks){.scratch = scratch, .max = max};
    json_write_init(&c->json, NULL, 0);
    c->json.is_compact = true;
}

void
chunks_end(struct chunks *c)
{
    if (!c->last)
        return;
    c->last->size = (size_t)(c->json.at - c->last->bytes);
    c->size += c->last->size;
}

int
chunks_reserve(struct chunks *c, size_t size)
{
    const size_t capacity = size > CHUNKS_PIECE ? size : CHUNKS_PIECE;
    struct chunk *chunk;

    if (c->last && (size_t)(c->json.end - c->json.at) >= size)
        return 0;
    chunks_end(c);
    if (capacity > c->max || c->size > c->max - capacity)
        return -E2BIG;
    chunk = scratch_take(c->scratch, sizeof *chunk + capacity);
    if (!chunk)
        return -ENOMEM;
    if (c->last)
        c->last->next = chunk;
    else
        c->first = chunk;
    c->last = chunk;
    c->json.begin = c->json.at = chunk->bytes;
    c->json.end = chunk->bytes + capacity;
    return 0;
}

void
chunks_copy(const struct chunks *c, uint8_t *to)
{
    for (const struct chunk *chunk = c->first; chunk; chunk = chunk->next) {
        memcpy(to, chunk->bytes, chunk->size);
        to += chunk->size;
    }
}
