/* common/store/lmdb/copy.c - lmdb_copy(): copying one snapshot of a file, safe
 * while other processes write. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/keyspace_file.h"

#include <errno.h>
#include <unistd.h>

#include "common/base/files.h"

/* Copies page by page.  LMDB takes its writers' mutex for that; holding the
 * flock of a write transaction, this process never waits for that mutex and no
 * writer waits for this process in LMDB. */
static int
copy_pages(struct lmdb *s, const struct keyspace *k, int to)
{
    int rc;

    if (ftruncate(to, 0) < 0 || lseek(to, 0, SEEK_SET) < 0)
        return -errno;
    rc = lock_take(k->fd, &s->holder);
    if (rc < 0)
        return rc;
    rc = lmdb_error(mdb_env_copyfd2(k->env, to, 0));
    keyspace_unlock(k);
    return rc;
}

int
lmdb_copy(struct store *store, const uint8_t *name, size_t name_size, int to_fd)
{
    struct lmdb *s = lmdb_of(store);
    char temp[KEYSPACE_FILE_SIZE];
    struct keyspace *k;
    int to, code, rc;

    rc = keyspace_get(s, name, name_size, KEYSPACE_FIND, &k);
    if (rc < 0)
        return rc;
    to = keyspace_file_temp(to_fd, temp);
    if (to < 0)
        return to;
    /* LMDB refuses to compact files in which pages were lost.  (A compact copy
     * only needs a reader transaction.) */
    code = mdb_env_copyfd2(k->env, to, MDB_CP_COMPACT);
    rc = code == MDB_INCOMPATIBLE ? copy_pages(s, k, to) : lmdb_error(code);
    if (rc == 0 && fsync(to) < 0)
        rc = -errno;
    if (rc == 0)
        rc = keyspace_file_rename(to_fd, temp, k->file);
    if (rc < 0)
        (void)unlinkat(to_fd, temp, 0); /* clean-up removes it later */
    if (rc == 0 && fsync(to_fd) < 0)
        rc = -errno;
    (void)close(to); /* synced above */
    return rc;
}
