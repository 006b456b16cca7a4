/* common/client/lib/exchange.h - requests to the range port and their answers.
 *
 * One exchange is any number of requests and their answers, in order, on one
 * connection.
 *
 * An error answer ends the connection (the protocol says so): the requests
 * behind it go out again on a new one.  A connection kept from an earlier
 * exchange may have died unnoticed: when it breaks before it answered
 * anything, one new connection is tried.  Reading twice does no harm.
 *
 *     struct exchange x = {.r = &c->reading, .ask = ..., .asks = ...,
 *                          .count = n, .out = rows};
 *     rc = exchange_run(&x);
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_CLIENT_LIB_EXCHANGE_H
#define COUNTD_COMMON_CLIENT_LIB_EXCHANGE_H

#include "common/client/lib/handle.h"
#include "common/client/lib/transport.h"
#include "common/wire/query.h"

struct exchange {
    struct handle_reading *r;
    /* Request `index` of what is asked: 0, or why it is none. */
    int (*ask)(const struct exchange *x, size_t index, struct query *q);
    const void *asks;
    size_t count;
    struct countd_rows **out;
    struct transport transport;
    size_t put;      /* asks put into the send buffer, or refused */
    size_t answered; /* asks answered, or refused */
    int error;       /* the first of a single ask */
    int *errors;     /* of each ask, 0 at first; NULL: not wanted */
    bool is_history; /* answers about the past: each is one row, whose count is
                  the number of its rows and whose key all their bytes */
    bool again;      /* the end of this connection is not the end: it is of an
                        earlier exchange and silent so far, or refused an ask */

    /* The answer that is arriving. */
    struct countd_rows *rows; /* NULL until the head is whole */
    uint8_t *bytes;           /* behind rows->rows */
    size_t size, have;
};

/* The out pointers are NULL at first; rows are the caller's to free.  0, or the
 * first error of a single ask, or what ended it all. */
int exchange_run(struct exchange *x);

/* One request, whose names are of these sizes.  *out is set only on success:
 * an answer that is followed by bytes that were not asked for is freed. */
int exchange_one(struct handle_reading *r, struct query *q,
                 size_t keyspace_size, size_t key_size, bool is_history,
                 struct countd_rows **out);

#endif
