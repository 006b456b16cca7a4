/* common/store/lmdb/engine.h - the engine of common/store/store.h that is the
 * default: one LMDB file per keyspace in data/keyspace.
 *
 * Traits: STORE_SNAPSHOT, STORE_FILES.  Listing takes about 1.2 MB. */
#ifndef COUNTD_COMMON_STORE_LMDB_ENGINE_H
#define COUNTD_COMMON_STORE_LMDB_ENGINE_H

#include "common/setup/tiers.h"
#include "common/store/store.h"

struct lmdb_options {
    int keyspace_fd;        /* data/keyspace, borrowed */
    uint16_t keyspace_size; /* message sizes, recorded in each file */
    uint16_t key_size;
    bool writable;
    unsigned open_max;     /* keyspaces open at once, least recent closed */
    size_t txn_memory;     /* bytes for one commit (its edits, dirty pages), and
                              what may be kept between commits */
    uint64_t keyspace_max; /* keyspaces in the directory; 0: no limit */
    uint64_t keys_max;     /* keys per keyspace; 0: no limit */

    const struct tiers_rules *history; /* borrowed; NULL: as it is: none
                                          begins and none ends */
    bool history_of_new;  /* `history` is only for keyspaces without keys; that
                             of others stays as it is */
    uint64_t history_max; /* bytes of it in a keyspace; 0: no limit */
    uint64_t (*now_ms)(void); /* Unix time; NULL: clock_unix_ms() */

    /* What a commit may hold just now, in bytes: the more, the fewer commits a
     * large batch is cut into.  When it says less than txn_memory the engine
     * gives back what it keeps and asks again.  NULL: txn_memory. */
    size_t (*spare)(void *ctx);
    void *spare_ctx;
};

/* Opens the engine.  Errors as in store.h; -EPROTONOSUPPORT: not with the LMDB
 * that is installed (it must be 0.9), or not on a machine of 32 bits. */
int lmdb_store_open(struct store **out, const struct lmdb_options *options);

/* pid of who made the last store_drop() or store_del() say -EAGAIN; 0: cannot
 * tell. */
long lmdb_store_holder(struct store *s);

#endif
