/* tests/bench/http_load.h - load for HTTP servers, and one that answers all
 * requests alike: what a server of this shape could do at most.
 *
 * One thread keeps `depth` requests under way on each of `conns` connections
 * and notes how long each answer took.  Any trouble ends the program with a
 * message.
 */
#ifndef COUNTD_TESTS_BENCH_HTTP_LOAD_H
#define COUNTD_TESTS_BENCH_HTTP_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct http_load {
    const char *target; /* "/fetch" */
    unsigned conns, depth;
    bool close; /* a connection for each request; depth 1 */
    uint64_t ms;
    const char *headers; /* lines of each request, with CR LF; NULL: none */
    const char *body;    /* of a POST; NULL: a GET */
};

struct http_figures {
    double per_second;
    double p50_us, p99_us, max_us;
};

void http_load_run(const struct http_load *l, uint16_t port,
                   struct http_figures *out);

/* A process that answers the same bytes to each request, until it is killed;
 * NULL: a number of 17 bytes.  Requests with `Connection: close`, which must
 * come alone, always get that. */
pid_t http_ceiling_start(uint16_t *port, const char *answer, size_t size);

/* The same, but what has come of a round is written to a file in `folder`, a
 * slot of `slot` bytes for each request, and synced before it is answered. */
pid_t http_ceiling_start_durable(uint16_t *port, const char *answer,
                                 size_t size, const char *folder, size_t slot);

#endif
