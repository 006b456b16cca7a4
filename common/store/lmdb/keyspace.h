/* common/store/lmdb/keyspace.h - the LMDB side of common/store/lmdb/lmdb.h: one
 * file per keyspace. Internal: only the files of this room know LMDB.
 *
 * A keyspace file holds the named databases
 *
 *     keys    the order of rows by key          (common/store/tree/tree.h)
 *     ranks   the order of rows by count
 *     meta    "name": version and full name; "state": totals and roots;
 *             "m" + uuid: one mark per log
 *
 * Every meta value starts with a crc32 of its LMDB key and of what follows.
 * Little-endian, offsets in bytes:
 *
 *     name     0 crc32   4 version u32 = 1   8 features u32 (unknown: refuse)
 *             12 keyspace_size u16   14 key_size u16   16 name size u16
 *             18 zero u16   20 name
 *     state    0 crc32   4 zero u32   8 change u64, +1 per commit
 *             16 nonce u64   24 sum i128   40 saturated keys u64
 *             48 keys order, 80 rank order, each: root id u64 | next id u64 |
 *             rows u64 | level u16 | zero[6]          112 end
 *     mark     0 crc32   4 done u8   5 zero u8   6 last key size u16
 *              8 epoch u64   16 last key
 */
#ifndef COUNTD_KEYSPACE_H
#define COUNTD_KEYSPACE_H

#include <lmdb.h>
#include <sys/types.h>
#include <time.h>

#include "common/base/diag.h"
#include "common/store/lmdb/lmdb.h"
#include "common/store/tree/tree.h"
#include "common/wire/name.h"

__extension__ typedef __int128 int128;

#define KEYSPACE_SUFFIX     ".mdb"
#define KEYSPACE_FILE_SIZE  (NAME_FILE_SIZE + 8)
#define KEYSPACE_PATH_SIZE  (KEYSPACE_FILE_SIZE + 40)
#define KEYSPACE_VERSION    1
#define KEYSPACE_MAP_FIRST  ((size_t)1 << 20)
#define KEYSPACE_MAP_MAX    ((size_t)1 << 45)
#define KEYSPACE_READERS    510
#define KEYSPACE_PAGE_COST  4352 /* a dirty page, LMDB's record of it */
#define KEYSPACE_STATE_SIZE 112
#define KEYSPACE_MARK_SIZE  (24 + BLOCK_KEY_MAX)

/* The state record. */
struct keyspace_state {
    uint64_t change;
    uint64_t nonce;
    int128 sum;
    uint64_t saturated;
    struct order_root keys;
    struct order_root ranks;
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
    MDB_dbi keys;
    MDB_dbi ranks;
    MDB_dbi meta;
    MDB_txn *reader;         /* reset between views */
    MDB_cursor *keys_cursor; /* of the reader */
    MDB_cursor *ranks_cursor;
    bool reading;
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
    struct order keys;
    struct order ranks;
};

/* A key of a slice that changes. */
struct change {
    const uint8_t *key;
    int128 sum;
    int64_t old;
    int64_t new;
    uint16_t key_size;
    bool exists;
    bool was_saturated;
    bool saturated;
};

/* For sorting: rank order as an integer, and which row. */
struct rank_key {
    uint64_t key;
    uint64_t index;
};

/* The memory of one slice of a batch; grown to what slices need. */
struct slice {
    size_t capacity; /* changes */
    struct change *changes;
    struct row *rows;        /* 2 per change */
    struct row *sorted;      /* 2 per change */
    struct rank_key *ranks;  /* 2 per change */
    struct rank_key *ranks2; /* 2 per change */
};

/* A file that was found damaged, as it was then (peek.c). */
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
    size_t txn_memory;      /* of one commit, now */
    struct keyspace *slots; /* open_max */
    struct keyspace *last;  /* looked up last; may be closed */
    uint64_t clock;
    uint64_t nonce;
    uint64_t known; /* keyspaces in the directory when last counted */
    unsigned created_since;
    uint64_t full_until_ms; /* keyspace_max was reached; monotonic */
    struct diag_repeat trouble;
    struct lmdb_view view;
    struct lmdb_view *kept; /* between queries of a turn; or NULL */
    unsigned kept_uses;
    uint64_t snapshots;
    struct order_cache cache;
    struct order_work *work;
    struct slice slice;
    uint64_t failed; /* hash of the keyspace a commit of ours failed in, until
                        another one has mended that; 0: none */
    struct keyspace_refused refused[KEYSPACE_REFUSED]; /* by inode */
};

/* ---- environments (open.c) ---- */

enum keyspace_need { KEYSPACE_FIND, KEYSPACE_CREATE };

/* The open environment of a keyspace.
 *   -ENOENT  there is none (FIND)   -EDQUOT  keyspace_max (CREATE)
 *   -EBUSY   replaced, and others have the old file open yet
 *   -EBADMSG, -EPROTONOSUPPORT  not a file we can use */
int keyspace_get(struct lmdb *s, const uint8_t *name, size_t name_size,
                 enum keyspace_need need, struct keyspace **out);

/* Opens a file by its name on disk for a look at it, outside the table;
 * keyspace_close after.  Its name is read from it. */
int keyspace_open_file(struct lmdb *s, const char *file, struct keyspace *out);
void keyspace_close(struct keyspace *k);

/* Starts and ends the snapshot of the reader transaction. */
int keyspace_read(struct keyspace *k);
void keyspace_read_end(struct keyspace *k);

/* Starts a write transaction.
 *   -ESTALE  the file was replaced: nothing is begun, get the keyspace again */
int keyspace_write(const struct lmdb *s, struct keyspace *k, MDB_txn **out);

/* Whether the file that is open no longer has its name, or its lock file. */
bool keyspace_replaced(const struct lmdb *s, const struct keyspace *k);

/* Accounts for a commit of so many dirty pages, and closes environments that
 * keep too much memory between commits; `k` itself only when `done`. */
void keyspace_retain(struct lmdb *s, struct keyspace *k, uint64_t pages,
                     bool done);

/* Doubles the map. */
int keyspace_grow(struct keyspace *k, size_t least);

/* Says what failed, with the name; returns rc. */
int keyspace_trouble(struct lmdb *s, const uint8_t *name, size_t name_size,
                     const char *what, int rc);

/* -EIO from LMDB is often a full disk: -ENOSPC when there is no room for
 * `size` bytes. */
int keyspace_disk_error(const struct lmdb *s, int rc, uint64_t size);

/* Calls `file` for each keyspace file, in no order, with the name without
 * suffix; stops on non-zero. */
int keyspace_each_file(struct lmdb *s, int (*file)(void *ctx, const char *f),
                       void *ctx);

/* ---- files (file.c) ---- */

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

/* Gives a file its name unless that is taken: -EEXIST. */
int keyspace_file_rename(int dir_fd, const char *from, const char *to);

/* Removes what dead creators left. */
void keyspace_file_clean(int dir_fd);

/* Writes the path LMDB gets: it stays below the directory's descriptor. */
void keyspace_path(int dir_fd, const char *file, char path[KEYSPACE_PATH_SIZE]);

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

/* -ENOENT: no mark. */
int keyspace_mark_get(MDB_txn *txn, MDB_dbi meta, const uint8_t uuid[16],
                      struct keyspace_mark *out);
int keyspace_mark_put(MDB_txn *txn, MDB_dbi meta, const uint8_t uuid[16],
                      const struct keyspace_mark *mark);
int keyspace_mark_parse(const MDB_val *key, const MDB_val *value,
                        struct keyspace_mark *out);

/* What a mark says about (uuid, epoch). */
int keyspace_mark_info(MDB_txn *txn, MDB_dbi meta,
                       const struct store_mark *mark,
                       struct lmdb_mark_info *out);

#endif
