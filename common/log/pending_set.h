/* common/log/pending_set.h - the fills that were unmerged at one moment, and
 * which of them still are.
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
 * Ownership: struct pending_set belongs to the caller; { 0 } is an empty one;
 * pending_set_fini() frees its memory.  Errors: 0 or a negative errno. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_LOG_PENDING_SET_H
#define COUNTD_COMMON_LOG_PENDING_SET_H

#include "common/log/logdir.h"

struct pending_fill {
    uint64_t index;
    uint64_t first_ms;
    bool certain; /* first_ms is that of this fill */
    bool seen;    /* by the last scan */
};

struct pending_set {
    struct pending_fill *fill;
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
