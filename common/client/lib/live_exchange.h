/* common/client/lib/live_exchange.h - requests to the live ports and their
 * answers, on the one connection of a handle.
 *
 * One exchange is any number of requests and their answers, in order; a bounded
 * number of them is on its way.  Each carries the next number as its opaque
 * bytes, and an answer must be to the oldest of them.
 *
 * Nothing is sent again: when anything goes wrong the connection is shut down,
 * which releases what it holds, and stays so.  Its descriptor is closed with
 * the handle only, for others poll it.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_CLIENT_LIB_LIVE_EXCHANGE_H
#define COUNTD_COMMON_CLIENT_LIB_LIVE_EXCHANGE_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/client/lib/handle.h"
#include "common/client/lib/transport.h"
#include "common/wire/frame.h"

#define LIVE_BUFFER_SIZE ((size_t)128 * 1024)
#define LIVE_PENDING     1 /* result of an op that has no answer yet */

struct countd_live {
    pthread_mutex_t lock;
    struct link link;
    int timeout_ms;
    atomic_bool ended; /* and shut down */
    uint32_t serial;   /* number of the next request */
    uint8_t *send;     /* two buffers in one piece */
    uint8_t *receive;
};

struct live_exchange {
    struct countd_live *l;
    struct countd_live_op *ops; /* or, when NULL, one request: */
    enum frame_opcode opcode;   /* without a body, but Who: */
    const void *name;
    size_t name_size;
    uint32_t from; /* in and out; 0: every answer has been passed on */
    int (*who)(void *ctx, const char *address, uint32_t amount, uint32_t age_s);
    int result;
    int (*dump)(void *ctx, const void *name, size_t size, uint32_t current,
                uint32_t maximum);
    int (*stats)(void *ctx, const char *name, const char *value);
    void *ctx;
    int stopped; /* what the function said; 0: go on */

    size_t count;
    size_t put;  /* requests put into the send buffer, or not proper */
    size_t done; /* requests answered, or not proper */
    uint32_t serial;
    struct transport transport; /* deadline: of the next whole answer */
};

bool live_is_proper(const struct countd_live_op *op);

/* 0 when all is answered; else the connection has ended and says why. */
int live_exchange(struct live_exchange *x);

/* The same for one request that is not of x->ops: also what the server said of
 * it, or what the function that took the answers returned. */
int live_exchange_one(struct live_exchange *x);

/* The end: what is held is released, and a poll of the descriptor returns. */
void live_end(struct countd_live *l);

/* Closes this process's descriptor and frees the handle.  A process that has a
 * copy of the descriptor goes on to hold what is held. */
void live_close(struct countd_live *l);

#endif
