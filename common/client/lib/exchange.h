/* common/client/lib/exchange.h - many ranges, pipelined, and their rows.
 *
 * One exchange is any number of requests and their answers, in order, on one
 * connection.
 *
 * An error answer ends the connection (the protocol says so): the requests
 * behind it go out again on a new one.  A connection kept from an earlier
 * exchange may have died unnoticed: when it breaks before it answered
 * anything, one new connection is tried.  Reading twice does no harm.
 *
 *     struct exchange x = {.r = &c->reading, .asks = ..., .count = n, .out = rows};
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
    const struct countd_ask *asks;
    size_t count;
    struct countd_rows **out;
    struct transport transport;
    size_t put;      /* asks put into the send buffer, or refused */
    size_t answered; /* asks answered, or refused */
    int error;       /* the first of a single ask */
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

#endif
