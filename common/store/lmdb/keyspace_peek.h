/* common/store/lmdb/keyspace_peek.h - reads a keyspace's file without LMDB.
 *
 * Opening an environment, checking its pages and closing it again takes a
 * hundred times as long as a peek, a slot in the cache, and a lock file; a list
 * of thousands of keyspaces needs a few records of each.
 *
 * Errors: 0 or a negative errno, -EBADMSG damage.  Any thread. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_LMDB_KEYSPACE_PEEK_H
#define COUNTD_COMMON_STORE_LMDB_KEYSPACE_PEEK_H

#include <sys/stat.h>

#include "common/store/lmdb/keyspace.h"

/* Checks a file before LMDB opens it: a regular file, valid meta pages, pages
 * that LMDB can follow, and the newest commit is the one LMDB would use.
 * `own_failed`: a commit of this process to the file failed and it is about to
 * commit again, so the newest commit may be that one.  A file found damaged is
 * refused without another check until it changes, for a minute.  -ENOENT,
 * -EBADMSG with *why, or an error. */
int keyspace_file_check(struct lmdb *s, const char *file, bool own_failed,
                        const char **why);

/* Opens a file of the directory for reading; its descriptor, or an error with
 * *why.  -EBADMSG: it is not a regular file. */
int keyspace_file_open(int dir_fd, const char *file, struct stat *st,
                       const char **why);

/* Reads the number of the last change: a pages_counter_fn. */
int keyspace_change_read(int fd, const struct pages_meta *meta, uint64_t *out);

/* Reads name and state of the file k->file, as of the newest commit.  If `k`
 * has a name, the file must have the same.  With `marks` (not NULL), calls
 * marks->mark() for every mark, ordered by uuid.
 *
 * -ENOENT, or another error with *why
 *   -EAGAIN  other processes committed to it during every try: mark() may have
 *            seen records of two commits */
int keyspace_peek(const struct lmdb_options *options, struct keyspace *k,
                  struct keyspace_state *state, const struct marks_sum *marks,
                  const char **why);

/* Whether an entry of the directory is a keyspace's file; then writes its name
 * without the suffix. */
bool keyspace_file_stem(const char *entry, char stem[NAME_FILE_SIZE]);

#endif
