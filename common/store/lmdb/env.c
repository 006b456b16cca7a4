/* common/store/lmdb/env.c - see env.h: env_make(), env_open(), env_begin(),
 * env_grow() and small helpers. */
#include "common/store/lmdb/env.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#define OPEN_TRIES 5

/* Writes the file through LMDB; the caller makes it durable. */
static int
fill_file(const char *path, size_t map, int (*fill)(void *ctx, MDB_txn *txn),
          void *ctx)
{
    MDB_txn *txn = NULL;
    MDB_env *env;
    int rc;

    rc = lmdb_error(mdb_env_create(&env));
    if (rc < 0)
        return rc;
    rc = lmdb_error(mdb_env_set_maxdbs(env, 8));
    if (rc == 0)
        rc = lmdb_error(mdb_env_set_mapsize(env, map));

    /* No other process knows this file yet: it needs no lock file, and the
     * caller's one fsync replaces LMDB's. */
    if (rc == 0)
        rc = lmdb_error(mdb_env_open(
            env, path, MDB_NOSUBDIR | MDB_NOTLS | MDB_NOLOCK | MDB_NOSYNC,
            0600));
    if (rc == 0)
        rc = lmdb_error(mdb_txn_begin(env, NULL, 0, &txn));
    if (rc == 0)
        rc = fill(ctx, txn);
    if (rc == 0)
        rc = lmdb_error(mdb_txn_commit(txn));
    else if (txn != NULL)
        mdb_txn_abort(txn);
    mdb_env_close(env);
    return rc;
}

int
env_make(int dir_fd, size_t map, int (*fill)(void *ctx, MDB_txn *txn),
         void *ctx, char temp[KEYSPACE_FILE_SIZE])
{
    char path[KEYSPACE_PATH_SIZE];
    int fd, rc;

    fd = keyspace_file_temp(dir_fd, temp);
    if (fd < 0)
        return fd;
    keyspace_path(dir_fd, temp, path);
    rc = fill_file(path, map, fill, ctx);
    if (rc == 0 && fsync(fd) < 0)
        rc = -errno;
    if (rc == 0)
        return fd;
    (void)unlinkat(dir_fd, temp, 0); /* clean-up removes it later */
    (void)close(fd);
    return rc;
}

int
env_make_in_memory(size_t map, int (*fill)(void *ctx, MDB_txn *txn), void *ctx)
{
    char path[KEYSPACE_PATH_SIZE];
    int fd, rc;

    fd = memfd_create("countd", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    rc = fill_file(path, map, fill, ctx);
    if (rc == 0)
        return fd;
    (void)close(fd);
    return rc;
}

int
env_open(int dir_fd, const char *file, bool writable, MDB_env **out)
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

int
env_begin(MDB_env *env, unsigned flags, MDB_txn **out, bool *moved)
{
    int code = MDB_MAP_RESIZED;

    for (int i = 0; i < OPEN_TRIES && code != 0; i++) {
        code = mdb_txn_begin(env, NULL, flags, out);
        if (code == MDB_MAP_RESIZED) {
            const int resized = mdb_env_set_mapsize(env, 0);

            *moved = true;
            if (resized != 0)
                return lmdb_error(resized);
        } else if (code == MDB_READERS_FULL) {
            int dead;
            const int checked = mdb_reader_check(env, &dead);

            if (checked != 0 || dead == 0)
                return -EMFILE;
        } else if (code != 0) {
            break;
        }
    }
    return lmdb_error(code);
}

int
env_grow(MDB_env *env, size_t least)
{
    MDB_envinfo info;
    size_t size;
    int rc;

    rc = lmdb_error(mdb_env_info(env, &info));
    if (rc < 0)
        return rc;
    size = info.me_mapsize < KEYSPACE_MAP_FIRST ? KEYSPACE_MAP_FIRST
                                                : info.me_mapsize;
    do {
        if (size > KEYSPACE_MAP_MAX / 2)
            return -EFBIG;
        size *= 2;
    } while (size < least);
    return lmdb_error(mdb_env_set_mapsize(env, size));
}

int
env_disk_error(int dir_fd, int rc, uint64_t size)
{
    struct statvfs fs;

    if (rc != -EIO || fstatvfs(dir_fd, &fs) < 0)
        return rc;
    return (uint64_t)fs.f_bavail * fs.f_frsize < size + KEYSPACE_MAP_FIRST
               ? -ENOSPC
               : rc;
}

ino_t
env_lock_inode(int dir_fd, const char *file)
{
    char lock[KEYSPACE_LOCK_SIZE];
    struct stat st;

    (void)snprintf(lock, sizeof lock, "%s-lock", file);
    return fstatat(dir_fd, lock, &st, AT_SYMLINK_NOFOLLOW) < 0 ? 0 : st.st_ino;
}

int
env_map_find(MDB_txn *txn, MDB_dbi dbi, const char *key, struct pages_map *map)
{
    MDB_val k = lmdb_val(key, strlen(key)), v;
    MDB_env *env = mdb_txn_env(txn);
    MDB_envinfo info;
    MDB_stat st;
    int rc;

    rc = lmdb_error(mdb_env_info(env, &info));
    if (rc == 0)
        rc = lmdb_error(mdb_env_stat(env, &st));
    if (rc == 0)
        rc = lmdb_error(mdb_get(txn, dbi, &k, &v));
    if (rc == 0)
        pages_map_find(map, v.mv_data, st.ms_psize, info.me_mapsize);
    return rc;
}
