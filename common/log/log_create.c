/* common/log/log_create.c - see log.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/log.h"

#include <assert.h>
#include <errno.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/files.h"
#include "common/log/log_owner.h"

#define CREATE_TRIES 8

/* Creates lock-N and takes its flock.  Recovery may mistake it for a dead
 * creator's lock, take the flock first and unlink it; then try again.
 *   -EAGAIN  the lock still exists, or this happened CREATE_TRIES times */
static int
create_lock(int dirfd, const char *lock)
{
    for (int i = 0; i < CREATE_TRIES; i++) {
        const int fd = log_owner_make_file(dirfd, lock);

        if (fd == -EEXIST && i > 0)
            break;
        if (fd != -ESTALE)
            return fd;
    }
    return -EAGAIN;
}

/* Writes a complete EMPTY log into `fd` and makes it durable.  Writes zeros
 * instead of allocating space: each sync of unwritten space costs a journal
 * commit, and a full disk is found now instead of during a fill. */
static int
fill_new(int fd, uint64_t index, const struct layout *l, uint32_t slots)
{
    struct log log = {.fd = fd, .lock_fd = -1};
    struct log_header h = {
        .index = index,
        .state = LOG_EMPTY,
        .layout = *l,
        .slots = slots,
    };
    int rc;

    if (getrandom(h.uuid, sizeof h.uuid, 0) != (ssize_t)sizeof h.uuid)
        return -EIO;
    rc = write_zeros(fd, LOG_SLOTS_AT + (uint64_t)slots * l->slot_size, 0);
    if (rc == 0)
        rc = log_owner_write_header(&log, h);
    if (rc == 0)
        rc = log_owner_write_header(&log, h);
    if (rc < 0)
        return rc;
    if (fchmod(fd, LOG_MODE_EMPTY) < 0)
        return -errno;
    return fsync(fd) < 0 ? -errno : 0;
}

/* Gives the complete file its name. */
static int
publish_log(int dirfd, uint64_t index, int fd)
{
    char name[LOG_NAME_SIZE], lock[LOG_LOCK_SIZE];
    int rc;

    log_name(index, name);
    log_lock_name(index, lock);
    if (linkat(dirfd, lock, dirfd, name, 0) < 0)
        return -errno;
    rc = log_owner_unlink_lock(dirfd, index, fd);
    if (rc < 0)
        return rc; /* a complete log that shows an owner: recovery repairs it */
    if (fsync(dirfd) < 0) {
        rc = -errno;
        /* A power loss could now remove the name, with all records in the log.
         * No process can have claimed it: this one holds its flock.  If the
         * unlink fails, too, log_begin() syncs the directory before the first
         * fill. */
        (void)unlinkat(dirfd, name, 0); /* log_begin() repairs it */
        return rc;
    }
    return 0;
}

int
log_create(int dirfd, uint64_t index, const struct layout *l, uint32_t slots)
{
    char lock[LOG_LOCK_SIZE];
    int fd, rc;

    assert(dirfd >= 0 && index <= LOG_INDEX_MAX && slots > 0);

    log_lock_name(index, lock);
    fd = create_lock(dirfd, lock);
    if (fd < 0)
        return fd;
    rc = fill_new(fd, index, l, slots);
    if (rc == 0)
        rc = publish_log(dirfd, index, fd);
    if (rc < 0)
        (void)log_owner_unlink_lock(dirfd, index, fd); /* or recovery does */
    (void)close(fd);                                   /* synced, or removed */
    return rc;
}
