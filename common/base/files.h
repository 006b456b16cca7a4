/* common/base/files.h - how many descriptors this process may have, and what
 * for; who else has a file; and what is in it.
 *
 * A quarter of them at most is for open keyspaces, some are for what every
 * daemon needs; the rest is the caller's: connections, logs.
 *
 * Errors: 0 or a negative errno, said through diag.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_BASE_FILES_H
#define COUNTD_COMMON_BASE_FILES_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FILES_KEYSPACES UINT64_C(128) /* open at once, at most */
#define FILES_KEYSPACE  UINT64_C(3)   /* descriptors of each */
#define FILES_OTHER     UINT64_C(64)
#define FILES_SHARE                                                            \
    UINT64_C(4) /* one in this many descriptors is for keyspaces */

/* Raises the limit for `own` descriptors beside those, or as far as it may be.
 * -EMFILE below `least`. */
int files_raise(uint64_t own, uint64_t least);

/* The limit as it is. */
uint64_t files_limit(void);

/* Keyspaces that may be open at once. */
unsigned files_keyspaces(void);

/* Descriptors that are left beside these. */
size_t files_left(void);

/* Takes the flock on the file behind `fd`, without waiting.
 *   -EAGAIN  *holder has it, as lock_holder() */
int lock_take(int fd, long *holder);

/* Reads up to `size` bytes from byte `at` on: fewer only at the end of the
 * file. Returns how many, or -errno; says nothing. */
ssize_t read_at(int fd, void *bytes, size_t size, uint64_t at);

/* As read_at(), and once more after -EIO: reading twice harms nothing, and what
 * cannot be read is taken for damaged. */
ssize_t read_twice(int fd, void *bytes, size_t size, uint64_t at);

/* Writes all of `size` bytes from byte `at` on.  0 or -errno; says nothing. */
int write_at(int fd, const void *bytes, size_t size, uint64_t at);

/* Writes `size` zeros from byte `at` on.  As write_at(). */
int write_zeros(int fd, uint64_t size, uint64_t at);

/* Copies `size` bytes from byte `at` on, or as many as there are, to byte
 * `to_at` of another file.  Returns how many, or -errno; says nothing. */
int64_t copy_at(int from, uint64_t at, uint64_t size, int to, uint64_t to_at);

/* The pid of the process that holds a flock on the file behind `fd`, by
 * /proc/locks; 0: unknown, because there is none, its pid namespace is another,
 * or the file system has another device number there.  Reports nothing. */
long lock_holder(int fd);

#endif
