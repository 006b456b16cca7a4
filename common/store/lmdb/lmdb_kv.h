/* common/store/lmdb/lmdb_kv.h - one LMDB database as the values of a tree
 * (common/store/tree/tree.h) or the entries of history, and LMDB's errors as
 * negative errnos. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_LMDB_LMDB_KV_H
#define COUNTD_COMMON_STORE_LMDB_LMDB_KV_H

#include <lmdb.h>
#include <stdbool.h>

#include "common/store/kv.h"
#include "common/store/lmdb/pages.h"
#include "common/store/tree/tree.h"

/* A database in a transaction.  Lives as long as the tree or the kv that uses
 * it. */
struct lmdb_kv {
    MDB_txn *txn;
    MDB_cursor *cursor; /* of the database */
    bool renew;         /* the cursor must follow the transaction first */
    const struct pages_map *map; /* to put and remove */
};

/* Opens a cursor, which the caller closes. */
int lmdb_kv_open(struct lmdb_kv *p, MDB_txn *txn, MDB_dbi dbi,
                 const struct pages_map *map);

struct kv lmdb_kv(struct lmdb_kv *p);

/* LMDB's code as a negative errno.
 *   -EXFULL   the map is too small
 *   -E2BIG    too much for one transaction
 *   -EBADMSG  damage; also a record that is missing */
int lmdb_error(int code);

/* Bytes that LMDB only reads, though it takes no const. */
MDB_val lmdb_val(const void *bytes, size_t size);

/* Calls item(), if there is one, for each item of a database, by key; stops on
 * non-zero and returns that.  With a map checks each value first, as before it is
 * replaced: -EBADMSG. */
int lmdb_each(MDB_txn *txn, MDB_dbi dbi, const struct pages_map *map,
              int (*item)(void *ctx, const MDB_val *key, const MDB_val *value),
              void *ctx);

int lmdb_env_sizes(MDB_env *env, MDB_envinfo *info, MDB_stat *st);

#endif
