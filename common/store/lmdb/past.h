/* common/store/lmdb/past.h - history in a keyspace file: what a transaction
 * adds to it, and the care it needs.  Internal to this room.
 *
 * The history database is the kv of common/store/history; what it adds up to
 * is the record "history" of the meta database, written in the same transaction
 * as the state, whose sum it must explain. */
#ifndef COUNTD_KEYSPACE_PAST_H
#define COUNTD_KEYSPACE_PAST_H

#include "common/store/lmdb/keyspace.h"

/* The database as a kv, in a transaction.  Lives as long as the kv is used. */
struct past_kv {
    struct kv kv;
    MDB_txn *txn;
    MDB_cursor *cursor;
    bool renew;           /* the cursor must follow the snapshot first */
    struct pages_map map; /* to put and remove */
};

/* In the snapshot of the reader. */
void past_kv_read(struct past_kv *p, struct keyspace *k);

/* In a write transaction that has not written yet; past_kv_end() after. */
int past_kv_write(struct past_kv *p, const struct keyspace *k, MDB_txn *txn);
void past_kv_end(struct past_kv *p);

/* What a transaction changes, once the counts are changed. */
struct past {
    struct lmdb *store;
    const struct keyspace *keyspace;
    struct past_kv kv;
    struct keyspace_state before; /* the state as it was */
    const struct store_delta *deltas;
    size_t delta_count;
    uint64_t pages;   /* written by this transaction so far; rises */
    struct history h; /* its work */
};

/* Before and after the counts change.  past_end() in any case. */
int past_begin(struct past *p, struct lmdb *s, const struct keyspace *k,
               MDB_txn *txn, const struct keyspace_state *state);
int past_change(struct past *p, MDB_txn *txn, struct keyspace_state *state);
void past_end(struct past *p);

/* Pages that the history of so many changes takes, about. */
uint64_t past_pages(size_t changes, size_t key_size);

/* Removes all of it, in a transaction that has not written yet. */
int past_clear(const struct keyspace *k, MDB_txn *txn,
               struct keyspace_state *state);

/* A slice of care in a transaction of its own; *more: there is more to do. */
int past_tend(struct lmdb *s, struct keyspace *k, bool *more);

/* The minute it is. */
uint32_t past_now(const struct lmdb *s);

#endif
