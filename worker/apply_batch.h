/* worker/apply_batch.h - each keyspace of a batch: its records are applied, or
 * held.
 *
 * Waits for another process that writes to one, and says for whom.  For
 * merge.c only.
 */
#ifndef COUNTD_WORKER_APPLY_BATCH_H
#define COUNTD_WORKER_APPLY_BATCH_H

#include "worker/merge.h"

/* Sees to every keyspace of the batch; then each log is whole (all of its
 * records are safe, and it can be emptied) or not.  Sets `waiting` when the
 * machine cannot now. */
void apply_batch(struct merge *m);

/* Whether the caller of the merge says that it is to stop. */
bool apply_batch_stopped(const struct merge *m);

#endif
