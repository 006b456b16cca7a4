/* worker/log_select.h - which logs of a batch may be merged together.
 *
 * For each log a keyspace reports a state: not merged, merged, partly merged up
 * to a progress (common/store/store.h), or already held (common/store/held.h).
 * One store batch may contain only logs in the same state.  log_select_sort()
 * keeps the oldest log and every log compatible with it in all keyspaces they
 * share, and releases the others unmerged for a later batch.
 *
 * If a keyspace cannot be read, its records are held.  Whether a dead worker
 * had already merged a log is then unknown, and a record of a merged and an
 * unmerged log could never be applied: so no two of its logs are compatible and
 * the next batch takes a single log.  That costs syncs: while a keyspace is
 * unreadable, each log that names it is merged alone, with a commit of
 * data/held and of each other keyspace it names.  (A record per log of a larger
 * batch would need a fold per log: too much code for a rare case.)
 *
 * A log of which a keyspace has a later epoch is quarantined: the directory was
 * restored from a backup.
 *
 * Marks of many keyspaces are read by the lanes of the store at once.  Each
 * lane decides which logs leave by what its keyspaces say; a log leaves the
 * batch when one lane says so.  While anything is held, one thread does it all.
 *
 * Reports through diag.  Errors: 0 or a negative errno. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WORKER_LOG_SELECT_H
#define COUNTD_WORKER_LOG_SELECT_H

#include "common/store/held.h"
#include "common/store/store.h"
#include "worker/batch.h"
#include "worker/parallel.h"

/* The state of a keyspace's records in this batch (fold_keyspace.state). */
enum keyspace_state {
    KEYSPACE_APPLY,        /* to be applied */
    KEYSPACE_BUSY,         /* another process is writing to the keyspace */
    KEYSPACE_APPLIED,      /* applied, durably */
    KEYSPACE_ALREADY_HELD, /* held before */
    KEYSPACE_TO_HOLD,      /* to be held: `error` is the reason */
    KEYSPACE_FAILED        /* neither: its logs stay full */
};

/* What a thread uses for the keyspaces of its lane. */
struct log_select_lane {
    /* For one keyspace: the logs with records for it. */
    struct store_fill *marks;
    unsigned *numbers;
    struct store_mark_info *infos;
    enum held_state *held_states;

    int8_t *leaving; /* of each log of the batch */
    bool unknown;    /* some keyspace of the lane cannot be read */
    int error;
};

struct log_select {
    struct store *store;     /* borrowed */
    struct held *held;       /* borrowed */
    struct log_batch *batch; /* that is being sorted */
    struct log_select_lane lanes[PARALLEL_MAX];
    unsigned lane_count; /* of the store */
    bool one_lane;       /* the first selects for all keyspaces */
};

/* Allocates for batches of up to `max` logs.  -ENOMEM. */
int log_select_open(struct log_select *a, struct store *store,
                    struct held *held, unsigned max);
void log_select_close(struct log_select *a);

/* Selects the logs that may be merged together.  The logs must be claimed,
 * because held records are read first, then the marks of every keyspace.  Folds
 * the batch without the logs that are not compatible, which it releases, and
 * sets each keyspace's state to APPLY, ALREADY_HELD or TO_HOLD.  Returns
 * whether logs were released, or an error of held/ or of folding. */
int log_select_sort(struct log_select *a, struct log_batch *b);

/* Lists the logs with records for this keyspace in a->marks and a->numbers;
 * returns their number. */
unsigned log_select_touching(struct log_select_lane *a,
                             const struct log_batch *b,
                             const struct fold_keyspace *k);

/* How many lanes are worth starting for these keyspaces. */
unsigned log_select_lanes(const struct log_select *a, size_t keyspaces);

#endif
