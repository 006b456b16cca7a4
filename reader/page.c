/* reader/page.c - see page.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/page.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/bytes.h"
#include "common/wire/gunzip.h"
#include "reader/answer.h"

/* Of page_data.S: the packed page, and its policy with a NUL. */
extern const uint8_t page_packed[], page_packed_end[];
extern const char page_policy[];

static size_t
packed_size(void)
{
    return (uintptr_t)page_packed_end - (uintptr_t)page_packed;
}

#define PACKED_LINE "Content-Encoding: gzip\r\n"

/* The header lines beside the type: PACKED_LINE, which is left out for a client
 * that does not take gzip, and the rest. */
static void
format_headers(struct page *p)
{
    const int n = snprintf(p->more, sizeof p->more,
                           PACKED_LINE "ETag: %s\r\n"
                                       "Vary: Accept-Encoding\r\n"
                                       "Content-Security-Policy: %s\r\n"
                                       "Referrer-Policy: no-referrer\r\n",
                           p->version, page_policy);

    assert(n > 0 && (size_t)n < sizeof p->more);
}

static const char *
find_headers(const struct page *p, bool is_packed)
{
    return p->more + (is_packed ? 0 : sizeof PACKED_LINE - 1);
}

static enum conn_next
answer_page(struct http_call *x)
{
    struct page *p = x->ctx;
    const bool is_packed = http_takes_gzip(x->request);

    x->cache = "no-cache";
    if (http_has_any_version(x->request) ||
        http_has_version(x->request, p->version)) {
        x->more = find_headers(p, false);
        return http_body(x, 0) ? http_end(x, HTTP_NOT_MODIFIED, 0) : CONN_FULL;
    }
    x->type = "text/html; charset=utf-8";
    x->more = find_headers(p, is_packed);
    return is_packed ? answer_bytes(x, page_packed, packed_size())
                     : answer_bytes(x, p->html, p->size);
}

const struct http_route page_routes[] = {
    {"/", "*", HTTP_GET | HTTP_HEAD, answer_page, HTTP_IS_PUBLIC, NULL},
};
const size_t page_route_count = sizeof page_routes / sizeof page_routes[0];

/* Unpacks the page into p->html, which has PAGE_SIZE_MAX bytes. */
static int
unpack_page(struct page *p)
{
    struct gunzip *g;
    int rc;

    rc = gunzip_open(&g);
    if (rc < 0)
        return rc;
    rc = gunzip_run(g, page_packed, packed_size(), p->html, PAGE_SIZE_MAX);
    gunzip_close(g);
    assert(rc > 0); /* it is our own page */
    p->size = (size_t)rc;
    return 0;
}

int
page_open(struct page *p)
{
    int rc;

    p->html = malloc(PAGE_SIZE_MAX);
    if (!p->html)
        return -ENOMEM;
    rc = unpack_page(p);
    if (rc < 0) {
        page_close(p);
        return rc;
    }
    /* Gzip's checksum of the page stands before its size, at the end. */
    (void)snprintf(p->version, sizeof p->version, "W/\"%08lx\"",
                   (unsigned long)get_le32(page_packed + packed_size() - 8));
    format_headers(p);
    return 0;
}

void
page_close(struct page *p)
{
    free(p->html);
    p->html = NULL;
}
