/* common/log/pending.h - which commit logs contain increments that no worker
 * has merged, and since when.
 *
 * Errors: 0 or a negative errno. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_LOG_PENDING_H
#define COUNTD_COMMON_LOG_PENDING_H

#include <stdbool.h>
#include <stddef.h>
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
    /* The time of its file: it does not change while a full log is claimed. */
    uint64_t mtime_ms;
    bool certain; /* false: only its file's time, which may differ */

    /* A log that is being merged: no record can be added to this fill, which
     * keyspaces may have marks of. */
    bool merging;
    struct log_fill fill;

    bool seen; /* in a set: by the last scan */
};
int pending_each(struct logdir *dir,
                 int (*each)(void *ctx, const struct pending_log *p),
                 void *ctx);

/* ---- the fills that are unmerged at one moment ----------------------------- */

/* Which of them still are.
 *
 * Waiting for "everything so far" by timestamp fails when the clock is set
 * back: an increment acknowledged earlier may be stamped later than one of
 * tomorrow.  So pending_set_note() records the fills themselves (log index,
 * received_ms of slot 0) and pending_set_drop_merged() removes those that are
 * merged or quarantined.  Errors are on the side of waiting: a log refilled
 * within the same millisecond counts as the old fill, and so does a fill whose
 * first_ms could not be read.  A full log is identified by its mtime, which a
 * copy may have changed; while the mtime is unchanged, the file has not been
 * written.
 *
 * It belongs to the caller; { 0 } is an empty one. */
struct pending_set {
    struct pending_log *logs;
    size_t count;
    size_t capacity;
};

/* Replaces the set by all fills that are unmerged now.  Everything that was in
 * a log at the time of the call is in one of them. */
int pending_set_note(struct pending_set *f, struct logdir *logs);

/* Removes the fills that are merged or quarantined. */
int pending_set_drop_merged(struct pending_set *f, struct logdir *logs);

void pending_set_fini(struct pending_set *f);

#endif
