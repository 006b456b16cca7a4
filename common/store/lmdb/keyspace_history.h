/* common/store/lmdb/keyspace_history.h - history in a keyspace file: what a
 * transaction adds to it, and the care it needs.  Internal to this room.
 *
 * The history database is the kv of common/store/history; what it adds up to
 * is the record "history" of the meta database, written in the same transaction
 * as the state, whose sum it must explain. */
#ifndef COUNTD_COMMON_STORE_LMDB_KEYSPACE_HISTORY_H
#define COUNTD_COMMON_STORE_LMDB_KEYSPACE_HISTORY_H

#include "common/store/lmdb/keyspace.h"

/* The database as a kv, in a transaction.  Lives as long as the kv is used. */
struct keyspace_history_kv {
    struct kv kv;
    MDB_txn *txn;
    MDB_cursor *cursor;
    bool renew;           /* the cursor must follow the snapshot first */
    struct pages_map map; /* to put and remove */
};

/* In the snapshot of the reader. */
void keyspace_history_kv_read(struct keyspace_history_kv *p,
                              struct keyspace *k);

/* In a write transaction that has not written yet; keyspace_history_kv_end()
 * after. */
int keyspace_history_kv_write(struct keyspace_history_kv *p,
                              const struct keyspace *k, MDB_txn *txn);
void keyspace_history_kv_end(struct keyspace_history_kv *p);

/* What a transaction changes, once the counts are changed. */
struct keyspace_history {
    struct lmdb *store;
    const struct keyspace *keyspace;
    struct keyspace_history_kv kv;
    struct keyspace_state before; /* the state as it was */
    const struct store_delta *deltas;
    size_t delta_count;
    uint64_t pages;   /* written by this transaction so far; rises */
    struct history h; /* its work */
};

/* Before and after the counts change.  keyspace_history_end() in any case. */
int keyspace_history_begin(struct keyspace_history *p, struct lmdb *s,
                           const struct keyspace *k, MDB_txn *txn,
                           const struct keyspace_state *state);
int keyspace_history_change(struct keyspace_history *p, MDB_txn *txn,
                            struct keyspace_state *state);
void keyspace_history_end(struct keyspace_history *p);

/* Pages that the history of so many changes takes, about. */
uint64_t keyspace_history_pages(size_t changes, size_t key_size);

/* Removes all of it, in a transaction that has not written yet. */
int keyspace_history_clear(const struct keyspace *k, MDB_txn *txn,
                           struct keyspace_state *state);

/* A slice of care in a transaction of its own; *more: there is more to do. */
int keyspace_history_tend(struct lmdb *s, struct keyspace *k, bool *more);

/* The same, but only removes blocks of runs that have gone. */
int keyspace_history_sweep(struct lmdb *s, struct keyspace *k, bool *more);

/* The minute it is. */
uint32_t keyspace_history_now(const struct lmdb *s);

#endif
