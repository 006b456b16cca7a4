/* writer/listeners.h - the ports of countd-write: one row for each.
 *
 * The rows drive what is bound, the ready lines, how many connections each may
 * have, the figures and the warnings (common/net/conn.h).  Listeners whose
 * clients wait for an answer stand first. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_LISTENERS_H
#define COUNTD_WRITER_LISTENERS_H

#include "common/setup/ports.h"

struct writer;

enum {
    LISTENER_COUNTER = PORT_COUNTER,
    LISTENER_SEMAPHORE = PORT_SEMAPHORE,
    LISTENER_HTTP = PORT_HTTP,
    LISTENER_ACK = PORT_ACK,
    LISTENER_SILENT = PORT_SILENT,
    LISTENER_STATSD = PORT_STATSD, /* lines over TCP */
    LISTENER_GRAPHITE = PORT_GRAPHITE,
    LISTENERS
};

#define LISTENERS_FILES    128    /* descriptors for the rest: logs, threads */
#define LISTENERS_MOST     262144 /* connections of a listener without a limit */
#define LISTENERS_RESERVED 1024   /* what a listener is sure of, at most */

/* For what waits; memory never touched is free. */
#define LISTENERS_POOL ((size_t)64 << 20)

struct listeners {
    struct listener_config rows[LISTENERS];
    char texts[LISTENERS][PORTS_TEXT_SIZE];
    size_t shared; /* connections of all listeners together */
};

/* Raises the limit of descriptors as far as it may be and is of use, and fills
 * the rows by the settings. */
void listeners_init(struct writer *w);

#endif
