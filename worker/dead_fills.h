/* worker/dead_fills.h - which fills of logs can never be merged again.
 *
 * An engine may remove an empty keyspace, and its marks with it, once no log
 * can bring back what a mark says is in (struct store_maintenance).  A fill
 * (uuid, epoch) that is in is dead when
 *
 *   - every readable log with this uuid has two good headers, and the header
 *     that rules has a later epoch in any state, or this epoch and is EMPTY;
 *   - the same headers are on the disk: they are synced, dropped from the page
 *     cache and read again, because a worker writes EMPTY without a sync, and a
 *     power loss replaces an OPEN header that is not synced by the SEALED one
 *     of the fill before it;
 *   - no quarantined log (bad-*) with this uuid has an epoch up to this one:
 *     `countd log salvage` merges it.  One that cannot be read may have any
 *     uuid, so it keeps all fills alive;
 *   - where no log has the uuid, every log could be read.
 *
 * The headers are read when the first question comes after dead_fills_forget().
 * A fill that is dead stays dead, so an older reading is never wrong about one:
 * epochs only rise, and a new log has a new uuid.  (Not so when an operator
 * puts older logs into the directory.)
 *
 * Ownership: the caller's between init and fini.  No output, one thread.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WORKER_DEAD_FILLS_H
#define COUNTD_WORKER_DEAD_FILLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/log/log_header.h"
#include "common/store/store.h"

/* A log, as its headers say. */
struct dead_fills_log {
    uint8_t uuid[16];
    uint64_t epoch;
    bool empty;
    bool whole;       /* both headers are good */
    bool quarantined; /* bad-* */
};

struct dead_fills {
    int log_fd; /* borrowed */
    struct dead_fills_log *logs;
    size_t count, capacity;
    bool known;           /* the logs were read */
    bool all_read;        /* every log could be read */
    bool quarantine_read; /* every quarantined log could be read */
};

void dead_fills_init(struct dead_fills *s, int log_fd);
void dead_fills_fini(struct dead_fills *s);

/* Whether this fill, which is in, can never be merged again.
 * ctx: the struct dead_fills. */
bool dead_fills_contain(void *ctx, const struct log_fill *mark);

/* The next question reads the logs afresh. */
void dead_fills_forget(struct dead_fills *s);

#endif
