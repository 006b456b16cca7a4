/* writer/live/live_service.h - the counters and semaphores of one writer, as
 * its settings say: one budget of memory, one table and one port for each kind.
 *
 * Ownership: the caller's, between open and close.  The loop's thread.
 * Errors: 0 or a negative errno; text goes to diag.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_LIVE_LIVE_SERVICE_H
#define COUNTD_WRITER_LIVE_LIVE_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/loop.h"
#include "common/setup/config.h"
#include "writer/live/live_server.h"

#define LIVE_SERVICE_KINDS 2 /* enum live_kind */

struct live_service {
    struct budget budget; /* of both kinds */
    uint64_t no_memory;   /* requests refused for it, as far as it was said */
    struct live_server servers[LIVE_SERVICE_KINDS];
    bool on[LIVE_SERVICE_KINDS];
};

/* Allocates what is enabled, for the connections of the listener of each kind. */
int
live_service_open(struct live_service *l, struct loop *loop,
                  const struct config *config,
                  const struct listener *const listeners[LIVE_SERVICE_KINDS]);
void live_service_close(struct live_service *l);

/* At the end of each turn of the loop.  True: the next one should not wait. */
bool live_service_turn(struct live_service *l);

#endif
