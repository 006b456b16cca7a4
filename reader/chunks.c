/* reader/chunks.c - see chunks.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/chunks.h"

#include <errno.h>
#include <string.h>

#include "common/base/clock.h"

#define PACKED_PIECE 16384u /* bytes of text between two looks at the clock */

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

/* ---- packing ------------------------------------------------------------- */

int
chunks_pack_start(struct chunks_packer *p, const struct chunks *from)
{
    *p = (struct chunks_packer){.at = from->first};
    chunks_init(&p->packed, from->scratch, from->max);
    return deflateInit2(&p->deflate, 1, Z_DEFLATED, 15 + 16, 8,
                        Z_DEFAULT_STRATEGY) == Z_OK
               ? 0
               : -ENOMEM;
}

bool
chunks_pack_step(struct chunks_packer *p, uint64_t until_ns)
{
    struct json_writer *to = &p->packed.json;
    z_stream *z = &p->deflate;
    int rc;

    do {
        if (z->avail_in == 0 && p->at) {
            const size_t left = p->at->size - p->given;

            z->next_in = p->at->bytes + p->given;
            z->avail_in = (uInt)(left < PACKED_PIECE ? left : PACKED_PIECE);
            p->given += z->avail_in;
            if (left <= PACKED_PIECE) {
                p->at = p->at->next;
                p->given = 0;
            }
        }
        if (chunks_reserve(&p->packed, 1) < 0)
            return true;
        z->next_out = to->at;
        z->avail_out = (uInt)(to->end - to->at);
        rc = deflate(z, p->at ? Z_NO_FLUSH : Z_FINISH);
        to->at = z->next_out;
    } while (rc != Z_STREAM_END && clock_ns() < until_ns);
    p->is_packed = rc == Z_STREAM_END;
    if (p->is_packed)
        chunks_end(&p->packed);
    return p->is_packed;
}

void
chunks_pack_stop(struct chunks_packer *p)
{
    (void)deflateEnd(&p->deflate); /* its memory goes in any case */
}
