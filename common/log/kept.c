/* common/log/kept.c - see kept.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/kept.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/dirstream.h"
#include "common/base/folder.h"

#define TRIES 1000

static int
remove_file(void *ctx, int folder_fd, const char *name)
{
    (void)ctx;
    return unlinkat(folder_fd, name, 0) < 0 && errno != ENOENT ? -errno : 0;
}

/* Removes the folder if no process uses it.  A worker that began before may
 * still put a log there; one that finds the folder gone has nothing to keep. */
static bool
remove_unused(int log_fd, int fd)
{
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        return false;
    for (unsigned i = 0; i < TRIES; i++)
        if (dirstream_each(fd, ".", remove_file, NULL) < 0 ||
            unlinkat(log_fd, KEPT_FOLDER, AT_REMOVEDIR) == 0 ||
            errno != ENOTEMPTY)
            break; /* what stays the next worker removes */
    return true;
}

/* Takes the flock of the folder and makes the file.
 *   -ENOENT  a worker has removed the folder: it was not in use yet */
static int
use_folder(struct kept *k)
{
    struct stat st;
    int rc;

    while ((rc = flock(k->fd, LOCK_SH)) < 0 && errno == EINTR)
        continue;
    if (rc < 0 || fstat(k->fd, &st) < 0)
        return -errno;
    if (st.st_nlink == 0)
        return -ENOENT;
    k->whole_fd = openat(k->fd, KEPT_WHOLE,
                         O_CREAT | O_RDONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
    return k->whole_fd < 0 ? -errno : 0;
}

int
kept_begin(struct kept *k, int log_fd)
{
    int rc = -ENOENT;

    for (unsigned i = 0; rc == -ENOENT && i < TRIES; i++) {
        if (mkdirat(log_fd, KEPT_FOLDER, 0700) < 0 && errno != EEXIST)
            return -errno;
        k->fd = folder_open(log_fd, KEPT_FOLDER);
        rc = k->fd < 0 ? k->fd : use_folder(k);
        if (rc < 0 && k->fd >= 0)
            (void)close(k->fd);
    }
    k->begun = rc == 0;
    return rc;
}

bool
kept_is_whole(const struct kept *k)
{
    struct stat st;

    return k->begun && fstat(k->whole_fd, &st) == 0 && st.st_nlink > 0;
}

void
kept_end(struct kept *k, int log_fd)
{
    if (!k->begun)
        return;
    k->begun = false;
    (void)close(k->whole_fd); /* empty */
    (void)remove_unused(log_fd, k->fd);
    (void)close(k->fd);
}

int
kept_open(int log_fd)
{
    const int fd = folder_open(log_fd, KEPT_FOLDER);

    if (fd < 0 || !remove_unused(log_fd, fd))
        return fd;
    (void)close(fd);
    return -ENOENT;
}

void
kept_spoil(int log_fd)
{
    /* It fails where there is no backup. */
    (void)unlinkat(log_fd, KEPT_FOLDER "/" KEPT_WHOLE, 0);
}
