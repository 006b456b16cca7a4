/* worker/merge.h - a batch of full logs -> one transaction per keyspace.
 *
 * The happy path: take and fold full logs; ask each keyspace which of them
 * it has already; apply the sums and the marks of the logs together, keyspace
 * by keyspace; then empty the logs.  A log is emptied only when every
 * keyspace it names has its records durably, or they are held durably.
 *
 * The rest is what keeps it exactly once:
 *   - records of logs that a keyspace has already are taken out of the sums;
 *     a mark this process did not write is made durable by a fence first;
 *   - a mark that changed meanwhile (-ESTALE): that keyspace is summed again;
 *   - a mark above the log's epoch: the directory was restored from a backup;
 *     the log is quarantined, never skipped;
 *   - a keyspace that cannot take its records stops nobody: they are held,
 * those of keyspaces there is no room for in one file per log;
 *   - a full disk: the logs stay full and are tried again.
 *
 * One thread.  Between two keyspaces `stop` is asked; when it says so the
 * rest is given back unharmed.  Reports through diag.
 */
#ifndef COUNTD_WORKER_MERGE_H
#define COUNTD_WORKER_MERGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/setup/config.h"
#include "common/setup/datadir.h"
#include "common/store/lmdb/lmdb.h"
#include "worker/aside.h"
#include "worker/batch.h"
#include "worker/memory.h"

#define MERGE_TRIES_MAX 8  /* of one keyspace, before its records are held */
#define MERGE_SUMS_MAX  8  /* sums of one keyspace in one batch */
#define MERGE_FAILING   64 /* failing keyspaces remembered */

enum merge_outcome {
    MERGE_IDLE,    /* no full log */
    MERGE_DONE,    /* something was merged: there may be more */
    MERGE_LATER,   /* only logs that failed: at merge_retry_ms() */
    MERGE_WAIT,    /* the machine cannot now (full disk): back off */
    MERGE_STOPPED, /* as told */
    MERGE_REFUSED, /* logs of other message sizes: settings are wrong */
};

struct merge_stats {
    uint64_t logs; /* emptied */
    uint64_t records;
    uint64_t zeros;
    uint64_t keyspaces; /* applied to, once per batch */
    uint64_t keys;      /* changed */
    uint64_t created;
    uint64_t saturated;
    uint64_t held; /* files written */
    uint64_t archived;
};

/* A keyspace that failed and may recover. */
struct merge_failing {
    uint8_t name[256];
    uint16_t name_size; /* 0: free */
    unsigned tries;
};

struct merge {
    struct batch batch;
    struct lmdb_options store_options;
    struct lmdb *store; /* NULL: could not be opened again; is retried */
    uint64_t looked_ms; /* store_look */
    struct memory memory;
    size_t memory_most;  /* anonymous, while a commit is made */
    size_t commit_least; /* what a commit may always take of it */
    const struct datadir *dir;
    uint64_t archive_keep;
    size_t holding; /* keyspaces whose records are to be held */
    size_t written; /* held files of this batch */
    bool waiting;   /* the machine cannot now */
    bool worked;    /* since memory was given back */
    bool (*stop)(void *ctx);
    void *stop_ctx;
    struct aside aside;

    /* Of the keyspace being settled: the logs that touch it. */
    struct store_mark *marks;
    struct lmdb_mark_info *infos;
    unsigned *numbers;

    struct merge_failing failing[MERGE_FAILING];
    struct merge_stats stats;
};

/* Opens the store.  Borrows dir for its life. */
int merge_open(struct merge *m, const struct config *config,
               const struct datadir *dir);
void merge_close(struct merge *m);

/* One batch. */
enum merge_outcome merge_run(struct merge *m);

/* When a log that failed may be tried again (clock_ms); UINT64_MAX: none. */
uint64_t merge_retry_ms(const struct merge *m);

/* Tries to merge what is held; to be called now and then. */
void merge_held(struct merge *m);

/* Whether the last try, in a batch or by merge_held(), left something to
 * another worker: then merge_held() is worth a call soon. */
bool merge_held_is_busy(const struct merge *m);

/* One line of figures. */
void merge_report(const struct merge *m);

#endif
