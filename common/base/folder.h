/* common/base/folder.h - one folder and the files in it: opened, made, synced.
 * dirstream.h has the names in it.
 *
 * `dirfd` may be AT_FDCWD.  The last part of a folder's name may
 * be a link.
 * Errors: 0, a descriptor that is the caller's, or a negative errno. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_BASE_FOLDER_H
#define COUNTD_COMMON_BASE_FOLDER_H

int folder_open(int dirfd, const char *name);

/* Makes the folder, for its owner alone, unless it is there, and opens it.  Its
 * name is durable then, unless `dirfd` is AT_FDCWD: folder_sync_parent(). */
int folder_make(int dirfd, const char *name);

/* Opens a file in the folder for reading: no link is followed, and a FIFO is
 * not waited for. */
int folder_open_file(int dirfd, const char *name);

/* Copies a file, with its times, into another folder; it is durable then, its
 * name is not.  0, also if there is no such file. */
int folder_copy_file(int from_fd, const char *name, int to_fd);

/* fsync of the folder that contains the one behind `fd`. */
int folder_sync_parent(int fd);

#endif
