/* worker/parallel.h - the lanes of a merge, each in a thread.
 *
 * The threads live for one call: a merge of few keyspaces starts none, and
 * nothing has to be stopped or woken. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WORKER_PARALLEL_H
#define COUNTD_WORKER_PARALLEL_H

#define PARALLEL_MAX 16

/* Calls work(ctx, lane) for each lane below `count`, at the same time, and
 * returns when all have returned.  Lane 0 runs in the caller's thread, as do
 * those for which the system gives no thread. */
void parallel_run(unsigned count, void (*work)(void *ctx, unsigned lane),
                  void *ctx);

#endif
