/* worker/batch.h - the full logs a worker has taken, folded together.
 *
 * Oldest first, so that what readers are told about freshness moves on.  A
 * log is synced before it is read: what is merged must be what the disk will
 * show after a power loss.  Damaged logs are set aside on the way and never
 * stop the others.
 *
 * Ownership: the logs are claimed from batch_take() until batch_give_back()
 * or batch_free().  Reports through diag.  Errors: 0 or a negative errno.
 */
#ifndef COUNTD_WORKER_BATCH_H
#define COUNTD_WORKER_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/log/log.h"
#include "common/log/logdir.h"
#include "common/store/lmdb/held_files.h"
#include "common/store/lmdb/lmdb.h"
#include "worker/fold.h"
#include "worker/later.h"

struct batch_log {
    struct log log;
    struct store_mark mark;
    uint64_t inode;
    bool claimed;               /* false: quarantined or given up meanwhile */
    bool refused;               /* a keyspace has a later epoch of it */
    bool leaves;                /* some keyspace does not want its records */
    struct held_many_base base; /* the caller's: what its file for many
                                   keyspaces was put behind */
    bool whole; /* every keyspace has its records, or they are held */
};

struct batch_stats {
    uint64_t recovered;
    uint64_t quarantined;
};

struct batch {
    struct logdir dir;
    struct fold fold;
    int scratch_fd; /* where a log goes that does not fit: data/held */
    struct batch_log *logs;
    unsigned count;
    unsigned max;
    struct later later;
    uint64_t retry_ms; /* when the next log that failed may be tried again
                          (clock_ms); UINT64_MAX: none has */
    bool again;        /* nothing was taken, but look again at once */
    bool other_sizes;  /* a log was written with other message sizes */
    struct batch_stats stats;
    struct logdir_entry *ready; /* full logs of the last scan, sorted */
    size_t ready_max;
};

/* `log_fd` is data/log; it is duplicated. */
int batch_open(struct batch *b, int log_fd, int scratch_fd,
               const struct layout *l, uint64_t log_size, unsigned max,
               size_t memory);
void batch_close(struct batch *b);

/* Recovers what dead owners left, then takes and folds full logs; those that
 * failed lately are left for later.  Returns their number, or an error of the
 * directory itself. */
int batch_take(struct batch *b);

/* Sets a log aside: its records are out of the fold already. */
void batch_quarantine(struct batch *b, unsigned number, const char *why);

/* Gives all logs back as they are, full; those that failed wait. */
void batch_give_back(struct batch *b, bool failed);

/* Empties the logs that are whole, and gives the others back: they failed,
 * unless `stopped`.  Returns how many were emptied. */
unsigned batch_free(struct batch *b, bool stopped);

#endif
