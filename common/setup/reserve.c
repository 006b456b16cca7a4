/* common/setup/reserve.c - see reserve.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/setup/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Opens the reserve and takes its flock. */
static int
lock_reserve(int data_fd, int flags)
{
    struct stat st, named;
    int fd, rc = 0;

    fd = openat(data_fd, RESERVE_FILE,
                O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC | flags, 0600);
    if (fd < 0)
        return -errno;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        rc = errno == EWOULDBLOCK ? -EBUSY : -errno;
    else if (fstat(fd, &st) < 0 ||
             fstatat(data_fd, RESERVE_FILE, &named, AT_SYMLINK_NOFOLLOW) < 0)
        rc = -errno;
    else if (st.st_ino != named.st_ino || !S_ISREG(st.st_mode))
        rc = -EBUSY; /* renamed before the flock was ours */
    if (rc == 0)
        return fd;
    (void)close(fd);
    return rc;
}

/* A sparse copy has the size and not the blocks. */
static bool
is_whole(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 && st.st_size == RESERVE_BYTES &&
           st.st_blocks * 512L >= RESERVE_BYTES;
}

int
reserve_take(int data_fd)
{
    const int fd = lock_reserve(data_fd, 0);

    if (fd < 0 || is_whole(fd))
        return fd;
    (void)close(fd);
    return -ENOENT;
}

static bool
has_space(int data_fd)
{
    struct statvfs fs;

    return fstatvfs(data_fd, &fs) == 0 &&
           (uint64_t)fs.f_bavail * fs.f_frsize >= 2 * RESERVE_BYTES;
}

int
reserve_make(int data_fd)
{
    int fd, rc;

    fd = reserve_take(data_fd);
    if (fd >= 0) {
        (void)close(fd);
        return 0;
    }
    if (fd != -ENOENT)
        return fd;
    if (!has_space(data_fd))
        return -ENOSPC;
    fd = lock_reserve(data_fd, O_CREAT);
    if (fd < 0)
        return fd;
    rc = -posix_fallocate(fd, 0, RESERVE_BYTES);
    if (rc == 0 && ftruncate(fd, RESERVE_BYTES) < 0)
        rc = -errno;
    if (rc == 0 && (fsync(fd) < 0 || fsync(data_fd) < 0))
        rc = -errno;
    /* Unlink a part: its blocks are needed elsewhere. */
    if (rc < 0)
        (void)unlinkat(data_fd, RESERVE_FILE, 0);
    (void)close(fd);
    return rc;
}
