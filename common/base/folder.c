/* common/base/folder.c - see folder.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/base/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/files.h"

int
folder_open(int dirfd, const char *name)
{
    const int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

/* The sync is needed also where the folder is there: the process that made it
 * may have died before its own. */
int
folder_make(int dirfd, const char *name)
{
    if (mkdirat(dirfd, name, 0700) < 0 && errno != EEXIST)
        return -errno;
    if (dirfd != AT_FDCWD && fsync(dirfd) < 0)
        return -errno;
    return folder_open(dirfd, name);
}

int
folder_open_file(int dirfd, const char *name)
{
    const int fd =
        openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

int
folder_copy_file(int from_fd, const char *name, int to_fd)
{
    const int from = folder_open_file(from_fd, name);
    struct stat st;
    int64_t rc;
    int to;

    if (from < 0)
        return from == -ENOENT ? 0 : from;
    to = openat(to_fd, name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    rc = to < 0 || fstat(from, &st) < 0 ? -errno : 0;
    if (rc == 0)
        rc = copy_at(from, 0, UINT64_MAX, to, 0);
    if (rc >= 0 &&
        (futimens(to, (const struct timespec[2]){st.st_atim, st.st_mtim}) < 0 ||
         fsync(to) < 0))
        rc = -errno;
    if (to >= 0)
        (void)close(to); /* synced, or given up */
    (void)close(from);
    return rc < 0 ? (int)rc : 0;
}

int
folder_sync_parent(int fd)
{
    const int parent = folder_open(fd, "..");
    int rc;

    if (parent < 0)
        return parent;
    rc = fsync(parent) < 0 ? -errno : 0;
    (void)close(parent);
    return rc;
}
