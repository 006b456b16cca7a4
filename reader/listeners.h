/* reader/listeners.h - the ports of countd-read: one row for each.
 *
 * The rows drive what is bound, the ready lines, how many connections each may
 * have, the figures and the warnings (common/net/conn.h).  All share
 * read.max_connections. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_LISTENERS_H
#define COUNTD_READER_LISTENERS_H

#include "common/net/conn.h"
#include "common/setup/ports.h"
#include "reader/range.h"
#include "reader/read_http.h"
#include "reader/resp/resp_service.h"

/* From PORT_READ on, in its order. */
enum { LISTENER_RANGE, LISTENER_RESP, LISTENER_READ_HTTP, READER_LISTENERS };

/* For what waits; memory never touched is free. */
#define READER_POOL ((size_t)64 << 20)

struct reader_listeners {
    struct listener_config rows[READER_LISTENERS];
    size_t shared; /* connections of all ports together */
};

/* Raises the limit of descriptors as far as it may be and is of use, and fills
 * the rows by the settings.  A negative errno: too few descriptors. */
int reader_listeners_init(struct reader_listeners *l, const struct config *c,
                          struct range *range, struct resp_service *resp,
                          struct read_http *http);

/* Whether the listener is on: that of HTTP always is, as commands ask there. */
bool reader_listeners_is_on(const struct listener_config *row);

#endif
