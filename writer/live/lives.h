/* writer/live/lives.h - the counters and semaphores of one writer, as its
 * settings say: one budget of memory, one table and one port for each kind, and
 * the history of both.
 *
 * Ownership: the caller's, between open and close.  The loop's thread.
 * Errors: 0 or a negative errno; text goes to diag.
 */
#ifndef COUNTD_LIVES_H
#define COUNTD_LIVES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/loop.h"
#include "common/setup/config.h"
#include "writer/live/server.h"
#include "writer/live/tally.h"
#include "writer/logs.h"

#define LIVES_KINDS HISTORY_KINDS /* enum live_kind */

/* What the settings say of one kind. */
struct lives_settings {
    const char *name;
    const char *port_key, *enable_key, *max_key;
    bool enable;
    uint64_t port, max_connections, buckets, interval_s;
};

struct lives {
    struct budget budget; /* of both kinds */
    uint64_t no_memory;   /* requests refused for it, as far as it was said */
    struct live_server servers[LIVES_KINDS];
    bool on[LIVES_KINDS];
    struct history history;
    bool history_on;
};

struct lives_settings lives_settings(const struct config *c,
                                     enum live_kind kind);

/* Takes the memory of what is enabled, for so many connections of each kind. */
int lives_open(struct lives *l, struct loop *loop, struct logs *logs,
               const struct config *config,
               const size_t connections[LIVES_KINDS]);
void lives_close(struct lives *l);

/* At the end of each turn of the loop.  True: the next one should not wait. */
bool lives_turn(struct lives *l);

/* The logs have room again. */
void lives_ready(struct lives *l);

/* A clean stop, when all connections have ended: what history has to tell is
 * put into the logs, for which it waits at most `patience_ms` when they have no
 * room, and `finished` is called. */
void lives_finish(struct lives *l, uint64_t patience_ms,
                  void (*finished)(void *ctx), void *ctx);

/* Prints the figures. */
void lives_print(const struct lives *l);

#endif
