/* common/store/lmdb/keyspace.h - the LMDB side of common/store/store.h: one
 * file per keyspace.  Internal: only common/store/lmdb uses LMDB.
 *
 * A keyspace file holds the named databases
 *
 *     keys    the tree of rows by key          (common/store/tree/tree.h)
 *     ranks   the tree of rows by count
 *     history runs of increments by time       (common/store/history)
 *     meta    "name": version and full name; "state": totals, roots, marks;
 *             "history": totals of the runs; "m" + uuid: one mark per log
 *
 * Every meta value starts with a crc32 of its LMDB key and of what follows.
 * Little-endian, offsets in bytes:
 *
 *     name     0 crc32   4 version u32 = 4   8 features u32 (unknown: refuse)
 *             12 keyspace_size u16   14 key_size u16   16 name size u16
 *             18 zero u16   20 name
 *     state    0 crc32   4 zero u32   8 change u64, +1 per commit
 *             16 nonce u64   24 sum i128   40 saturated keys u64
 *             48 number of marks u64   56 hash of the marks u64
 *             64 tree of keys, 96 tree of ranks, each: root id u64 |
 *             next id u64 | rows u64 | level u16 | zero[6]
 *             128 has history u32   132 minute at which history next
 *             needs maintenance u32                           136 end
 *     history  0 crc32   4 zero u32   8 as history_put() writes it
 *     mark     0 crc32   4 done u8   5 zero u8   6 last key size u16
 *              8 epoch u64   16 first_ms u64   24 last key
 *
 * The hash of the marks is the sum, mod 2^64, of each mark's SipHash-1-3 with a
 * key of zeros over its LMDB key and value.  A mark that a lookup misses makes
 * a log count twice; so every reader of marks reads all of them and compares
 * their number and hash (marks.c).
 *
 * Processes: a writer holds a flock on the data file, taken without waiting,
 * from before its transaction begins until it has ended: no process ever waits
 * inside LMDB for one that was stopped.  A second flock, on the directory, is
 * shared while an environment is being opened and exclusive while the files of
 * a keyspace are removed or replaced: LMDB would create an empty data file
 * where one was just removed, or pair a lock file with another data file. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_LMDB_KEYSPACE_H
#define COUNTD_COMMON_STORE_LMDB_KEYSPACE_H

#include <dirent.h>
#include <lmdb.h>
#include <sys/stat.h>
#include <time.h>

#include "common/base/diag.h"
#include "common/base/hash.h"
#include "common/store/history/history.h"
#include "common/store/lmdb/lmdb_kv.h"
#include "common/store/lmdb/lmdb_store.h"
#include "common/store/lmdb/pages.h"
#include "common/store/tree/tree.h"
#include "common/wire/name.h"

#define KEYSPACE_SUFFIX     ".mdb"
#define KEYSPACE_FILE_SIZE  (NAME_FILE_SIZE + 8)
#define KEYSPACE_LOCK_SIZE  (KEYSPACE_FILE_SIZE + 8)
#define KEYSPACE_PATH_SIZE  (KEYSPACE_FILE_SIZE + 40)
#define KEYSPACE_VERSION    4
#define KEYSPACE_MAP_FIRST  ((size_t)1 << 20)
#define KEYSPACE_MAP_MAX    ((size_t)1 << 45)
#define KEYSPACE_READERS    510
#define KEYSPACE_PAGE_COST  4352 /* a dirty page, LMDB's record of it */
#define KEYSPACE_STATE_SIZE 136
#define KEYSPACE_MARK_SIZE  (24 + BLOCK_KEY_MAX)

#define KEYSPACE_NAME_KEY    "name" /* in the meta database */
#define KEYSPACE_STATE_KEY   "state"
#define KEYSPACE_HISTORY_KEY "history"

/* The databases of a keyspace, as places in arrays: two trees first. */
enum { TREE_KEYS, TREE_RANKS, KEYSPACE_TREES };
enum { KEYSPACE_HISTORY = KEYSPACE_TREES, KEYSPACE_META, KEYSPACE_DATABASES };

static inline enum block_order
tree_kind(int i)
{
    return i == TREE_KEYS ? BLOCK_KEYS : BLOCK_RANKS;
}

/* The state record. */
struct keyspace_state {
    uint64_t change;
    uint64_t nonce;
    int128 sum;
    uint64_t saturated;
    uint64_t marks;
    uint64_t marks_hash;
    struct tree_root roots[KEYSPACE_TREES];
    bool has_history;
    uint32_t history_due; /* minute; HISTORY_NEVER */
};

static inline struct store_totals
keyspace_totals(const struct keyspace_state *state)
{
    return (struct store_totals){.keys = state->roots[TREE_KEYS].count,
                                 .sum = state->sum,
                                 .saturated = state->saturated,
                                 .nonce = state->nonce,
                                 .change = state->change};
}

/* A mark record. */
struct keyspace_mark {
    struct log_fill fill;
    bool done;
    uint16_t last_key_size;
    uint8_t last_key[BLOCK_KEY_MAX];
    uint64_t hash; /* its share of the state's */
};

/* One open environment. */
struct keyspace {
    uint64_t hash;       /* hash of the name; 0: slot is free */
    uint64_t used;       /* time of last use, by store.clock */
    uint64_t checked_ms; /* when mdb_reader_check() last ran */
    uint64_t retained;   /* dirty pages of its largest commit: LMDB keeps that
                            memory until the environment is closed */
    size_t name_size;
    uint8_t name[NAME_MAX_SIZE];
    char file[KEYSPACE_FILE_SIZE];
    MDB_env *env;
    MDB_txn *reader; /* reset between views */
    MDB_dbi dbis[KEYSPACE_DATABASES];
    MDB_cursor *cursors[KEYSPACE_META]; /* cursors of the reader */
    bool reading;
    int fd; /* of the data file; LMDB's */
    /* When keyspace_replaced() was last called; monotonic. */
    uint64_t looked_ms;
    dev_t device; /* device of the open file */
    ino_t inode;
    ino_t lock_inode; /* 0: none */
    bool stale; /* the open file is not the one LMDB's lock file describes:
                   close it */
    uint64_t snapshot; /* number of the last view; 0: the map has moved */
    uint64_t change;   /* the commit of that view */
    uint64_t nonce;
};

/* A database in the snapshot of the reader. */
static inline struct lmdb_kv
keyspace_kv(const struct keyspace *k, int database)
{
    return (struct lmdb_kv){
        .txn = k->reader, .cursor = k->cursors[database], .renew = true};
}

/* A snapshot of one keyspace, shared by the queries of a turn. */
struct lmdb_view {
    struct keyspace *keyspace; /* NULL: there is none */
    unsigned uses;             /* queries */
    struct keyspace_state state;
    struct lmdb_kv kvs[KEYSPACE_TREES];
    struct tree trees[KEYSPACE_TREES];
};

/* A change of one key. */
struct key_change {
    const uint8_t *key;
    int128 sum;
    int64_t old;
    int64_t new;
    uint16_t key_size;
    bool exists;
    bool was_saturated;
    bool saturated;
    bool gone; /* the key is removed, whatever its sum */
};

/* A sort entry: the rank order as an integer, and the row's index. */
struct rank_key {
    uint64_t key;
    uint64_t index;
};

/* The changes of one transaction.  Their memory grows on demand and is reused
 * by the next transaction. */
struct slice {
    size_t count;    /* changes */
    size_t capacity; /* changes that fit */
    struct key_change *changes;
    struct row *rows;        /* 2 per change */
    struct row *sorted;      /* 2 per change */
    struct rank_key *ranks;  /* 2 per change */
    struct rank_key *ranks2; /* 2 per change */
};

/* The pass over the directory that maintains history and removes the files of
 * empty keyspaces (maintain.c). */
struct maintenance {
    DIR *dir;                      /* NULL: no pass is running */
    char file[KEYSPACE_FILE_SIZE]; /* at hand; empty: none */
    uint64_t next_ms;              /* when the next pass may begin; monotonic */
};

/* A file that was found damaged, and its state then (keyspace_peek.c). */
#define KEYSPACE_REFUSED 256

struct keyspace_refused {
    const char *why; /* NULL: none */
    uint64_t at_ms;  /* monotonic */
    dev_t device;
    ino_t inode;
    struct timespec changed;
};

/* A handle, or a lane of one: each is used by one thread at a time, and a file
 * is only ever opened through its lane.  What lanes share is files of the
 * directory, as processes do (flock). */
struct lmdb {
    struct store store; /* first: the handle */
    struct lmdb_options options;
    struct lmdb *lanes[LMDB_LANES_MAX]; /* of the handle, which is the first */
    unsigned lane;                      /* the number of this one */
    int lock_fd;                        /* of the directory: holds its flock */
    struct keyspace *slots;             /* open_max */
    unsigned touched;      /* slots used so far; those above never were */
    struct keyspace *last; /* result of the last lookup; may be closed */
    uint64_t clock;
    uint64_t nonce;
    struct hash_key progress_key; /* random: store_mark_info.progress */
    uint64_t failed; /* hash of the name of the keyspace whose commit failed
                        last, until a commit has followed; or 0 */
    long holder;     /* pid of the process that made keyspace_write() return
                        -EAGAIN; 0: unknown */
    uint64_t known;  /* keyspaces in the directory when last counted */
    unsigned created_since;
    uint64_t full_until_ms; /* keyspace_max was reached; monotonic */
    struct diag_repeat trouble;
    struct lmdb_view view;
    uint64_t snapshots;
    struct tree_cache cache;
    uint64_t forgot_ms; /* when the cache was last cleared; monotonic */
    struct tree_work *work;
    struct slice slice;
    struct history_compact *compact; /* NULL unless writable */
    struct maintenance maintenance;
    struct keyspace_refused refused[KEYSPACE_REFUSED]; /* by inode */
};

static inline struct lmdb *
lmdb_of(struct store *s)
{
    return (struct lmdb *)(void *)s;
}

/* ---- the operations of the engine, as in store.h ---- */

int lmdb_marks(struct store *store, const struct store_batch *b,
               struct store_mark_info *infos);
int lmdb_apply(struct store *store, const struct store_batch *given,
               struct store_applied *applied);
int lmdb_read(struct store *store, struct store_query *q, size_t size_max);
void lmdb_read_end(struct store *store);
int lmdb_history(struct store *store, struct store_history_query *q,
                 uint64_t until_ns);
bool lmdb_maintain(struct store *store, const struct store_maintenance *t);
/* Names that one pass over the directory collects; the next pass begins when
 * they have been returned. */
#define LISTING_BATCH 4096

int lmdb_count(struct store *s, uint64_t *count); /* its files */
int lmdb_listing_open(struct store *store, struct store_listing **out);
void lmdb_listing_close(struct store_listing *l);
void lmdb_listing_start(struct store_listing *l, const uint8_t *after,
                        size_t after_size);
int lmdb_listing_next(struct store_listing *l, uint64_t until_ns,
                      struct store_listed *out);
int lmdb_check(struct store *store, const uint8_t *name, size_t name_size,
               struct store_check *asked);
int lmdb_each_mark(struct store *store, const uint8_t *name, size_t name_size,
                   int (*mark)(void *ctx, const struct log_fill *m,
                               const struct store_mark_info *info),
                   void *ctx);
int lmdb_copy(struct store *store, const uint8_t *name, size_t name_size,
              int to_fd);
int lmdb_move(struct store *store, const uint8_t *name, size_t name_size,
              const struct store_taker *to, void *ctx);
int lmdb_purge(struct store *store, const uint8_t *name, size_t name_size);

int lmdb_vacate(struct store *store, const uint8_t *name, size_t name_size,
                int data_fd);
int lmdb_drop(struct store *store, const uint8_t *name, size_t name_size);
int lmdb_del(struct store *store, struct store_deletion *asked);

/* Whether the file name `stem`.mdb belongs to this lane. */
bool lmdb_lane_has(const struct lmdb *s, const char *stem);

/* The lane of a keyspace. */
static inline struct lmdb *
lmdb_lane(struct store *s, const uint8_t *name, size_t name_size)
{
    return lmdb_of(s)->lanes[store_lane(s, name, name_size)];
}

/* Sets its name, and that of its file. */
void keyspace_name(struct keyspace *k, const uint8_t *name, size_t name_size);

/* ---- the table of open keyspaces (keyspace_cache.c) ---- */

enum keyspace_need { KEYSPACE_FIND, KEYSPACE_CREATE };

/* Finds or opens a keyspace.
 *   -ENOENT  it does not exist (FIND)   -EDQUOT  keyspace_max (CREATE)
 *   -EINVAL  no keyspace can have this name
 *   -EBUSY   replaced, and another process still has the old file open
 *   -EAGAIN  its files are being removed
 *   -EBADMSG, -EPROTONOSUPPORT  not a file that this program can use */
int keyspace_get(struct lmdb *s, const uint8_t *name, size_t name_size,
                 enum keyspace_need need, struct keyspace **out);

/* Whether a keyspace must be read through LMDB: it is open, or a commit of this
 * process to it failed. */
bool keyspace_needs_open(struct lmdb *s, const uint8_t *name, size_t name_size);

/* If a commit of this process to a keyspace failed, opens it again, which makes
 * its file one that all processes can use. */
void keyspace_repair(struct lmdb *s, const uint8_t *name, size_t name_size);

/* Closes each open keyspace whose file was replaced, removed or lost its lock
 * file: the new file is usable only when no process has the old one open. */
void keyspace_close_replaced(struct lmdb *s);

/* Accounts for a commit of `pages` dirty pages, and closes environments that
 * keep too much memory between commits; `k` itself only if `done`. */
void keyspace_retain(struct lmdb *s, struct keyspace *k, uint64_t pages,
                     bool done);

/* Reports what failed, with the keyspace's name, but not -ENOENT, which is an
 * answer, or -EAGAIN, which is tried again; returns rc. */
int keyspace_report(struct lmdb *s, const uint8_t *name, size_t name_size,
                    const char *what, int rc);

/* ---- views (snapshot.c) ---- */

/* Makes s->view one of this keyspace, until lmdb_read_end(). -ENOENT,
 * ... */
int keyspace_use_view(struct lmdb *s, const uint8_t *name, size_t name_size);

/* ---- environments (open.c) ---- */

/* Opens the file k->file; on failure sets *why and closes `k`. */
int keyspace_open(struct lmdb *s, struct keyspace *k, const char **why);
void keyspace_close(struct keyspace *k);

/* Whether the open file no longer has its name, or its lock file. */
bool keyspace_replaced(const struct lmdb *s, const struct keyspace *k);

/* Begins a transaction (*txn is NULL), or one that was reset anew, and adopts a
 * map that another process has grown; none of this process's is active. */
int keyspace_begin(struct keyspace *k, unsigned flags, MDB_txn **txn);

/* Starts and ends the snapshot of the reader transaction. */
int keyspace_read(struct keyspace *k);
void keyspace_read_end(struct keyspace *k);

/* Doubles the map, or grows it to `least` if that is more. */
int keyspace_grow(struct keyspace *k, size_t least);

/* ---- write transactions (write.c) ---- */

/* Takes the flock and begins a write transaction.
 *   -EAGAIN  another process is writing: s->holder
 *   -ESTALE  the file was replaced: get the keyspace again */
int keyspace_write(struct lmdb *s, struct keyspace *k, MDB_txn **out);
void keyspace_abort(struct keyspace *k, MDB_txn *txn);

/* Releases the flock after a commit. */
void keyspace_unlock(const struct keyspace *k);

/* The work of one write transaction. */
struct work {
    /* NULL, or makes the changes, also in `state`, whose number and nonce are
     * already the new ones.  An error drops all of them; after -EXFULL the map is
     * enlarged (to map_least, or doubled) and make() is called again. */
    int (*make)(struct work *w, MDB_txn *txn, struct keyspace_state *state);
    void *ctx;
    size_t map_least; /* bytes; 0: unknown */
};

/* Calls make() and writes the state in one durable transaction.  Errors of
 * keyspace_write() and of make();
 *   -E2BIG   too much for one transaction
 *   -ESTALE  the file was replaced meanwhile: the commit is lost
 *
 * If `k` is closed after an error (k->env is NULL), the outcome of the commit
 * is unknown: the next keyspace_get() makes the file's state durable and shows
 * it. */
int keyspace_change(struct lmdb *s, struct keyspace *k, struct work *w);

/* Commits nothing.  That makes durable whatever a failed commit has left in
 * `k`, which has just been opened. */
int keyspace_resolve_commit(struct lmdb *s, struct keyspace *k);

/* Follows a durable change that dirtied or freed `pages` pages; `done`: no
 * other follows at once.  May close `k`. */
void keyspace_free_pages(struct lmdb *s, struct keyspace *k, uint64_t pages,
                         bool done);

/* LMDB reports a full disk as -EIO: returns -ENOSPC if less than `size` bytes
 * are free, else rc. */
int keyspace_disk_error(const struct lmdb *s, int rc, uint64_t size);

/* ---- edits of the two trees (edits.c) ---- */

#define SLICE_CHANGE_COST 256 /* bytes of memory of one change */

void slice_free(struct slice *sl);

/* Pages that a transaction of `changes` changes may dirty. */
uint64_t edits_budget(const struct lmdb *s, size_t changes);

struct edits {
    struct lmdb *store;
    struct keyspace *keyspace;
    MDB_txn *txn;
    struct keyspace_state *state; /* its sum, saturated, roots change */
    size_t limit;    /* changes; 0: edits_begin() computes it; with 1 the number
                        of pages is not limited */
    size_t key_size; /* bytes of one key, to estimate pages */
    /* What history adds; none for a deletion. */
    const struct store_delta *deltas;
    size_t delta_count;
    /* May refuse before anything is changed; or NULL.  Gets the tree of keys.
     */
    int (*veto)(void *ctx, struct tree *keys);
    void *ctx;
    /* Its keys, created and saturated are added to. */
    struct store_applied applied;
    int128 clipped;   /* what the counts could not hold; a result */
    uint64_t pages;   /* pages dirtied, estimated; a result */
    size_t map_least; /* bytes that the map needs; a result */

    uint64_t groups[KEYSPACE_TREES]; /* of each tree, estimated; private */
};

/* Empties s->slice and reserves memory for as many of the `rest` changes left
 * as one transaction should make: the caller adds at most e->limit changes. */
int edits_begin(struct edits *e, size_t rest);

/* Looks up and makes the changes of s->slice, in both trees and in history.
 *
 *   -EXFULL  try again with a larger map (map_least or doubled)
 *   -E2BIG   try again with fewer changes */
int edits_make(struct edits *e);

/* Reads the row that a change is about. */
int edits_find(struct tree *keys, struct key_change *c, struct tree_finder *f);

/* ---- records (meta.c) ---- */

int keyspace_header_put(MDB_txn *txn, MDB_dbi meta,
                        const struct lmdb_options *options, const uint8_t *name,
                        size_t name_size);

/* Compares the header with the options and k's name; *why names the first
 * difference.  If `k` has no name, sets it from the header. */
int keyspace_header_check(MDB_txn *txn, MDB_dbi meta,
                          const struct lmdb_options *options,
                          struct keyspace *k, const char **why);

int keyspace_state_get(MDB_txn *txn, MDB_dbi meta, struct keyspace_state *out);
int keyspace_state_put(MDB_txn *txn, MDB_dbi meta,
                       const struct keyspace_state *state);

/* Whether this is the key of the record with this name. */
static inline bool
keyspace_is_record(const MDB_val *key, const char *name)
{
    return bytes_equal(key->mv_data, key->mv_size, name, strlen(name));
}

/* Whether this is the key of a mark. */
static inline bool
keyspace_is_mark(const MDB_val *key)
{
    return key->mv_size == 17 && *(const uint8_t *)key->mv_data == 'm';
}

/* Parses a mark of the meta database.  -EBADMSG: damaged. */
int keyspace_mark_parse(const MDB_val *key, const MDB_val *value,
                        struct keyspace_mark *out);
int keyspace_mark_del(MDB_txn *txn, MDB_dbi meta, const uint8_t uuid[16]);
int keyspace_mark_put(MDB_txn *txn, MDB_dbi meta, struct keyspace_mark *mark);

/* Finds where LMDB has mapped the file, for pages_value_ok(), in a transaction
 * that has not written yet. */
int keyspace_map_find(MDB_txn *txn, const struct keyspace *k,
                      struct pages_map *map);

/* Reads and writes the history record.  -EBADMSG if it is missing. */
int keyspace_history_get(MDB_txn *txn, MDB_dbi meta, struct history *out);
int keyspace_history_put(MDB_txn *txn, MDB_dbi meta, const struct history *h);
int keyspace_history_del(MDB_txn *txn, MDB_dbi meta);

/* Parse records of the meta database (meta.c); errors as
 * keyspace_header_check() and keyspace_state_get(). */
int keyspace_header_parse(const MDB_val *v, const struct lmdb_options *options,
                          struct keyspace *k, const char **why);
int keyspace_state_parse(const MDB_val *v, struct keyspace_state *out);

/* ---- all rows (move.c) ---- */

/* Checks a tree in a transaction, and so calls c->row for all of its rows.
 * -EBADMSG: it has faults, and c->fault is NULL. */
int keyspace_each_row(MDB_txn *txn, const struct keyspace *k, int tree,
                      const struct tree_root *root, struct tree_check *c);

/* ---- marks (marks.c) ---- */

/* What the keyspace says about a fill. */
struct mark_found {
    enum store_mark_state state;
    bool there;             /* the keyspace has a record for the log */
    uint64_t hash;          /* of that record */
    uint16_t last_key_size; /* if PARTIAL */
    uint8_t last_key[BLOCK_KEY_MAX];
};

/* The marks of some fills, each of another log. */
struct marks {
    const struct log_fill *marks; /* borrowed */
    size_t count;
    size_t *sorted; /* their indexes, ordered by uuid */
    struct mark_found *found;
};

int marks_init(struct marks *m, const struct log_fill *marks, size_t count);
void marks_fini(struct marks *m);

typedef int keyspace_mark_fn(void *ctx, const struct keyspace_mark *m);

/* Number and hash of all marks, as they are read. */
struct marks_sum {
    keyspace_mark_fn *mark; /* or NULL */
    void *ctx;
    uint64_t count, hash;
};

/* Adds a record of the meta database, if it is a mark, and calls mark(). */
int marks_count(void *ctx, const MDB_val *key, const MDB_val *value);

/* Whether they are those of the state. */
static inline bool
marks_sum_ok(const struct marks_sum *sum, const struct keyspace_state *state)
{
    return sum->count == state->marks && sum->hash == state->marks_hash;
}

/* Calls mark(), if there is one, for every mark, ordered by uuid; stops on
 * non-zero.  -EBADMSG: one is damaged or, after all were given, their number or
 * hash differs from the state's. */
int marks_each(MDB_txn *txn, MDB_dbi meta, const struct keyspace_state *state,
               keyspace_mark_fn *mark, void *ctx);

/* Reads all marks and sets m->found. */
int marks_read(MDB_txn *txn, MDB_dbi meta, const struct keyspace_state *state,
               struct marks *m);

/* Writes them: done if `last` is NULL, else partial, up to that key.  Follows
 * marks_read() in the same transaction; changes the state's number and hash. */
int marks_write(MDB_txn *txn, MDB_dbi meta, struct keyspace_state *state,
                struct marks *m, const struct store_delta *last);

#endif
