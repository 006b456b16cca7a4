/* common/store/lmdb/copy.c - a copy of one moment, safe while others write. */
#include "common/store/lmdb/keyspace.h"

#include <errno.h>
#include <unistd.h>

/* Copies page by page.  LMDB takes its writers' lock for that; with a write
 * transaction's flock nobody waits for it, and we for nobody. */
static int
copy_pages(struct lmdb *s, struct keyspace *k, int fd)
{
    int rc;

    if (ftruncate(fd, 0) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return -errno;
    rc = keyspace_lock(s, k);
    if (rc < 0)
        return rc;
    rc = lmdb_error(mdb_env_copyfd2(k->env, fd, 0));
    keyspace_unlock(k);
    return rc;
}

/* Writes the copy; not compact when LMDB refuses that, as it does for files in
 * which pages have got lost.  (A compact copy is a reader's.) */
static int
copy_to(struct lmdb *s, struct keyspace *k, int fd)
{
    const int code = mdb_env_copyfd2(k->env, fd, MDB_CP_COMPACT);

    return code == MDB_INCOMPATIBLE ? copy_pages(s, k, fd) : lmdb_error(code);
}

int
lmdb_copy(struct store *store, const uint8_t *name, size_t name_size, int to_fd)
{
    struct lmdb *s = lmdb_of(store);
    char temp[KEYSPACE_FILE_SIZE];
    struct keyspace *k;
    int fd, rc;

    if (!keyspace_name_ok(name, name_size))
        return -EINVAL;
    rc = keyspace_get(s, name, name_size, KEYSPACE_FIND, &k);
    if (rc < 0)
        return rc;
    fd = keyspace_file_temp(to_fd, temp);
    if (fd < 0)
        return fd;
    rc = copy_to(s, k, fd);
    if (rc == 0 && fsync(fd) < 0)
        rc = -errno;
    if (rc == 0)
        rc = keyspace_file_rename(to_fd, temp, k->file);
    if (rc < 0)
        (void)unlinkat(to_fd, temp, 0); /* a left over one is no copy */
    if (rc == 0 && fsync(to_fd) < 0)
        rc = -errno;
    (void)close(fd); /* synced above */
    return rc;
}
