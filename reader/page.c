/* reader/page.c - see page.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/page.h"

#include <assert.h>
#include <stdio.h>

#include "common/base/bytes.h"
#include "reader/answer.h"

/* Of page_data.S: the page, the same as gzip packed it, behind that, and its
 * policy with a NUL. */
extern const uint8_t page_html[], page_packed[], page_end[];
extern const char page_policy[];

static size_t
size_between(const uint8_t *from, const uint8_t *to)
{
    return (uintptr_t)to - (uintptr_t)from;
}

#define PACKED_LINE "Content-Encoding: gzip\r\n"

static enum conn_next
answer_page(struct http_call *x)
{
    const struct page *p = x->ctx;
    const bool is_packed = http_takes_gzip(x->request);

    x->cache = "no-cache";
    x->headers = p->headers + sizeof PACKED_LINE - 1;
    if (http_has_any_version(x->request) ||
        http_has_version(x->request, p->version))
        return http_body(x, 0) ? http_end(x, HTTP_NOT_MODIFIED, 0) : CONN_FULL;
    x->type = "text/html; charset=utf-8";
    if (!is_packed)
        return answer_bytes(x, page_html, size_between(page_html, page_packed));
    x->headers = p->headers;
    return answer_bytes(x, page_packed, size_between(page_packed, page_end));
}

const struct http_route page_route = {
    "/", "*", HTTP_GET | HTTP_HEAD, answer_page, HTTP_IS_PUBLIC, NULL};

void
page_init(struct page *p)
{
    const uint8_t *sum = page_packed + size_between(page_packed, page_end) - 8;
    int n;

    /* Gzip's checksum of the page stands before its size, at the end. */
    (void)snprintf(p->version, sizeof p->version, "W/\"%08lx\"",
                   (unsigned long)get_le32(sum));
    n = snprintf(p->headers, sizeof p->headers,
                 PACKED_LINE "ETag: %s\r\n"
                             "Vary: Accept-Encoding\r\n"
                             "Content-Security-Policy: %s\r\n"
                             "Referrer-Policy: no-referrer\r\n",
                 p->version, page_policy);
    assert(n > 0 && (size_t)n < sizeof p->headers);
}
