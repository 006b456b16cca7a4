/* common/store/lmdb/keyspace.h - the LMDB side of common/store/store.h: one
 * file per keyspace. Internal: only the files of this room know LMDB.
 *
 * A keyspace file holds the named databases
 *
 *     keys    the tree of rows by key          (common/store/tree/tree.h)
 *     ranks   the tree of rows by count
 *     history runs of what came when              (common/store/history)
 *     meta    "name": version and full name; "state": totals, roots, marks;
 *             "history": what the runs add up to; "m" + uuid: one mark per log
 *
 * Every meta value starts with a crc32 of its LMDB key and of what follows.
 * Little-endian, offsets in bytes:
 *
 *     name     0 crc32   4 version u32 = 4   8 features u32 (unknown: refuse)
 *             12 keyspace_size u16   14 key_size u16   16 name size u16
 *             18 zero u16   20 name
 *     state    0 crc32   4 zero u32   8 change u64, +1 per commit
 *             16 nonce u64   24 sum i128   40 saturated keys u64
 *             48 marks u64: how many   56 hash of the marks u64
 *             64 tree of keys, 96 tree of ranks, each: root id u64 |
 *             next id u64 | rows u64 | level u16 | zero[6]
 *             128 whether there is history u32   132 minute at which there
 *             will be something to do for it u32                  136 end
 *     history  0 crc32   4 zero u32   8 as history_put() writes it
 *     mark     0 crc32   4 done u8   5 zero u8   6 last key size u16
 *              8 epoch u64   16 first_ms u64   24 last key
 *
 * The hash of the marks is the sum, mod 2^64, of each mark's SipHash-1-3 with a
 * key of zeros over its LMDB key and value.  A mark that is not found where it
 * is looked for is a log that counts again; so whoever reads marks reads all of
 * them and compares their number and hash (marks.c).
 *
 * Processes: who writes holds a flock on the data file, taken without waiting,
 * from before the transaction begins until it has ended: nobody ever waits
 * inside LMDB for a process that was stopped.  A second flock, on the
 * directory, is shared while an environment is being opened and exclusive while
 * the files of a keyspace are removed or replaced: LMDB would make an empty
 * data file where one has just gone, or pair a lock file with another data
 * file.
 */
#ifndef COUNTD_COMMON_STORE_LMDB_KEYSPACE_H
#define COUNTD_COMMON_STORE_LMDB_KEYSPACE_H

#include <dirent.h>
#include <lmdb.h>
#include <sys/types.h>
#include <time.h>

#include "common/base/diag.h"
#include "common/base/hash.h"
#include "common/store/history/history.h"
#include "common/store/lmdb/engine.h"
#include "common/store/lmdb/pager.h"
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

/* The two trees of a keyspace, as places in arrays. */
enum { TREE_KEYS, TREE_RANKS, KEYSPACE_TREES };

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

/* A mark record. */
struct keyspace_mark {
    uint64_t epoch;
    uint64_t first_ms;
    bool done;
    uint16_t last_key_size;
    uint8_t last_key[BLOCK_KEY_MAX];
};

/* One open environment. */
struct keyspace {
    uint64_t hash;       /* of the name; 0: slot is free */
    uint64_t used;       /* when, in store.clock */
    uint64_t checked_ms; /* mdb_reader_check */
    uint64_t retained;   /* dirty pages of its largest commit: LMDB keeps that
                            memory until the environment is closed */
    size_t name_size;
    uint8_t name[NAME_MAX_SIZE];
    char file[KEYSPACE_FILE_SIZE];
    MDB_env *env;
    MDB_dbi meta;
    MDB_txn *reader; /* reset between views */
    struct {
        MDB_dbi dbi;
        MDB_cursor *cursor; /* of the reader */
    } trees[KEYSPACE_TREES];
    MDB_dbi history;
    MDB_cursor *history_cursor; /* of the reader */
    bool reading;
    int fd;             /* of the data file; LMDB's */
    uint64_t looked_ms; /* keyspace_replaced; monotonic */
    dev_t device;       /* of the file that is open */
    ino_t inode;
    ino_t lock_inode;  /* 0: there is none */
    bool stale;        /* it is not what LMDB takes it for: to be closed */
    uint64_t snapshot; /* number of the last view's; 0: the map has moved */
    uint64_t change;   /* and its commit */
    uint64_t nonce;
};

struct lmdb_view {
    struct lmdb *store;
    struct keyspace *keyspace; /* NULL: closed */
    struct keyspace_state state;
    struct lmdb_pager pagers[KEYSPACE_TREES];
    struct tree trees[KEYSPACE_TREES];
};

/* A key that changes. */
struct change {
    const uint8_t *key;
    int128 sum;
    int64_t old;
    int64_t new;
    uint16_t key_size;
    bool exists;
    bool was_saturated;
    bool saturated;
    bool gone; /* it is removed, whatever its sum */
};

/* For sorting: rank order as an integer, and which row. */
struct rank_key {
    uint64_t key;
    uint64_t index;
};

/* The changes of one transaction and their memory, which grows to what is
 * needed and stays between transactions. */
struct slice {
    size_t count;    /* changes */
    size_t capacity; /* changes there is room for */
    struct change *changes;
    struct row *rows;        /* 2 per change */
    struct row *sorted;      /* 2 per change */
    struct rank_key *ranks;  /* 2 per change */
    struct rank_key *ranks2; /* 2 per change */
};

/* The walk through the directory for keyspaces that can be removed
 * (maintain.c). */
struct tending {
    DIR *dir;                       /* while a pass is on its way */
    char again[KEYSPACE_FILE_SIZE]; /* there is more to do for this file */
    uint64_t next_ms;               /* when the next pass begins; monotonic */
};

/* A file that was found damaged, as it was then (keyspace_peek.c). */
#define KEYSPACE_REFUSED 256

struct keyspace_refused {
    const char *why; /* NULL: none */
    uint64_t at_ms;  /* monotonic */
    dev_t device;
    ino_t inode;
    off_t size;
    struct timespec written;
    struct timespec changed;
};

struct lmdb {
    struct store store; /* first: the handle */
    struct lmdb_options options;
    int lock_fd;            /* the directory, for its flock */
    size_t txn_memory;      /* of one commit, now */
    struct keyspace *slots; /* open_max */
    unsigned touched;       /* of these; from here on never used */
    struct keyspace *last;  /* looked up last; may be closed */
    uint64_t clock;
    uint64_t nonce;
    struct hash_key progress_key; /* random: store_mark_info.progress */
    uint64_t failed; /* hash of the name of the keyspace whose commit failed
                        last, until a commit has followed; or 0 */
    long holder;     /* who made keyspace_write() say -EAGAIN; 0: unknown */
    uint64_t known;  /* keyspaces in the directory when last counted */
    unsigned created_since;
    uint64_t full_until_ms; /* keyspace_max was reached; monotonic */
    struct diag_repeat trouble;
    struct lmdb_view view;
    struct lmdb_view *kept; /* between queries of a turn; or NULL */
    unsigned unmerged_uses;
    uint64_t snapshots;
    struct tree_cache cache;
    uint64_t forgot_ms; /* what the cache knew; monotonic */
    struct tree_work *work;
    struct slice slice;
    struct history_compact *care; /* where writable */
    struct tending tending;
    struct keyspace_refused refused[KEYSPACE_REFUSED]; /* by inode */
};

static inline struct lmdb *
lmdb_of(struct store *s)
{
    return (struct lmdb *)(void *)s;
}

/* ---- the operations of the engine, as in store.h ---- */

int lmdb_marks(struct store *store, const uint8_t *name, size_t name_size,
               const struct store_fill *marks, size_t count,
               struct store_mark_info *infos);
int lmdb_apply(struct store *store, const struct store_batch *given,
               struct store_applied *applied);
size_t lmdb_read(struct store *store, struct store_reads *reads);
void lmdb_read_end(struct store *store);
int lmdb_past(struct store *store, struct store_history_query *q,
              uint64_t until_ns);
bool lmdb_tend(struct store *store, const struct store_maintenance *t);
/* One pass over the directory gathers so many names; the next comes when they
 * are given. */
#define LISTING_BATCH 4096

int lmdb_listing_open(struct store *store, struct store_listing **out);
void lmdb_listing_close(struct store_listing *l);
void lmdb_listing_start(struct store_listing *l, const uint8_t *after,
                        size_t after_size);
void lmdb_listing_stop(struct store_listing *l);
int lmdb_listing_next(struct store_listing *l, uint64_t until_ns,
                      struct store_listed *out);
int lmdb_check(struct store *store, const uint8_t *name, size_t name_size,
               void (*fault)(void *ctx, const char *text), void *ctx,
               struct store_check_result *out);
int lmdb_each_mark(struct store *store, const uint8_t *name, size_t name_size,
                   int (*mark)(void *ctx, const struct store_fill *m,
                               const struct store_mark_info *info),
                   void *ctx);
int lmdb_copy(struct store *store, const uint8_t *name, size_t name_size,
              int to_fd);
int lmdb_vacate(struct store *store, const uint8_t *name, size_t name_size,
                int data_fd);
int lmdb_drop(struct store *store, const uint8_t *name, size_t name_size,
              const struct store_fill *marks, size_t count);
int lmdb_del(struct store *store, const uint8_t *name, size_t name_size,
             const struct store_key *keys, size_t count, uint64_t *deleted);

/* Whether a name can be a keyspace's. */
bool keyspace_name_ok(const uint8_t *name, size_t size);

/* Its file's name. */
void keyspace_file_name(const uint8_t *name, size_t name_size,
                        char file[KEYSPACE_FILE_SIZE]);

/* ---- the table of open keyspaces (keyspace_cache.c) ---- */

enum keyspace_need { KEYSPACE_FIND, KEYSPACE_CREATE };

/* The open environment of a keyspace.
 *   -ENOENT  there is none (FIND)   -EDQUOT  keyspace_max (CREATE)
 *   -EBUSY   replaced, and others have the old file open yet
 *   -EAGAIN  its files are being removed just now
 *   -EBADMSG, -EPROTONOSUPPORT  not a file we can use */
int keyspace_get(struct lmdb *s, const uint8_t *name, size_t name_size,
                 enum keyspace_need need, struct keyspace **out);

/* Closes those open keyspaces whose file was replaced, removed or lost its lock
 * file: the new file can be used only when nobody has the old one open. */
void keyspace_look(struct lmdb *s);

/* Closes all keyspaces: what LMDB keeps in memory for them goes. */
void keyspace_rest(struct lmdb *s);

/* Accounts for a commit of so many dirty pages, and closes environments that
 * keep too much memory between commits; `k` itself only when `done`. */
void keyspace_retain(struct lmdb *s, struct keyspace *k, uint64_t pages,
                     bool done);

/* Says what failed, with the name; returns rc. */
int keyspace_trouble(struct lmdb *s, const uint8_t *name, size_t name_size,
                     const char *what, int rc);

/* ---- views (snapshot.c) ---- */

/* Has s->kept be of this keyspace, until lmdb_read_end().  -ENOENT, ... */
int view_keep(struct lmdb *s, const uint8_t *name, size_t name_size);

/* ---- environments (open.c) ---- */

/* Opens what k->file names; on failure *why not, and `k` is closed. */
int keyspace_open(struct lmdb *s, struct keyspace *k, const char **why);
void keyspace_close(struct keyspace *k);

/* Whether the file that is open no longer has its name, or its lock file. */
bool keyspace_replaced(const struct lmdb *s, const struct keyspace *k);

/* Begins any transaction, taking over a map that others have grown. */
int keyspace_begin(struct keyspace *k, unsigned flags, MDB_txn **out);

/* Whether a transaction shows the newest commit of the file.
 *   -EBUSY  it does not: the file is another than the lock file is for */
int keyspace_newest(const struct keyspace *k, MDB_txn *txn);

/* Starts and ends the snapshot of the reader transaction. */
int keyspace_read(struct keyspace *k);
void keyspace_read_end(struct keyspace *k);

/* Doubles the map, or more: to `least`. */
int keyspace_grow(struct keyspace *k, size_t least);

/* ---- write transactions (write.c) ---- */

/* Takes the flock and begins a write transaction.
 *   -EAGAIN  another process is writing: s->holder
 *   -ESTALE  the file was replaced: get the keyspace again */
int keyspace_write(struct lmdb *s, struct keyspace *k, MDB_txn **out);
void keyspace_abort(struct keyspace *k, MDB_txn *txn);

/* Gives up the flock, behind a commit. */
void keyspace_unlock(const struct keyspace *k);

/* What is to be done in a write transaction. */
struct work {
    /* Changes what it likes, `state` included, whose number and nonce are the
     * new ones already.  An error drops all of it; with -EXFULL the map is
     * enlarged (to *least, or by as much as it is) and it is called again. */
    int (*make)(void *ctx, MDB_txn *txn, struct keyspace_state *state,
                size_t *least);
    void *ctx;
    size_t least;
};

/* Does it, and writes the state, in one durable step.  Errors of keyspace_write
 * and of `make`;
 *   -E2BIG   too much for one transaction
 *   -ESTALE  the file was replaced meanwhile: the commit is lost
 * When `k` is closed after an error (k->env is NULL) nobody knows whether it
 * happened: whoever gets the keyspace again finds what there is, made durable.
 */
int keyspace_change(struct lmdb *s, struct keyspace *k, struct work *w);

/* Makes what a failed commit has left durable, whatever it is; `k` has just
 * been opened. */
int keyspace_resolve_commit(struct lmdb *s, struct keyspace *k);

/* -EIO from LMDB is often a full disk: -ENOSPC when there is no room for
 * `size` bytes. */
int keyspace_disk_error(const struct lmdb *s, int rc, uint64_t size);

/* ---- edits of the two trees (edits.c) ---- */

#define SLICE_CHANGE_COST 256 /* bytes of memory of one change */

/* Has room for so many changes, and none in it. */
int slice_reserve(struct slice *sl, size_t n);
void slice_free(struct slice *sl);

/* Pages that so many changes of keys of `key_size` bytes dirty, about. */
uint64_t edits_pages(const uint64_t groups[KEYSPACE_TREES], size_t changes,
                     size_t key_size);

/* Pages that a transaction of so many changes may dirty. */
uint64_t edits_budget(const struct lmdb *s, size_t changes);

/* The most changes of `rest` that one transaction should make. */
size_t edits_limit(const struct lmdb *s, const uint64_t groups[KEYSPACE_TREES],
                   size_t rest, size_t key_size);

/* How large the trees are, in groups of blocks, for the above. */
int edits_groups(MDB_txn *txn, const struct keyspace *k,
                 uint64_t groups[KEYSPACE_TREES]);

/* -EXFULL unless the map can hold so many pages more; then *least is what it
 * should be. */
int edits_room(const struct keyspace *k, uint64_t pages, size_t *least);

struct edits {
    struct lmdb *store;
    const struct keyspace *keyspace;
    MDB_txn *txn;
    struct keyspace_state *state; /* its sum, saturated, roots change */
    size_t limit;                 /* changes: of 1 any number of pages */
    /* Says no before anything is changed; or NULL.  Gets the tree of keys. */
    int (*veto)(void *ctx, struct tree *keys);
    void *ctx;
    struct store_applied *applied; /* its keys, created, saturated rise */
    uint64_t pages;                /* dirtied, about: a result */
};

/* Looks up and makes the changes of s->slice, in both trees.
 *   -EXFULL, -E2BIG  start again, with a larger map or with less */
int edits_make(struct edits *e);

/* Looks up what a change is about. */
int edits_find(struct tree *keys, struct change *c, struct tree_finder *f);

/* ---- records (meta.c) ---- */

int keyspace_header_put(MDB_txn *txn, MDB_dbi meta,
                        const struct lmdb_options *options, const uint8_t *name,
                        size_t name_size);

/* Compares the header with what it must be; *why names the first
 * difference.  Without a name, reads it. */
int keyspace_header_check(MDB_txn *txn, MDB_dbi meta,
                          const struct lmdb_options *options,
                          struct keyspace *k, const char **why);

int keyspace_state_get(MDB_txn *txn, MDB_dbi meta, struct keyspace_state *out);
int keyspace_state_put(MDB_txn *txn, MDB_dbi meta,
                       const struct keyspace_state *state);

/* A mark in the meta database, whole or -EBADMSG; *hash is its share of the
 * state's. */
int keyspace_mark_parse(const MDB_val *key, const MDB_val *value,
                        struct keyspace_mark *out, uint64_t *hash);
int keyspace_mark_put(MDB_txn *txn, MDB_dbi meta, const uint8_t uuid[16],
                      const struct keyspace_mark *mark, uint64_t *hash);

/* The history record.  -EBADMSG when it is not there. */
int keyspace_history_get(MDB_txn *txn, MDB_dbi meta, struct history *out);
int keyspace_history_put(MDB_txn *txn, MDB_dbi meta, const struct history *h);
int keyspace_history_del(MDB_txn *txn, MDB_dbi meta);

/* ---- marks (marks.c) ---- */

/* What was found of a mark that is asked for. */
struct mark_found {
    enum store_mark_state state;
    bool there;             /* the log has a record */
    uint64_t hash;          /* of that */
    uint16_t last_key_size; /* PARTIAL */
    uint8_t last_key[BLOCK_KEY_MAX];
};

/* Marks that are asked for, each of another log. */
struct marks {
    const struct store_fill *marks; /* borrowed */
    size_t count;
    size_t *sorted; /* their places, by uuid */
    struct mark_found *found;
};

int marks_init(struct marks *m, const struct store_fill *marks, size_t count);
void marks_fini(struct marks *m);

/* Calls `mark` for every mark there is, by uuid; stops on non-zero.  -EBADMSG:
 * one is damaged, or, when all have been given, they are not those that the
 * state says. */
int marks_each(MDB_txn *txn, MDB_dbi meta, const struct keyspace_state *state,
               int (*mark)(void *ctx, const uint8_t uuid[16],
                           const struct keyspace_mark *m, uint64_t hash),
               void *ctx);

/* Reads all marks there are, and fills in m->found. */
int marks_read(MDB_txn *txn, MDB_dbi meta, const struct keyspace_state *state,
               struct marks *m);

/* Writes them: done with `last` NULL, else partly, up to that key.  Follows
 * marks_read() in the same transaction; the state's number and hash change. */
int marks_write(MDB_txn *txn, MDB_dbi meta, struct keyspace_state *state,
                struct marks *m, const struct row *last);

/* ---- files (keyspace_file.c) ---- */

/* Makes room for LMDB's lock file before LMDB writes to it through a map: on a
 * full disk that would be the end of the process (SIGBUS).  Only while this
 * process does not have the file open: closing a descriptor of the lock file
 * gives up all locks of the process on it.  -ENOSPC, -EBADMSG with *why, ...
 */
int keyspace_file_lock(int dir_fd, const char *file, const char **why);

/* Creates a keyspace file with nothing in it, durably.  -EEXIST when it is
 * there (then or meanwhile). */
int keyspace_file_create(struct lmdb *s, const uint8_t *name, size_t name_size,
                         const char *file);

/* Makes a %t file in this directory, locked as ours, and writes its name.
 * Returns its descriptor. */
int keyspace_file_temp(int dir_fd, char temp[KEYSPACE_FILE_SIZE]);

/* Makes the file of a keyspace without rows, with these marks as done, in place
 * of the one that has its name.  The caller holds that one's flock. */
int keyspace_file_replace(struct lmdb *s, const uint8_t *name, size_t name_size,
                          const char *file, const struct store_fill *marks,
                          size_t count);

/* Makes the file of a keyspace without rows, with the marks that `txn` of the
 * keyspace has, out of the reserve of the data directory, in place of the
 * keyspace's file.  Needs no free block.  -ENOSPC: there is no reserve, or the
 * marks do not fit into it. */
int keyspace_file_vacate(struct lmdb *s, const struct keyspace *k, MDB_txn *txn,
                         const struct keyspace_state *state, int data_fd);

/* Removes a keyspace's files, durably.  The caller holds the flock of the data
 * file, and a transaction of it.  -EAGAIN: an environment is being opened. */
int keyspace_file_remove(const struct lmdb *s, const char *file);

/* Takes the flock on the directory (LOCK_SH, LOCK_EX), trying for some
 * milliseconds; -EAGAIN.  keyspace_dir_unlock() gives it up. */
int keyspace_dir_lock(const struct lmdb *s, int how);
void keyspace_dir_unlock(const struct lmdb *s);

/* Gives a file its name unless that is taken: -EEXIST. */
int keyspace_file_rename(int dir_fd, const char *from, const char *to);

/* Removes what dead creators left. */
void keyspace_file_clean(int dir_fd);

/* Writes the path LMDB gets: it stays below the directory's descriptor. */
void keyspace_path(int dir_fd, const char *file, char path[KEYSPACE_PATH_SIZE]);

#endif
