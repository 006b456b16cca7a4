/* common/log/pending_set.h - which logs held increments at one time, and which
 * of these still do.
 *
 * "Everything until now is merged" cannot be told by a clock that may be set
 * back: an increment that was acknowledged before may be stamped later than
 * one that comes tomorrow.  So the logs with increments are noted by what they
 * are, index and received_ms of slot 0, and looked for again.  A log that was
 * merged and filled anew in between is another fill, unless it began in the
 * very millisecond of the old one: that is waited for in vain once, never
 * passed over.  So is what follows a log that could not be told when it was
 * noted.  A full log is known by its mtime, which a copy may have changed: as
 * long as that stays, nobody has written to the file, and it is the same fill.
 *
 * Ownership: struct pending_set is the caller's; { 0 } is an empty one;
 * pending_set_fini() frees what it holds.  Errors: 0 or a negative errno.
 */
#ifndef COUNTD_COMMON_LOG_PENDING_SET_H
#define COUNTD_COMMON_LOG_PENDING_SET_H

#include "common/log/logdir.h"

struct pending_fill {
    uint64_t index;
    uint64_t first_ms;
    bool certain; /* that first_ms is of this fill */
    bool seen;    /* by the last look */
};

struct pending_set {
    struct pending_fill *fill;
    size_t count;
    size_t room;
};

/* Notes all logs with increments that are not merged, and forgets what was
 * noted before.  All that was in a log when it was called is in one of them. */
int pending_set_note(struct pending_set *f, struct logdir *logs);

/* Forgets those that are merged, or quarantined. */
int pending_set_drop_merged(struct pending_set *f, struct logdir *logs);

void pending_set_fini(struct pending_set *f);

#endif
