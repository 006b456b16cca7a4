/* common/store/lmdb/env.h - creating, opening and reading an LMDB file: a
 * keyspace or a copy of one.  Internal to common/store/lmdb.
 *
 * Errors: 0 or a negative errno, as lmdb_error() (lmdb_pager.h). */
#ifndef COUNTD_COMMON_STORE_LMDB_ENV_H
#define COUNTD_COMMON_STORE_LMDB_ENV_H

#include <lmdb.h>
#include <stdbool.h>

#include "common/store/lmdb/keyspace.h"
#include "common/store/lmdb/pages.h"

/* Creates a durable %t file whose first transaction `fill` writes, through a
 * map of `map` bytes; this process holds its flock.  Writes its name; returns
 * its descriptor.  The caller renames it. */
int env_make(int dir_fd, size_t map, int (*fill)(void *ctx, MDB_txn *txn),
             void *ctx, char temp[KEYSPACE_FILE_SIZE]);

/* Creates the same file in memory; returns its descriptor. */
int env_make_in_memory(size_t map, int (*fill)(void *ctx, MDB_txn *txn),
                       void *ctx);

/* Opens a file that has been checked.  Another process that opens or closes it
 * at the same moment can make that fail briefly, so it is tried several times.
 *
 * -EBADMSG, -EPROTONOSUPPORT: its lock file is damaged */
int env_open(int dir_fd, const char *file, bool writable, MDB_env **out);

/* Begins any transaction and adopts a map that another process has grown: then
 * *moved is set.  -EMFILE: there are too many readers. */
int env_begin(MDB_env *env, unsigned flags, MDB_txn **out, bool *moved);

/* Doubles the map, or grows it to `least` if that is more.  No transaction may
 * be active.  -EFBIG. */
int env_grow(MDB_env *env, size_t least);

/* LMDB reports a full disk as -EIO: returns -ENOSPC if this directory has less
 * than `size` bytes free, else rc. */
int env_disk_error(int dir_fd, int rc, uint64_t size);

/* The inode of a file's lock file; 0: there is none. */
ino_t env_lock_inode(int dir_fd, const char *file);

/* Finds where LMDB has mapped the file, for pages_value_ok(), from the small
 * value that `key` has in `dbi`, in a transaction that has not written yet. */
int env_map_find(MDB_txn *txn, MDB_dbi dbi, const char *key,
                 struct pages_map *map);

#endif
