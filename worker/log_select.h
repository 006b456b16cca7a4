/* worker/log_select.h - which logs of a batch may be merged together.
 *
 * For each log a keyspace reports a state: not merged, merged, partly merged up
 * to a progress (common/store/store.h), or behind: an earlier fill of it waits
 * (R3 of common/log/waiting.h).  One store batch may contain only logs in the
 * same state.  log_select_sort() keeps the oldest log and every log compatible
 * with it in all keyspaces they share, and releases the others unmerged for a
 * later batch.  A keyspace that cannot be read, or that is behind, takes
 * nothing: its records wait, of each log apart.
 *
 * A log of which a keyspace has a later epoch is quarantined: the directory was
 * restored from a backup.  A waiting fill of which it has a later one is in.
 *
 * Marks of many keyspaces are read by the lanes of the store at once.  A log
 * leaves the batch when one lane says so.
 *
 * Reports through diag.  Errors: 0 or a negative errno. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WORKER_LOG_SELECT_H
#define COUNTD_WORKER_LOG_SELECT_H

#include "common/log/waiting.h"
#include "common/store/store.h"
#include "worker/batch.h"
#include "worker/parallel.h"

/* The state of a keyspace's records in this batch (fold_keyspace.state). */
enum keyspace_state {
    KEYSPACE_APPLY,   /* to be applied */
    KEYSPACE_BUSY,    /* another process is writing to the keyspace */
    KEYSPACE_APPLIED, /* applied, durably */
    KEYSPACE_REFUSED, /* they wait: `error` is the reason; 0: they are behind */
    KEYSPACE_FAILED   /* the machine cannot: its logs stay full */
};

/* The state after an attempt that returned `rc`. */
enum keyspace_state log_select_state_after(const struct store *s, int rc);

/* What a thread uses for the keyspaces of its lane. */
struct log_select_lane {
    /* For one keyspace: the logs with records for it. */
    struct log_fill *marks;
    unsigned *numbers;
    struct store_mark_info *infos;
    bool *behind;
};

struct log_select {
    struct store *store;     /* borrowed */
    struct waiting *waiting; /* borrowed */
    uint32_t pass;           /* over it: waiting_pass.h */
    struct log_batch *batch; /* that is being sorted */
    _Atomic int8_t *leaving; /* of each of its logs, by any lane */
    struct log_select_lane lanes[PARALLEL_MAX];
    unsigned lane_count; /* of the store */
    unsigned lanes_used;
};

/* Allocates for batches of up to `max` logs.  -ENOMEM. */
int log_select_open(struct log_select *a, struct store *store,
                    struct waiting *waiting, unsigned max);
void log_select_close(struct log_select *a);

/* Selects the logs that may be merged together.  They must be claimed, because
 * log/waiting/ is listed first (R2), which a batch of waiting fills was taken
 * from already; then the marks of every keyspace are read.  Folds the batch
 * without the logs that are not compatible, which it releases, and sets each
 * keyspace's state to APPLY, REFUSED or FAILED.  Returns whether logs were
 * released, or an error of listing (-EAGAIN: come again) or of folding. */
int log_select_sort(struct log_select *a, struct log_batch *b);

/* Lists the logs with records for this keyspace in a->marks and a->numbers;
 * returns their number. */
unsigned log_select_touching(struct log_select_lane *a,
                             const struct log_batch *b,
                             const struct fold_keyspace *k);

/* How many lanes are worth starting for these keyspaces. */
unsigned log_select_lanes(const struct log_select *a, size_t keyspaces);

#endif
