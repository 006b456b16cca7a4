/* common/log/archive.c - see archive.h. */
#include "common/log/archive.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define NAME_SIZE   64
#define CHUNK_SIZE  ((size_t)128 << 10)
#define GZIP_WINDOW (15 + 16) /* zlib: the largest window, a gzip header */

struct packer {
    z_stream z;
    int fd;
    uint8_t in[CHUNK_SIZE];
    uint8_t out[CHUNK_SIZE];
};

static int
write_all(int fd, const uint8_t *bytes, size_t size)
{
    while (size > 0) {
        const ssize_t n = write(fd, bytes, size);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        bytes += n;
        size -= (size_t)n;
    }
    return 0;
}

/* Packs `size` bytes of p->in; `flush` is Z_NO_FLUSH, or Z_FINISH at last. */
static int
pack(struct packer *p, size_t size, int flush)
{
    int rc = 0, more;

    p->z.next_in = p->in;
    p->z.avail_in = (unsigned)size;
    do {
        p->z.next_out = p->out;
        p->z.avail_out = CHUNK_SIZE;
        more = deflate(&p->z, flush);
        assert(more != Z_STREAM_ERROR);
        rc = write_all(p->fd, p->out, CHUNK_SIZE - p->z.avail_out);
    } while (rc == 0 && p->z.avail_out == 0);
    return rc;
}

static int
pack_log(struct packer *p, const struct log *log)
{
    const uint64_t end =
        LOG_SLOTS_AT + log->header.count * log->layout.slot_size;
    uint64_t at = 0;
    int rc = 0;

    while (rc == 0 && at < end) {
        const size_t want =
            end - at < CHUNK_SIZE ? (size_t)(end - at) : CHUNK_SIZE;
        const ssize_t n = pread(log->fd, p->in, want, (off_t)at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO;
        at += (uint64_t)n;
        rc = pack(p, (size_t)n, at == end ? Z_FINISH : Z_NO_FLUSH);
    }
    return rc;
}

static int
write_file(int fd, const struct log *log)
{
    struct packer *p;
    int rc;

    p = malloc(sizeof *p);
    if (!p)
        return -ENOMEM;
    memset(&p->z, 0, sizeof p->z);
    p->fd = fd;
    if (deflateInit2(&p->z, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, 8,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        free(p);
        return -ENOMEM;
    }
    rc = pack_log(p, log);
    /* Says only that output was left, after a failure. */
    (void)deflateEnd(&p->z);
    free(p);
    if (rc < 0)
        return rc;
    return fsync(fd) < 0 ? -errno : 0;
}

/* ---- keeping the newest ------------------------------------------------ */

static int
is_archived(const struct dirent *entry)
{
    const char *name = entry->d_name;

    return strlen(name) == 13 + 1 + 10 + 1 + 20 + 3 &&
           strspn(name, "0123456789-") == 13 + 1 + 10 + 1 + 20 &&
           strcmp(name + 45, ".gz") == 0;
}

static int
by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static int
remove_oldest(int archive_fd, uint64_t keep)
{
    struct dirent **files = NULL;
    int count, i, rc = 0;

    count = scandirat(archive_fd, ".", &files, is_archived, by_name);
    if (count < 0)
        return -errno;
    for (i = 0; i < count; i++) {
        if ((uint64_t)(count - i) > keep &&
            unlinkat(archive_fd, files[i]->d_name, 0) < 0 && errno != ENOENT)
            rc = -errno;
        free(files[i]);
    }
    free(files);
    return rc;
}

int
archive_put(int archive_fd, const struct log *log, uint64_t keep)
{
    char name[NAME_SIZE], temporary[NAME_SIZE + 2];
    int fd, rc;

    assert(log->header.state == LOG_SEALED);
    (void)snprintf(name, sizeof name,
                   "%013" PRIu64 "-%010" PRIu64 "-%020" PRIu64 ".gz",
                   log->header.first_ms, log->header.index,
                   log->header.epoch); /* cut at worst */
    (void)snprintf(temporary, sizeof temporary, "%%t%s", name); /* fits */

    /* Only the owner of the log writes this name; what is there is left from
     * one that died. */
    if (unlinkat(archive_fd, temporary, 0) < 0 && errno != ENOENT)
        return -errno;
    fd = openat(archive_fd, temporary,
                O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    rc = write_file(fd, log);
    (void)close(fd); /* synced, or given up */
    if (rc == 0 && renameat(archive_fd, temporary, archive_fd, name) < 0)
        rc = -errno;
    if (rc < 0) {
        (void)unlinkat(archive_fd, temporary, 0); /* else it stays as %t */
        return rc;
    }
    return remove_oldest(archive_fd, keep);
}
