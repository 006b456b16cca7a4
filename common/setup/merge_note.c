/* common/setup/merge_note.c - see merge_note.h: merge_note_read(),
 * merge_note_write(), merge_note_explain(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/setup/merge_note.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/state_file.h"

/* A small file of state (state_file.h): the number. */
#define MAGIC     "COUNTDN1"
#define NOTE_SIZE 20

/* ---- one file ----------------------------------------------------------- */

static int
open_note(int dirfd, int flags)
{
    const int fd = openat(dirfd, MERGE_NOTE_FILE,
                          flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);

    return fd < 0 ? -errno : fd;
}

/* Reads the number of a note; 0 if there is none, or it is not whole. */
static int
read_note(int dirfd, uint64_t *ms)
{
    const int fd = open_note(dirfd, O_RDONLY);
    uint8_t bytes[NOTE_SIZE];
    const int rc = fd < 0 ? fd : state_read(fd, bytes, sizeof bytes, MAGIC);

    if (fd >= 0)
        (void)close(fd);
    *ms = rc == 0 ? get_le64(bytes + 8) : 0;
    return rc == -ENOENT || rc == -EBADMSG ? 0 : rc;
}

static int
write_number(int fd, uint64_t ms)
{
    uint8_t bytes[NOTE_SIZE];

    put_le64(bytes + 8, ms);
    return state_write(fd, bytes, sizeof bytes, MAGIC);
}

int
merge_note_put(int keyspace_fd, uint64_t ms)
{
    int fd, rc;

    if (ms == 0)
        return 0;
    fd = open_note(keyspace_fd, O_RDWR | O_CREAT);
    if (fd < 0)
        return fd;
    rc = write_number(fd, ms);
    if (rc == 0 && fsync(fd) < 0)
        rc = -errno;
    (void)close(fd);
    /* Its name, too: log/ must not know a number that a loss of power can take
     * away from here. */
    if (rc == 0 && fsync(keyspace_fd) < 0)
        rc = -errno;
    return rc;
}

/* ---- both ---------------------------------------------------------------- */

int
merge_note_read(const struct datadir *d, struct merge_note *out)
{
    int rc;

    /* log/ first: a number that is written meanwhile reaches keyspace/ before
     * it, so a sound directory never looks older. */
    rc = read_note(d->log_fd, &out->log_ms);
    return rc < 0 ? rc : read_note(d->keyspace_fd, &out->keyspace_ms);
}

bool
merge_note_is_in_place(const struct datadir *d)
{
    struct stat open, named;

    if (fstatat(d->fd, "keyspace", &named, 0) < 0)
        return errno != ENOENT;
    return fstat(d->keyspace_fd, &open) < 0 ||
           (open.st_dev == named.st_dev && open.st_ino == named.st_ino);
}

/* Writes a number above both that there are.  That of log/ needs no sync: the
 * number before it only shows fewer older copies. */
static int
write_both(const struct datadir *d, int log_fd, uint64_t now_ms, bool accept)
{
    struct merge_note n;
    uint64_t ms;
    int rc;

    rc = merge_note_read(d, &n);
    if (rc < 0)
        return rc;
    if (!accept && merge_note_is_older(&n))
        return -ESTALE;
    ms = n.keyspace_ms > n.log_ms ? n.keyspace_ms : n.log_ms;
    ms = now_ms > ms ? now_ms : ms + 1;
    rc = merge_note_put(d->keyspace_fd, ms);
    if (rc == 0)
        rc = write_number(log_fd, ms);
    return rc;
}

int
merge_note_write(const struct datadir *d, uint64_t now_ms, bool accept)
{
    const int fd = open_note(d->log_fd, O_RDWR | O_CREAT);
    int rc;

    if (fd < 0)
        return fd;
    if (flock(fd, LOCK_EX | LOCK_NB) < 0)
        rc = errno == EWOULDBLOCK ? -EAGAIN : -errno;
    else
        rc = write_both(d, fd, now_ms, accept);
    (void)close(fd);
    return rc;
}

/* ---- text ---------------------------------------------------------------- */

static void
format_time(uint64_t ms, char text[32])
{
    const time_t seconds = (time_t)(ms / 1000);
    struct tm tm;

    if (gmtime_r(&seconds, &tm) == NULL ||
        strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        (void)snprintf(text, 32, "?");
}

void
merge_note_lacks(const struct merge_note *n, char text[MERGE_NOTE_TEXT])
{
    char keyspace[32] = "an unknown time", log[32];

    format_time(n->log_ms, log);
    if (n->keyspace_ms > 0)
        format_time(n->keyspace_ms, keyspace);
    (void)snprintf(text, MERGE_NOTE_TEXT,
                   "keyspace/ is older than log/: it may lack what was merged "
                   "since %s, and logs were merged after %s",
                   keyspace, log);
}

void
merge_note_explain(const struct merge_note *n, char text[MERGE_NOTE_TEXT])
{
    size_t size;

    merge_note_lacks(n, text);
    size = strlen(text);
    (void)snprintf(text + size, MERGE_NOTE_TEXT - size,
                   "; nothing is merged; countd replay archive/ applies what "
                   "was archived, countd log accept lets workers merge again");
}
