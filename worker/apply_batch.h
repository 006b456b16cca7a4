/* worker/apply_batch.h - applies the folded sums of a log batch to each
 * keyspace, or holds them.
 *
 * Waits while another process writes to a keyspace or to held/, and reports
 * its pid.  For merge.c only. */
#ifndef COUNTD_WORKER_APPLY_BATCH_H
#define COUNTD_WORKER_APPLY_BATCH_H

#include "worker/merge.h"

/* Applies or holds the records of every keyspace of the batch.  Afterwards
 * logs[i].whole is true for each log whose records are all durable in their
 * keyspaces or in held/: only these may be emptied.  Sets m->waiting if the
 * machine cannot proceed (disk full): the logs stay full. */
void apply_batch(struct merge *m);

/* Whether the caller of the merge wants it to stop. */
bool apply_batch_stopped(const struct merge *m);

#endif
