/* reader/read_link.h - where an answer in pages goes on: Link (RFC 8288).
 *
 * The link asks what the request asked, from the place where the answer ends.
 * Pure. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_READ_LINK_H
#define COUNTD_READER_READ_LINK_H

#include "reader/http_params.h"

/* Bytes of the header line at most: a byte of a name may take six, and the
 * rest is short. */
#define READ_LINK_MAX (3 * (size_t)(6 * NAME_MAX_SIZE) + 512)

/* Where the next page begins. */
struct read_page {
    bool is_there;
    bool has_offset; /* else `after` */
    int64_t offset;
    struct increment_name after;
};

/* Writes `Link: <PATH?...>; rel="next"` with CR LF and a NUL into `to`, which
 * holds READ_LINK_MAX bytes. */
void read_link_put(const char *path, const struct http_params *p,
                   const struct read_page *next, char *to);

#endif
