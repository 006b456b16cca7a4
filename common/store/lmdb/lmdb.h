/* common/store/lmdb/lmdb.h - a keyspace file's operations: what engine.c puts
 * behind common/store/store.h.  Internal to this room, and to its tests.
 *
 * Exactly once: a batch names the logs it was summed from (marks).  Records
 * and marks become visible and durable together.  A batch may be cut by key
 * range into several such steps; a mark then says the last key applied.
 *
 * Counts are exact int64: sums that leave the range saturate, the counter is
 * flagged for ever and the keyspace counts it.
 *
 * Ownership: handles belong to the caller.  One thread per handle.
 * Errors: 0 or a negative errno; text goes to diag before it is lost.
 *   -EBADMSG  the keyspace's file is damaged or is not what it should be
 *   -EBUSY    the file was replaced, and some process has the old one open yet:
 *             retry later
 *   -ENOSPC   disk full (also where the engine calls it EIO): retry later
 *   -EIO      the outcome may be unknown; the engine has re-read the truth
 *             before it says 0
 */
#ifndef COUNTD_LMDB_H
#define COUNTD_LMDB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/store/lmdb/engine.h"
#include "common/store/store.h"

struct lmdb;
struct lmdb_view;

/* A mark, and how far it came. */
struct lmdb_mark_info {
    enum store_mark_state state;
    uint16_t last_key_size;
    uint8_t last_key[256];
};

/* ---- the handle -------------------------------------------------------- */

int lmdb_open(struct lmdb **out, const struct lmdb_options *options);
void lmdb_close(struct lmdb *s);

/* Closes all keyspaces: what LMDB keeps in memory for them goes. */
void lmdb_rest(struct lmdb *s);

/* From now on one commit may hold this much instead of options.txn_memory: what
 * the caller can spare just now.  The more, the fewer commits a large merge is
 * cut into.  Between commits the store still keeps options.txn_memory at
 * most. */
void lmdb_txn_memory(struct lmdb *s, size_t txn_memory);

/* Closes those open keyspaces whose file was replaced, removed or lost its lock
 * file: the new file can be used only when nobody has the old one open.  To be
 * called about once a second; a keyspace that is asked for is looked at, too.
 * Until then all calls for that keyspace say -EBUSY. */
void lmdb_look(struct lmdb *s);

/* ---- applying (worker) ------------------------------------------------- */

/* What is already in for each of `marks`; an unknown keyspace knows none. */
int lmdb_marks(struct lmdb *s, const uint8_t *name, size_t name_size,
               const struct store_mark *marks, size_t mark_count,
               struct lmdb_mark_info *infos);

/* Applies `deltas` and records `marks` as done, durably when it returns 0.
 * `seen` is what lmdb_marks said when the sums were made; it is read again
 * inside the transaction.
 *   -ESTALE  a mark is no longer what `seen` says, or the file was replaced:
 *            nothing (more) was applied, sum again
 *   -EDQUOT  keyspace_max or keys_max would be passed: nothing applied
 *   -EBADMSG, -ENOSPC, -EIO as above.  Creates the keyspace when needed. */
int lmdb_apply(struct lmdb *s, const uint8_t *name, size_t name_size,
               const struct store_mark *marks,
               const struct lmdb_mark_info *seen, size_t mark_count,
               const struct store_delta *deltas, size_t delta_count,
               struct store_applied *applied);

/* Commits an empty change to this keyspace (a fence) so that marks another
 * process wrote are durable before the log they name is emptied. */
int lmdb_fence(struct lmdb *s, const uint8_t *name, size_t name_size);

/* ---- reading ----------------------------------------------------------- */

/* One snapshot of a keyspace, until lmdb_view_close; keep it short, it pins
 * old pages.  A view holds no other view up; at most one open per handle.
 *   -ENOENT  no such keyspace */
int lmdb_view_open(struct lmdb *s, const uint8_t *name, size_t name_size,
                   struct lmdb_view **out);
void lmdb_view_close(struct lmdb_view *v);

int lmdb_view_totals(struct lmdb_view *v, struct store_totals *out);

/* Rows `offset` to `offset + length - 1` of the count order (descending, ties
 * by key ascending) in the wire form of common/wire/query.h.  offset is 0-based
 * and may be past the end (0 rows).  Stops early when the next row does not
 * fit `size`.  Returns the bytes written, *rows their number. */
int64_t lmdb_view_range(struct lmdb_view *v, uint64_t offset, uint64_t length,
                        uint8_t *bytes, size_t size, uint64_t *rows);

/*   -ENOENT  no such key */
int lmdb_view_get(struct lmdb_view *v, const uint8_t *key, size_t key_size,
                  struct store_row *out);
int lmdb_view_rank(struct lmdb_view *v, const uint8_t *key, size_t key_size,
                   uint64_t *rank);

/* Calls `row` for each key in key order, those after `after` (NULL: all);
 * stops when it returns non-zero and returns that. */
int lmdb_view_scan(struct lmdb_view *v, const uint8_t *after, size_t after_size,
                   int (*row)(void *ctx, const uint8_t *key, size_t key_size,
                              const struct store_row *r),
                   void *ctx);

/* ---- the list of keyspaces --------------------------------------------- */

/* The names of keyspaces in byte order, with the number of keys of each, in
 * pieces as small as the caller likes.  One pass over the directory gathers the
 * next STORE_LISTING_BATCH names; the next pass comes when these are given.
 *
 * Not one snapshot: a keyspace that comes while a listing is being made is in
 * it or is not.  One that was there before is, and its number of keys is of a
 * moment after lmdb_listing_start().
 *
 * About 1.2 MB; nothing is allocated but the directory stream once it is
 * open.  A listing is the caller's, and is closed before its store. */
#define STORE_LISTING_BATCH 4096

struct lmdb_listing;

/*   -ENOMEM */
int lmdb_listing_open(struct lmdb *s, struct lmdb_listing **out);
void lmdb_listing_close(struct lmdb_listing *l);

/* Begins with the names after `after` (empty: all); what was begun before is
 * forgotten. */
void lmdb_listing_start(struct lmdb_listing *l, const uint8_t *after,
                        size_t after_size);

/* Gives up what was begun: no directory is open. */
void lmdb_listing_stop(struct lmdb_listing *l);

/* The next keyspace: 1, or 0 at the end.
 *   -EAGAIN  clock_ns() has reached until_ns; call again to go on from there.
 *            Each call does something: at least looks at one more file */
int lmdb_listing_next(struct lmdb_listing *l, uint64_t until_ns,
                      struct store_listed *out);

/* ---- care (countd check, countd backup) -------------------------------- */

/* Offline: every block, its checksum and order, both orders against each
 * other, totals, marks.  `fault` gets one line of text per fault.  0 also
 * with faults; an error only when the check could not be made. */
int lmdb_check(struct lmdb *s, const uint8_t *name, size_t name_size,
               void (*fault)(void *ctx, const char *text), void *ctx,
               struct store_check_result *out);

/* The mark of every log known to this keyspace. */
int lmdb_each_mark(struct lmdb *s, const uint8_t *name, size_t name_size,
                   int (*mark)(void *ctx, const struct store_mark *m,
                               const struct lmdb_mark_info *info),
                   void *ctx);

/* Copies the keyspace, compacted and consistent, into directory `to_fd`
 * (same file name); -EEXIST when it is there.  Safe while running. */
int lmdb_copy(struct lmdb *s, const uint8_t *name, size_t name_size, int to_fd);

#endif
