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
#include <stdbool.h>
#include <stddef.h>

#include "common/client/lib/countd.h"
#include "common/client/lib/link.h"

#define HTTP_ANSWER_MAX  ((size_t)1 << 20) /* bytes of a head, and of a body */
#define HTTP_REQUEST_MAX 2048              /* bytes of a request, with NUL */
#define HTTP_TOKEN_MAX   128

struct countd_http {
    pthread_mutex_t lock;
    struct link link;
    int timeout_ms;
    char *answer;                            /* HTTP_ANSWER_MAX and a NUL */
    char authorization[HTTP_TOKEN_MAX + 32]; /* a header line; "": none */
    char request[HTTP_REQUEST_MAX];          /* with that line */
};

struct http_answer {
    const char *body; /* ends with NUL; valid until the next request */
    size_t size;
};

/* The lock of the handle is the caller's, over the use of the answer, too.
 * `request` is a head with its empty line.  It may be done twice.
 *   -EINVAL, -EACCES, -EOPNOTSUPP (not found), -EEXIST, -EKEYREJECTED,
 *   -EAGAIN, -ENOSPC  a status
 *   -EPROTO  another status, or not HTTP as countd speaks it
 *   -ENOTCONN, -ETIMEDOUT, as of link_connect() */
int http_ask(struct countd_http *h, const char *request,
             struct http_answer *out);

#endif
