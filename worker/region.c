/* worker/region.c - see region.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/region.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define REGION_HUGE ((size_t)2 << 20)

/* A file without a name; made and removed where the file system knows no
 * other way. */
static int
nameless_file(int dirfd)
{
    char name[32];
    int fd;

    fd = openat(dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        return fd;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)
        return -errno;
    (void)snprintf(name, sizeof name, "%%tscratch-%ld", (long)getpid());
    (void)unlinkat(dirfd, name,
                   0); /* of one that died at the next line but one */
    fd = openat(dirfd, name, O_CREAT | O_EXCL | O_RDWR | O_NOFOLLOW | O_CLOEXEC,
                0600);
    if (fd < 0)
        return -errno;
    (void)unlinkat(dirfd, name, 0); /* else by the next with our number */
    return fd;
}

/* The same, with all its blocks there.  Returns it, or -errno. */
static int
scratch_file(int dirfd, size_t size)
{
    int fd, rc;

    fd = nameless_file(dirfd);
    if (fd < 0)
        return fd;
    rc = posix_fallocate(fd, 0, (off_t)size);
    if (rc == 0)
        return fd;
    (void)close(fd);
    return -rc;
}

int
region_open(struct region *r, size_t size, int dirfd)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    int fd = -1, rc = 0;
    void *at;

    assert(size > 0);
    if (dirfd >= 0) {
        fd = scratch_file(dirfd, size);
        if (fd < 0)
            return fd;
        flags = MAP_SHARED;
    }
    at = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, fd, 0);
    if (at == MAP_FAILED)
        rc = -errno;
    if (fd >= 0)
        (void)close(fd); /* the map keeps the file */
    if (rc < 0)
        return rc;
    if (size >= 4 * REGION_HUGE && dirfd < 0) {
        /* Probing a large table misses the TLB at each step without; where
         * the kernel has no huge pages it is only slower. */
        (void)madvise(at, size, MADV_HUGEPAGE);
    }
    *r = (struct region){.at = at, .size = size};
    return 0;
}

void
region_close(struct region *r)
{
    if (!r->at)
        return;
    (void)munmap(r->at, r->size); /* cannot fail for a map we made */
    *r = (struct region){0};
}

void
region_touch(struct region *r, size_t size)
{
    assert(size <= r->size);
    if (size > r->touched)
        r->touched = size;
}

void
region_trim(struct region *r, size_t keep)
{
    keep = (keep + REGION_HUGE - 1) / REGION_HUGE * REGION_HUGE;
    if (r->touched <= keep || keep >= r->size)
        return;
    /* A failure only means that the pages stay ours. */
    (void)madvise(r->at + keep, r->size - keep, MADV_DONTNEED);
    r->touched = keep;
}
