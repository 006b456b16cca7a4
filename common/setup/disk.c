/* common/setup/disk.c - see disk.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/setup/disk.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_FLAGS (O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
#define FILE_MODE  0600

#define PROBE_NAME_SIZE 32

int
disk_check_type(uint64_t type, const char **why)
{
    static const struct {
        uint32_t type;
        int rc;
        const char *why;
    } known[] = {
        {0x00006969, -EOPNOTSUPP, "NFS"},
        {0x0000517b, -EOPNOTSUPP, "SMB"},
        {0xff534d42, -EOPNOTSUPP, "CIFS"},
        {0xfe534d42, -EOPNOTSUPP, "SMB2"},
        {0x01021997, -EOPNOTSUPP, "9P"},
        {0x5346414f, -EOPNOTSUPP, "AFS"},
        {0x00c36400, -EOPNOTSUPP, "Ceph"},
        {0x73757245, -EOPNOTSUPP, "Coda"},
        {0x01021994, 1, "tmpfs: nothing in it survives a power loss"},
        {0x858458f6, 1, "ramfs: nothing in it survives a power loss"},
        {0x794c7630, 1, "overlay: it may go with its container"},
    };
    size_t i;

    /* f_type is signed where these are not. */
    for (i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (known[i].type == (uint32_t)type) {
            *why = known[i].why;
            return known[i].rc;
        }
    }
    return 0;
}

/* With `fd` open on `file`: is a second link seen, does an flock through one
 * open keep another out? */
static int
probe_file(int dirfd, const char *file, const char *link_name, int fd)
{
    struct stat st;
    int other, rc = 0;

    if (linkat(dirfd, file, dirfd, link_name, 0) < 0)
        return -errno;
    if (fstat(fd, &st) < 0)
        rc = -errno;
    else if (st.st_nlink != 2)
        rc = -EOPNOTSUPP;
    other = openat(dirfd, link_name, O_RDWR | FILE_FLAGS);
    if (other < 0 && rc == 0)
        rc = -errno;
    if (rc == 0 && flock(fd, LOCK_EX | LOCK_NB) < 0)
        rc = -errno;
    if (rc == 0) {
        if (flock(other, LOCK_EX | LOCK_NB) == 0)
            rc = -ENOLCK;
        else if (errno != EWOULDBLOCK)
            rc = -errno;
    }
    if (other >= 0)
        (void)close(other);
    if (unlinkat(dirfd, link_name, 0) < 0 && rc == 0)
        rc = -errno;
    return rc;
}

int
disk_probe(int dirfd)
{
    char file[PROBE_NAME_SIZE], link_name[PROBE_NAME_SIZE];
    uint64_t number; /* no other process has these names */
    int fd, rc;

    if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        return -EIO;
    (void)snprintf(file, sizeof file, ".probe-%016" PRIx64, number);
    (void)snprintf(link_name, sizeof link_name, ".probe-%016" PRIx64 "-link",
                   number);
    fd = openat(dirfd, file, O_RDWR | O_CREAT | O_EXCL | FILE_FLAGS, FILE_MODE);
    if (fd < 0)
        return -errno;
    rc = probe_file(dirfd, file, link_name, fd);
    (void)close(fd);
    if (unlinkat(dirfd, file, 0) < 0 && rc == 0)
        rc = -errno;
    if (fsync(dirfd) < 0 && rc == 0)
        rc = -errno;
    return rc;
}
