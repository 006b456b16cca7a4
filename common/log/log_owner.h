/* common/log/log_owner.h - steps of a process that owns a commit log or is
 * about to: for common/log only.
 *
 * Errors: 0 or a negative errno.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_LOG_LOG_OWNER_H
#define COUNTD_COMMON_LOG_LOG_OWNER_H

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "common/log/inspect.h"
#include "common/log/log.h"

/* O_NONBLOCK has no effect on files; it keeps the open of a pipe from waiting
 * for its other end. */
#define LOG_OWNER_OPEN_FLAGS (O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
#define LOG_OWNER_MODE_MASK  07777

/* ---- files -------------------------------------------------------------- */

bool log_owner_is_same_file(const struct stat *a, const struct stat *b);

/* A log is a regular file of this user; -EPERM for anything else, which is left
 * unchanged. */
int log_owner_check(const struct stat *st);

/* Reads the status of `name` without following it: log_owner_check(), -ENOENT.
 */
int log_owner_stat(int dirfd, const char *name, struct stat *st);

/* 1 if `name` is the file `st`, 0 if it is another or none. */
int log_owner_names_file(int dirfd, const char *name, const struct stat *st);

/* Opens a log in any state; returns the descriptor, with the access that its
 * mode allows.
 *   -EBUSY   processes keep claiming it; -EACCES: its mode allows no access
 *   -EPERM   as log_owner_check() */
int log_owner_open(int dirfd, const char *name);

/* Makes a file for this process alone, and takes its flock, which shows that its
 * maker lives; returns the descriptor.
 *   -EEXIST
 *   -ESTALE  another process took the file for a dead maker's, and has removed it
 *             or is about to */
int log_owner_make_file(int dirfd, const char *name);

/* Takes the flock of an open file and reads its status.
 *   -EBUSY  a live process owns it; -EPERM as log_owner_check() */
int log_owner_take_flock(int fd, struct stat *st);

/* log_owner_open() and log_owner_take_flock(); returns the descriptor. */
int log_owner_open_locked(int dirfd, const char *name, struct stat *st);

/* The time of a full log's first increment, by its mtime. */
uint64_t log_owner_mtime_ms(const struct stat *st);

/* fdatasync.  Never repeated after a failure: the kernel may have dropped the
 * pages and would return 0 the second time. */
int log_owner_sync(int fd);

/* ---- headers ------------------------------------------------------------ */

/* Writes `h` with the next generation to the block that does not rule, so that
 * a torn write leaves the other block valid. */
int log_owner_write_header(struct log *log, struct log_header h);

/* Reads the headers of a log that this process owns into `look`, and the one
 * that rules into the log.
 *   -EBADMSG  both are bad, or the file is too short
 *   -EPROTONOSUPPORT  written by a newer version */
int log_owner_read_headers(struct log *log, struct inspect *look);

/* True if only the slots show how far the log was filled: it is OPEN, or EMPTY
 * beside an invalid block whose state may have been OPEN. */
bool log_owner_is_doubtful(const struct inspect *look);

/* ---- taking and releasing ----------------------------------------------- */

/* Makes a log, the file `st` whose flock `lock_fd` holds, readable and writable
 * for this process whatever its mode allowed.
 *   -ESTALE  the name is now another file's */
int log_owner_take(struct log *log, int dirfd, uint64_t index, int lock_fd,
                   const struct stat *st);

/* Unlinks lock-N if it is the file whose flock `lock_fd` holds. */
int log_owner_unlink_lock(int dirfd, uint64_t index, int lock_fd);

/* Sets `mode`, unlinks the lock, closes both descriptors. */
int log_owner_release(struct log *log, mode_t mode);

/* Gives up an owned log that cannot be used because of `rc`: quarantines it
 * after -EBADMSG; restores `mode` after -EPROTONOSUPPORT, unless that is
 * LOG_MODE_OWNED; else abandons it.  Returns rc, or the error of doing so. */
int log_owner_fail(struct log *log, int rc, mode_t mode);

#endif
