/* common/log/logdir.h - the directory of commit logs: scan, recover, claim and
 * create logs.
 *
 * Every scan of logdir_recover() recovers logs that have a free flock and a
 * lock link or mode 0600, so no operator is needed after any crash.  A scan
 * reports each finding once; repeated failures are rate-limited here.
 *
 * Ownership: struct logdir belongs to the caller, between logdir_open() and
 * logdir_close().  Prints through diag.  Errors: 0 or a negative errno. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_LOG_LOGDIR_H
#define COUNTD_COMMON_LOG_LOGDIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/log/logfile.h"

struct logdir {
    int fd; /* data/log, that of `stream` */
    struct layout layout;
    uint32_t slots;            /* of logs created here */
    struct requests *requests; /* for recovery, borrowed; set by the caller;
                                  NULL: a log with marks is not recovered */
    struct logfile *entries;   /* logs, and locks without a log, by index until
                                  the caller sorts them; of the last scan */
    size_t count;
    size_t bad;         /* quarantined files seen by the last scan */
    uint64_t recovered; /* logs of processes that had died, since the opening */
    size_t unrecovered; /* logs of dead owners that logdir_recover() could not
                           recover, so that they are not merged; 0 when two
                           calls found none */

    DIR *stream; /* the rest is private */
    struct logfile_list files;
    size_t bad_reported; /* value of `bad` when it was last reported */
    bool all_recovered;  /* the last scan found none that could not be */
    bool reconciled;     /* modes were compared with headers since the start */
    bool modes_true;     /* modes were found true by pending_oldest_ms() */
};

/* Opens the directory of a descriptor of data/log anew.
 *   -ERANGE  not one slot fits into `log_size` */
int logdir_open(struct logdir *dir, int log_fd, const struct layout *l,
                uint64_t log_size);
void logdir_close(struct logdir *dir);

/* Reads the directory anew into `entries`; recovers nothing. */
int logdir_scan(struct logdir *dir);

/* logdir_scan(), then recovers every entry that needs it, then scans again if
 * anything was done.  The first call also compares every empty log's mode with
 * its header, since a power loss may bring back any older mode.  Returns how
 * many logs and locks were seen to or had come to rest meanwhile, or an error of
 * the scan itself; the outcome for single logs is reported through diag. */
int logdir_recover(struct logdir *dir);

/* Claims the lowest log with `want_mode`.  Scans first.  -EAGAIN if there is
 * none, or the error of a system call that prevented a claim. */
int logdir_claim(struct logdir *dir, mode_t want_mode, struct log *log);

/* log_claim() of one log.  Reports what went wrong.
 *   -EPROTO  it has other message sizes than this directory */
int logdir_claim_log(struct logdir *dir, uint64_t index, mode_t want_mode,
                     struct log *log);

/* Creates the lowest index that does not exist, if there are fewer than `max`
 * logs (-EMFILE otherwise).  -EAGAIN if other processes interfered. */
int logdir_create(struct logdir *dir, size_t max);

/* Refuses a directory written with other message sizes: -EPROTO.  Reads the
 * header of every log that it can open; reports this, and any other error. */
int logdir_check_sizes(struct logdir *dir);

#endif
