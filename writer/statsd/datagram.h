/* writer/statsd/datagram.h - a port that takes datagrams: UDP, and a socket in the
 * data directory.
 *
 * Datagrams are received in batches (recvmmsg) into buffers that hold the
 * largest one whole.  The caller works through a batch at its own pace: while
 * it does not, the kernel queues what arrives, and drops what its buffer has no
 * space for.  datagram_count_dropped() reads the number of drops from the
 * kernel itself, so that a burst before silence is seen at once: the count that
 * is attached to datagrams (SO_RXQ_OVFL) arrives only with the next one.
 *
 * Networks: as for connections, an address that is not of loopback needs the
 * networks that may send; datagrams from others are counted and ignored.
 *
 * Ownership: struct datagrams is the caller's, from datagram_begin() until
 * datagram_close().  Errors: 0 or a negative errno, reported through diag. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_STATSD_DATAGRAM_H
#define COUNTD_WRITER_STATSD_DATAGRAM_H

#include "common/base/diag.h"
#include "common/net/bind.h"
#include "common/net/local.h"
#include "common/net/loop.h"
#include "common/net/networks.h"
#include "common/setup/config.h"

#define DATAGRAM_MAX   65536 /* bytes; UDP has at most 65,507 */
#define DATAGRAM_BATCH 64

struct datagram_stats {
    uint64_t received;    /* datagrams */
    uint64_t dropped;     /* by the kernel */
    uint64_t not_allowed; /* from other networks */
    uint64_t too_long;    /* above DATAGRAM_MAX, ignored; not of UDP */
};

struct datagrams;

struct datagram_source {
    struct loop_source source; /* watched once it serves */
    struct datagrams *owner;
    int fd;         /* -1: none */
    uint32_t drops; /* the kernel's count when last read; wraps at 2^32 */
};

struct datagrams {
    const struct config *config;
    struct loop *loop;
    struct datagram_source sources[LISTENER_ACCEPTORS];
    struct local_folder folder; /* its descriptor is borrowed */
    struct local local;
    struct networks allow;
    struct datagram_slots *slots; /* of a batch */
    size_t next, count;           /* of the batch */
    int last;                     /* the source received from last */
    bool readable, paused;
    struct datagram_stats stats;
    struct diag_repeat allow_warning;
    char line[BIND_LINE_SIZE]; /* "name=address:port"; empty: no port */
};

/* Off, and may be closed. */
void datagram_init(struct datagrams *d);

/* Begins, and binds the port if bind_is_now().  `config` must outlive it.
 * -EINVAL for an address that cannot be. */
int datagram_begin(struct datagrams *d, const struct config *config);

/* Binds all else.  Nothing is received yet.  The folder's descriptor is borrowed
 * until datagram_close().  -EINVAL as above. */
int datagram_bind(struct datagrams *d, const struct local_folder *folder);
bool datagram_is_on(const struct datagrams *d);

/* Begins to watch the sockets.  -ENOMEM. */
int datagram_serve(struct datagrams *d, struct loop *loop);

/* The next datagram of the batch under way, or of a new one; NULL: none has come.
 * Its bytes are valid until the call after datagram_pop(), which takes it. */
const uint8_t *datagram_first(struct datagrams *d, size_t *size);
void datagram_pop(struct datagrams *d);

/* While paused the kernel queues, and no new batch is received. */
void datagram_pause(struct datagrams *d, bool paused);

/* Reads the kernel's count of drops into stats.dropped. */
void datagram_count_dropped(struct datagrams *d);

void datagram_close(struct datagrams *d);

#endif
