/* common/store/lmdb/keyspace_history.h - history in a keyspace file: what a
 * transaction adds to it, and its compaction. Internal to common/store/lmdb.
 *
 * The history database is the kv of common/store/history.  Its totals are the
 * record "history" of the meta database, written in the same transaction as the
 * state, whose sum they must explain. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_LMDB_KEYSPACE_HISTORY_H
#define COUNTD_COMMON_STORE_LMDB_KEYSPACE_HISTORY_H

#include "common/store/lmdb/keyspace.h"

/* What one transaction adds to history, after it has changed the counts. */
struct keyspace_history {
    struct lmdb *store;
    const struct keyspace *keyspace;
    struct pages_map map;
    struct lmdb_pager pager;
    struct kv kv;
    struct keyspace_state before; /* the state before the transaction */
    uint64_t pages;       /* written by this transaction so far; rises */
    struct history_of of; /* its deltas: set before _change() */
    struct history h;     /* the record that is being changed */
};

/* Called before and after the counts change, in a transaction that has not
 * written yet; then, and after an error, keyspace_history_end(). */
int keyspace_history_begin(struct keyspace_history *p, struct lmdb *s,
                           const struct keyspace *k, MDB_txn *txn,
                           const struct keyspace_state *state);
int keyspace_history_change(struct keyspace_history *p, MDB_txn *txn,
                            struct keyspace_state *state);

void keyspace_history_end(struct keyspace_history *p);

/* Removes all history, in a transaction that has not written yet. */
int keyspace_history_clear(const struct keyspace *k, MDB_txn *txn,
                           struct keyspace_state *state);

/* Compacts one slice in a transaction of its own, or (sweep) only removes
 * blocks of runs that no tier refers to; *more: there is more to do. */
int keyspace_history_compact(struct lmdb *s, struct keyspace *k, bool sweep,
                             bool *more);

#endif
