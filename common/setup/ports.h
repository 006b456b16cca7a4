/* common/setup/ports.h - the ports of the daemons: what the settings say of each.
 *
 * countd-write and countd-read make their listeners of these rows
 * (common/net/conn.h), and settings are checked by them. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_SETUP_PORTS_H
#define COUNTD_COMMON_SETUP_PORTS_H

#include "common/net/conn.h"
#include "common/setup/config.h"

#define PORTS_YIELD_S   60 /* an idle sender may be closed after this */
#define PORTS_TEXT_SIZE (CONFIG_TEXT_SIZE + 24) /* an address and a port */

enum port {
    PORT_COUNTER, /* of countd-write, in its order */
    PORT_SEMAPHORE,
    PORT_HTTP,
    PORT_ACK,
    PORT_SILENT,
    PORT_STATSD,
    PORT_GRAPHITE,
    PORT_READ, /* of countd-read */
    PORT_RESP,
    PORT_READ_HTTP,
    PORT_DATAGRAMS, /* of StatsD: without connections */
    PORTS
};

/* The listener of a port, but for its protocol and what a daemon divides among
 * its ports.  One that is off listens at "".  An address that is of two settings
 * is put into `text`. */
struct listener_config ports_listener(const struct config *c, enum port port,
                                      char text[PORTS_TEXT_SIZE]);

#endif
