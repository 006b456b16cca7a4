/* worker/worker_status.h - countd-worker's part of data/board: its figures, and
 * the logs it merges.
 *
 * Ownership: the caller's; what it reads is borrowed.  One thread.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WORKER_WORKER_STATUS_H
#define COUNTD_WORKER_WORKER_STATUS_H

#include "common/setup/status.h"
#include "worker/merge.h"

struct worker_status {
    struct status status;
    struct status_row row;
    const struct merge *merge;
    uint64_t due_ms;   /* monotonic */
    uint64_t merge_ns; /* spent in batches; the caller's */
    bool is_waiting;   /* the machine cannot now; the caller's */
};

void worker_status_init(struct worker_status *s, const char *data_dir,
                        const struct merge *merge);
void worker_status_close(struct worker_status *s);

/* Puts the figures when it is time; cheap, to be called often. */
void worker_status_tick(struct worker_status *s);

/* The line of SIGUSR1. */
void worker_status_print(struct worker_status *s);

#endif
