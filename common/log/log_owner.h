/* common/log/log_owner.h - small steps of those who own a commit log, or are
 * about to: for this room only.
 *
 * Errors: 0 or a negative errno.
 */
#ifndef COUNTD_COMMON_LOG_LOG_OWNER_H
#define COUNTD_COMMON_LOG_LOG_OWNER_H

#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "common/log/inspect.h"
#include "common/log/log.h"

/* O_NONBLOCK changes nothing for files; it keeps an open of what turns out to
 * be a pipe from waiting for its other end. */
#define LOG_OWNER_OPEN_FLAGS (O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)
#define LOG_OWNER_MODE_MASK  07777

/* ---- files -------------------------------------------------------------- */

bool log_owner_is_same_file(const struct stat *a, const struct stat *b);

/* A log is a regular file of ours; anything else is left alone: -EPERM. */
int log_owner_check(const struct stat *st);

/* Looks at `name` without following it: log_owner_check(), -ENOENT. */
int log_owner_look_at(int dirfd, const char *name, struct stat *st);

/* 1 when `name` is the file `st` says, 0 when it is another or none. */
int log_owner_names_file(int dirfd, const char *name, const struct stat *st);

/* Opens a log of any state; returns the descriptor, whose access is whatever
 * the mode allows.
 *   -EBUSY   others own it one after the other; -EACCES: its mode allows none
 *   -EPERM   as log_owner_check() */
int log_owner_open(int dirfd, const char *name);

/* Takes the flock of an open file and looks at it.
 *   -EBUSY  somebody alive owns it; -EPERM as log_owner_check() */
int log_owner_take_flock(int fd, struct stat *st);

/* log_owner_open() and log_owner_take_flock(): the descriptor, locked. */
int log_owner_open_locked(int dirfd, const char *name, struct stat *st);

/* What a log that is full shows as the time of its first increment. */
uint64_t log_owner_mtime_ms(const struct stat *st);

/* fdatasync.  Never tried again when it fails: the kernel may have dropped
 * what it could not write and would say 0 the second time. */
int log_owner_sync(int fd);

/* ---- headers ------------------------------------------------------------ */

/* Writes `h` with the next generation to the block that does not rule, so a
 * torn write leaves the other. */
int log_owner_write_header(struct log *log, struct log_header h);

/* True when the header was written since this machine started; false also
 * when that cannot be told. */
bool log_owner_is_of_this_boot(const struct log_header *h);

/* Takes header, layout and counts over from a look at the log. */
void log_owner_adopt(struct log *log, const struct inspect *look);

/* Looks at the headers of a log that is ours, and adopts what they say.
 *   -EBADMSG  both are bad, or the file is too short
 *   -EPROTONOSUPPORT  it is of a newer version */
int log_owner_read_headers(struct log *log, struct inspect *look);

/* True when the slots have to tell how far the log was filled: it is OPEN, or
 * EMPTY beside a lost block that may have said OPEN. */
bool log_owner_is_doubtful(const struct inspect *look);

/* ---- taking and letting go ---------------------------------------------- */

/* With the flock of `lock_fd`, the file `st`: makes it ours to read and write
 * whatever its mode allowed.
 *   -ESTALE  the name is another file's by now */
int log_owner_take(struct log *log, int dirfd, uint64_t index, int lock_fd,
                   const struct stat *st);

/* Unlinks lock-N if it is the file whose flock we hold. */
int log_owner_unlink_lock(int dirfd, uint64_t index, int lock_fd);

/* Shows `mode`, drops lock and flock, closes. */
int log_owner_release(struct log *log, mode_t mode);

/* For a log that is ours and cannot be used, as `rc` says: sets it aside when
 * that is -EBADMSG, shows `mode` again when it is of a newer version and
 * `mode` is not LOG_MODE_OWNED, and else leaves it as if we had died.  Returns
 * rc, or what failed. */
int log_owner_fail(struct log *log, int rc, mode_t mode);

#endif
