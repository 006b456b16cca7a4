/* common/setup/datadir_lock.c - see datadir.h: the one countd-write of a data
 * directory, datadir_writer_lock() and datadir_writer_pid(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/setup/datadir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/files.h"

#define FILE_FLAGS (O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
#define FILE_MODE  0600
#define PID_SIZE   42 /* "%-20ld%-20llu\n" and NUL */

/* Distinguishes this pid namespace from others; 0: not known. */
static unsigned long long
pid_namespace(void)
{
    struct stat st;

    return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

/* The pid in the file; 0 when there is none yet, and negated if it is one of
 * another pid namespace. */
static long
read_pid(int fd)
{
    unsigned long long space;
    char text[PID_SIZE];
    ssize_t size;
    char *end;
    long pid;

    size = pread(fd, text, sizeof text - 1, 0);
    if (size <= 0)
        return 0;
    text[size] = '\0';
    pid = strtol(text, &end, 10);
    if (end == text || pid <= 0)
        return 0;
    space = strtoull(end, NULL, 10);
    return space == 0 || space == pid_namespace() ? pid : -pid;
}

int
datadir_writer_lock(const struct datadir *d, int *fd, long *pid)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    char text[PID_SIZE];
    int file, rc;

    file =
        openat(d->log_fd, "writer", O_RDWR | O_CREAT | FILE_FLAGS, FILE_MODE);
    if (file < 0)
        return -errno;
    if (flock(file, LOCK_EX | LOCK_NB) < 0) {
        rc = errno == EWOULDBLOCK ? -EBUSY : -errno;
        if (rc == -EBUSY)
            *pid = labs(read_pid(file));
        goto close_file;
    }
    /* One write of one length: a reader never sees half of two pids. */
    snprintf(text, sizeof text, "%-20ld%-20llu\n", (long)getpid(),
             pid_namespace());
    rc = write_at(file, text, sizeof text - 1, 0);
    /* Beside the flock, which says who is the writer, a lock that others can ask
     * about: a test with flock(2) would have to take it, and could make a writer
     * that starts just then believe in another. */
    if (rc == 0 && fcntl(file, F_OFD_SETLK, &lock) < 0)
        rc = -errno;
    if (rc == 0) {
        *fd = file;
        return 0;
    }

close_file:
    (void)close(file); /* the lock, if any, goes with it */
    return rc;
}

long
datadir_writer_pid(const struct datadir *d)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    long pid = 0;
    int fd;

    fd = openat(d->log_fd, "writer", O_RDONLY | FILE_FLAGS);
    if (fd < 0)
        return 0;
    if (fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK)
        pid = read_pid(fd);
    (void)close(fd);
    return pid;
}
