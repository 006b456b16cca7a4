/* worker/apply_batch.h - applies the folded sums of a log batch to each
 * keyspace, or sets them aside.
 *
 * The batch is m->current, after log_select_sort().  It is applied in slices of
 * about m->slice_ns: apply_batch_begin(), apply_batch_slice() until it returns
 * false, apply_batch_end().  Between slices another batch may be applied.
 *
 * Waits while another process writes to a keyspace, and reports its pid.  For merge.c only. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WORKER_APPLY_BATCH_H
#define COUNTD_WORKER_APPLY_BATCH_H

#include "worker/merge.h"

void apply_batch_begin(struct merge *m);

/* Applies to keyspaces, those with most records first.  Returns whether any may
 * be left. */
bool apply_batch_slice(struct merge *m);

/* Waits for the keyspaces that other processes write to, and sets aside in
 * log/waiting/ what keyspaces did not take of logs.  Afterwards logs[i].whole is
 * true for each log whose records are all durable in their keyspaces or there:
 * only these may be emptied.  Sets m->waiting if the machine cannot proceed (disk
 * full): the logs stay full. */
void apply_batch_end(struct merge *m);

/* Whether the caller of the merge wants it to stop. */
bool apply_batch_stopped(const struct merge *m);

#endif
