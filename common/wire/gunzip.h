/* common/wire/gunzip.h - one gzip member in memory, inflated into a buffer.
 *
 * Ownership: the caller's.  Between open and close it keeps zlib's window, so
 * that a call allocates nothing. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_WIRE_GUNZIP_H
#define COUNTD_COMMON_WIRE_GUNZIP_H

#include <stddef.h>
#include <stdint.h>

#define ZLIB_CONST /* what is inflated is not written to */
#include <zlib.h>

struct gunzip {
    z_stream stream;
};

int gunzip_open(struct gunzip *g);   /* 0 or -ENOMEM */
void gunzip_close(struct gunzip *g); /* one of zeros, too */

/* Returns the size of what was inflated, at most `max`; `to` has a byte more,
 * which shows that there is more.
 *   -EBADMSG  no gzip, or a wrong check sum
 *   -E2BIG    something follows the member, such as another one
 *   -ENODATA  it is cut short
 *   -EFBIG    more than `max` bytes */
int gunzip_run(struct gunzip *g, const uint8_t *at, size_t size, uint8_t *to,
               size_t max);

#endif
