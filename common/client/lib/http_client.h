/* common/client/lib/http_client.h - the inside of libcountd's HTTP handle: a
 * request, its answer.
 *
 * A connection is kept from request to request, and made again when the server
 * has closed it meanwhile.  A request to which no byte of an answer came on a
 * kept connection is sent again: each may be done twice, because it has an
 * Idempotency-Key or changes nothing that matters.
 *
 * Ownership: see countd.h.  Errors: 0 or a negative errno.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_CLIENT_LIB_HTTP_CLIENT_H
#define COUNTD_COMMON_CLIENT_LIB_HTTP_CLIENT_H

#include <pthread.h>
#include <stddef.h>

#include "common/client/lib/countd.h"
#include "common/client/lib/link.h"

#define HTTP_ANSWER_MAX ((size_t)1 << 20)  /* bytes of a head, and of a body */
#define HTTP_ROWS_MAX   ((size_t)16 << 20) /* the same with 4096 rows */
#define HTTP_TOKEN_MAX  128

struct countd_http {
    pthread_mutex_t lock;
    struct link link;
    int timeout_ms;
    char *answer; /* answer_max bytes and a NUL */
    size_t answer_max;
    char authorization[HTTP_TOKEN_MAX + 32]; /* a header line; "": none */
};

struct http_answer {
    const char *head; /* its beginning is the status line */
    const char *body; /* ends with NUL; valid until the next request; NULL: no
                         answer came */
    size_t size;
};

/* For who has the memory: what countd_http_open() and countd_http_close() do.
 * `socket` is the one in the data directory (local.h). */
int http_init(struct countd_http *h, const struct countd_http_options *o,
              const char *socket, size_t answer_max);
void http_fini(struct countd_http *h);

/* The lock of the handle is the caller's, over the use of the answer, too.
 * `request` is a head with h->authorization and its empty line.  It may be done
 * twice.
 *   -EINVAL, -EACCES, -EOPNOTSUPP (not found), -EEXIST, -EKEYREJECTED,
 *   -EAGAIN, -ENOSPC  a status
 *   -EPROTO  another status, or not HTTP as countd speaks it
 *   -ENOTCONN, -ETIMEDOUT, as of link_connect() */
int http_ask(struct countd_http *h, const char *request,
             struct http_answer *out);

/* The value of a header of the answer; NULL: it is not there. */
const char *http_header(const struct http_answer *a, const char *name);

#endif
