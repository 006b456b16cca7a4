/* common/log/archive.h - the folder of merged logs, for archive.keep.
 *
 *     archive/FIRSTMS-INDEX-EPOCH.gz       a log (archive_file.h); 13, 10 and
 *                                          20 digits: names sort by time
 *     archive/FIRSTMS-INDEX-EPOCH.missing  empty: this log was merged and
 *                                          could not be archived
 *     archive/FIRSTMS-INDEX-EPOCH.packed   a log in the format of versions
 *                                          before gzip: removed when its time
 *                                          is over, not read
 *     archive/%t...                        being written, under its flock
 *
 * A log is archived when all of it is merged, or held, and before it is
 * emptied: its file and its name are durable then.  So after a power loss
 * either the log is still full, and is archived again under the same name, or
 * it is here: an archive with a silent hole could not be used for an audit.
 * That costs a sync for each log and one for each batch.
 *
 * When the disk is full, the oldest archived logs are removed until the new one
 * fits.  When there are none, or after any other error, an empty file names the
 * log that is missing, and the merge continues.  The caller reports
 * either, once a minute.
 *
 * A log is removed when its first increment is older than `keep`, when the
 * folder is gone through next.  Several workers may do this at once.
 *
 * Ownership: struct archive is the caller's between open and close; the
 * folder's descriptor is borrowed.  One thread.  Errors: 0 or a negative errno.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_LOG_ARCHIVE_H
#define COUNTD_COMMON_LOG_ARCHIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/log/archive_file.h"
#include "common/log/log.h"

#define ARCHIVE_FOLDER    "archive"
#define ARCHIVE_NAME_SIZE 64
#define ARCHIVE_STEP      64 /* that expire in a second, at most */
#define ARCHIVE_ROOM      8  /* removed for one new log, at most */

/* A file of the folder, as its name says. */
struct archive_name {
    uint64_t first_ms;
    uint64_t index;
    uint64_t epoch;
    bool missing;
    bool old; /* in the format before gzip */
};

void archive_name_put(const struct archive_name *n,
                      char text[ARCHIVE_NAME_SIZE]);

/* -EINVAL for any other name. */
int archive_name_parse(const char *text, struct archive_name *out);

struct archive {
    int fd;                        /* the folder, borrowed */
    uint64_t keep_ms;              /* 0: nothing expires; with archive.keep = 0
                                      no archive is opened */
    struct archive_writer *writer; /* NULL: off */
    /* Logs removed before their time, since the start. */
    uint64_t removed_early;
};

/* -ENOMEM */
int archive_open(struct archive *a, int folder_fd, uint64_t keep_ms);
void archive_close(struct archive *a);

static inline bool
archive_is_on(const struct archive *a)
{
    return a->writer != NULL;
}

/* Archives a sealed log that the caller owns.  Its name becomes durable with
 * archive_sync(), once for all logs of a batch.  After any error an empty file says
 * that it is missing, if even that can be. */
int archive_add(struct archive *a, const struct log *log);
int archive_sync(struct archive *a);

/* Goes through the folder and removes what is older than keep_ms at now_ms
 * (Unix time), ARCHIVE_STEP logs at most: a clock that is set forward by mistake
 * takes few with it.  How many, or an error. */
int archive_remove_expired(const struct archive *a, uint64_t now_ms);

#endif
