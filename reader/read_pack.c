/* reader/read_pack.c - see read_pack.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/read_pack.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"

#define PIECE 16384 /* bytes of text between two looks at the clock */

int
read_pack_open(struct read_pack *p, size_t max)
{
    *p = (struct read_pack){.max = max};
    if (deflateInit2(&p->deflate, 1, Z_DEFLATED, 15 + 16, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK)
        return 0;
    p->packed_max = deflateBound(&p->deflate, max);
    p->text = malloc(max);
    p->packed = malloc(p->packed_max);
    if (p->text && p->packed)
        return 0;
    (void)deflateEnd(&p->deflate); /* its memory goes in any case */
    free(p->text);
    free(p->packed);
    p->text = p->packed = NULL;
    return -ENOMEM;
}

void
read_pack_close(struct read_pack *p)
{
    if (!p->text)
        return;
    (void)deflateEnd(&p->deflate); /* its memory goes in any case */
    free(p->text);
    free(p->packed);
    p->text = p->packed = NULL;
}

void
read_pack_start(struct read_pack *p, const uint8_t *text, size_t size)
{
    z_stream *z = &p->deflate;

    assert(size <= p->max);
    (void)deflateReset(z); /* fails of streams that are none */
    memcpy(p->text, text, size);
    p->size = size;
    z->next_in = p->text;
    z->next_out = p->packed;
    z->avail_out = (uInt)p->packed_max;
}

bool
read_pack_step(struct read_pack *p, uint64_t until_ns)
{
    z_stream *z = &p->deflate;
    int rc;

    do {
        const size_t left = p->size - z->total_in;

        z->avail_in = (uInt)(left < PIECE ? left : PIECE);
        rc = deflate(z, left <= PIECE ? Z_FINISH : Z_NO_FLUSH);
        assert(rc == Z_OK || rc == Z_STREAM_END);
    } while (rc != Z_STREAM_END && clock_ns() < until_ns);
    if (rc != Z_STREAM_END)
        return false;
    p->size = z->total_out;
    return true;
}
