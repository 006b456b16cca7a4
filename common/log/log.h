/* common/log/log.h - one commit log: claim it, fill it, seal it and release it.
 *
 * A commit log is a preallocated file of fixed-size slots, named by ten digits.
 * Its checksummed header decides; the directory shows the same state:
 *
 *     mode 0400         empty: countd-write may claim it
 *     mode 0200         full: countd-worker may claim it
 *     mode 0600         owned, or its owner died
 *     lock-NNNNNNNNNN   a hard link, present while it is owned
 *     flock             held: owned, exactly; dies with its owner
 *
 * Only the holder of the flock may chmod the log, unlink its lock or write. The
 * format of the file: log_header.h, slot.h.  log_recover.h recovers a log whose
 * owner died, inspect.h reads one without owning it, logdir.h manages all of
 * them.
 *
 * Ownership: struct log belongs to the caller, is open from log_claim() until
 * log_release() or log_abandon(), and is not copied meanwhile.  Nothing here
 * prints or allocates.  Errors: 0 or a negative errno. Threads: one log belongs
 * to one thread at a time.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_LOG_LOG_H
#define COUNTD_COMMON_LOG_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/log/log_header.h"

struct log {
    int dirfd;      /* data/log, borrowed; outlives the log */
    int lock_fd;    /* holds the flock; -1 unless claimed */
    int fd;         /* read and write; -1 unless claimed */
    int next_block; /* header block that the next header goes to: 0 or 1 */
    struct log_header header; /* the appender counts its marks */
    bool takes_marks;         /* for log_begin(): slots may be marks (mark.h) */
    bool has_times;           /* a slot has a minute; the appender sets it */
};

/* ---- create ----------------------------------------------------------- */

/* Creates log `index` EMPTY: zeros and headers are written and synced before
 * the name appears, because only then may a record in it be acknowledged.
 *   -EEXIST  the log or its lock exists (log_recover() removes a dead creator's
 *             lock)
 *   -EAGAIN  another process interfered: try again
 *   -ENOSPC  the disk is full; the partial file was removed */
int log_create(int dirfd, uint64_t index, const struct layout *l,
               uint32_t slots);

/* ---- claim and release ------------------------------------------------ */

/* Claims log `index`, whose mode must be `want_mode` (LOG_MODE_EMPTY for a
 * writer, LOG_MODE_FULL for a worker), and reads its headers.
 *   -EBUSY   owned by a live process
 *   -ESTALE  in another state: try the next one.  If the header contradicts the
 *             mode, the mode is repaired; if the slots are needed to decide,
 *             the log is left to log_recover(), as if its owner had died; an
 *             EMPTY one that had LOG_EPOCH_MAX fills is removed
 *   -ENOENT  there is no such log
 *   -EBADMSG both headers are bad: it was renamed to bad-N-0 (quarantine)
 *   -EPROTONOSUPPORT  written by a newer version: left unchanged
 *   -EPERM   not a regular file of this user: left unchanged
 *
 * or the error of a system call; then the log is left to recovery. */
int log_claim(struct log *log, int dirfd, uint64_t index, mode_t want_mode);

/* Releases the log with the mode of its header's state (EMPTY 0400; SEALED
 * 0200, and first_ms as its mtime), unlinks the lock and drops the flock.  An
 * OPEN log cannot be released: seal it first.  After a failure everything is
 * closed, too, and recovery completes the rest. */
int log_release(struct log *log);

/* Closes the log and changes nothing on disk: for other processes its owner has
 * died. */
void log_abandon(struct log *log);

/* Renames a claimed log to bad-N-EPOCH (mode 0400), unlinks the lock, drops the
 * flock and closes it.  No daemon merges, reuses or removes the file. */
int log_quarantine(struct log *log);

/* ---- filling (countd-write) ------------------------------------------- */

/* EMPTY(e) -> OPEN(e+1), durable.  Done ahead of need, on the spare log.  After
 * a failure abandon the log. */
int log_begin(struct log *log);

/* Appends `count` finished slots (slot.h) in one pwrite run.  `count` must
 * fit.  After any failure the log is suspect: abandon it and exit 111. */
int log_append(struct log *log, const uint8_t *slots, uint32_t count,
               uint64_t first_ms, uint64_t last_ms);

/* OPEN -> SEALED(count), durable; or -> EMPTY if nothing was appended.  An
 * fdatasync of log->fd after the last log_append() must have succeeded; one
 * that failed is never repeated.  The marks of its requests with an
 * Idempotency-Key were stored before (requests.h): from here on a worker may
 * empty it.
 *   -ESTALE  the file was removed or replaced by hand meanwhile */
int log_seal(struct log *log);

/* ---- emptying (countd-worker) ----------------------------------------- */

/* Overwrites the slots of a claimed EMPTY log with zeros, where they have
 * anything, durably: slots of earlier fills keep their names until they are
 * written again.  Returns 1 if anything was written, 0 if not. */
int log_clear(const struct log *log);

/* SEALED(e) -> EMPTY(e).  Needs no sync: if a power loss brings the fill back,
 * the mark in each keyspace shows that it is merged. */
int log_empty(struct log *log);

#endif
