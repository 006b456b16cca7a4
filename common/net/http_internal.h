/* common/net/http_internal.h - what the files of http.h share; no other
 * file includes it.
 *
 *     http.c         requests: received, answered, and those that wait
 *     http_chunks.c  a body in chunks
 *     http_origin.c  whose requests, and where a GET may change something
 *     http_answer.c  answers, put where they are sent from
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_NET_HTTP_INTERNAL_H
#define COUNTD_COMMON_NET_HTTP_INTERNAL_H

#include "common/net/http.h"

/* ---- http_chunks.c ---- */

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
 * or 413 for one of more than HTTP_BODY_MAX bytes of data or HTTP_CHUNKS_MAX in
 * all. */
bool http_chunks_read(struct http_chunks *k, const uint8_t *at, size_t size,
                      uint32_t *need, int *status);

/* Copies the data of a whole body, k->size bytes. */
void http_chunks_join(const struct http_chunks *k, const uint8_t *at,
                      uint8_t *to);

/* ---- http.c ---- */

/* Where a connection ends on this side; a connection remembers it. */
enum http_end_kind { HTTP_END_UNKNOWN, HTTP_END_LOCAL, HTTP_END_REMOTE };

struct http_state {
    struct list_link waits;    /* in a line, or in none; NULL: never was */
    struct http_chunks chunks; /* of the body that comes */
    struct http_held *held;    /* http_call.held points here */
    bool has_continued;        /* 100 Continue was answered */
    bool ends;                 /* after the answer in pieces */
    uint8_t end;               /* enum http_end_kind */
    uint32_t held_ms;          /* clock, cut: when the request first waited; 0:
                           it has not */
};

/* Whether a web page made a request that this site does not serve to it; `flags`
 * are those of its path.  And whether its Host is ours. */
bool http_knows_host(const struct http_site *s, const struct http_request *r);
bool http_is_foreign(const struct http_site *s, const struct http_request *r,
                     unsigned flags);

/* Finds out x->rights.  False: *next is the answer, 401, or 403 without
 * `right`; 0: any token will do. */
bool http_is_authorized(struct http_call *x, unsigned right,
                        enum conn_next *next);

/* Why a request with that Host is refused, and what to do about it. */
void http_describe_host(const struct http_request *r,
                        char text[HTTP_DETAIL_SIZE]);

/* Whether errors of this request are application/problem+json. */
static inline bool
http_is_versioned(const struct http_request *r)
{
    return (r->path.size >= 4 && memcmp(r->path.at, "/v1/", 4) == 0) ||
           http_text_is(r->path, "/metrics");
}

/* The code and the detail of a status, where a route gave none. */
const struct http_problem *http_usual_problem(const struct http_call *x,
                                              enum http_status status);

/* 200 with `Allow`; to the preflight of a page of http_site.origins 204. */
enum conn_next http_answer_options(struct http_call *x, unsigned methods);

#endif
