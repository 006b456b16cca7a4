/* worker/merge.h - a batch of full logs -> one batch per keyspace.
 *
 * The happy path: claim and fold full logs; read each keyspace's marks for
 * them; have the store apply the sums and the marks of the logs, keyspace by
 * keyspace; then empty the logs.  A log is emptied only when every keyspace it
 * names has its records durably, or they wait durably (common/log/waiting.h).
 *
 * The rest is what keeps it exactly once:
 *   - logs in different states for a keyspace are merged one after the other
 *     (worker/log_select.h);
 *   - records that a keyspace cannot take are set aside in log/waiting/, and so
 *     are those of later fills of the same logs: everything else goes on, and
 *     merge_waiting() merges them when it can;
 *   - a keyspace that another process is writing to is deferred, then
 *     waited for;
 *   - if marks changed meanwhile, the logs are released and merged later;
 *   - a full disk: the logs stay full and are tried again.
 *
 * A batch of thousands of keyspaces takes seconds.  Every MERGE_SLICE_NS it
 * pauses, and logs of few keyspaces that became full meanwhile are merged (a
 * quick batch), as a second worker would: what is counted all the time is not
 * made to wait by what is counted once.  The first log that has many keyspaces
 * itself ends that until the batch is over.
 *
 * The caller's thread, and while there are many small keyspaces some more
 * (worker/parallel.h), each for a lane of the store.  Between two keyspaces,
 * and while it waits, the caller's thread calls stop(); if that returns true
 * the remaining logs are released unmerged.  Reports through diag.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WORKER_MERGE_H
#define COUNTD_WORKER_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/log/archive.h"
#include "common/log/requests.h"
#include "common/setup/config.h"
#include "common/setup/datadir.h"
#include "common/setup/merge_note.h"
#include "common/store/as_of.h"
#include "common/store/store.h"
#include "worker/batch.h"
#include "worker/dead_fills.h"
#include "worker/log_select.h"
#include "worker/waiting_pass.h"

enum merge_outcome {
    MERGE_IDLE,    /* no full log */
    MERGE_DONE,    /* something was merged: there may be more */
    MERGE_LATER,   /* only logs that failed: at batch.retry_ms */
    MERGE_WAIT,    /* the machine cannot now (full disk): back off */
    MERGE_STOPPED, /* as told */
    MERGE_REFUSED, /* logs of other message sizes: settings are wrong */
    MERGE_OLDER,   /* keyspace/ is older than log/: an operator decides */
};

#define MERGE_SLICE_NS    UINT64_C(500000000)
#define MERGE_QUICK_NAMES 64 /* keyspaces of a quick batch, at most */

/* What merge_maintain() does every so often: joins files that wait, removes
 * archived logs, makes the reserve. */
enum { MERGE_JOIN, MERGE_EXPIRE, MERGE_RESERVE, MERGE_CHORES };

struct merge {
    struct as_of as_of; /* of a store that others count into; else unused */
    struct log_batch batch;
    struct log_batch quick;
    struct log_batch *current; /* of the two, the one that is being merged */
    uint64_t slice_ns;         /* MERGE_SLICE_NS; tests: 0, one keyspace */
    uint64_t slice_end_ns;
    struct log_select select;
    struct requests requests; /* for logs that are recovered */
    struct store *store;      /* borrowed */
    struct waiting folder;    /* log/waiting/ */
    struct waiting_pass pass; /* over it */
    struct dead_fills dead_fills;
    uint64_t due_ms[MERGE_CHORES]; /* clock_ms() */
    bool is_older;    /* keyspace/ is older than log/, or was replaced:
                            nothing is merged */
    uint64_t note_ms; /* when the merge note is written next (clock_ms) */
    const struct datadir *dir;
    uint64_t keyspace_max; /* for reports: of the settings */
    uint64_t keys_max;
    struct archive archive; /* off until the caller opens it */
    bool waiting;           /* the machine cannot proceed now */
    bool worked;            /* memory is cached since a batch */
    bool (*stop)(void *ctx);
    void *stop_ctx;
    struct merge_stats stats;
};

/* Borrows dir and store for its life. */
int merge_open(struct merge *m, const struct config *config,
               const struct datadir *dir, struct store *store);
void merge_close(struct merge *m);

/* One batch. */
enum merge_outcome merge_run(struct merge *m);

/* A batch of what waits, if it is time.  Returns when to call again (clock_ms);
 * UINT64_MAX: nothing waits, or what does is not this worker's to merge. */
uint64_t merge_waiting(struct merge *m);

/* Lets the store do work of its own until about until_ns (clock_ns); to be
 * called about once a second.  True: there is more to do now. */
bool merge_maintain(struct merge *m, uint64_t until_ns);

/* Whether a store that others count into has all that this directory has ever
 * received: no writer runs, and nothing is in a log or waits.  Seen in this order,
 * which is that in which records move. */
bool merge_has_ended(struct merge *m);

#endif
