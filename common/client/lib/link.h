/* common/client/lib/link.h - one connection of libcountd: resolve, connect,
 * wait, ask.
 *
 * Calls without a deadline do not block.  A connection to oneself (an
 * ephemeral port can be the very one that is asked for) counts as refused.
 *
 * Ownership: struct link is the caller's between link_init() and link_drop().
 * Threads: the caller's lock protects it.  link_wait() may be called without it,
 * for a short time: another thread may close the descriptor meanwhile.
 * Errors: 0 or a negative errno.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_CLIENT_LIB_LINK_H
#define COUNTD_COMMON_CLIENT_LIB_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/net/local.h"
#include "common/net/net.h"

#define LINK_ADDRESSES_MAX  4
#define LINK_DIRECTORY_SIZE 4096 /* of the longest path, with NUL */

struct link {
    struct net_address addresses[LINK_ADDRESSES_MAX];
    size_t count;
    char directory[LINK_DIRECTORY_SIZE]; /* absolute; "": addresses */
    const char *socket; /* its name in the directory, or NULL */
    size_t tried; /* addresses tried by this connect, the current one too */
    int fd;       /* -1: not connected */
    bool connecting;
    uint64_t deadline_ms; /* clock: the connect is given up */
    unsigned timeout_ms;  /* for each connect */
};

/* Resolves "127.0.0.1:48880", "[::1]:48880" or "db1:48880", as net_resolve()
 * does and with its errors.  Without an address the link is to the socket of
 * this name (local.h, it stays the caller's) in a data directory, which is
 * found from now on wherever the process goes. -EINVAL  no path, -ENAMETOOLONG
 */
int link_init(struct link *l, const char *address, const char *directory,
              const char *socket, unsigned timeout_ms);

/* Goes on connecting.  0 when connected; -EINPROGRESS; or why it failed:
 * the next call starts afresh.  A socket: -ECONNREFUSED also when it is not
 * there, -EPERM when this user may not use it. */
int link_connect(struct link *l);

/* Connects, waiting until deadline_ms.  As link_connect(), or -ETIMEDOUT. */
int link_connect_until(struct link *l, uint64_t deadline_ms);

/* Closes it.  Nothing when not connected. */
void link_drop(struct link *l);

/* Waits for `events` until deadline_ms (clock_ms; UINT64_MAX: for ever).
 *   -ETIMEDOUT  */
int link_wait(int fd, short events, uint64_t deadline_ms);

/* A deadline for link_wait(): below 0 is for ever. */
uint64_t link_deadline(int timeout_ms);
bool link_passed(uint64_t deadline_ms);

/* ---- a request and its answers ------------------------------------------- */

/* It is sent while answers are taken, so neither side can fill the other's
 * buffers and stop both.  After a failed send the connection is only
 * read from: the reason, an error answer, may be waiting before its end.
 *
 * Ownership: all is the caller's, who drops the link after an error. */
struct link_exchange {
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
int link_run(struct link_exchange *x);

#endif
