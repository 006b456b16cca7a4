/* common/store/lmdb/open.c - keyspace_open(), keyspace_read(): LMDB's files
 * opened, watched for replacement, and read.
 *
 * Each environment has one reader transaction, which is reset between views.  A
 * map that is too small is doubled; one that another process has doubled is
 * adopted.
 *
 * LMDB takes the number of the last commit from the lock file while any process
 * has that open, even if the data file has been replaced.  It would show an old
 * commit of the new file, and its next commit would overwrite the newest.  So
 * no process reads or writes unless that number and the data file's own agree;
 * a process that has the old file open notices soon and closes it, and LMDB
 * then creates the lock file anew.  (Removing it instead would let two
 * processes write at once.) */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/keyspace_file.h"
#include "common/store/lmdb/keyspace_peek.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "common/base/clock.h"

#define OPEN_TRIES 5

void
keyspace_close(struct keyspace *k)
{
    if (k->env == NULL)
        return;
    for (int i = 0; i < KEYSPACE_META; i++)
        if (k->cursors[i] != NULL)
            mdb_cursor_close(k->cursors[i]);
    if (k->reader != NULL)
        mdb_txn_abort(k->reader);
    mdb_env_close(k->env);
    *k = (struct keyspace){.env = NULL};
}

int
keyspace_begin(struct keyspace *k, unsigned flags, MDB_txn **txn)
{
    int code = MDB_MAP_RESIZED, dead;

    for (int i = 0; i < OPEN_TRIES; i++) {
        code = *txn != NULL ? mdb_txn_renew(*txn)
                            : mdb_txn_begin(k->env, NULL, flags, txn);
        if (code == MDB_READERS_FULL) {
            if (mdb_reader_check(k->env, &dead) != 0 || dead == 0)
                return -EMFILE;
        } else if (code == MDB_MAP_RESIZED) {
            k->snapshot = 0;
            code = mdb_env_set_mapsize(k->env, 0);
            if (code != 0)
                break;
        } else {
            break;
        }
    }
    return lmdb_error(code);
}

/* ---- replaced files ---------------------------------------------------- */

/* The inode of a file's lock file; 0: there is none. */
static ino_t
lock_inode(int dir_fd, const char *file)
{
    char lock[KEYSPACE_LOCK_SIZE];
    struct stat st;

    (void)snprintf(lock, sizeof lock, "%s-lock", file);
    return fstatat(dir_fd, lock, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : st.st_ino;
}

bool
keyspace_replaced(const struct lmdb *s, const struct keyspace *k)
{
    struct stat st;

    if (fstatat(s->options.keyspace_fd, k->file, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return errno == ENOENT;
    return st.st_ino != k->inode || st.st_dev != k->device ||
           lock_inode(s->options.keyspace_fd, k->file) != k->lock_inode;
}

/* Records the inodes of the open files. */
static int
note_files(const struct lmdb *s, struct keyspace *k)
{
    struct stat st;

    if (mdb_env_get_fd(k->env, &k->fd) != 0)
        return -EINVAL;
    if (fstat(k->fd, &st) < 0)
        return -errno;
    k->device = st.st_dev;
    k->inode = st.st_ino;
    k->lock_inode = lock_inode(s->options.keyspace_fd, k->file);
    return 0;
}

/* Checks that a transaction shows the newest commit of the file.
 *   -EBUSY  it does not: the lock file belongs to another data file */
static int
check_newest(const struct keyspace *k, MDB_txn *txn)
{
    MDB_envinfo info;
    int rc;

    rc = lmdb_error(mdb_env_info(k->env, &info));
    if (rc < 0)
        return rc;

    /* A commit is in the data file shortly before it is in the lock file. */
    return info.me_last_txnid - mdb_txn_id(txn) <= 1 ? 0 : -EBUSY;
}

/* ---- opening ----------------------------------------------------------- */

/* Opens a file that has been checked.  Another process that opens or closes it
 * at the same moment can make that fail briefly, so it is tried several times.
 *
 * -EBADMSG, -EPROTONOSUPPORT: its lock file is damaged */
static int
open_env(int dir_fd, const char *file, bool writable, MDB_env **out)
{
    const unsigned flags =
        MDB_NOSUBDIR | MDB_NOTLS | (writable ? 0 : MDB_RDONLY);
    char path[KEYSPACE_PATH_SIZE];
    int rc = 0;

    keyspace_path(dir_fd, file, path);
    for (int i = 0; i < OPEN_TRIES; i++) {
        const struct timespec pause = {.tv_nsec = 1000000L << i};
        MDB_env *env;

        rc = lmdb_error(mdb_env_create(&env));
        if (rc < 0)
            return rc;
        rc = lmdb_error(mdb_env_set_maxdbs(env, 8));
        if (rc == 0)
            rc = lmdb_error(mdb_env_set_maxreaders(env, KEYSPACE_READERS));
        if (rc == 0)
            rc = lmdb_error(mdb_env_open(env, path, flags, 0600));
        if (rc == 0) {
            *out = env;
            return 0;
        }
        mdb_env_close(env);
        if (rc != -EINVAL && rc != -EAGAIN && rc != -EACCES)
            return rc;
        (void)nanosleep(&pause, NULL); /* a shorter pause is harmless */
    }
    return rc;
}

/* Opens databases and checks the header, in the reader transaction. */
static int
open_databases(struct lmdb *s, struct keyspace *k, const char **why)
{
    MDB_txn *txn = NULL;
    int rc;

    *why = "begin";
    rc = keyspace_begin(k, MDB_RDONLY, &txn);
    if (rc < 0)
        return rc;
    *why = "its databases are not there";
    rc = keyspace_databases(txn, 0, k->dbis);
    if (rc == 0)
        rc = keyspace_header_check(txn, k->dbis[KEYSPACE_META], &s->options, k,
                                   why);
    if (rc < 0) {
        mdb_txn_abort(txn);
        return rc;
    }

    /* A commit preserves the handles for transactions that begin later. */
    rc = lmdb_error(mdb_txn_commit(txn));
    if (rc == 0)
        rc = keyspace_read(k);
    if (rc < 0)
        return rc;
    for (int i = 0; rc == 0 && i < KEYSPACE_META; i++)
        rc = lmdb_error(mdb_cursor_open(k->reader, k->dbis[i], &k->cursors[i]));
    keyspace_read_end(k);
    return rc;
}

/* Opens the environment of the file that was checked.  Checks again that the
 * file exists: LMDB would create an empty one. */
static int
open_files(struct lmdb *s, struct keyspace *k, const char **why)
{
    struct stat st;
    int rc;

    *why = "another process is replacing it";
    rc = keyspace_dir_lock(s, LOCK_SH);
    if (rc < 0)
        return rc;
    if (fstatat(s->options.keyspace_fd, k->file, &st, AT_SYMLINK_NOFOLLOW) < 0)
        rc = -errno;
    if (rc == 0)
        rc = keyspace_file_lock(s->options.keyspace_fd, k->file, why);
    if (rc == 0) {
        *why = "open";
        rc = open_env(s->options.keyspace_fd, k->file, s->options.writable,
                      &k->env);

        /* The data file is good; LMDB creates the lock file anew once no
         * process has it open. */
        if (rc == -EBADMSG || rc == -EPROTONOSUPPORT)
            *why = "its lock file is damaged, the file itself is not: stop all "
                   "daemons and start them again";
    }
    if (rc == 0)
        rc = note_files(s, k);
    keyspace_dir_unlock(s);
    return rc;
}

/* Begins the reader transaction, and checks that the lock file belongs to this
 * data file. */
static int
open_reader(struct keyspace *k, const char **why)
{
    int rc;

    *why = "begin";
    rc = keyspace_begin(k, MDB_RDONLY, &k->reader);
    if (rc < 0)
        return rc;
    mdb_txn_reset(k->reader);
    *why = "it was replaced, and another process still has the old one open";
    rc = keyspace_read(k);
    if (rc == 0)
        keyspace_read_end(k);
    return rc;
}

int
keyspace_open(struct lmdb *s, struct keyspace *k, const char **why)
{
    int rc, dead;

    rc = keyspace_file_check(s, k->file, k->hash != 0 && s->failed == k->hash,
                             why);
    if (rc == 0)
        rc = open_files(s, k, why);
    if (rc == 0)
        rc = open_reader(k, why);
    if (rc == 0)
        rc = open_databases(s, k, why);
    if (rc < 0) {
        keyspace_close(k);
        return rc;
    }
    (void)mdb_reader_check(k->env, &dead); /* repeated every minute */
    k->checked_ms = clock_ms();
    return 0;
}

/* ---- reading ----------------------------------------------------------- */

int
keyspace_read(struct keyspace *k)
{
    size_t id = 0;
    int rc = -EBUSY;

    assert(!k->reading);
    for (int i = 0; i < OPEN_TRIES && rc == -EBUSY; i++) {
        const size_t before = id;

        rc = keyspace_begin(k, 0, &k->reader);
        if (rc < 0)
            return rc;
        rc = check_newest(k, k->reader);
        if (rc == 0) {
            k->reading = true;
            return 0;
        }
        id = mdb_txn_id(k->reader);
        mdb_txn_reset(k->reader);

        /* If the transaction number has changed, other processes are
         * committing: try again. */
        k->stale = i > 0 && id == before;
        if (k->stale)
            break;
    }
    return rc;
}

void
keyspace_read_end(struct keyspace *k)
{
    assert(k->reading);
    mdb_txn_reset(k->reader);
    k->reading = false;
}

int
keyspace_grow(struct keyspace *k, size_t least)
{
    MDB_envinfo info;
    size_t size;
    int rc;

    assert(!k->reading);
    k->snapshot = 0;
    rc = lmdb_error(mdb_env_info(k->env, &info));
    if (rc < 0)
        return rc;
    size = info.me_mapsize < KEYSPACE_MAP_FIRST ? KEYSPACE_MAP_FIRST
                                                : info.me_mapsize;
    do {
        if (size > KEYSPACE_MAP_MAX / 2)
            return -EFBIG;
        size *= 2;
    } while (size < least);
    return lmdb_error(mdb_env_set_mapsize(k->env, size));
}
