/* tests/bench/load.h - load for a server of any protocol.
 *
 * One thread keeps `depth` requests under way on each of `conns` connections
 * and notes how long each answer took.  Any trouble ends the bench. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_BENCH_LOAD_H
#define COUNTD_TESTS_BENCH_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/bench/figures.h"

#define LOAD_DEPTH_MAX 4096

struct load {
    unsigned conns, depth;
    uint64_t ms;    /* how long new requests are sent; */
    uint64_t count; /* not 0: how many, however long it takes */
    int until;      /* above 0: until this descriptor can be read */
    bool whole;     /* next ones are sent when all are answered, not half */
    bool close;     /* a connection for each request; depth 1 */

    /* Puts the next request of a connection, which has sent `sent` before:
     * at most request_max bytes; returns them. */
    size_t (*put)(const struct load *l, unsigned conn, uint64_t sent,
                  uint8_t *to);
    size_t request_max;

    /* Finds whole answers in `in`: adds them, returns their bytes.  NULL: none
     * is sent, and a request is done when it is sent. */
    size_t (*take)(const struct load *l, const uint8_t *in, size_t have,
                   uint64_t *answers);
    const void *ctx; /* of the two */

    const void *request; /* of load_put_same() */
    size_t reply_size;   /* of load_take_same() */
};

/* A put(): request_max bytes of `request`; and a take(): answers of reply_size
 * bytes each. */
size_t load_put_same(const struct load *l, unsigned conn, uint64_t sent,
                     uint8_t *to);
size_t load_take_same(const struct load *l, const uint8_t *in, size_t have,
                      uint64_t *answers);

/* Returns when all that was sent is answered: answers a second. */
double load_run(const struct load *l, uint16_t port, struct times *t);

#endif
