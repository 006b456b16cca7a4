/* common/wire/gunzip.c - see gunzip.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/wire/gunzip.h"

#include <errno.h>

#define GZIP_ONLY (15 + 16) /* windowBits: gzip's header, not zlib's */

int
gunzip_open(struct gunzip *g)
{
    *g = (struct gunzip){.stream = {.next_in = NULL}};
    return inflateInit2(&g->stream, GZIP_ONLY) == Z_OK ? 0 : -ENOMEM;
}

void
gunzip_close(struct gunzip *g)
{
    (void)inflateEnd(&g->stream); /* does nothing to one that is not open */
}

int
gunzip_run(struct gunzip *g, const uint8_t *at, size_t size, uint8_t *to,
           size_t max)
{
    z_stream *s = &g->stream;
    int rc;

    if (size == 0)
        return -ENODATA;
    if (inflateReset(s) != Z_OK)
        return -EBADMSG;
    s->next_in = at;
    s->avail_in = (uInt)size;
    s->next_out = to;
    s->avail_out = (uInt)max + 1;
    rc = inflate(s, Z_FINISH);
    if (s->avail_out == 0)
        return -EFBIG;
    if (rc == Z_BUF_ERROR)
        return -ENODATA;
    if (rc != Z_STREAM_END)
        return -EBADMSG;
    if (s->avail_in > 0)
        return -E2BIG;
    return (int)(max + 1 - s->avail_out);
}
