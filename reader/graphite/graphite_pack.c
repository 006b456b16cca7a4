/* reader/graphite/graphite_pack.c - answers packed by gzip, for clients that
 * take it: graphite_pack_some() is a step of the job. */
#include "reader/graphite/graphite.h"

#include "common/base/clock.h"

#define PACKED_LEAST 4096 /* bytes of an answer that is packed */

bool
graphite_wants_packing(const struct graphite *g)
{
    return g->status == HTTP_OK && g->takes_gzip && g->can_deflate &&
           g->answer.size >= PACKED_LEAST;
}

void
graphite_start_packing(struct graphite *g)
{
    (void)deflateReset(&g->deflate);
    chunks_init(&g->packed, &g->answers, g->limits.max_bytes);
    g->pack_at = g->answer.first;
}

/* Packs one chunk.  False: there is no memory. */
static bool
pack_chunk(struct graphite *g, struct chunk *chunk)
{
    struct json_writer *to = &g->packed.json;
    z_stream *z = &g->deflate;
    int rc;

    z->next_in = chunk->bytes;
    z->avail_in = (uInt)chunk->size;
    do {
        if (chunks_reserve(&g->packed, 1) < 0)
            return false;
        z->next_out = to->at;
        z->avail_out = (uInt)(to->end - to->at);
        rc = deflate(z, chunk->next ? Z_NO_FLUSH : Z_FINISH);
        to->at = z->next_out;
    } while (z->avail_out == 0 && rc != Z_STREAM_END);
    return true;
}

bool
graphite_pack_some(struct graphite *g, uint64_t until_ns)
{
    while (g->pack_at && clock_ns() < until_ns) {
        if (!pack_chunk(g, g->pack_at))
            return true; /* it goes as it is */
        g->pack_at = g->pack_at->next;
    }
    if (g->pack_at)
        return false;
    chunks_end(&g->packed);
    g->is_packed = true;
    return true;
}
