/* worker/batch.h - the full logs a worker has taken, folded together.
 *
 * Oldest first, so that what readers are told about freshness moves on.  A log
 * is synced before it is read: what is merged must be what the disk will show
 * after a power loss.
 *
 * The fold always holds exactly the logs of the batch: when one of them must go
 * (it is damaged, or does not fit, or cannot be merged with the others) the
 * fold is cleared and the rest folded again.  A damaged log is quarantined, any
 * other is given back; neither stops the others.  A log that failed is left
 * alone for a while (struct retry), since claiming it changes the directory,
 * which wakes every worker.
 *
 * Ownership: the logs are claimed from batch_take() until batch_give_back() or
 * batch_end().  Reports through diag.  Errors: 0 or a negative errno.
 */
#ifndef COUNTD_WORKER_BATCH_H
#define COUNTD_WORKER_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/log/log.h"
#include "common/log/logdir.h"
#include "common/store/store.h"
#include "worker/fold.h"
#include "worker/retry.h"

#define BATCH_RETRY_FIRST_MS 50
#define BATCH_RETRY_MOST_MS  5000
#define BATCH_RETRIES        256 /* logs that failed; of more one is forgotten */

struct batch_log {
    struct log log;
    struct store_fill mark;
    uint64_t inode;
    bool claimed;     /* false: on its way out of the batch */
    bool whole;       /* every keyspace has its records, or they are held */
    uint64_t records; /* increments in it, but those of 0 */
    uint64_t zeros;
};

/* A log that failed, known by index and inode: a new one under an old name
 * starts afresh. */
struct batch_retry {
    uint64_t index;
    uint64_t inode;
    struct retry retry; /* wait_ms 0: free */
};

struct batch_stats {
    uint64_t recovered;   /* logs of dead writers and workers, made usable */
    uint64_t quarantined; /* logs */
    uint64_t records;     /* increments in emptied logs, but those of 0 */
    uint64_t zeros;       /* increments of 0 in them */
};

struct batch {
    struct logdir dir;
    struct fold fold;
    int scratch_fd; /* where a log is folded that does not fit in memory */
    struct batch_log *logs;
    unsigned count;
    unsigned max;
    bool alone; /* the next batch gets one log: worker/log_select.h */
    struct batch_retry retries[BATCH_RETRIES];
    unsigned next_retry;    /* which is forgotten when all are in use */
    uint64_t retry_most_ms; /* BATCH_RETRY_MOST_MS; tests: 0, nothing waits */
    uint64_t retry_ms;      /* when the next log that failed may be tried again
                               (clock_ms); UINT64_MAX: none has */
    bool has_recovered;     /* once, at the start */
    bool other_sizes;       /* a log was written with other message sizes */
    struct batch_stats stats;
    struct logdir_entry *ready; /* full logs of the last scan, sorted */
    size_t ready_max;
};

/* `log_fd` is data/log; it is duplicated.  `scratch_fd` is a directory on the
 * same disk, borrowed. */
int batch_open(struct batch *b, int log_fd, int scratch_fd,
               const struct layout *l, uint64_t log_size, unsigned max,
               size_t memory);
void batch_close(struct batch *b);

/* Recovers what dead owners left, then takes and folds full logs; those that
 * failed lately are left for later.  Returns their number, or an error of the
 * directory itself or of clearing the fold: then give back. */
int batch_take(struct batch *b);

/* Quarantines a log, or gives it back for the next batch.  It still counts;
 * follow with batch_fold(). */
void batch_quarantine(struct batch *b, unsigned number, const char *why);
void batch_put_back(struct batch *b, unsigned number);

/* Folds the logs that are still claimed afresh; their numbers change.  Errors
 * as of batch_take(). */
int batch_fold(struct batch *b);

/* Gives all logs back as they are, full; those that failed wait. */
void batch_give_back(struct batch *b, bool failed);

/* Empties the logs that are whole, and gives the others back: they failed,
 * unless `stopped`.  Returns how many were emptied. */
unsigned batch_end(struct batch *b, bool stopped);

#endif
