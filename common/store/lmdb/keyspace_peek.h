/* common/store/lmdb/keyspace_peek.h - a keyspace's file, looked at without
 * LMDB: before LMDB may have it, and for its name and state.  Internal to this
 * room.
 *
 * To open an environment, check its pages and close it again takes a hundred
 * times as long as a peek, a place in the table, and a lock file; a list of
 * thousands of keyspaces needs two records of each.
 */
#ifndef COUNTD_COMMON_STORE_LMDB_KEYSPACE_PEEK_H
#define COUNTD_COMMON_STORE_LMDB_KEYSPACE_PEEK_H

#include "common/store/lmdb/keyspace.h"
#include "common/store/lmdb/pages.h"

#define KEYSPACE_NAME_KEY    "name" /* in the meta database */
#define KEYSPACE_STATE_KEY   "state"
#define KEYSPACE_HISTORY_KEY "history"

/* Looks at an LMDB file before LMDB does: a regular file, meta pages that make
 * sense, pages that LMDB can follow, and LMDB goes on from the newest commit.
 * `own_failed`: this process had a commit to it fail and is about to commit
 * again, so the newest may be that one.  What was found damaged is refused
 * without another look until it changes, for a minute.  -ENOENT, -EBADMSG with
 * *why, or an error. */
int keyspace_file_check(struct lmdb *s, const char *file, bool own_failed,
                        const char **why);

/* Every commit of a keyspace has a higher one. */
extern const struct pages_counter keyspace_change_counter;

/* Reads name and state of the file k->file.  The name must be that of `k`, if
 * that has one.
 *   -ENOENT, or another error with *why
 *   -EAGAIN  others have committed to it all the while */
int keyspace_peek(const struct lmdb_options *options, struct keyspace *k,
                  struct keyspace_state *state, const char **why);

/* Whether an entry of the directory is a keyspace's file, and then its name
 * without the suffix. */
bool keyspace_file_stem(const char *entry, char stem[NAME_FILE_SIZE]);

/* Records as they are in the meta database (meta.c); else as
 * keyspace_header_check() and keyspace_state_get(). */
int keyspace_header_parse(const MDB_val *v, const struct lmdb_options *options,
                          struct keyspace *k, const char **why);
int keyspace_state_parse(const MDB_val *v, struct keyspace_state *out);

#endif
