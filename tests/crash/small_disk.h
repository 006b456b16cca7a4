/* tests/crash/small_disk.h - a tmpfs of a size, in a mount namespace of this
 * process, with a data directory and what fills it up.  The mount is gone with
 * the process, however it ends.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_CRASH_SMALL_DISK_H
#define COUNTD_TESTS_CRASH_SMALL_DISK_H

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/file.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"

struct small_disk {
    struct tmpdir dir;
    char data[600], ballast[600];
};

/* False: only root can. */
static inline bool
small_disk_mount(struct small_disk *d, const char *options)
{
    const char *path;

    tmpdir_make(&d->dir);
    (void)snprintf(d->data, sizeof d->data, "%s/disk/data", d->dir.path);
    (void)snprintf(d->ballast, sizeof d->ballast, "%s/disk/ballast",
                   d->dir.path);
    path = file_path(d->dir.path, "disk");
    return getuid() == 0 && mkdir(path, 0700) == 0 &&
           unshare(CLONE_NEWNS) == 0 &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("countd", path, "tmpfs", 0, options) == 0 &&
           mkdir(d->data, 0700) == 0;
}

static inline void
small_disk_unmount(struct small_disk *d)
{
    assert_int_equal(umount2(file_path(d->dir.path, "disk"), MNT_DETACH), 0);
    tmpdir_remove(&d->dir);
}

/* Writes `size` bytes, or until the disk is full to the last byte. */
static inline void
small_disk_fill(const struct small_disk *d, size_t size)
{
    static const char bytes[4096];
    const int fd = open(d->ballast, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ssize_t n = 0;

    assert_true(fd >= 0);
    for (size_t done = 0; done < size && n >= 0; done += (size_t)n)
        n = write(fd, bytes, sizeof bytes);
    assert_int_equal(close(fd), 0);
}

#endif
