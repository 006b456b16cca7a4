/* worker/aside.h - merges held files back into their keyspaces.
 *
 * A keyspace keeps one mark per log, the last epoch that is in.  So what is
 * held of an earlier epoch of a log must be merged before a later one, or
 * the mark would say of the earlier that it is in the past: files are taken
 * log by log in the order of epochs, and records that cannot be merged stop
 * the later ones of their keyspace and log, in whichever file they are.
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

#include <time.h>

#include "common/store/lmdb/held_files.h"
#include "common/store/lmdb/lmdb.h"

struct aside_stats {
    uint64_t merged;
    uint64_t damaged; /* renamed to bad-... */
};

/* What to look at, and whom to tell. */
struct aside {
    int held_fd;
    int keyspace_fd;
    const uint8_t *hash_key;
    struct lmdb *store;
    /* False: leave this file for another time.  NULL: all. */
    bool (*wanted)(void *ctx, const struct store_mark *mark);
    /* With that, false: leave this keyspace for another time. */
    bool (*wanted_name)(void *ctx, const uint8_t *name, size_t name_size);
    /* The records of this keyspace in this file could not be merged; `held` is
     * NULL when it could not even be read: those of any keyspace that may be in
     * it.  NULL: nobody asks. */
    void (*stays)(void *ctx, const char *file, const struct heldfile *held);
    void *ctx;
    /* True: end early; asked before each file and keyspace.  NULL: never. */
    bool (*stop)(void *ctx);
    void *stop_ctx;
    struct aside_stats stats;

    /* The last call left something only because another worker had it, or it
     * had just come: worth another call soon. */
    bool busy;
    /* A pass over all files left nothing in those for many keyspaces but what
     * there is no room for, and data/keyspace was as of these times. */
    bool no_room;
    struct timespec keyspace_mtime, keyspace_ctime;
    uint64_t passed_ms; /* when it was */
};

/* Goes through data/held once.  All of it, with `wanted` NULL, leaves out the
 * files for many keyspaces while nothing says that there is room by now. */
int aside_merge(struct aside *a);

#endif
