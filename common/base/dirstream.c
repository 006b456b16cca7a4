/* common/base/dirstream.c - see dirstream.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/base/dirstream.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

int
dirstream_open(int dirfd, const char *folder, DIR **out)
{
    DIR *dir;
    int fd, rc;

    /* Another open file, so that reading it has its own position. */
    fd = openat(dirfd, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    dir = fdopendir(fd);
    if (!dir) {
        rc = -errno;
        (void)close(fd);
        return rc;
    }
    *out = dir;
    return 0;
}

int
dirstream_next(DIR *dir, const char **name)
{
    const struct dirent *entry;

    do {
        /* readdir() reports an error only through errno. */
        errno = 0;
        entry = readdir(dir);
        if (!entry)
            return -errno;
    } while (strcmp(entry->d_name, ".") == 0 ||
             strcmp(entry->d_name, "..") == 0);
    *name = entry->d_name;
    return 1;
}

int
dirstream_each(int parent_fd, const char *folder,
               int (*each)(void *ctx, int folder_fd, const char *name),
               void *ctx)
{
    const char *name;
    DIR *dir;
    int rc;

    rc = dirstream_open(parent_fd, folder, &dir);
    if (rc < 0)
        return rc == -ENOENT ? 0 : rc;
    while ((rc = dirstream_next(dir, &name)) > 0) {
        rc = each(ctx, dirfd(dir), name);
        if (rc != 0)
            break;
    }
    (void)closedir(dir);
    return rc;
}
