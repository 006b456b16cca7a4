/* worker/batch.h - the full logs that a worker has claimed, folded together; or
 * fills of log/waiting/, which waiting_pass.c takes.
 *
 * Oldest first, so that as_of_ms advances.  Only records that survive a power
 * loss may be merged: the mode of a full log promises that they do.
 *
 * The fold always holds exactly the logs of the batch: when one of them must go
 * (it is damaged, or does not fit, or cannot be merged with the others) the
 * fold is cleared and the rest folded again.  A damaged log is quarantined, any
 * other is released unmerged; neither stops the others.  Logs that failed are
 * deferred together, each time longer, since claiming one changes the directory,
 * which wakes every worker.
 *
 * Ownership: the logs are claimed from batch_take() until
 * batch_release_unmerged() or batch_end().  Reports through diag.  Errors: 0 or
 * a negative errno.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WORKER_BATCH_H
#define COUNTD_WORKER_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/log/log.h"
#include "common/log/logdir.h"
#include "common/log/waiting.h"
#include "common/setup/config.h"
#include "common/store/store.h"
#include "worker/fold.h"
#include "worker/retry.h"

#define BATCH_RETRY_FIRST_MS 50 /* pause after a log failed; see retry.h */
#define BATCH_RETRY_MOST_MS  5000
#define BATCH_RECOVER_MS     900  /* between two searches for dead owners */
#define BATCH_BUSY_MS        10   /* until a full, locked log is tried again */
#define BATCH_PLACES         1024 /* of logs that failed, by index */

struct batch_log {
    struct log log;
    struct log_fill mark;
    bool claimed; /* false: it leaves the batch */
    bool whole;   /* all its records are durable in their keyspaces or in
                     log/waiting/ */
    struct waiting_fill *fill; /* that waits; NULL: it is of `log` */
    uint32_t count;            /* records in it, at most */
    uint64_t records;          /* increments in it, but those of 0 */
    uint64_t zeros;
};

/* What a worker has done since its start. */
struct merge_stats {
    uint64_t recovered;   /* logs of dead writers and workers, made usable */
    uint64_t quarantined; /* logs */
    uint64_t records;     /* increments in emptied logs, but those of 0 */
    uint64_t zeros;       /* increments of 0 in them */
    uint64_t logs;        /* emptied */
    uint64_t keyspaces;   /* applied to, once per batch */
    uint64_t keys;        /* whose counts were changed, once per batch */
    uint64_t created;     /* keys that are new */
    uint64_t saturated;   /* keys newly flagged */
    uint64_t held;        /* fills of which something was set aside */
    uint64_t archived;    /* logs */
};

struct log_batch {
    struct logdir dir;
    struct fold fold;
    struct batch_log *logs;
    unsigned count;
    unsigned max;
    size_t keyspaces_max; /* not 0: a log that brings more, or that does not fit
                             in memory, is released, and the batch ends */
    bool limited;         /* the last batch ended because of that */
    struct retry failed;  /* when those that failed are tried again */
    bool any_deferred;    /* one failed since they were */
    uint64_t deferred[BATCH_PLACES / 64]; /* a bit for each */
    uint64_t retry_most_ms; /* BATCH_RETRY_MOST_MS; tests: 0, nothing waits */
    uint64_t retry_ms;      /* when the next log that failed or was busy may be
                               tried again (clock_ms); UINT64_MAX: none was */
    uint64_t recover_ms;    /* when dead owners are searched for (clock_ms) */
    bool has_recovered;     /* once, at the start */
    bool other_sizes;       /* a log was written with other message sizes */
    struct merge_stats *stats; /* the worker's */
};

/* `log_fd` is data/log; it is duplicated.  The fold has `memory` bytes.  The
 * caller sets `stats`. */
int batch_open(struct log_batch *b, int log_fd, const struct layout *l,
               const struct config *config, size_t memory);
void batch_close(struct log_batch *b); /* also if that failed */

/* Recovers logs of dead owners, once a second, then claims and folds full logs;
 * logs that failed lately are deferred.  Returns their number, or an error of
 * the directory itself or of clearing the fold: then call
 * batch_release_unmerged(). */
int batch_take(struct log_batch *b);

/* Adds and folds a fill of a file that is claimed, after fold_clear() and the
 * others.  Returns whether more may be added, or as batch_take(); what could
 * not be folded is not in b->logs, and a damaged file is marked. */
int batch_add_waiting(struct log_batch *b, struct waiting_fill *f);

static inline bool
batch_is_waiting(const struct log_batch *b)
{
    return b->count > 0 && b->logs[0].fill != NULL;
}

/* Quarantines a log, or releases it unmerged for the next batch.  It still
 * counts; follow with batch_fold(). */
void batch_quarantine(struct log_batch *b, struct batch_log *l,
                      const char *why);
void batch_release(struct log_batch *b, struct batch_log *l);

/* Folds the logs that are still claimed anew; their numbers change.  Errors as
 * of batch_take(). */
int batch_fold(struct log_batch *b);

/* Releases all logs unmerged; with `failed` they are deferred. */
void batch_release_unmerged(struct log_batch *b, bool failed);

/* Empties the logs that are whole and releases the others unmerged; those are
 * deferred unless `stopped`.  Returns how many were emptied. */
unsigned batch_end(struct log_batch *b, bool stopped);

#endif
