/* writer/quota/quota_service.h - quotas as the writer serves them: the engine,
 * its journal, the commit that answers wait for, and what goes wrong with a
 * disk.
 *
 * A journal that is damaged, or cannot be opened, is answered 503, until an
 * operator has mended it and starts the writer again.
 *
 * An answer leaves when the changes it depends on are durable.  When a write or
 * sync has failed, commit.failed is true and no answer leaves any more: the
 * caller ends the process, as for one of a log.
 *
 * A full disk: when the journal's zeros are used up and no checkpoint can be
 * written, changes are answered 503, and nothing else is.
 *
 * The I/O thread syncs, and writes checkpoints and exports behind a sync:
 * requests wait meanwhile, so that the quotas are as after that sync.
 *
 * quota.export has the applications of the quota without a name as text:
 *
 *     NUMBER AMOUNT LF                of an application
 *     NUMBER AMOUNT CANCELLED_BY LF   of one that was cancelled
 *
 * Ownership: the caller's, between open and close.  The loop's thread.
 * Errors: 0 or a negative errno; text goes to diag.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_QUOTA_QUOTA_SERVICE_H
#define COUNTD_WRITER_QUOTA_QUOTA_SERVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/net/http.h"
#include "common/net/io.h"
#include "common/net/loop.h"
#include "common/setup/config.h"
#include "writer/commit.h"
#include "writer/quota/journal.h"
#include "writer/quota/quotas.h"

#define QUOTA_RETRY_MS 1000 /* between exports, or checkpoints that fail */
#define QUOTA_KEY_SIZE 255  /* bytes of an Idempotency-Key */

#define QUOTA_UNNAMED_NAME "-" /* in lists */

struct quota_stats {
    uint64_t applied, cancelled, refused, other; /* requests */
    uint64_t repeated;                           /* with a known key */
    uint64_t unavailable;
    uint64_t failures; /* checkpoints that could not be written */
};

struct quota_service {
    struct loop *loop; /* NULL: off */
    const struct config *config;
    struct journal journal;
    struct quotas quotas; /* that were read from it */
    bool is_open;         /* both */
    struct io io;
    struct commit commit;
    struct list_link line; /* requests that wait for room */
    bool paused;  /* a checkpoint or an export is written: requests wait */
    bool is_full; /* the checkpoint that was due could not be written */
    bool wants_export;
    int export_rc;
    uint64_t retry_ms;       /* clock: neither is written before */
    struct loop_timer retry; /* wakes the loop then */
    struct diag_repeat export_warning, numbers_warning, max_warning;
    struct quota_stats stats;
};

/* Opens or creates the journal, for `max` connections that may wait.  Until then
 * it is off, if it is zero.  A journal that cannot be opened does not fail.
 *   -EINVAL  quota.limit differs from the journal's */
int quota_open(struct quota_service *s, struct loop *loop, int live_fd,
               const struct config *config, size_t max);

/* Once all connections have ended. */
void quota_close(struct quota_service *s);

/* The routes, for http_site_add() with the service as ctx. */
extern const struct http_route quota_routes[];
extern const size_t quota_route_count;

/* Bytes of the largest answer. */
size_t quota_answer_max(const struct config *config);

/* At the end of each turn. */
void quota_turn(struct quota_service *s);

#endif
