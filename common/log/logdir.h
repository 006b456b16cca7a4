/* common/log/logdir.h - the directory of commit logs: scan, recover, choose,
 * create, and how far the merge is behind.
 *
 * Every scan recovers what it finds with a free flock and a lock link or mode
 * 0600, so no operator is needed after any crash.  A scan reports each thing
 * it sees once; faults that repeat are rate-limited here.
 *
 * Ownership: struct logdir is the caller's, between logdir_open() and
 * logdir_close().  Prints through diag.  Errors: 0 or a negative errno.
 */
#ifndef COUNTD_COMMON_LOG_LOGDIR_H
#define COUNTD_COMMON_LOG_LOGDIR_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/log/log.h"

struct logdir_entry {
    uint64_t index;
    mode_t mode;       /* permission bits */
    bool locked;       /* lock-N exists */
    bool present;      /* N exists (false: a lock without its log) */
    bool ours;         /* N is a regular file of this user; else leave it */
    uint64_t mtime_ms; /* first_ms of a full log */
    uint64_t inode;
};

struct logdir {
    int fd; /* data/log, owned */
    struct layout layout;
    uint32_t slots; /* of logs created here */
    struct logdir_entry *entries;
    size_t count; /* entries, by index ascending */
    size_t capacity;
    size_t bad;     /* quarantined files seen by the last scan */
    size_t foreign; /* names that are none of ours */

    DIR *stream;     /* the rest is private */
    size_t bad_said; /* as many were reported */
    size_t foreign_said;
    bool reconciled; /* modes were compared with headers since the start */
    bool modes_true; /* likewise by pending_oldest_ms */
};

/* Takes a descriptor of data/log (duplicated).
 *   -ERANGE  not one slot fits `log_size` */
int logdir_open(struct logdir *dir, int log_fd, const struct layout *l,
                uint64_t log_size);
void logdir_close(struct logdir *dir);

/* Reads the directory afresh into `entries`, recovering nothing. */
int logdir_scan(struct logdir *dir);

/* logdir_scan, then recovers every entry that needs it, then scans again if
 * anything was done.  The first call also compares every empty log's mode with
 * its header, since a power loss may bring back any older mode.  Returns the
 * number of logs recovered, or an error of the scan itself; what happened to
 * single logs goes to diag. */
int logdir_recover(struct logdir *dir);

/* Claims the next log with `want_mode` at or after *hint, going round once;
 * sets *hint behind it.  Scans first.  -EAGAIN when there is none, or what a
 * system call said when that kept us from one. */
int logdir_claim(struct logdir *dir, mode_t want_mode, uint64_t *hint,
                 struct log *log);

/* Creates the lowest index that does not exist yet, if fewer than `max` logs
 * are there (-EMFILE otherwise).  -EAGAIN when others got in the way. */
int logdir_create(struct logdir *dir, size_t max, uint64_t *index);

/* Refuses a directory written with other message sizes: -EPROTO, and the
 * sizes found.  Looks at the header of every log it can open. */
int logdir_check_sizes(struct logdir *dir, struct layout *found);

#endif
