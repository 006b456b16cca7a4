/* common/store/lmdb/keyspace_file.c - creates, replaces, removes and cleans up
 * keyspace files.
 *
 * LMDB's own creation does not survive a crash (a file of zeros stays invalid),
 * so a file is made under a %t name, committed, closed, synced, and then
 * renamed without replacing: if two processes create it, one succeeds and the
 * other opens that file.  The creator holds a flock on its %t file; if the
 * flock of an old %t file can be taken, its creator is dead.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/keyspace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/dirstream.h"
#include "common/base/folder.h"

#define TEMP_PREFIX "%t"
#define LOCK_TRIES  5

void
keyspace_path(int dir_fd, const char *file, char path[KEYSPACE_PATH_SIZE])
{
    (void)snprintf(path, KEYSPACE_PATH_SIZE, "/proc/self/fd/%d/%s", dir_fd,
                   file);
}

/* Allocates the missing blocks of the lock file; LMDB sets its size. */
static int
allocate_lock(int fd, const char **why)
{
    const off_t size = pages_lock_size(KEYSPACE_READERS);
    struct stat st;
    int rc;

    if (fstat(fd, &st) < 0)
        return -errno;
    *why = "its lock file is not a regular file";
    if (!S_ISREG(st.st_mode))
        return -EBADMSG;
    *why = "make its lock file";
    if (st.st_size <= size && (off_t)st.st_blocks * 512 >= size)
        return 0;
    do
        rc = fallocate(fd, FALLOC_FL_KEEP_SIZE, 0, size) < 0 ? -errno : 0;
    while (rc == -EINTR);
    if (rc == -EDQUOT)
        return -ENOSPC; /* the user's quota: -EDQUOT here means too many
                           keyspaces */

    /* The file system cannot do this: LMDB must do without. */
    return rc == -EOPNOTSUPP || rc == -ENOSYS ? 0 : rc;
}

int
keyspace_file_lock(int dir_fd, const char *file, const char **why)
{
    char lock[KEYSPACE_FILE_SIZE + 8];
    int fd, rc;

    *why = "make its lock file";
    (void)snprintf(lock, sizeof lock, "%s-lock", file);
    fd = openat(dir_fd, lock,
                O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
    rc = fd < 0 ? -errno : 0;
    if (rc == -EDQUOT)
        return -ENOSPC;
    if (rc == -ELOOP) {
        *why = "its lock file is a symbolic link";
        return -EBADMSG;
    }
    /* On a read-only file system LMDB reads without a lock file, or reports it.
     */
    if (rc == -EROFS || rc == -EACCES || rc == -EPERM)
        return 0;
    if (rc < 0)
        return rc;
    rc = allocate_lock(fd, why);
    (void)close(fd);
    return rc;
}

/* ---- making files ------------------------------------------------------ */

struct empty {
    struct lmdb *store;
    const uint8_t *name;
    size_t name_size;
};

int
keyspace_databases(MDB_txn *txn, unsigned flags,
                   MDB_dbi dbis[KEYSPACE_DATABASES])
{
    static const char *const names[KEYSPACE_DATABASES] = {"keys", "ranks",
                                                          "history", "meta"};
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < KEYSPACE_DATABASES; i++)
        rc = lmdb_error(mdb_dbi_open(txn, names[i], flags, &dbis[i]));
    return rc;
}

/* Writes a keyspace without rows and marks. */
static int
fill_empty(void *ctx, MDB_txn *txn)
{
    struct keyspace_state state = {.change = 1, .history_due = HISTORY_NEVER};
    MDB_dbi dbis[KEYSPACE_DATABASES];
    const struct empty *e = ctx;
    int rc;

    rc = keyspace_databases(txn, MDB_CREATE, dbis);
    for (int i = 0; i < KEYSPACE_TREES; i++)
        state.roots[i].next_id = 1;
    if (rc == 0)
        rc = keyspace_header_put(txn, dbis[KEYSPACE_META], &e->store->options,
                                 e->name, e->name_size);
    return rc < 0 ? rc : keyspace_state_put(txn, dbis[KEYSPACE_META], &state);
}

int
keyspace_file_rename(int dir_fd, const char *from, const char *to)
{
    if (renameat2(dir_fd, from, dir_fd, to, RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return -errno;

    /* The file system has no RENAME_NOREPLACE: a link does not replace either.
     */
    if (linkat(dir_fd, from, dir_fd, to, 0) < 0)
        return -errno;
    return unlinkat(dir_fd, from, 0) < 0 ? -errno : 0;
}

static int
make_temp(int dir_fd, char temp[KEYSPACE_FILE_SIZE])
{
    uint64_t random;
    struct stat st;
    int fd, rc;

    if (getrandom(&random, sizeof random, 0) != (ssize_t)sizeof random)
        return -EIO;
    (void)snprintf(temp, KEYSPACE_FILE_SIZE, "%s%016llx%s", TEMP_PREFIX,
                   (unsigned long long)random, KEYSPACE_SUFFIX);
    fd = openat(dir_fd, temp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    rc = flock(fd, LOCK_EX | LOCK_NB) < 0 || fstat(fd, &st) < 0 ? -errno : 0;
    if (rc == 0 && st.st_nlink == 0)
        rc = -EAGAIN; /* a clean-up took it for one of a dead creator */
    if (rc == 0)
        return fd;
    (void)close(fd);
    (void)unlinkat(dir_fd, temp, 0); /* clean-up removes it later */
    return rc;
}

int
keyspace_file_temp(int dir_fd, char temp[KEYSPACE_FILE_SIZE])
{
    int rc = -EAGAIN;

    for (int i = 0; i < LOCK_TRIES && rc == -EAGAIN; i++)
        rc = make_temp(dir_fd, temp);
    return rc;
}

int
keyspace_file_fill(const char *path, const struct keyspace_making *m)
{
    MDB_txn *txn = NULL;
    MDB_env *env;
    int rc;

    rc = lmdb_error(mdb_env_create(&env));
    if (rc < 0)
        return rc;
    rc = lmdb_error(mdb_env_set_maxdbs(env, 8));
    if (rc == 0)
        rc = lmdb_error(mdb_env_set_mapsize(env, m->map));

    /* No other process knows this file yet: it needs no lock file, and the
     * caller's one fsync replaces LMDB's. */
    if (rc == 0)
        rc = lmdb_error(mdb_env_open(
            env, path, MDB_NOSUBDIR | MDB_NOTLS | MDB_NOLOCK | MDB_NOSYNC,
            0600));
    if (rc == 0)
        rc = lmdb_error(mdb_txn_begin(env, NULL, 0, &txn));
    if (rc == 0)
        rc = m->fill(m->ctx, txn);
    if (rc == 0)
        rc = lmdb_error(mdb_txn_commit(txn));
    else if (txn != NULL)
        mdb_txn_abort(txn);
    mdb_env_close(env);
    return rc;
}

/* ---- taking files away ------------------------------------------------- */

int
keyspace_dir_lock(const struct lmdb *s, int how)
{
    for (int i = 0; i < LOCK_TRIES; i++) {
        const struct timespec pause = {.tv_nsec = 1000000L << i};

        if (flock(s->lock_fd, how | LOCK_NB) == 0)
            return 0;
        if (errno != EWOULDBLOCK)
            return -errno;
        (void)nanosleep(&pause, NULL); /* a shorter pause is harmless */
    }
    return -EAGAIN;
}

void
keyspace_dir_unlock(const struct lmdb *s)
{
    (void)flock(s->lock_fd, LOCK_UN);
}

/* Rename replaces in one step: a crash leaves one of the two complete.  The lock
 * file goes together with its data file, while the directory's flock keeps other
 * processes from opening only one of them.  A process that has both open
 * continues with the old pair until keyspace_replaced() notices. */
int
keyspace_file_put(const struct lmdb *s, int from_fd, const char *from,
                  const char *file)
{
    const int dir_fd = s->options.keyspace_fd;
    char lock[KEYSPACE_LOCK_SIZE];
    int rc;

    (void)snprintf(lock, sizeof lock, "%s-lock", file);
    rc = keyspace_dir_lock(s, LOCK_EX);
    if (rc < 0)
        return rc;
    if ((from != NULL ? renameat(from_fd, from, dir_fd, file)
                      : unlinkat(dir_fd, file, 0)) < 0)
        rc = -errno;
    else
        (void)unlinkat(dir_fd, lock, 0); /* a leftover serves the next file */
    keyspace_dir_unlock(s);
    if (rc == 0 && fsync(dir_fd) < 0)
        rc = -errno;
    return rc;
}

int
keyspace_file_make(const struct lmdb *s, const struct keyspace_making *m,
                   const char *file, bool replaces)
{
    const int dir_fd = s->options.keyspace_fd;
    char path[KEYSPACE_PATH_SIZE], temp[KEYSPACE_FILE_SIZE];
    int fd, rc;

    fd = keyspace_file_temp(dir_fd, temp);
    if (fd < 0)
        return fd;
    keyspace_path(dir_fd, temp, path);
    rc = keyspace_file_fill(path, m);
    if (rc == 0 && fsync(fd) < 0)
        rc = -errno;
    if (rc == 0)
        rc = replaces ? keyspace_file_put(s, dir_fd, temp, file)
                      : keyspace_file_rename(dir_fd, temp, file);
    if (rc == 0 && !replaces && fsync(dir_fd) < 0)
        rc = -errno;
    if (rc < 0)
        (void)unlinkat(dir_fd, temp, 0); /* clean-up removes it later */
    (void)close(fd);                     /* synced above */
    return rc;
}

int
keyspace_file_make_empty(struct lmdb *s, const uint8_t *name, size_t name_size,
                         const char *file, bool replaces)
{
    struct empty e = {.store = s, .name = name, .name_size = name_size};
    const struct keyspace_making m = {KEYSPACE_MAP_FIRST, fill_empty, &e};

    return keyspace_file_make(s, &m, file, replaces);
}

/* Removes one %t file if its creator is dead. */
static void
clean_one(int dir_fd, const char *file, uint64_t age_ms)
{
    struct stat st;
    const int fd = folder_open_file(dir_fd, file);

    if (fd < 0)
        return;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
        (uint64_t)st.st_mtime * 1000 + age_ms < clock_unix_ms() &&
        flock(fd, LOCK_EX | LOCK_NB) == 0)
        (void)unlinkat(dir_fd, file,
                       0); /* on failure the next clean-up tries again */
    (void)close(fd);
}

void
keyspace_file_clean(int dir_fd, uint64_t age_ms)
{
    const char *name;
    DIR *d;

    /* On failure the next clean-up tries again. */
    if (dirstream_open(dir_fd, ".", &d) < 0)
        return;
    while (dirstream_next(d, &name) > 0)
        if (strncmp(name, TEMP_PREFIX, strlen(TEMP_PREFIX)) == 0)
            clean_one(dir_fd, name, age_ms);
    (void)closedir(d);
}
