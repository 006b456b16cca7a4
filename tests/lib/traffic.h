/* tests/lib/traffic.h - clients that send a model's increments to the
 * acknowledging port and survive everything that is done to the writer.
 *
 *     traffic_init(&t, &model, &moments, 8, 32);
 *     traffic_port(&t, daemon_port(&writer, "write.ack_listen"));
 *     while (...)
 *         traffic_turn(&t, 5);
 *     traffic_drain(&t, 5000);
 *
 * Each connection has at most `window` messages unanswered.  When it breaks
 * they stay in doubt for ever (none is sent again), and the next turn
 * connects anew.  A wrong byte in an answer fails the test.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_TRAFFIC_H
#define COUNTD_TESTS_LIB_TRAFFIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/lib/model.h"

#define TRAFFIC_MAX    64
#define TRAFFIC_WINDOW 256

struct traffic_peer {
    int fd;       /* -1 */
    size_t first; /* oldest unanswered, in `waiting` */
    size_t count;
    size_t waiting[TRAFFIC_WINDOW]; /* a ring of message numbers */
    bool silent;    /* sends to the silent port, waits for nothing */
    unsigned phase; /* bytes of WIN seen */
    uint8_t *out;   /* bytes still to send */
    size_t out_at, out_size;
};

struct traffic {
    struct model *model;
    _Atomic uint64_t *moments;
    struct traffic_peer *peers;
    unsigned peer_count;
    unsigned window;
    uint16_t port; /* 0: nothing to connect to */
    uint16_t silent_port;
    bool quiet;    /* send nothing new */
    size_t breaks; /* connections that broke */
};

void traffic_init(struct traffic *t, struct model *m, _Atomic uint64_t *moments,
                  unsigned peers, unsigned window);
void traffic_fini(struct traffic *t);

/* Where the writer listens from now on. */
void traffic_port(struct traffic *t, uint16_t port);

/* Makes the last `peers` of them silent ones: what they send stays in doubt,
 * may be lost, and must not be counted twice or do harm to others. */
void traffic_silent(struct traffic *t, unsigned peers, uint16_t port);

/* Waits up to wait_ms for something to do, then sends and takes answers. */
void traffic_turn(struct traffic *t, int wait_ms);

/* Sends nothing new until everything sent is answered or its connection is
 * broken; false after timeout_ms (as test_patience() says). */
bool traffic_drain(struct traffic *t, int timeout_ms);

#endif
