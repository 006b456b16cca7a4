/* reader/page.h - GET /: the page for browsers.
 *
 * reader/page.html is embedded as gzip packed it, with the Content-Security-
 * Policy that allows its one script and its one style by their hashes and
 * requests to this server alone.  A client that takes no gzip gets it unpacked.
 * The page needs no token: it asks for one when an answer is 401.
 *
 * Ownership: the caller's between page_open() and page_close().
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_PAGE_H
#define COUNTD_READER_PAGE_H

#include <stddef.h>
#include <stdint.h>

#include "common/net/http.h"

#define PAGE_SIZE_MAX ((size_t)60 << 10) /* bytes of the page */
#define PAGE_MORE_MAX 1024               /* header lines of the answer */

struct page {
    uint8_t *html; /* unpacked */
    size_t size;
    char version[32]; /* ETag */
    char more[PAGE_MORE_MAX];
};

/* For a site's table; the context is the struct page. */
extern const struct http_route page_routes[];
extern const size_t page_route_count;

/* -ENOMEM */
int page_open(struct page *p);
void page_close(struct page *p);

#endif
