/* common/store/lmdb/lmdb_store.h - the default engine of common/store/store.h:
 * one LMDB file per keyspace in data/keyspace.
 *
 * Listing takes about 1.2 MB. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_LMDB_LMDB_STORE_H
#define COUNTD_COMMON_STORE_LMDB_LMDB_STORE_H

#include "common/setup/tiers.h"
#include "common/store/store.h"

struct lmdb_options {
    int keyspace_fd;        /* data/keyspace, borrowed */
    uint16_t keyspace_size; /* message sizes, recorded in each file */
    uint16_t key_size;
    bool writable;
    unsigned open_max;     /* keyspaces open at once; the least recently used is
                              closed */
    size_t txn_memory;     /* bytes for one commit (its edits, dirty pages) */
    size_t retain_memory;  /* of dirty pages, the most that stays allocated
                              between commits; 0: txn_memory */
    unsigned lanes;        /* store_lanes(); 0: one */
    uint64_t keyspace_max; /* keyspaces in the directory; 0: no limit */
    uint64_t keys_max;     /* keys per keyspace; 0: no limit */

    /* Borrowed; NULL: stored history is maintained, none begins. */
    const struct tiers_rules *history;
    bool history_of_new;  /* `history` applies only to keyspaces without keys;
                             stored history keeps its tiers */
    uint64_t history_max; /* bytes of history in a keyspace; 0: no limit */
    uint64_t (*now_ms)(void); /* Unix time; NULL: clock_unix_ms() */
};

/* Opens the engine.  Errors as in store.h; -EPROTONOSUPPORT: the installed LMDB
 * is not 0.9.
 *
 * Several lanes are for a worker that applies with several threads.  LMDB must
 * not have a file open twice in a process, so each keyspace belongs to one lane,
 * by its file's name, and each lane has a share of open_max, retain_memory and
 * of what else stays allocated.  Only marks, apply and maintain are then served.
 */
#define LMDB_LANES_MAX 16
int lmdb_store_open(struct store **out, const struct lmdb_options *options);

/* pid of the process that made the last store_drop() or store_del() return
 * -EAGAIN; 0: unknown. */
long lmdb_store_holder(struct store *s);

#endif
