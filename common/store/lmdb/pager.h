/* common/store/lmdb/pager.h - one LMDB database as the values of a tree
 * (common/store/tree/pager.h), and LMDB's errors as ours. */
#ifndef COUNTD_COMMON_STORE_LMDB_PAGER_H
#define COUNTD_COMMON_STORE_LMDB_PAGER_H

#include <lmdb.h>
#include <stdbool.h>

#include "common/store/lmdb/pages.h"
#include "common/store/tree/pager.h"

/* Lives as long as the tree that uses it. */
struct lmdb_pager {
    MDB_txn *txn;
    MDB_cursor *cursor; /* of the database; borrowed */
    bool renew;         /* the cursor must follow the transaction first */
    const struct pages_map *map; /* to put and remove; see env_map_find() */
};

/* A value's LMDB key is its number, big-endian. */
struct pager lmdb_pager(struct lmdb_pager *p);

/* LMDB's code as ours.
 *   -EXFULL   the map is too small
 *   -E2BIG    too much for one transaction
 *   -EBADMSG  damage; a record that is not there, too */
int lmdb_error(int code);

#endif
