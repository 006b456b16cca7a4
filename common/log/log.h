/* common/log/log.h - one commit log: claim it, fill it, hand it on.
 *
 * A commit log is a preallocated file of fixed-size slots, named by ten
 * digits.  Its checksummed header is the truth; the directory shows the same:
 *
 *     mode 0400         empty: countd-write may claim it
 *     mode 0200         full: countd-worker may claim it
 *     mode 0600         owned, or its owner died
 *     lock-NNNNNNNNNN   a hard link, present while it is owned
 *     flock             held: owned, exactly; dies with its owner
 *
 * Only the holder of the flock may chmod the log, unlink its lock or write.
 * What is in the file: log_header.h, slot.h.  Beside this header: log_create.h
 * makes a log, log_recover.h brings one back whose owner died, inspect.h looks
 * at one that belongs to anybody, logdir.h knows them all.
 *
 * Ownership: struct log is the caller's, is open from log_claim() until
 * log_release() or log_abandon(), and is not copied meanwhile.  Nothing here
 * prints or allocates.  Errors: 0 or a negative errno.
 * Threads: none here; one log belongs to one thread at a time.
 */
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
    int next_block; /* header block the next header goes to: 0 or 1 */
    struct log_header header;
    struct layout layout; /* by the header's sizes */
    uint32_t count;       /* slots appended in this fill */
    uint64_t first_ms;    /* received_ms of slot 0 once count > 0 */
    uint64_t last_ms;
};

/* ---- claim and release ------------------------------------------------ */

/* Takes log `index` whose mode must be `want_mode` (LOG_MODE_EMPTY for a
 * writer, LOG_MODE_FULL for a worker) and reads its headers.
 *   -EBUSY   owned by someone alive
 *   -ESTALE  in another state: try the next one.  Where the header contradicts
 *            the mode, the mode is mended; where the slots have to tell, the
 *            log is left to log_recover(), as if its owner had died
 *   -ENOENT  there is no such log
 *   -EBADMSG both headers bad: it has been renamed to bad-N-0 (quarantine)
 *   -EPROTONOSUPPORT  of a newer version: left alone
 *   -EPERM   not our file, or not a regular one: left alone
 * or what a system call said; then the log is left to recovery. */
int log_claim(struct log *log, int dirfd, uint64_t index, mode_t want_mode);

/* Hands the log on in the mode its header's state asks for (EMPTY 0400;
 * SEALED 0200, with first_ms for its mtime), drops lock and flock.  An OPEN log
 * cannot be released: seal it first.  On failure everything is closed all the
 * same and recovery tidies the rest; the code says what went wrong. */
int log_release(struct log *log);

/* Closes without touching anything on disk: as if we had died. */
void log_abandon(struct log *log);

/* Renames a claimed log to bad-N-EPOCH (mode 0400), drops lock and flock and
 * gives it up.  The file is never merged, reused or removed by a daemon. */
int log_quarantine(struct log *log);

/* ---- filling (countd-write) ------------------------------------------- */

/* EMPTY(e) -> OPEN(e+1), durable.  Done ahead, on the spare log.  After a
 * failure abandon it. */
int log_begin(struct log *log);

/* Appends `count` finished slots (slot_put) in one pwrite run.  `count` must
 * fit.  Any failure: the log is suspect; abandon it and exit 111. */
int log_append(struct log *log, const uint8_t *slots, uint32_t count,
               uint64_t first_ms, uint64_t last_ms);

/* fdatasync.  A failure is never retried. */
int log_sync(struct log *log);

/* OPEN -> SEALED(count), durable; or -> EMPTY when nothing was appended.
 * Two syncs: the slots, then the header.
 *   -ESTALE  the file was removed or replaced by hand while we filled it */
int log_seal(struct log *log);

/* ---- emptying (countd-worker) ----------------------------------------- */

/* Reads slots [from, from+count) into `slots` (count * slot_size bytes).
 *   -EIO, -EBADMSG (short file) */
int log_read(const struct log *log, uint32_t from, uint32_t count,
             uint8_t *slots);

/* SEALED(e) -> EMPTY(e).  Needs no sync: brought back by a power loss, every
 * keyspace's marker says the log is in already. */
int log_empty(struct log *log);

#endif
