/* tests/bench/http_load.h - load for HTTP servers, and one that answers all
 * requests alike. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_BENCH_HTTP_LOAD_H
#define COUNTD_TESTS_BENCH_HTTP_LOAD_H

#include <sys/types.h>

#include "tests/bench/load.h"

struct http_load {
    const char *target; /* "/fetch" */
    unsigned conns, depth;
    bool close; /* a connection for each request; depth 1 */
    bool keyed; /* with an Idempotency-Key of its own in each request */
    uint64_t ms;
    const char *headers; /* lines of each request, with CR LF; NULL: none */
    const char *body;    /* of a POST; NULL: a GET */
};

/* Adds requests a second and their times to what a side did. */
void http_load_run(const struct http_load *l, uint16_t port,
                   struct figures *out);

/* Sends one request of it to a server that listens on `port`. */
void http_load_send(const struct http_load *l, uint16_t port, int fd);

/* A load's take(): answers, which must be 200 or 304. */
size_t http_load_take(const struct load *l, const uint8_t *in, size_t have,
                      uint64_t *answers);

/* A process that answers the same bytes to each request, until it is killed.  It
 * closes after a request with `Connection: close`.  With a `slot`, that many
 * bytes for each request of a round are written to a file in `folder`, and
 * synced before it is answered; then ports[1] is a silent port, and the bytes
 * that come to it are written to another file unread. */
pid_t http_ceiling_start(uint16_t ports[2], const char *answer, size_t size,
                         const char *folder, size_t slot);

#endif
