/* common/log/pending.h - which commit logs contain increments that no worker
 * has merged, and since when.
 *
 * Errors: 0 or a negative errno. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_LOG_PENDING_H
#define COUNTD_COMMON_LOG_PENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/log/log_fill.h"
#include "common/log/logdir.h"

/* Sets *oldest_ms to a time before which no unmerged increment in a log was
 * received: received_ms of the oldest one, or UINT64_MAX if there is none.
 * Covers all that was in a log at the time of the call.  Needs the uid of the
 * owner; quarantined logs do not count.  Costs one readdir, a stat per log and
 * a few reads per owned one: callers cache it for a turn.  After an error (a
 * log could not be judged) an earlier result still holds. */
int pending_oldest_ms(struct logdir *dir, uint64_t *oldest_ms);

/* Calls each() for every such log; stops on non-zero and returns that. */
struct pending_log {
    uint64_t index;
    uint64_t first_ms; /* received_ms of slot 0: distinguishes one fill from
                          another */
    uint64_t
        mtime_ms; /* of its file; does not change while a full log is claimed */
    bool certain; /* false: only its file's time, which may differ */

    /* A log that is being merged: no record can be added to this fill, which
     * keyspaces may have marks of. */
    bool merging;
    struct log_fill fill;
};
int pending_each(struct logdir *dir,
                 int (*each)(void *ctx, const struct pending_log *p),
                 void *ctx);

#endif
