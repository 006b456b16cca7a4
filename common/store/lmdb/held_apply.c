/* common/store/lmdb/held_apply.c - what is done with held records: the lock of
 * a keyspace's, deleting them. */
#include "common/store/lmdb/held_internal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/hash.h"

#define LOCK_BYTES 0x3fffffffu /* below 2^31: any file system knows these */
#define DROP_STEP  1024        /* records of one commit */

long
held_holder(const struct held *h)
{
    return h->holder;
}

/* ---- the lock ---------------------------------------------------------- */

/* A descriptor of its own for the file that the look is of: the lock is that
 * open file's, and no other descriptor's closing gives it up. */
static int
open_for_lock(const struct held *h, int *fd)
{
    struct stat st;

    *fd = openat(h->options.data_fd, HELD_FILE,
                 O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (*fd < 0)
        return -errno;
    if (fstat(*fd, &st) == 0 && st.st_ino == h->look_inode &&
        st.st_dev == h->look_device)
        return 0;
    (void)close(*fd); /* only looked at */
    return -EAGAIN;
}

/* Locks bytes of the file of a new look, and begins another look. */
static int
lock_bytes(struct held *h, off_t start, off_t count)
{
    struct flock lock = {.l_type = F_WRLCK,
                         .l_whence = SEEK_SET,
                         .l_start = start,
                         .l_len = count};
    int rc, fd;

    assert(h->lock_fd < 0);
    rc = held_snapshot_begin(h);
    if (rc < 0)
        return rc;
    if (h->look == NULL)
        return -ENOENT;
    rc = open_for_lock(h, &fd);
    if (rc < 0)
        return rc == -ENOENT ? -EAGAIN : rc;
    if (fcntl(fd, F_OFD_SETLK, &lock) < 0) {
        rc = errno == EACCES ? -EAGAIN : -errno;
        (void)close(fd); /* only looked at */
        return rc;
    }
    h->lock_fd = fd;

    /* What the last owner of the lock deleted must not be seen any more. */
    rc = held_snapshot_begin(h);
    if (rc == 0 && h->look == NULL)
        rc = -ENOENT;
    if (rc < 0)
        held_unlock(h);
    return rc;
}

int
held_lock(struct held *h, const uint8_t *name, size_t name_size)
{
    static const struct hash_key zeros;

    return lock_bytes(
        h, (off_t)(hash_name(&zeros, 0, name, name_size) & LOCK_BYTES), 1);
}

int
held_lock_all(struct held *h)
{
    return lock_bytes(h, 0, (off_t)LOCK_BYTES + 1);
}

void
held_unlock(struct held *h)
{
    if (h->lock_fd >= 0)
        (void)close(h->lock_fd); /* only locked */
    h->lock_fd = -1;
}

/* ---- deleting ---------------------------------------------------------- */

/* Deletes a record; -ENOENT: there is none of this id. */
static int
delete_record(struct held *h, const uint8_t *name, size_t name_size,
              uint64_t id)
{
    struct held_key k = held_key_name(name, name_size);
    struct held_head head;
    struct held_record r;
    MDB_val key, value;
    uint64_t bytes;
    int code, rc;

    held_key_add64(&k, id);
    key = held_val(&k);
    code = mdb_get(h->write, h->file.records, &key, &value);
    if (code != 0)
        return code == MDB_NOTFOUND ? -ENOENT : held_error(h, code);
    bytes = value.mv_size;
    rc = held_value_check(h, &value);
    if (rc < 0)
        return rc;
    rc = held_head_read(&key, &value, &head);
    if (rc == 0)
        rc = held_record_read(&h->memory, &head, &r);
    r.batch.name = name; /* what it points to goes */
    if (rc == 0)
        rc = held_index_delete(h, &r.batch, id);
    else if (rc == -EBADMSG)
        rc = held_index_purge(h, name, name_size, id);
    if (rc < 0)
        return rc;
    h->sums.records--;
    h->sums.bytes -= bytes < h->sums.bytes ? bytes : h->sums.bytes;
    return 0;
}

int
held_delete(struct held *h, const uint8_t *name, size_t name_size,
            const uint64_t *ids, size_t count)
{
    int rc;

    rc = held_step_begin(h, false);
    for (size_t i = 0; rc == 0 && i < count; i++) {
        rc = delete_record(h, name, name_size, ids[i]);
        if (rc == -ENOENT)
            rc = 0; /* it has gone already */
    }
    if (rc == 0)
        return held_commit(h);
    held_abort(h);
    return rc == -ENOENT ? -ESTALE : rc;
}

/* The ids of the first records of a keyspace, in the snapshot. */
static size_t
first_ids(struct held *h, const uint8_t *name, size_t name_size, uint64_t *ids,
          size_t room)
{
    size_t count = 0;

    while (count < room &&
           held_next_id(h, name, name_size, count > 0 ? ids[count - 1] : 0,
                        &ids[count]) == 0)
        count++;
    return count;
}

int
held_drop(struct held *h, const uint8_t *name, size_t name_size,
          uint64_t *records)
{
    static uint64_t ids[DROP_STEP];
    size_t count;
    int rc;

    *records = 0;
    rc = held_lock(h, name, name_size);
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    do {
        count = first_ids(h, name, name_size, ids, DROP_STEP);
        if (count > 0)
            rc = held_delete(h, name, name_size, ids, count);
        if (rc == 0)
            *records += count;
        if (rc == 0)
            rc = held_snapshot_begin(h);
    } while (rc == 0 && count == DROP_STEP);
    held_unlock(h);
    return rc;
}
