/* worker/waiting_pass.h - takes fills of log/waiting/ for batches, again and
 * again, until all keyspaces have them.
 *
 * One pass goes through all fills, the oldest first and those of one log by
 * epoch; a batch has at most one fill of each log.  A keyspace that refused is
 * left out for the rest of the pass, and a fill that only such keyspaces want is
 * not read.  A pass that merged nothing is followed by a pause: 50 ms, doubled
 * up to a minute, and at least four times what its batches took.  While full
 * logs wait, passes get a fifth of the time (watch.c).
 *
 * A damaged file is repaired first: what is good of it goes on.
 *
 * Ownership: the caller's; the folder is borrowed.  One thread.  Reports
 * through diag. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WORKER_WAITING_PASS_H
#define COUNTD_WORKER_WAITING_PASS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/log/waiting.h"
#include "worker/batch.h"
#include "worker/retry.h"

#define PASS_RETRY_FIRST_MS 50 /* after a pass without a merge; see retry.h */
#define PASS_RETRY_MOST_MS  60000
#define PASS_AGAIN_MS       10    /* the folder was in use */
#define PASS_PATIENCE_MS    10000 /* of pauses for another process */

struct waiting_pass {
    struct waiting *folder;
    uint64_t (*now_ms)(void); /* clock_ms; tests have their own */
    uint32_t number;          /* from 1 */
    bool passing;             /* it goes on */
    bool merged;              /* something, in this pass */
    bool busy;                /* another process had a file, in this pass */
    uint64_t batch_ms;        /* when its last batch began */
    uint64_t took_ms;         /* what its batches took */
    bool placed_only;         /* R11 of common/log/waiting.h */
    struct retry retry;       /* of passes that merged nothing */
    uint64_t due_ms;          /* of the next batch; UINT64_MAX: nothing waits */
    uint64_t fills;           /* merged and removed, since the start */
};

void waiting_pass_init(struct waiting_pass *p, struct waiting *folder);

/* Removes the files of which nothing is left, then takes and folds fills into an
 * empty batch.  Returns their number, 0 at the end of a pass, or an error of
 * listing or folding. */
int waiting_pass_take(struct waiting_pass *p, struct log_batch *b);

/* After the batch was applied: notes what each keyspace has or refused, and lets
 * go of the files. */
void waiting_pass_end_batch(struct waiting_pass *p, const struct log_batch *b);

/* Sets when the next batch is due; `taken` is what waiting_pass_take()
 * returned. */
void waiting_pass_ended(struct waiting_pass *p, int taken);

/* Whether what is left may yet be merged: another process has some of it, which
 * may let go without having merged it.  No more after thirteen seconds of passes
 * that merged nothing, since that process may hang. */
static inline bool
waiting_pass_is_held_up(const struct waiting_pass *p)
{
    return p->busy && p->retry.wait_ms > 0 &&
           p->retry.wait_ms < PASS_PATIENCE_MS &&
           4 * p->took_ms < PASS_PATIENCE_MS;
}

#endif
