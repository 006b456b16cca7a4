/* writer/live/live_server.h - counters and semaphores as a protocol at listeners.
 *
 * One struct live_server serves one of the two kinds: its objects (live.h),
 * its statistics, the clock of its windows.  live_protocol.c makes answers of
 * requests; common/net/conn.h owns the connections.
 *
 * Requests are done in order and answered in order, each when all of it has come;
 * of a body that is longer than necessary only what the request needs is kept.
 * The order of checks: the magic, the opcode, then the arguments; only a request
 * that passes them counts in the figures.
 *
 * However a connection ends, what it holds is released: some hundred holdings
 * in the same turn, more in steps in the following ones.  There is no idle
 * close.
 *
 * A struct live_service has both, as the settings of a writer say: one budget of
 * memory, one table and one port for each kind.
 *
 * Ownership: the caller's, between init and fini, or open and close.  The loop's
 * thread.  Errors: 0 or a negative errno; the service's text goes to diag.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_LIVE_LIVE_SERVER_H
#define COUNTD_WRITER_LIVE_LIVE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/conn.h"
#include "common/net/loop.h"
#include "common/setup/config.h"
#include "writer/live/live.h"

#define LIVE_DROP_STEP    1024 /* holdings of a connection in one go */
#define LIVE_SWEEP_STEP   512  /* objects looked at in one turn */
#define LIVE_KEEP_ALIVE_S 345  /* a vanished peer is found after */

/* Requests that passed the check of their arguments. */
struct live_server_stats {
    uint64_t noop, get, acquire, release, stats, dump;
};

struct live_server {
    struct loop *loop;
    struct live live;
    struct live_server_stats stats;
    const struct listener *listener; /* the connections that Stats reports */
    uint64_t clock_ms;               /* of the last live_clock() */
    struct loop_timer sweep_timer;
};

/* The protocol of a listener whose ctx is a struct live_server. */
extern const struct protocol live_protocol;

/* The room that its answers need at once. */
#define LIVE_PROTOCOL_OUT_SIZE 131072

/* Puts the items of an answer to Stats, LIVE_PROTOCOL_OUT_SIZE bytes at most;
 * returns how many. */
size_t live_server_put_stats(const struct live_server *s, uint8_t *out);

/* The time for what follows; once per turn. */
void live_server_see_clock(struct live_server *s);

/* Takes the memory; each connection is a holder.  -ENOMEM. */
int live_server_init(struct live_server *s, struct loop *loop,
                     const struct live_options *options);

/* All its connections have ended before. */
void live_server_fini(struct live_server *s);

/* At the end of each turn of the loop: a bounded piece of a sweep.  True: there
 * is more, the next turn should not wait. */
bool live_server_turn(struct live_server *s);

/* ---- both kinds ---------------------------------------------------------- */

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
