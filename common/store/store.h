/* common/store/store.h - the stored counters, by keyspace: applied in batches
 * exactly once, read in either order.
 *
 * A store is an engine behind a handle: LMDB files
 * (common/store/lmdb/lmdb_store.h opens one).  An engine may also keep the
 * counters on another machine, where several data directories count into one
 * keyspace; tests/unit/test_store.c has what each promises.  This interface has
 * no transactions, files or views to close.
 *
 * Exactly once: a batch names the fills of the logs that it was summed from
 * (marks).  Its sums and its marks become visible and durable together; an
 * engine that must cut a batch cuts it by key, and remembers for each mark how
 * far it came, so that the same batch given again goes on from there.  The
 * caller puts only logs together whose marks agree (store_marks).
 *
 * Names and keys are 1 to 256 bytes without NUL.  Counts are exact int64: sums
 * that leave the range saturate, the counter is flagged for ever and its
 * keyspace counts it.
 *
 * Ownership: the caller closes a handle.  One thread per handle, or per lane of
 * it (store_lane).
 * Errors: 0 or a negative errno; text goes to diag before it is lost.
 *   -EBADMSG  what is stored is damaged, or is not what it should be
 *   -EAGAIN   another process is writing to this keyspace: try again soon
 *   -EBUSY    the keyspace was replaced while it was in use: try again later
 *   -EHOSTDOWN  the servers of a remote engine do not answer, or cannot at
 *             present: try again soon; store_trouble() names the server
 *   -ENOSPC   disk full (also where the engine's own code for it is -EIO)
 *   -EIO      the outcome may be unknown; before it returns 0, an engine has
 *             read what is on disk
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_STORE_H
#define COUNTD_COMMON_STORE_STORE_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/log/log_fill.h"

#include "common/base/bytes.h"
#include "common/store/store_history.h"
#include "common/store/store_query.h"

struct store_engine;

/* Whether a keyspace can have this name. */
bool store_name_ok(const uint8_t *name, size_t size);

/* Begins every engine's own handle. */
struct store {
    const struct store_engine *engine;
    unsigned lanes; /* see store_lane(); 0 and 1: one */
};

/* ---- applying (worker) ------------------------------------------------- */

/* What a keyspace has of a fill. */
enum store_mark_state {
    STORE_MARK_NONE,    /* none of it is applied */
    STORE_MARK_PARTIAL, /* some of it is applied, see `progress` */
    STORE_MARK_DONE,    /* all of it is applied */
    STORE_MARK_OTHER,   /* none of it is applied, but another fill of its epoch
                           is: files of different times were put together */
    STORE_MARK_AHEAD    /* a later epoch is applied: a restored directory */
};

struct store_mark_info {
    enum store_mark_state state;
    /* PARTIAL: equal for fills applied equally far; else 0. */
    uint64_t progress;
};

/* Marks agree when one batch may contain their fills: none of them is applied,
 * or all are, or all are applied equally far. */
static inline bool
store_marks_agree(const struct store_mark_info *a,
                  const struct store_mark_info *b)
{
    const bool a_none =
        a->state == STORE_MARK_NONE || a->state == STORE_MARK_OTHER;
    const bool b_none =
        b->state == STORE_MARK_NONE || b->state == STORE_MARK_OTHER;

    return a_none ? b_none : a->state == b->state && a->progress == b->progress;
}

/* For engines: what a stored mark says of a fill of its log; DONE also if it is
 * applied in part. */
static inline enum store_mark_state
store_mark_compare(const struct log_fill *fill, uint64_t epoch,
                   uint64_t first_ms)
{
    if (epoch != fill->epoch)
        return epoch > fill->epoch ? STORE_MARK_AHEAD : STORE_MARK_NONE;
    return first_ms == fill->first_ms ? STORE_MARK_DONE : STORE_MARK_OTHER;
}

/* One summed record.  It stands for increments other than 0, whose sum may be
 * 0: the key exists from then on. */
struct store_delta {
    const uint8_t *key;
    uint16_t key_size;
    uint32_t minute; /* that it was given, or received_ms / 60000 */
    int128 sum;
};

/* For engines: a count with a sum added, within int64; beyond it the count is
 * flagged. */
static inline int64_t
store_add(int64_t count, int128 sum, bool *saturated)
{
    sum += count;
    *saturated = *saturated || sum != (int64_t)sum;
    return sum > INT64_MAX   ? INT64_MAX
           : sum < INT64_MIN ? INT64_MIN
                             : (int64_t)sum;
}

/* What fills of logs have for one keyspace.  Deltas are sorted by key (memcmp,
 * the shorter first), then minute; (key, minute) is unique.  The bytes are the
 * caller's. */
struct store_batch {
    const uint8_t *name;
    size_t name_size;
    const struct log_fill *marks; /* marks, each of one log */
    size_t mark_count;
    const struct store_delta *deltas;
    size_t delta_count;
};

struct store_applied {
    uint64_t keys;        /* changed */
    uint64_t created;     /* keys that are new */
    uint64_t saturated;   /* keys that are newly flagged */
    uint64_t commits;     /* transactions */
    bool at_keyspace_max; /* with -EDQUOT: keyspace.max forbids a new keyspace;
                             false: keyspace.max_keys forbids new keys */
    long holder; /* -EAGAIN: pid of the process that is writing; 0: unknown */
};

/* ---- the list of keyspaces --------------------------------------------- */

/* The names of keyspaces in byte order, with the number of keys of each, in
 * pieces as small as the caller likes.
 *
 * Not one moment: a keyspace that comes while a listing is being made is in it
 * or is not.  One that was there before is, and its number of keys is of a
 * moment after store_listing_start().
 *
 * A listing is the caller's, and is closed before its store. */
struct store_listing {
    const struct store_engine *engine;
    bool names_only; /* the caller's: numbers of keys, which take an engine of
                        files a look at each, are not wanted, and are 0 */
    bool with_empty; /* the caller's: a database also lists those that were
                        emptied, which it keeps for their marks */
};

struct store_listed {
    const uint8_t *name; /* until the next call */
    size_t name_size;
    int64_t keys; /* -1 when the keyspace cannot be read */
};

/* ---- maintenance (countd check, backup, drop, del) ---------------------- */

struct store_check {
    void (*fault)(void *ctx, const char *text); /* gets a line for each */
    void *ctx;
    /* results */
    uint64_t blocks; /* checked */
    uint64_t keys;
    uint64_t saturated; /* keys that are flagged */
    uint64_t marks;
    uint64_t faults;
    uint64_t file_size; /* bytes */
    uint64_t used_size; /* bytes in use */
};

struct store_key {
    const uint8_t *key;
    size_t key_size;
};

/* Keys of a keyspace that are to be removed. */
struct store_deletion {
    const uint8_t *name;
    size_t name_size;
    const struct store_key *keys; /* sorted; they differ */
    size_t count;
    uint64_t deleted; /* rises by the number of those that existed */
};

/* What an engine may ask its caller during store_maintain(). */
struct store_maintenance {
    uint64_t until_ns; /* clock_ns(): ends about then; each call does a step */

    /* The time (Unix, ms) up to which all that was in a log is applied; 0: not
     * known.  NULL: never known. */
    uint64_t (*applied_ms)(void *ctx);

    /* Whether an applied fill can never be merged again: its log is durably in
     * a later fill, or is gone.  NULL: not known of any. */
    bool (*is_dead_fill)(void *ctx, const struct log_fill *mark);

    /* Whether the marks of this keyspace are needed: they show whether a fill
     * that waits is applied.  NULL: they are not. */
    bool (*is_named)(void *ctx, const uint8_t *name, size_t name_size);
    void *ctx;
};

/* Takes a keyspace out of another store: all that it has of one moment, in this
 * order.  A result other than 0 ends it, and store_move() returns it. */
struct store_taker {
    /* `history` is the record of history_put(); size 0: there is none.  1: all
     * of this was taken before, and the rest is left out but done(). */
    int (*begin)(void *ctx, const struct store_totals *t,
                 const uint8_t *history, size_t history_size);
    int (*row)(void *ctx, const uint8_t *key, size_t size,
               const struct store_row *row); /* in key order */
    int (*rank)(void *ctx, const uint8_t *key, size_t size,
                const struct store_row *row); /* by count, without flags */
    int (*mark)(void *ctx, const struct log_fill *fill);
    int (*block)(void *ctx, const uint8_t *key, size_t size,
                 const uint8_t *value, size_t value_size); /* of history */
    int (*done)(void *ctx); /* 0: it is durable */
};

/* ---- an engine --------------------------------------------------------- */

/* Each as the function of the same name below. */
struct store_engine {
    bool is_local; /* a file per keyspace, in this data directory */
    void (*close)(struct store *s);
    unsigned (*lane)(const struct store *s, const uint8_t *name,
                     size_t name_size); /* NULL: there is one lane */
    int (*marks)(struct store *s, const struct store_batch *batch,
                 struct store_mark_info *infos);
    int (*apply)(struct store *s, const struct store_batch *batch,
                 struct store_applied *applied);
    int (*settle)(struct store *s); /* NULL: applied is all */
    int (*read)(struct store *s, struct store_query *q, size_t size_max);
    void (*read_end)(struct store *s); /* NULL: nothing is kept */
    int (*history)(struct store *s, struct store_history_query *q,
                   uint64_t until_ns);
    /* NULL: there is no maintenance. */
    bool (*maintain)(struct store *s, const struct store_maintenance *t);
    int (*listing_open)(struct store *s, struct store_listing **out);
    void (*listing_close)(struct store_listing *l);
    void (*listing_start)(struct store_listing *l, const uint8_t *after,
                          size_t after_size);
    int (*listing_next)(struct store_listing *l, uint64_t until_ns,
                        struct store_listed *out);
    int (*count)(struct store *s, uint64_t *count); /* NULL: -EOPNOTSUPP */
    int (*check)(struct store *s, const uint8_t *name, size_t name_size,
                 struct store_check *c);
    int (*each_mark)(struct store *s, const uint8_t *name, size_t name_size,
                     int (*mark)(void *ctx, const struct log_fill *m,
                                 const struct store_mark_info *info),
                     void *ctx);
    int (*copy)(struct store *s, const uint8_t *name, size_t name_size,
                int to_fd); /* NULL: -EOPNOTSUPP */
    int (*move)(struct store *s, const uint8_t *name, size_t name_size,
                const struct store_taker *to, void *ctx); /* NULL: as well */
    int (*drop)(struct store *s, const uint8_t *name, size_t name_size);
    int (*vacate)(struct store *s, const uint8_t *name, size_t name_size,
                  int data_fd); /* NULL: as well */
    int (*purge)(struct store *s, const uint8_t *name, size_t name_size);
    int (*del)(struct store *s, struct store_deletion *d);
    /* NULL: applied is readable. */
    int (*as_of)(struct store *s, struct store_as_of *out);
    const char *(*trouble)(const struct store *s); /* NULL: none can be */
};

static inline bool
store_is_local(const struct store *s)
{
    return s->engine->is_local;
}

/* NULL is fine. */
static inline void
store_close(struct store *s)
{
    if (s)
        s->engine->close(s);
}

/* The keyspaces are divided among lanes: store_marks() and store_apply() for
 * keyspaces of different lanes may run in several threads at once, everything
 * else in one.  Returns the lane of a keyspace, below store_lanes(). */
static inline unsigned
store_lane(const struct store *s, const uint8_t *name, size_t name_size)
{
    return s->engine->lane ? s->engine->lane(s, name, name_size) : 0;
}

static inline unsigned
store_lanes(const struct store *s)
{
    return s->lanes > 1 ? s->lanes : 1;
}

/* Sets infos[i] to what the keyspace has of each fill of a batch, which needs no
 * deltas; NONE for an unknown keyspace.  Reads the snapshot of store_read(), if
 * it has one of this keyspace. */
static inline int
store_marks(struct store *s, const struct store_batch *batch,
            struct store_mark_info *infos)
{
    return s->engine->marks(s, batch, infos);
}

/* Applies the batch; returns 0 when it is durable.  Skips what is applied
 * already, by the marks, and makes sure that what other processes wrote is
 * durable.  Creates the keyspace if needed, but not for a batch without deltas.
 *   -ESTALE     the marks do not agree (any more), or the keyspace was
 *               replaced: read the marks again; parts of a batch that was cut
 *               may be applied
 *   -EOVERFLOW  a mark is ahead; nothing was applied
 *   -EDQUOT     keyspace.max or keyspace.max_keys would be passed; nothing
 *               was applied
 *   -EAGAIN, -EBUSY, -EBADMSG, -ENOSPC, -EIO as above */
static inline int
store_apply(struct store *s, const struct store_batch *batch,
            struct store_applied *applied)
{
    return s->engine->apply(s, batch, applied);
}

/* To be called behind store_apply(), before what was applied is removed from
 * where it came from: a remote engine notes what was acknowledged. */
static inline int
store_settle(struct store *s)
{
    return s->engine->settle ? s->engine->settle(s) : 0;
}

/* What the snapshot of store_read() has; begins one, if there is none.  Bounds
 * what this directory's logs allow to claim, if they were scanned before. */
static inline int
store_as_of(struct store *s, struct store_as_of *out)
{
    *out = (struct store_as_of){UINT64_MAX, UINT64_MAX};
    return s->engine->as_of ? s->engine->as_of(s, out) : 0;
}

/* Which server the last -EHOSTDOWN was about, and why; valid until the next
 * call. */
static inline const char *
store_trouble(const struct store *s)
{
    return s->engine->trouble ? s->engine->trouble(s) : "";
}

/* Answers a query, with its rows in the `size` bytes at `rows`, of which
 * store_query_size_max() are enough: its error, with which it has none.  Follow it
 * with store_read_end() in the same turn.  An engine fills q->bytes. */
static inline int
store_read(struct store *s, struct store_query *q, uint8_t *rows, size_t size)
{
    q->bytes = rows;
    q->size = q->rows = 0;
    q->error = s->engine->read(s, q, size);
    if (q->error < 0)
        q->size = q->rows = 0;
    return q->error;
}

/* Ends the turn: an engine releases what it has cached for its next query. */
static inline void
store_read_end(struct store *s)
{
    if (s->engine->read_end)
        s->engine->read_end(s);
}

/* Answers a query about history.  Follow it with store_read_end() in the
 * same turn.
 *   -EAGAIN  clock_ns() has reached until_ns (0: never does): call again with
 *            the same query to continue, in a later turn if need be
 *   -ENOENT  no such keyspace   -ENODATA  it has no history
 *   -EINVAL  no step of the tiers divides the span, or it makes no sense
 *   -E2BIG   the span is too long for the steps that divide it
 *   -EBADMSG, ... as above */
int store_history(struct store *s, struct store_history_query *q,
                  uint64_t until_ns);

/* The engine's own upkeep, to be called about once a second: notices replaced
 * files, removes what was dropped.  True: there is more to do now. */
static inline bool
store_maintain(struct store *s, const struct store_maintenance *t)
{
    return s->engine->maintain && s->engine->maintain(s, t);
}

/*   -ENOMEM */
static inline int
store_listing_open(struct store *s, struct store_listing **out)
{
    return s->engine->listing_open(s, out);
}

/* At its end or before; NULL is fine. */
static inline void
store_listing_close(struct store_listing *l)
{
    if (l)
        l->engine->listing_close(l);
}

/* Begins with the names after `after` (empty: all); a listing that was begun
 * before is forgotten. */
static inline void
store_listing_start(struct store_listing *l, const uint8_t *after,
                    size_t after_size)
{
    l->engine->listing_start(l, after, after_size);
}

/* The next keyspace: 1, or 0 at the end.
 *   -EAGAIN  clock_ns() has reached until_ns; call again to go on from there.
 *            Each call does something */
static inline int
store_listing_next(struct store_listing *l, uint64_t until_ns,
                   struct store_listed *out)
{
    return l->engine->listing_next(l, until_ns, out);
}

/* Lists all keyspaces at once: calls `row` for each, stops when that returns
 * non-zero and returns that.  -EINVAL: `after` is too long. */
int store_list(struct store *s, const uint8_t *after, size_t after_size,
               int (*row)(void *ctx, const uint8_t *name, size_t name_size,
                          int64_t keys),
               void *ctx);

/* How many keyspaces there are, of those that keyspace.max is about. */
static inline int
store_count(struct store *s, uint64_t *count)
{
    return s->engine->count ? s->engine->count(s, count) : -EOPNOTSUPP;
}

/* Checks all that is stored of a keyspace against its checksums and itself.
 * Returns 0 also with faults; an error only when the check could not be made. */
static inline int
store_check(struct store *s, const uint8_t *name, size_t name_size,
            struct store_check *c)
{
    return s->engine->check(s, name, name_size, c);
}

/* Calls `mark` with the mark of every log known to this keyspace, by the
 * snapshot that store_marks() reads. */
static inline int
store_each_mark(struct store *s, const uint8_t *name, size_t name_size,
                int (*mark)(void *ctx, const struct log_fill *m,
                            const struct store_mark_info *info),
                void *ctx)
{
    return s->engine->each_mark(s, name, name_size, mark, ctx);
}

/* Copies the keyspace, compact and of one moment, into directory `to_fd` under
 * its own file name; -EEXIST when that is there.  Safe while running. */
static inline int
store_copy(struct store *s, const uint8_t *name, size_t name_size, int to_fd)
{
    return s->engine->copy ? s->engine->copy(s, name, name_size, to_fd)
                           : -EOPNOTSUPP;
}

/* Moves the keyspace into another store: when that has it, it is gone from this
 * one, whose file stays as NAME.moved.  No process changes it meanwhile.  When
 * the process is killed in between, the next call gives the same again.
 *   -ENOENT       there is no such keyspace
 *   -EAGAIN       another process is writing to it
 *   -EINPROGRESS  a batch is applied in part: the next merge completes it
 *   -EEXIST       there is another NAME.moved */
static inline int
store_move(struct store *s, const uint8_t *name, size_t name_size,
           const struct store_taker *to, void *ctx)
{
    return s->engine->move ? s->engine->move(s, name, name_size, to, ctx)
                           : -EOPNOTSUPP;
}

/* Empties the keyspace, durably, in one step: rows and totals are removed; its
 * marks stay, so that a merged log is not counted again.  A damaged one is
 * replaced by an empty one without marks: the caller has made sure that no fill
 * with increments from before the drop can be merged again.  Returns 1 then:
 * other processes may continue to read the old file, but not in queries that
 * begin STORE_REPLACED_MS later.
 *   -ENOENT  there is no such keyspace */
#define STORE_REPLACED_MS 100
static inline int
store_drop(struct store *s, const uint8_t *name, size_t name_size)
{
    return s->engine->drop(s, name, name_size);
}

/* Empties a keyspace without needing disk space: what takes its place is
 * written into the reserve of the data directory (common/setup/reserve.h).  All
 * marks stay, also those of partly applied fills, so logs are merged as before.
 *   -ENOENT   there is no such keyspace
 *   -ENOSPC   there is no reserve
 *   -EBADMSG  the keyspace cannot be read, so its marks are not known: nothing
 *             was changed
 *   -EAGAIN   another process is writing to it */
static inline int
store_vacate(struct store *s, const uint8_t *name, size_t name_size,
             int data_fd)
{
    return s->engine->vacate ? s->engine->vacate(s, name, name_size, data_fd)
                             : -EOPNOTSUPP;
}

/* Removes these keys, durably.  d->deleted rises also before an error: after
 * -EAGAIN the same call goes on.  -ENOENT as above. */
static inline int
store_del(struct store *s, struct store_deletion *d)
{
    return s->engine->del(s, d);
}

/* Rewrites what is stored of a keyspace, so that no byte of a deleted key is
 * left in it.  Rows and marks stay as they are; history is compacted first.
 *   -ENOENT           as above
 *   -EAGAIN           as above
 *   -ENOSPC           there is no space for a second copy
 *   -EBADMSG          it is damaged, and left as it is */
static inline int
store_purge(struct store *s, const uint8_t *name, size_t name_size)
{
    return s->engine->purge ? s->engine->purge(s, name, name_size)
                            : -EOPNOTSUPP;
}

#endif
