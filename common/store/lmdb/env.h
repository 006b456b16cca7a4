/* common/store/lmdb/env.h - what LMDB needs to make, open and read a file, be
 * it a keyspace or a copy.  Internal to this layer.
 *
 * Errors: 0 or a negative errno, as lmdb_error() (pager.h). */
#ifndef COUNTD_COMMON_STORE_LMDB_ENV_H
#define COUNTD_COMMON_STORE_LMDB_ENV_H

#include <lmdb.h>
#include <stdbool.h>

#include "common/store/lmdb/keyspace.h"
#include "common/store/lmdb/pages.h"

/* Makes a durable %t file, locked as ours: what `fill` puts into its first
 * transaction, through a map of `map` bytes.  Writes its name; returns its
 * descriptor.  The caller renames it. */
int env_make(int dir_fd, size_t map, int (*fill)(void *ctx, MDB_txn *txn),
             void *ctx, char temp[KEYSPACE_FILE_SIZE]);

/* Makes the same file in memory; returns its descriptor. */
int env_make_in_memory(size_t map, int (*fill)(void *ctx, MDB_txn *txn),
                       void *ctx);

/* Opens a file that was checked before.  Others opening or closing it at the
 * same moment can make that fail for a moment, so it is tried several times.
 *   -EBADMSG, -EPROTONOSUPPORT  its lock file is damaged */
int env_open(int dir_fd, const char *file, bool writable, MDB_env **out);

/* Begins any transaction, taking over a map that others have grown: then *moved
 * is set.  -EMFILE: there are too many readers. */
int env_begin(MDB_env *env, unsigned flags, MDB_txn **out, bool *moved);

/* Doubles the map, or more: to `least`.  No transaction is active.  -EFBIG. */
int env_grow(MDB_env *env, size_t least);

/* Copies the file (copy.c), of one moment, into the directory `to_fd` under
 * this name, durably.  Where that needs that nobody writes, it takes the flock
 * of the file through `fd`. -EEXIST  there is one already -EAGAIN  *holder is
 * writing to it */
int env_copy(MDB_env *env, int fd, int to_fd, const char *file, long *holder);

/* -EIO from LMDB is often a full disk: -ENOSPC when there is no room for
 * `size` bytes in this directory. */
int env_disk_error(int dir_fd, int rc, uint64_t size);

/* The lock file of a file; 0: there is none. */
ino_t env_lock_inode(int dir_fd, const char *file);

/* Where LMDB has the file in memory, for pages_value_ok(): in a transaction
 * that has not written yet, from the small value that `key` has in `dbi`. */
int env_map_find(MDB_txn *txn, MDB_dbi dbi, const char *key,
                 struct pages_map *map);

#endif
