/* common/store/lmdb/copy.c - copy_env(): copying one snapshot of a file, safe
 * while other processes write. */
#include "common/store/lmdb/keyspace.h"

#include <errno.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/base/files.h"

/* Copies page by page.  LMDB takes its writers' mutex for that; holding the
 * flock of a write transaction, this process never waits for that mutex and no
 * writer waits for this process in LMDB. */
static int
copy_pages(MDB_env *env, int fd, int to, long *holder)
{
    int rc;

    if (ftruncate(to, 0) < 0 || lseek(to, 0, SEEK_SET) < 0)
        return -errno;
    rc = lock_take(fd, holder);
    if (rc < 0)
        return rc;
    rc = lmdb_error(mdb_env_copyfd2(env, to, 0));
    (void)flock(fd, LOCK_UN);
    return rc;
}

/* Copies one snapshot of the file into the directory `to_fd` under this name,
 * durably.  If the copy needs writers to stop, it takes the flock of the file
 * through `fd`.
 *
 * -EEXIST: a file of this name exists; -EAGAIN: *holder is writing to the file
 */
static int
copy_env(MDB_env *env, int fd, int to_fd, const char *file, long *holder)
{
    char temp[KEYSPACE_FILE_SIZE];
    int to, code, rc;

    to = keyspace_file_temp(to_fd, temp);
    if (to < 0)
        return to;
    /* LMDB refuses to compact files in which pages were lost.  (A compact copy
     * only needs a reader transaction.) */
    code = mdb_env_copyfd2(env, to, MDB_CP_COMPACT);
    rc = code == MDB_INCOMPATIBLE ? copy_pages(env, fd, to, holder)
                                  : lmdb_error(code);
    if (rc == 0 && fsync(to) < 0)
        rc = -errno;
    if (rc == 0)
        rc = keyspace_file_rename(to_fd, temp, file);
    if (rc < 0)
        (void)unlinkat(to_fd, temp, 0); /* clean-up removes it later */
    if (rc == 0 && fsync(to_fd) < 0)
        rc = -errno;
    (void)close(to); /* synced above */
    return rc;
}

int
lmdb_copy(struct store *store, const uint8_t *name, size_t name_size, int to_fd)
{
    struct lmdb *s = lmdb_of(store);
    struct keyspace *k;
    int rc;

    if (!keyspace_name_ok(name, name_size))
        return -EINVAL;
    rc = keyspace_get(s, name, name_size, KEYSPACE_FIND, &k);
    return rc < 0 ? rc : copy_env(k->env, k->fd, to_fd, k->file, &s->holder);
}
