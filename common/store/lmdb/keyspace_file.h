/* common/store/lmdb/keyspace_file.h - the files of keyspaces: made under a %t
 * name, renamed when they are durable, replaced and removed under the flock of
 * the directory. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_LMDB_KEYSPACE_FILE_H
#define COUNTD_COMMON_STORE_LMDB_KEYSPACE_FILE_H

#include "common/store/lmdb/keyspace.h"

/* Allocates the blocks of LMDB's lock file before LMDB writes to it through a
 * map: on a full disk that write would kill the process (SIGBUS).  This process
 * must not have the file open, because closing a descriptor of the lock file
 * releases all of the process's locks on it.  -ENOSPC, -EBADMSG with *why */
int keyspace_file_lock(int dir_fd, const char *file, const char **why);

/* Opens the databases of a file; with MDB_CREATE makes them. */
int keyspace_databases(MDB_txn *txn, unsigned flags,
                       MDB_dbi dbis[KEYSPACE_DATABASES]);

/* A file that is made: its first transaction, which `fill` writes through a map
 * of `map` bytes. */
struct keyspace_making {
    size_t map;
    int (*fill)(void *ctx, MDB_txn *txn);
    void *ctx;
};

/* Writes a file through LMDB; the caller makes it durable. */
int keyspace_file_fill(const char *path, const struct keyspace_making *m);

/* Makes a durable file of this name, under a %t name first.  `replaces`: in
 * place of the one there, whose flock the caller holds; else -EEXIST if the file
 * exists, or is created meanwhile. */
int keyspace_file_make(const struct lmdb *s, const struct keyspace_making *m,
                       const char *file, bool replaces);

/* The same of the file of an empty keyspace without marks. */
int keyspace_file_make_empty(struct lmdb *s, const uint8_t *name,
                             size_t name_size, const char *file, bool replaces);

/* Creates a %t file in this directory, holds its flock, and writes its name.
 * Returns its descriptor. */
int keyspace_file_temp(int dir_fd, char temp[KEYSPACE_FILE_SIZE]);

/* Renames a durable file to `file`, which it replaces, or (from: NULL) removes
 * `file` and its lock file, durably.  The caller holds the old file's flock.
 * -EAGAIN: an environment is being opened. */
int keyspace_file_put(const struct lmdb *s, int from_fd, const char *from,
                      const char *file);

/* Takes the flock on the directory (LOCK_SH, LOCK_EX), trying for some
 * milliseconds; -EAGAIN.  keyspace_dir_unlock() releases it. */
int keyspace_dir_lock(const struct lmdb *s, int how);
void keyspace_dir_unlock(const struct lmdb *s);

/* Renames a file.  -EEXIST: the name is taken. */
int keyspace_file_rename(int dir_fd, const char *from, const char *to);

#define KEYSPACE_TEMP_AGE_MS 60000
/* Removes the %t files of processes that died, if they are as old as that. */
void keyspace_file_clean(int dir_fd, uint64_t age_ms);

/* Writes the path that LMDB gets, relative to the directory's descriptor. */
void keyspace_path(int dir_fd, const char *file, char path[KEYSPACE_PATH_SIZE]);

#endif
