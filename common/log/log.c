/* common/log/log.c - see log.h.
 *
 * How a log is reused when nothing fails (e: its epoch, which counts the
 * fills):
 *
 *     create   lock-N, flock, zeros, headers EMPTY, 0400, fsync, link N,
 *              unlink lock-N, fsync of the directory
 *     claim    link lock-N, flock, check again, 0600, read the headers
 *     begin    header OPEN(e+1), sync: before the first slot of e+1, else a
 *              power loss could leave SEALED(e) over slots of e+1
 *     append   slots; a message is acknowledged after the sync that covers it
 *     seal     the slots are durable; header SEALED, sync: with one sync for
 *              both, the header could reach the disk first and promise slots
 *              that are not there
 *     release  mtime of the oldest increment, 0200, unlink lock-N, drop the
 *              flock: 0200 promises that header and slots are durable, so a
 *              worker merges what it reads without a sync of its own
 *     claim    by a worker; each keyspace commits its records together with a
 *              mark that names the fill
 *     empty    header EMPTY; not synced: by these marks a second merge adds
 *              nothing
 *     release  0400, unlink lock-N, drop the flock
 *
 * Each step leaves a state that determines the next, so a crash between any two
 * needs nothing but log_recover().  link(2) lets one claimant through and shows
 * that a log is in use; only the flock proves that its owner is alive.  A
 * process that has taken the flock checks the log again: it may have changed
 * after the process found its name. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/log.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/files.h"
#include "common/log/inspect.h"
#include "common/log/log_owner.h"

#define BAD_NAME_TRIES 1000
#define CLEAR_SIZE     16384 /* bytes overwritten at a time */

/* ---- claim -------------------------------------------------------------- */

/* Checks again under the flock: 0 if N and lock-N are this file and its mode is
 * the wanted one. */
static int
still_claimable(int dirfd, uint64_t index, mode_t want, const struct stat *st)
{
    char name[LOG_NAME_SIZE], lock[LOG_LOCK_SIZE];
    int rc;

    if ((st->st_mode & LOG_OWNER_MODE_MASK) != want)
        return -ESTALE;
    log_name(index, name);
    log_lock_name(index, lock);
    rc = log_owner_names_file(dirfd, name, st);
    if (rc == 1)
        rc = log_owner_names_file(dirfd, lock, st);
    return rc < 0 ? rc : rc == 1 ? 0 : -ESTALE;
}

/* Makes the log ours, whatever its header says. */
static int
acquire_log(struct log *log, int dirfd, uint64_t index, mode_t want)
{
    char name[LOG_NAME_SIZE], lock[LOG_LOCK_SIZE];
    struct stat st = {0};
    int lock_fd, rc;

    log_name(index, name);
    log_lock_name(index, lock);
    rc = log_owner_stat(dirfd, name, &st);
    if (rc < 0)
        return rc;
    if ((st.st_mode & LOG_OWNER_MODE_MASK) != want)
        return -ESTALE;

    /* link(2) succeeds for exactly one claimant.  A later failure leaves lock-N
     * to recovery: without the flock it may not be removed. */
    if (linkat(dirfd, name, dirfd, lock, 0) < 0)
        return errno == EEXIST ? -EBUSY : -errno;
    lock_fd = log_owner_open_locked(dirfd, name, &st);
    if (lock_fd < 0)
        return lock_fd;
    rc = still_claimable(dirfd, index, want, &st);
    if (rc == 0)
        rc = log_owner_take(log, dirfd, index, lock_fd, &st);
    if (rc < 0)
        (void)close(lock_fd);
    return rc;
}

/* Removes an EMPTY log that had the last fill which an epoch can name, and which
 * another file then follows.  What fails, the next claim does. */
static bool
remove_old(const struct log *log)
{
    char name[LOG_NAME_SIZE];

    if (log->header.state != LOG_EMPTY || log->header.epoch < LOG_EPOCH_MAX)
        return false;
    log_name(log->header.index, name);
    (void)unlinkat(log->dirfd, name, 0); /* the comment says why */
    return true;
}

int
log_claim(struct log *log, int dirfd, uint64_t index, mode_t want_mode)
{
    const enum log_state want =
        want_mode == LOG_MODE_EMPTY ? LOG_EMPTY : LOG_SEALED;
    struct log mine = {.lock_fd = -1, .fd = -1};
    struct inspect look;
    int rc;

    assert(dirfd >= 0 && index <= LOG_INDEX_MAX);
    assert(want_mode == LOG_MODE_EMPTY || want_mode == LOG_MODE_FULL);

    rc = acquire_log(&mine, dirfd, index, want_mode);
    if (rc < 0)
        return rc;

    /* From here the header decides, not the mode, which after a power loss may
     * be an older one.  Where only the slots could decide, the log is left to
     * log_recover(); where the mode is wrong, releasing repairs it. */
    rc = log_owner_read_headers(&mine, &look);
    if (rc == 0 && log_owner_is_doubtful(&look))
        rc = -ESTALE;
    if (rc < 0)
        return log_owner_fail(&mine, rc, want_mode);
    if (mine.header.state != want || remove_old(&mine)) {
        rc = log_release(&mine);
        return rc < 0 ? rc : -ESTALE;
    }
    *log = mine;
    return 0;
}

/* ---- releasing ---------------------------------------------------------- */

void
log_abandon(struct log *log)
{
    /* All that matters was synced, or is not trusted. */
    if (log->fd >= 0)
        (void)close(log->fd);
    if (log->lock_fd >= 0)
        (void)close(log->lock_fd);
    log->fd = -1;
    log->lock_fd = -1;
}

int
log_release(struct log *log)
{
    struct timespec times[2];
    int rc;

    assert(log->lock_fd >= 0 && log->fd >= 0);
    assert(log->header.state != LOG_OPEN);

    if (log->header.state == LOG_EMPTY)
        return log_owner_release(log, LOG_MODE_EMPTY);

    /* Readers may not open a full log: its mtime shows them the time of its
     * oldest increment.  Set it before the mode shows the log as full. */
    times[0] = (struct timespec){.tv_nsec = UTIME_OMIT};
    times[1].tv_sec = (time_t)(log->header.first_ms / 1000);
    times[1].tv_nsec = (long)(log->header.first_ms % 1000) * 1000000;
    if (futimens(log->lock_fd, times) < 0) {
        rc = -errno;
        log_abandon(log);
        return rc;
    }
    return log_owner_release(log, LOG_MODE_FULL);
}

/* Returns -ESTALE if the file is no longer N: it was removed or replaced by hand,
 * and its records would never be read. */
static int
check_in_place(const struct log *log)
{
    char name[LOG_NAME_SIZE];
    struct stat st;
    int rc;

    if (fstat(log->lock_fd, &st) < 0)
        return -errno;
    log_name(log->header.index, name);
    rc = log_owner_names_file(log->dirfd, name, &st);
    return rc < 0 ? rc : rc == 1 ? 0 : -ESTALE;
}

/* Renames N, whose flock this process holds, to the first free
 * bad-N-EPOCH[.NUMBER]. */
static int
rename_bad(int dirfd, uint64_t index, uint64_t epoch)
{
    char name[LOG_NAME_SIZE], bad[LOG_BAD_SIZE];
    int i, n;

    log_name(index, name);
    n = snprintf(bad, sizeof bad, "bad-%s-%llu", name,
                 (unsigned long long)epoch);
    assert(n > 0 && (size_t)n < sizeof bad);
    for (i = 1; i < BAD_NAME_TRIES; i++) {
        if (renameat2(dirfd, name, dirfd, bad, RENAME_NOREPLACE) == 0)
            return 0;
        if (errno != EEXIST)
            return -errno;
        snprintf(bad + n, sizeof bad - (size_t)n, ".%d", i);
    }
    return -EEXIST;
}

int
log_quarantine(struct log *log)
{
    int rc;

    assert(log->lock_fd >= 0);

    /* Rename before unlinking lock-N: a crash in between leaves a lock without
     * a log, which recovery removes.  The reverse order could return a damaged
     * log to use. */
    rc = check_in_place(log);
    if (rc == 0)
        rc = rename_bad(log->dirfd, log->header.index, log->header.epoch);
    if (rc < 0) {
        log_abandon(log);
        return rc;
    }
    rc = log_owner_release(log, LOG_MODE_EMPTY);
    if (fsync(log->dirfd) < 0 && rc == 0)
        rc = -errno;
    return rc;
}

/* ---- filling and emptying ----------------------------------------------- */

int
log_begin(struct log *log)
{
    struct log_header h = log->header;
    int rc;

    assert(log->fd >= 0 && h.state == LOG_EMPTY);

    /* The name of a log that was never filled may not be durable: its creator
     * may have died before it synced the directory. */
    if (h.epoch == 0 && fsync(log->dirfd) < 0)
        return -errno;
    h.state = LOG_OPEN;
    h.features = (log->takes_marks ? LOG_HAS_MARKS : 0) | LOG_HAS_TIMES;
    assert(h.epoch < LOG_EPOCH_MAX);
    h.epoch++;
    h.count = 0;
    h.first_ms = 0;
    h.last_ms = 0;
    log->has_times = false;
    rc = log_owner_write_header(log, h);
    return rc < 0 ? rc : log_owner_sync(log->fd);
}

int
log_append(struct log *log, const uint8_t *slots, uint32_t count,
           uint64_t first_ms, uint64_t last_ms)
{
    struct log_header *h = &log->header;
    const uint32_t size = h->layout.slot_size;
    int rc;

    assert(log->fd >= 0 && h->state == LOG_OPEN);
    assert(count > 0 && count <= h->slots - h->count);
    assert(h->count == 0 || first_ms >= h->last_ms);

    rc = write_at(log->fd, slots, (size_t)count * size,
                  LOG_SLOTS_AT + (uint64_t)h->count * size);
    if (rc < 0)
        return rc;
    if (h->count == 0)
        h->first_ms = first_ms;
    h->last_ms = last_ms;
    h->count += count;
    return 0;
}

int
log_seal(struct log *log)
{
    struct log_header h = log->header;
    int rc;

    assert(log->fd >= 0 && h.state == LOG_OPEN);
    assert(h.count <= h.slots);

    rc = check_in_place(log);
    if (rc < 0)
        return rc;
    assert(h.marks <= h.count);
    /* Only what is in it: a version without marks, or times, reads the rest. */
    h.features = (h.marks > 0 ? LOG_HAS_MARKS : 0) |
                 (log->has_times ? LOG_HAS_TIMES : 0);
    h.state = h.count > 0 ? LOG_SEALED : LOG_EMPTY;
    rc = log_owner_write_header(log, h);
    return rc < 0 ? rc : log_owner_sync(log->fd);
}

int
log_empty(struct log *log)
{
    struct log_header h = log->header;

    assert(log->fd >= 0 && h.state == LOG_SEALED);

    h.state = LOG_EMPTY;
    h.features = 0;
    h.count = 0;
    h.marks = 0;
    h.first_ms = 0;
    h.last_ms = 0;
    return log_owner_write_header(log, h);
}

int
log_clear(const struct log *log)
{
    static const uint8_t zeros[CLEAR_SIZE];
    const uint64_t end = LOG_SLOTS_AT + (uint64_t)log->header.slots *
                                            log->header.layout.slot_size;
    uint8_t bytes[CLEAR_SIZE];
    bool found = false;
    uint64_t at;
    size_t size;
    int rc = 0;

    assert(log->fd >= 0 && log->header.state == LOG_EMPTY);

    for (at = LOG_SLOTS_AT; rc == 0 && at < end; at += size) {
        size = end - at < CLEAR_SIZE ? (size_t)(end - at) : CLEAR_SIZE;
        rc = inspect_read(log->fd, bytes, size, at);
        if (rc < 0 || memcmp(bytes, zeros, size) == 0)
            continue;
        found = true;
        rc = write_at(log->fd, zeros, size, at);
    }
    if (rc == 0 && found)
        rc = log_owner_sync(log->fd);
    return rc < 0 ? rc : found;
}
