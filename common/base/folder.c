/* common/base/folder.c - see folder.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/base/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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
