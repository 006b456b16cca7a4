/* common/client/lib/transport.h - a request and its answers, on one link.
 *
 * It is sent while answers are taken, so neither side can fill the other's
 * buffers and stop both.  After a failed send the connection is only
 * read from: the reason, an error answer, may be waiting before its end.
 *
 * Ownership: all is the caller's.
 * Errors: 0 or a negative errno; the caller drops the link.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_CLIENT_LIB_TRANSPORT_H
#define COUNTD_COMMON_CLIENT_LIB_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/client/lib/link.h"

struct transport {
    struct link *link;
    uint64_t deadline_ms; /* clock_ms(); take() may set it */
    void *ctx;

    /* Takes whole pieces of the bytes that have arrived: returns how many
     * bytes, or what ends the exchange.  Bytes that it leaves come again, with
     * more.  Sets done after the last answer. */
    ssize_t (*take)(void *ctx, uint8_t *bytes, size_t size);
    bool done;
    bool mute; /* sending failed */

    const uint8_t *send;
    size_t send_size;
    size_t sent;

    uint8_t *receive;
    size_t receive_size;
    size_t received;
};

/* Connects, sends and receives until take() sets done.
 *   -ENOTCONN  the connection ended,  -ETIMEDOUT
 *   -EPROTO    more came than was asked for, or an answer does not fit into
 *              the receive buffer
 *   others as of link_connect() and take() */
int transport_run(struct transport *t);

#endif
