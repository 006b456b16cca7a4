/* common/base/files.c - see files.h: files_raise() and files_left() count
 * descriptors, lock_take() locks a file, read_at() and write_at() are its
 * bytes. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/base/files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "common/base/diag.h"

#define COPY_SIZE    ((size_t)64 << 10)
#define FILES_USUAL  1024 /* the soft limit where nothing has changed it */
#define HOLDER_READS 3

int
files_raise(uint64_t own, uint64_t least)
{
    /* So many that the share of the keyspaces is enough for all of them. */
    const uint64_t shared = FILES_SHARE * FILES_KEYSPACE * FILES_KEYSPACES;
    const uint64_t asked = own + FILES_OTHER + FILES_KEYSPACE * FILES_KEYSPACES;
    const uint64_t want = asked > shared ? asked : shared;
    struct rlimit limit;
    int rc;

    rc = getrlimit(RLIMIT_NOFILE, &limit);
    if (rc == 0 && limit.rlim_cur < want && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max < want ? limit.rlim_max : want;
        rc = setrlimit(RLIMIT_NOFILE, &limit);
    }
    if (rc < 0) {
        rc = -errno;
        diag_errno(DIAG_ERROR, rc, "raise the limit of descriptors");
        return rc;
    }
    if (limit.rlim_cur >= least)
        return 0;
    diag(DIAG_ERROR,
         "%" PRIu64 " descriptors are allowed and %" PRIu64 " needed: "
         "raise the limit (ulimit -n)",
         (uint64_t)limit.rlim_cur, least);
    return -EMFILE;
}

uint64_t
files_limit(void)
{
    struct rlimit limit;

    /* A kernel that does not say allows the usual number: at 0 nothing could
     * be opened at all. */
    return getrlimit(RLIMIT_NOFILE, &limit) < 0 ? FILES_USUAL : limit.rlim_cur;
}

unsigned
files_keyspaces(void)
{
    const uint64_t share = files_limit() / FILES_SHARE / FILES_KEYSPACE;

    return (unsigned)(share < FILES_KEYSPACES ? share : FILES_KEYSPACES);
}

size_t
files_left(void)
{
    const uint64_t limit = files_limit();
    const uint64_t taken = FILES_OTHER + FILES_KEYSPACE * files_keyspaces();

    return limit > taken ? (size_t)(limit - taken) : 0;
}

/* The pid of the process whose flock on the file this line of /proc/locks
 * shows, or 0.  `file` is the part " fd:01:1234 " of
 *
 *     7: FLOCK  ADVISORY  WRITE 4711 fd:01:1234 0 EOF
 *
 * A process that waits has "->" before the kind. */
static long
holder_in(const char *line, const char *file)
{
    const char *at = strstr(line, file);
    long pid;

    if (at == NULL || strstr(line, ": FLOCK ") == NULL)
        return 0;
    while (at > line && at[-1] != ' ')
        at--;
    pid = strtol(at, NULL, 10);
    return pid > 0 ? pid : 0;
}

static long
find_holder(const char *file)
{
    FILE *f = fopen("/proc/locks", "re");
    long holder = 0;
    char line[256];

    while (f != NULL && holder == 0 && fgets(line, sizeof line, f) != NULL)
        holder = holder_in(line, file);
    if (f != NULL)
        (void)fclose(f);
    return holder;
}

/* The list is read by pages: a line may be passed over when others end between
 * two of them. */
long
lock_holder(int fd)
{
    long holder = 0;
    char file[64];
    struct stat st;

    if (fstat(fd, &st) < 0)
        return 0;
    (void)snprintf(file, sizeof file, " %02x:%02x:%" PRIu64 " ",
                   major(st.st_dev), minor(st.st_dev), (uint64_t)st.st_ino);
    for (int i = 0; holder == 0 && i < HOLDER_READS; i++)
        holder = find_holder(file);
    return holder;
}

int
lock_take(int fd, long *holder)
{
    if (flock(fd, LOCK_EX | LOCK_NB) == 0)
        return 0;
    if (errno != EWOULDBLOCK)
        return -errno;
    *holder = lock_holder(fd);
    return -EAGAIN;
}

ssize_t
read_at(int fd, void *bytes, size_t size, uint64_t at)
{
    uint8_t *to = bytes;
    size_t got = 0;

    while (got < size) {
        const ssize_t n = pread(fd, to + got, size - got, (off_t)(at + got));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        got += (size_t)n;
    }
    return (ssize_t)got;
}

ssize_t
read_twice(int fd, void *bytes, size_t size, uint64_t at)
{
    const ssize_t got = read_at(fd, bytes, size, at);

    return got == -EIO ? read_at(fd, bytes, size, at) : got;
}

int
write_at(int fd, const void *bytes, size_t size, uint64_t at)
{
    const uint8_t *from = bytes;

    while (size > 0) {
        const ssize_t n = pwrite(fd, from, size, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return -EIO;
        from += n;
        at += (uint64_t)n;
        size -= (size_t)n;
    }
    return 0;
}

int
write_zeros(int fd, uint64_t size, uint64_t at)
{
    static const uint8_t zeros[65536];
    int rc = 0;

    for (uint64_t done = 0; rc == 0 && done < size; done += sizeof zeros)
        rc = write_at(fd, zeros,
                      size - done < sizeof zeros ? (size_t)(size - done)
                                                 : sizeof zeros,
                      at + done);
    return rc;
}

int64_t
copy_at(int from, uint64_t at, uint64_t size, int to, uint64_t to_at)
{
    uint8_t *bytes = malloc(COPY_SIZE);
    int64_t rc = bytes ? 0 : -ENOMEM;
    uint64_t done = 0;

    while (rc == 0 && done < size) {
        const size_t most =
            size - done < COPY_SIZE ? (size_t)(size - done) : COPY_SIZE;
        const ssize_t got = read_at(from, bytes, most, at + done);

        rc = got > 0 ? write_at(to, bytes, (size_t)got, to_at + done) : got;
        if (got <= 0)
            break;
        done += (uint64_t)got;
    }
    free(bytes);
    return rc < 0 ? rc : (int64_t)done;
}
