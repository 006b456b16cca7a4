/* common/log/archive.c - see archive.h: archive_name_put(),
 * archive_name_parse(), archive_remove_expired(), archive_add(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/archive.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/dirstream.h"
#include "common/log/log_owner.h"

/* ---- names ------------------------------------------------------------- */

#define DIGITS_SIZE (13 + 1 + 10 + 1 + 20)

static const char log_end[] = ".gz";
static const char missing_end[] = ".missing";
static const char old_end[] = ".packed";

void
archive_name_put(const struct archive_name *n, char text[ARCHIVE_NAME_SIZE])
{
    (void)snprintf(text, ARCHIVE_NAME_SIZE,
                   "%013" PRIu64 "-%010" PRIu64 "-%020" PRIu64 "%s",
                   n->first_ms, n->index, n->epoch,
                   n->missing ? missing_end
                   : n->old   ? old_end
                              : log_end); /* cut at worst */
}

int
archive_name_parse(const char *text, struct archive_name *out)
{
    char *end, again[ARCHIVE_NAME_SIZE];
    struct archive_name n;

    n.first_ms = strtoull(text, &end, 10);
    n.index = *end == '-' ? strtoull(end + 1, &end, 10) : 0;
    n.epoch = *end == '-' ? strtoull(end + 1, &end, 10) : 0;
    n.missing = strcmp(end, missing_end) == 0;
    n.old = strcmp(end, old_end) == 0;
    archive_name_put(&n, again);
    if (end - text != DIGITS_SIZE || strcmp(again, text) != 0)
        return -EINVAL;
    *out = n;
    return 0;
}

/* ---- open, close ------------------------------------------------------- */

int
archive_open(struct archive *a, int folder_fd, uint64_t keep_ms)
{
    *a = (struct archive){.fd = folder_fd, .keep_ms = keep_ms};
    return archive_writer_new(&a->writer);
}

void
archive_close(struct archive *a)
{
    archive_writer_free(a->writer);
    a->writer = NULL;
}

/* ---- the oldest -------------------------------------------------------- */

struct expiry {
    const struct archive *archive;
    uint64_t now_ms;
    int removed;
};

static int
remove_if_expired(void *ctx, int folder_fd, const char *name)
{
    struct expiry *x = ctx;
    struct archive_name n;

    if (archive_name_parse(name, &n) < 0 ||
        n.first_ms + x->archive->keep_ms > x->now_ms)
        return 0;
    /* What another worker has removed is gone, too. */
    if (unlinkat(folder_fd, name, 0) < 0 && errno != ENOENT)
        return -errno;
    return ++x->removed == ARCHIVE_STEP;
}

int
archive_remove_expired(const struct archive *a, uint64_t now_ms)
{
    struct expiry x = {.archive = a, .now_ms = now_ms};
    int rc;

    if (!archive_is_on(a) || a->keep_ms == 0)
        return 0;
    rc = dirstream_each(a->fd, ".", remove_if_expired, &x);
    return rc < 0 ? rc : x.removed;
}

/* A note of a missing log takes no space. */
static int
note_oldest(void *ctx, int folder_fd, const char *name)
{
    struct archive_name n;
    char *oldest = ctx;

    (void)folder_fd;
    if (archive_name_parse(name, &n) == 0 && !n.missing &&
        strcmp(name, oldest) < 0)
        memcpy(oldest, name, strlen(name) + 1);
    return 0;
}

/* Frees some space.  False: nothing older than `n` is there. */
static bool
remove_oldest_before(struct archive *a, const struct archive_name *n)
{
    char name[ARCHIVE_NAME_SIZE], oldest[ARCHIVE_NAME_SIZE];

    archive_name_put(n, name);
    memcpy(oldest, name, sizeof oldest); /* names sort by time */
    if (dirstream_each(a->fd, ".", note_oldest, oldest) < 0 ||
        strcmp(oldest, name) == 0 ||
        (unlinkat(a->fd, oldest, 0) < 0 && errno != ENOENT))
        return false;
    a->removed_early++;
    return true;
}

/* ---- adding ------------------------------------------------------------ */

/* Only the owner of the log writes this name; a file that has it is left from
 * an owner that died. */
static int
write_file(struct archive *a, const struct log *log, const char *temporary)
{
    int fd, rc;

    if (unlinkat(a->fd, temporary, 0) < 0 && errno != ENOENT)
        return -errno;
    fd = log_owner_make_file(a->fd, temporary);
    if (fd < 0)
        return fd;
    rc = archive_write_log(a->writer, log, fd);
    if (rc == 0 && fdatasync(fd) < 0)
        rc = -errno;
    (void)close(fd); /* synced, or given up */
    return rc;
}

static int
put_file(struct archive *a, const struct log *log, const struct archive_name *n)
{
    char temporary[2 + ARCHIVE_NAME_SIZE] = "%t", *name = temporary + 2;
    int rc;

    archive_name_put(n, name);
    rc = write_file(a, log, temporary);
    /* A purge that took an earlier file of this name for a dead owner's may have
     * removed this one. */
    if (rc == 0 && renameat(a->fd, temporary, a->fd, name) < 0)
        rc = errno == ENOENT ? -ESTALE : -errno;
    if (rc < 0)
        (void)unlinkat(a->fd, temporary, 0); /* else it stays as %t */
    return rc;
}

/* Records in the folder itself that a log is missing. */
static void
note_missing(struct archive *a, struct archive_name n)
{
    char name[ARCHIVE_NAME_SIZE];
    int fd;

    n.missing = true;
    archive_name_put(&n, name);
    fd = openat(a->fd, name, O_CREAT | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0)
        (void)close(fd);
}

int
archive_add(struct archive *a, const struct log *log)
{
    const struct archive_name n = {.first_ms = log->header.first_ms,
                                   .index = log->header.index,
                                   .epoch = log->header.epoch};
    unsigned tries = 0;
    int rc;

    assert(archive_is_on(a));
    assert(log->header.state == LOG_SEALED);
    do
        rc = put_file(a, log, &n);
    while (rc == -ESTALE ||
           ((rc == -ENOSPC || rc == -EDQUOT) && tries++ < ARCHIVE_ROOM &&
            remove_oldest_before(a, &n)));
    if (rc < 0)
        note_missing(a, n);
    return rc;
}

int
archive_sync(struct archive *a)
{
    return fsync(a->fd) < 0 ? -errno : 0;
}
