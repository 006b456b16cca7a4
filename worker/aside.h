/* worker/aside.h - merges held files back into their keyspaces.
 *
 * A keyspace keeps one mark per log, the last epoch that is in.  So what is
 * held of an earlier epoch of a log must be merged before a later one, or
 * the mark would say of the earlier that it is in the past: files are taken
 * in the order of their names, and one that cannot be merged stops the later
 * ones of its keyspace and log.
 *
 * Any number of workers may do this at once: the mark is checked inside the
 * transaction, and whoever comes second finds it set.
 *
 * Reports through diag.  Errors: 0 or a negative errno.
 */
#ifndef COUNTD_WORKER_ASIDE_H
#define COUNTD_WORKER_ASIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/held.h"
#include "common/store.h"

struct aside_stats {
    uint64_t merged;
    uint64_t damaged; /* renamed to bad-... */
};

/* What to look at, and whom to tell. */
struct aside {
    int held_fd;
    struct store *store;
    /* False: leave this file for another time.  NULL: all. */
    bool (*wanted)(void *ctx, const struct store_mark *mark);
    /* The records of this file could not be merged; `held` is NULL when it
     * could not even be read.  NULL: nobody asks. */
    void (*stays)(void *ctx, const char *file, const struct held *held);
    void *ctx;
    /* True: end early; asked before each file.  NULL: never. */
    bool (*stop)(void *ctx);
    void *stop_ctx;
    struct aside_stats stats;
};

/* Goes through data/held once. */
int aside_merge(struct aside *a);

#endif
