/* common/net/http_chunks.h - a request body in chunks (RFC 9112, 7.1).
 *
 *     5 CR LF  hello CR LF  0 CR LF  CR LF
 *
 * A line with the size in hexadecimal digits, perhaps with an extension behind
 * a semicolon, then that many bytes; a chunk of no bytes is the last; behind it
 * come header lines, which are ignored, and an empty line.  Lines end in CR LF
 * and in nothing else: a proxy that sees another end of a request than this
 * server would let its client smuggle one in.  Pure; nothing is copied until
 * the body is whole.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_NET_HTTP_CHUNKS_H
#define COUNTD_COMMON_NET_HTTP_CHUNKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HTTP_CHUNKS_MAX 131072u /* bytes of a body with its chunk lines */

/* How far a body has been read; all zero before its first byte. */
struct http_chunks {
    uint32_t at;   /* where the next line begins, from the body's beginning */
    uint32_t size; /* bytes of data so far */
    bool is_last;  /* header lines and the empty line are left */
    bool is_whole;
};

/* Goes on over what has come: `size` bytes from the body's beginning.  True: it
 * is whole, and k->at its length.  Else *need is how many bytes must be there
 * before another call can do more, or, with a malformed body, *status is 400,
 * or 413 for one of more than `max` bytes of data or HTTP_CHUNKS_MAX in all. */
bool http_chunks_read(struct http_chunks *k, const uint8_t *at, size_t size,
                      size_t max, uint32_t *need, int *status);

/* Copies the data of a whole body, k->size bytes. */
void http_chunks_join(const struct http_chunks *k, const uint8_t *at,
                      uint8_t *to);

#endif
