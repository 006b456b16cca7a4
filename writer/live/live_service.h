/* writer/live/live_service.h - the counters and semaphores of one writer, as
 * its settings say: one budget of memory, one table and one port for each kind,
 * and the history of both.
 *
 * Ownership: the caller's, between open and close.  The loop's thread.
 * Errors: 0 or a negative errno; text goes to diag.
 */
#ifndef COUNTD_WRITER_LIVE_LIVE_SERVICE_H
#define COUNTD_WRITER_LIVE_LIVE_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/loop.h"
#include "common/setup/config.h"
#include "writer/live/live_server.h"
#include "writer/live/live_tally.h"
#include "writer/logs.h"

#define LIVE_SERVICE_KINDS LIVE_TALLY_KINDS /* enum live_kind */

/* What the settings say of one kind. */
struct live_service_settings {
    const char *name;
    const char *port_key, *enable_key, *max_key;
    bool enable;
    uint64_t port, max_connections, buckets, interval_s;
};

struct live_service {
    struct budget budget; /* of both kinds */
    uint64_t no_memory;   /* requests refused for it, as far as it was said */
    struct live_server servers[LIVE_SERVICE_KINDS];
    bool on[LIVE_SERVICE_KINDS];
    struct live_tally history;
    bool live_tally_on;
};

struct live_service_settings live_service_settings(const struct config *c,
                                                   enum live_kind kind);

/* Allocates what is enabled, for the given number of connections of each kind.
 */
int live_service_open(struct live_service *l, struct loop *loop,
                      struct logs *logs, const struct config *config,
                      const size_t connections[LIVE_SERVICE_KINDS]);
void live_service_close(struct live_service *l);

/* At the end of each turn of the loop.  True: the next one should not wait. */
bool live_service_turn(struct live_service *l);

/* The logs have room again. */
void live_service_ready(struct live_service *l);

/* A clean stop, after all connections have ended: writes the remaining activity
 * to the logs, waits at most `patience_ms` if they are full, and calls
 * `finished`. */
void live_service_finish(struct live_service *l, uint64_t patience_ms,
                         void (*finished)(void *ctx), void *ctx);

/* Prints the figures. */
void live_service_print(const struct live_service *l);

#endif
