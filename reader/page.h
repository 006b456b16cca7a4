/* reader/page.h - GET /: the page for browsers.
 *
 * reader/page.html is embedded as it is and as gzip packed it, with the Content-
 * Security-Policy that allows its one script and its one style by their hashes
 * and requests to this server alone.  The page needs no token: it asks for one
 * when an answer is 401.
 *
 * Ownership: the caller's; nothing is to be given back.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_PAGE_H
#define COUNTD_READER_PAGE_H

#include "common/net/http.h"

struct page {
    char version[32];   /* ETag */
    char headers[1024]; /* header lines; the first is for the packed page */
};

/* For a site's table; the context is the struct page. */
extern const struct http_route page_route;

void page_init(struct page *p);

#endif
