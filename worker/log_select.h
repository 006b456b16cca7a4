/* worker/log_select.h - which logs of a batch can be merged together.
 *
 * Of each log a keyspace says one of these, and nearly always the same of all:
 * nothing of it is in; all of it is; equally much is (common/store/store.h);
 * its very records are held for this keyspace (common/store/held.h).  One
 * batch of a keyspace may only hold logs of which the same is said.  So where
 * logs are told apart, the oldest log stays and with it each log that agrees
 * with it in every keyspace that they share; the others are given back and come
 * in a later batch.
 *
 * When a keyspace cannot be read, what it was to get is held.  Nobody can tell
 * then whether a log is in, put there by a worker that died before it emptied
 * the log, and a record of one that is in and one that is not could never be
 * applied.  So no two of its logs agree, and the next batch gets one log only.
 * That costs syncs: while a keyspace is unreadable, each log that names it is
 * merged alone, with a commit of data/held, and of each other keyspace it
 * names. (A record for each log of a larger batch would take a fold for each
 * log: more to go wrong in what is rare.)
 *
 * A log of which a keyspace has a later epoch is quarantined: the directory was
 * restored from a backup.
 *
 * Reports through diag.  Errors: 0 or a negative errno.
 */
#ifndef COUNTD_WORKER_LOG_SELECT_H
#define COUNTD_WORKER_LOG_SELECT_H

#include "common/store/held.h"
#include "common/store/store.h"
#include "worker/batch.h"

/* What becomes of a keyspace's records in this batch (fold_keyspace.state). */
enum keyspace_state {
    KEYSPACE_APPLY,        /* are to be applied */
    KEYSPACE_BUSY,         /* another process is writing to the keyspace */
    KEYSPACE_APPLIED,      /* are in, durably */
    KEYSPACE_ALREADY_HELD, /* are held already */
    KEYSPACE_TO_HOLD,      /* are to be held: `error` says why */
    KEYSPACE_FAILED        /* neither: its logs stay full */
};

struct log_select {
    struct store *store; /* borrowed */
    struct held *held;   /* borrowed */

    /* Of one keyspace: the logs with records for it. */
    struct store_fill *marks;
    unsigned *numbers;
    struct store_mark_info *infos;
    enum held_state *held_states;

    int8_t *leaving; /* of each log of the batch */
    bool unknown;    /* some keyspace of the batch cannot be read */
};

/* Makes room for batches of up to `max` logs.  -ENOMEM. */
int log_select_open(struct log_select *a, struct store *store,
                    struct held *held, unsigned max);
void log_select_close(struct log_select *a);

/* Looks at what is held, so the logs must be claimed, then asks every keyspace;
 * has the batch folded without the logs that do not agree, which it gives back,
 * and sets each keyspace's state to TODO, SAME or HOLD.  Returns whether logs
 * were given back, or an error of the held file or of folding. */
int log_select_sort(struct log_select *a, struct batch *b);

/* Lists the logs with records for this keyspace in a->marks and a->numbers;
 * returns their number. */
unsigned log_select_touching(struct log_select *a, const struct batch *b,
                             const struct fold_keyspace *k);

#endif
