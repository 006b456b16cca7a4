/* common/wire/gunzip.c - see gunzip.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/wire/gunzip.h"

#include <errno.h>
#include <stdlib.h>

#define ZLIB_CONST /* what is inflated is not written to */
#include <zlib.h>

#define GZIP_ONLY (15 + 16) /* windowBits: gzip's header, not zlib's */

struct gunzip {
    z_stream stream;
};

int
gunzip_open(struct gunzip **out)
{
    struct gunzip *g = calloc(1, sizeof *g);

    if (!g)
        return -ENOMEM;
    if (inflateInit2(&g->stream, GZIP_ONLY) != Z_OK) {
        free(g);
        return -ENOMEM;
    }
    *out = g;
    return 0;
}

void
gunzip_close(struct gunzip *g)
{
    if (g)
        (void)inflateEnd(&g->stream); /* the stream is valid */
    free(g);
}

int
gunzip_run(struct gunzip *g, const uint8_t *at, size_t size, uint8_t *to,
           size_t max)
{
    z_stream *s = &g->stream;
    uint8_t more;
    int rc;

    if (size == 0)
        return -ENODATA;
    if (inflateReset(s) != Z_OK)
        return -EBADMSG;
    s->next_in = at;
    s->avail_in = (uInt)size;
    s->next_out = to;
    s->avail_out = (uInt)max;
    rc = inflate(s, Z_FINISH);
    if (rc == Z_BUF_ERROR && s->avail_out == 0) {
        /* Perhaps only the check sum is left: one more byte of output shows. */
        s->next_out = &more;
        s->avail_out = 1;
        rc = inflate(s, Z_FINISH);
        if (s->avail_out == 0)
            return -EFBIG;
        s->avail_out = 0;
    }
    if (rc == Z_BUF_ERROR)
        return -ENODATA;
    if (rc != Z_STREAM_END)
        return -EBADMSG;
    if (s->avail_in > 0)
        return -E2BIG;
    return (int)(max - s->avail_out);
}
