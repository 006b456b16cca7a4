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

/* Does to history what the edits have done to the counts; compacts some.  `map`
 * was found before the transaction wrote, and `before` is the state of then. */
int keyspace_history_change(struct edits *e, const struct pages_map *map,
                            const struct keyspace_state *before);

/* Removes all history, in a transaction that has not written yet. */
int keyspace_history_clear(const struct keyspace *k, MDB_txn *txn,
                           struct keyspace_state *state);

/* Compacts one slice in a transaction of its own; *more: there is more to do.
 */
int keyspace_history_compact(struct lmdb *s, struct keyspace *k, bool *more);

#endif
