/* common/base/dirstream.h - the names in a folder, given a descriptor.
 *
 *     rc = dirstream_open(dirfd, ".", &dir);
 *     if (rc < 0)
 *         return rc;
 *     while ((rc = dirstream_next(dir, &name)) > 0)
 *         ...
 *     (void)closedir(dir);
 *
 * Ownership: the stream is the caller's until closedir(3).  It has a position
 * of its own; rewinddir(3) goes back.
 * Errors: 0 or a negative errno.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_BASE_DIRSTREAM_H
#define COUNTD_COMMON_BASE_DIRSTREAM_H

#include <dirent.h>

/* Opens `folder`, or "." for dirfd itself; the last part may be a link. */
int dirstream_open(int dirfd, const char *folder, DIR **out);

/* The next name, without "." and "..": 1, or 0 at the end.  *name is valid
 * until the next call. */
int dirstream_next(DIR *dir, const char **name);

/* Calls `each` for the names in a folder, which is open as `folder_fd`; stops
 * when it returns non-zero, and returns that.  A folder that does not exist has
 * none. */
int dirstream_each(int parent_fd, const char *folder,
                   int (*each)(void *ctx, int folder_fd, const char *name),
                   void *ctx);

#endif
