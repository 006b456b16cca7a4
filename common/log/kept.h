/* common/log/kept.h - log/kept/: the fills that are merged while a backup copies.
 *
 *     log/kept/FIRSTMS-INDEX-EPOCH.gz   a log, as in archive/ (archive.h)
 *     log/kept/whole                    every fill is here that was merged since
 *                                       the file was made
 *
 * A backup copies one keyspace after the other: a fill that is merged meanwhile
 * is in some copies only.  So workers put each log here, too, before they empty
 * it, and the backup takes from here what a copy lacks.  Where to look is
 * decided before a log is emptied: what is emptied without it was full when the
 * backup began, which waits for it.
 *
 * Backups hold a flock of the folder, shared.  A worker that finds it free
 * removes the folder: its backup has ended or was killed.  A process that cannot
 * put a log here, or makes what is here useless, removes `whole` first; that needs
 * neither memory nor room on the disk.
 *
 * Nothing here needs to survive a power loss, which ends the backup as well.
 * Errors: 0 or a negative errno. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_LOG_KEPT_H
#define COUNTD_COMMON_LOG_KEPT_H

#include <stdbool.h>

#define KEPT_FOLDER "kept" /* in log/ */
#define KEPT_WHOLE  "whole"

/* ---- a backup; zeros are one that has not begun ---------------------------- */

struct kept {
    bool begun;
    int fd;       /* the folder, with the flock */
    int whole_fd; /* the file */
};

/* From when it returns 0 what is full is kept.  `log_fd` is log/. */
int kept_begin(struct kept *k, int log_fd);

/* Whether every fill is there that was merged since all that was in the logs
 * after kept_begin() has been. */
bool kept_is_whole(const struct kept *k);

/* Removes the folder, unless another backup uses it. */
void kept_end(struct kept *k, int log_fd);

/* ---- the others ------------------------------------------------------------ */

/* The folder, if a backup uses it; else -ENOENT, and it is removed.  After
 * another error the caller calls kept_spoil(). */
int kept_open(int log_fd);

/* Says that the fills there are not all, or not to be used. */
void kept_spoil(int log_fd);

#endif
