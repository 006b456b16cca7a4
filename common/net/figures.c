/* common/net/figures.c - what all doors together have open and free; see
 * conn.h. */
#include "common/net/conn_inside.h"

size_t
conns_open(const struct conns *cs)
{
    size_t n = 0;

    for (size_t i = 0; i < cs->count; i++)
        n += cs->doors[i].open;
    return n;
}

size_t
conns_free(const struct conns *cs)
{
    return (size_t)cs->pool.free_count * POOL_CHUNK_SIZE;
}
