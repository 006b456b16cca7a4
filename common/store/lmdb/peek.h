/* common/store/lmdb/peek.h - what a keyspace file says of itself, read
 * without LMDB.  Internal to this room.
 *
 * To open an environment, check its pages and close it again takes a hundred
 * times as long, a place in the table, and a lock file; a list of thousands of
 * keyspaces needs two records of each.  They are those of the newest commit:
 * LMDB does not write into pages of that before the next one is in its meta
 * page, which is looked at again afterwards.  Both carry checksums.
 */
#ifndef COUNTD_KEYSPACE_PEEK_H
#define COUNTD_KEYSPACE_PEEK_H

#include "common/store/lmdb/keyspace.h"

#define KEYSPACE_NAME_KEY  "name" /* in the meta database */
#define KEYSPACE_STATE_KEY "state"
#define KEYSPACE_PAGE_MAX  65536

/* Reads name and state of the file k->file, through the buffer `page` of
 * KEYSPACE_PAGE_MAX bytes.  The name must be that of `k`, if that has one.
 *   -ENOENT, or another error: LMDB may tell more about it */
int keyspace_peek(const struct lmdb_options *options, struct keyspace *k,
                  uint8_t *page, struct keyspace_state *state);

/* Whether an entry of the directory is a keyspace's file, and then its name
 * without the suffix. */
bool keyspace_file_stem(const char *entry, char stem[NAME_FILE_SIZE]);

/* Records as they are in the meta database (meta.c); else as
 * keyspace_header_check() and keyspace_state_get(). */
int keyspace_header_parse(const MDB_val *v, const struct lmdb_options *options,
                          struct keyspace *k, const char **why);
int keyspace_state_parse(const MDB_val *v, struct keyspace_state *out);

#endif
