/* common/base/files.c - see files.h. */
#include "common/base/files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "common/base/diag.h"

int
files_raise(uint64_t own, uint64_t least)
{
    /* So many that the share of the keyspaces is enough for all of them. */
    const uint64_t shared = FILES_SHARE * FILES_KEYSPACE * FILES_KEYSPACES;
    const uint64_t asked = own + FILES_OTHER + FILES_KEYSPACE * FILES_KEYSPACES;
    const uint64_t want = asked > shared ? asked : shared;
    struct rlimit limit;
    int rc;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
        rc = -errno;
        diag_errno(DIAG_ERROR, rc, "read the limit of descriptors");
        return rc;
    }
    if (limit.rlim_cur < want && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max < want ? limit.rlim_max : want;
        if (setrlimit(RLIMIT_NOFILE, &limit) < 0) {
            rc = -errno;
            diag_errno(DIAG_ERROR, rc, "raise the limit of descriptors");
            return rc;
        }
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

    /* Cannot fail: the resource is valid, and so is the place. */
    return getrlimit(RLIMIT_NOFILE, &limit) < 0 ? 0 : limit.rlim_cur;
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

long
lock_holder(int fd)
{
    unsigned device_major, device_minor;
    long pid, holder = 0;
    uint64_t inode;
    char line[256];
    struct stat st;
    FILE *f;

    if (fstat(fd, &st) < 0)
        return 0;
    f = fopen("/proc/locks", "re");
    if (f == NULL)
        return 0;

    /* "7: FLOCK  ADVISORY  WRITE 4711 fd:01:1234 0 EOF"; the line of one who
     * waits has "->" before the kind and does not match. */
    while (holder == 0 && fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "%*u: FLOCK %*s %*s %ld %x:%x:%" SCNu64, &pid,
                   &device_major, &device_minor, &inode) == 4 &&
            pid > 0 && inode == st.st_ino && device_major == major(st.st_dev) &&
            device_minor == minor(st.st_dev))
            holder = pid;
    (void)fclose(f); /* only read */
    return holder;
}
