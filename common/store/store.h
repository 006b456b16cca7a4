/* common/store/store.h - the store interface: counters by keyspace, applied in
 * batches exactly once, read in either order from one snapshot.
 *
 * The worker applies and the reader queries only through this header, so a
 * second engine can stand behind it.  Names are 1 to 256 bytes without NUL.
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
#ifndef COUNTD_STORE_H
#define COUNTD_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;
struct store_view;

struct store_options {
    int keyspace_fd;         /* data/keyspace, borrowed */
    const uint8_t *hash_key; /* 16 bytes, borrowed */
    uint16_t keyspace_size;  /* message sizes, recorded in each file */
    uint16_t key_size;
    bool writable;
    unsigned open_max;     /* keyspaces open at once, least recent closed */
    size_t txn_memory;     /* bytes for one commit: its edits, dirty pages */
    uint64_t keyspace_max; /* keyspaces in the directory; 0: no limit */
    uint64_t keys_max;     /* keys per keyspace; 0: no limit */
};

/* A log whose records are in a batch.  The epoch counts its fills; first_ms,
 * the received_ms of the first record, tells apart two fills of one epoch: a
 * log that was put back to an earlier state begins such a second one. */
struct store_mark {
    uint8_t uuid[16];
    uint64_t epoch;
    uint64_t first_ms;
};

enum store_mark_state {
    STORE_MARK_NONE,    /* nothing of (uuid, epoch) is in */
    STORE_MARK_PARTIAL, /* keys up to and including last_key are in */
    STORE_MARK_DONE,    /* all of it is in */
    STORE_MARK_OTHER,   /* another fill of this epoch is in, and nothing of this
                           one: files of different times were put together */
    STORE_MARK_AHEAD,   /* a later epoch is in: a restored directory */
};

struct store_mark_info {
    enum store_mark_state state;
    uint16_t last_key_size;
    uint8_t last_key[256];
};

/* One summed record.  Sorted by key (memcmp, shorter first), then minute;
 * (key, minute) is unique.  It stands for increments other than 0, whose sum
 * may be 0: the key exists from then on. */
struct store_delta {
    const uint8_t *key;
    uint16_t key_size;
    uint32_t minute;  /* received_ms / 60000; history will need it */
    int64_t sum_high; /* of a signed 128-bit sum */
    uint64_t sum_low;
};

struct store_applied {
    uint64_t keys;      /* changed */
    uint64_t created;   /* of these, new */
    uint64_t saturated; /* of these, newly flagged */
    uint64_t commits;   /* transactions */
    bool no_room;       /* -EDQUOT is for keyspace_max: there is none */
};

struct store_totals {
    uint64_t keys;
    int64_t sum_high; /* signed 128-bit sum of all counts */
    uint64_t sum_low;
    uint64_t saturated; /* keys flagged */
};

struct store_row {
    int64_t count;
    bool saturated;
};

/* ---- the handle -------------------------------------------------------- */

int store_open(struct store **out, const struct store_options *options);
void store_close(struct store *s);

/* From now on one commit may hold this much instead of options.txn_memory: what
 * the caller can spare just now.  The more, the fewer commits a large merge is
 * cut into.  Between commits the store still keeps options.txn_memory at
 * most. */
void store_txn_memory(struct store *s, size_t txn_memory);

/* Closes those open keyspaces whose file was replaced, removed or lost its lock
 * file: the new file can be used only when nobody has the old one open.  To be
 * called about once a second; a keyspace that is asked for is looked at, too.
 * Until then all calls for that keyspace say -EBUSY. */
void store_look(struct store *s);

/* ---- applying (worker) ------------------------------------------------- */

/* What is already in for each of `marks`; an unknown keyspace knows none. */
int store_marks(struct store *s, const uint8_t *name, size_t name_size,
                const struct store_mark *marks, size_t mark_count,
                struct store_mark_info *infos);

/* Applies `deltas` and records `marks` as done, durably when it returns 0.
 * `seen` is what store_marks said when the sums were made; it is read again
 * inside the transaction.
 *   -ESTALE  a mark is no longer what `seen` says, or the file was replaced:
 *            nothing (more) was applied, sum again
 *   -EDQUOT  keyspace_max or keys_max would be passed: nothing applied
 *   -EBADMSG, -ENOSPC, -EIO as above.  Creates the keyspace when needed. */
int store_apply(struct store *s, const uint8_t *name, size_t name_size,
                const struct store_mark *marks,
                const struct store_mark_info *seen, size_t mark_count,
                const struct store_delta *deltas, size_t delta_count,
                struct store_applied *applied);

/* Commits an empty change to this keyspace (a fence) so that marks another
 * process wrote are durable before the log they name is emptied. */
int store_fence(struct store *s, const uint8_t *name, size_t name_size);

/* ---- reading ----------------------------------------------------------- */

/* One snapshot of a keyspace, until store_view_close; keep it short, it pins
 * old pages.  A view holds no other view up; at most one open per handle.
 *   -ENOENT  no such keyspace */
int store_view_open(struct store *s, const uint8_t *name, size_t name_size,
                    struct store_view **out);
void store_view_close(struct store_view *v);

int store_view_totals(struct store_view *v, struct store_totals *out);

/* Rows `offset` to `offset + length - 1` of the count order (descending, ties
 * by key ascending) in the wire form of common/wire/query.h.  offset is 0-based
 * and may be past the end (0 rows).  Stops early when the next row does not
 * fit `size`.  Returns the bytes written, *rows their number. */
int64_t store_view_range(struct store_view *v, uint64_t offset, uint64_t length,
                         uint8_t *bytes, size_t size, uint64_t *rows);

/*   -ENOENT  no such key */
int store_view_get(struct store_view *v, const uint8_t *key, size_t key_size,
                   struct store_row *out);
int store_view_rank(struct store_view *v, const uint8_t *key, size_t key_size,
                    uint64_t *rank);

/* Calls `row` for each key in key order, those after `after` (NULL: all);
 * stops when it returns non-zero and returns that. */
int store_view_scan(struct store_view *v, const uint8_t *after,
                    size_t after_size,
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
 * moment after store_listing_start().
 *
 * About 1.2 MB; nothing is allocated but the directory stream once it is
 * open.  A listing is the caller's, and is closed before its store. */
#define STORE_LISTING_BATCH 4096

struct store_listing;

struct store_listed {
    const uint8_t *name; /* until the next call */
    size_t name_size;
    int64_t keys; /* as the keyspace says; -1 when it cannot be read */
};

/*   -ENOMEM */
int store_listing_open(struct store *s, struct store_listing **out);
void store_listing_close(struct store_listing *l);

/* Begins with the names after `after` (empty: all); what was begun before is
 * forgotten. */
void store_listing_start(struct store_listing *l, const uint8_t *after,
                         size_t after_size);

/* Gives up what was begun: no directory is open. */
void store_listing_stop(struct store_listing *l);

/* The next keyspace: 1, or 0 at the end.
 *   -EAGAIN  clock_ns() has reached until_ns; call again to go on from there.
 *            Each call does something: at least looks at one more file */
int store_listing_next(struct store_listing *l, uint64_t until_ns,
                       struct store_listed *out);

/* All of it at once: calls `row` for each, stops when that returns non-zero
 * and returns that.  -EINVAL: `after` is too long. */
int store_list(struct store *s, const uint8_t *after, size_t after_size,
               int (*row)(void *ctx, const uint8_t *name, size_t name_size,
                          int64_t keys),
               void *ctx);

/* ---- care (countd check, countd backup) -------------------------------- */

struct store_check_result {
    uint64_t blocks; /* checked */
    uint64_t keys;
    uint64_t marks;
    uint64_t faults; /* reported through `fault` */
    uint64_t file_size;
    uint64_t used_size; /* pages in use */
};

/* Offline: every block, its checksum and order, both orders against each
 * other, totals, marks.  `fault` gets one line of text per fault.  0 also
 * with faults; an error only when the check could not be made. */
int store_check(struct store *s, const uint8_t *name, size_t name_size,
                void (*fault)(void *ctx, const char *text), void *ctx,
                struct store_check_result *out);

/* The mark of every log known to this keyspace. */
int store_each_mark(struct store *s, const uint8_t *name, size_t name_size,
                    int (*mark)(void *ctx, const struct store_mark *m,
                                const struct store_mark_info *info),
                    void *ctx);

/* Copies the keyspace, compacted and consistent, into directory `to_fd`
 * (same file name); -EEXIST when it is there.  Safe while running. */
int store_copy(struct store *s, const uint8_t *name, size_t name_size,
               int to_fd);

#endif
