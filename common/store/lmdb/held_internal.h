/* common/store/lmdb/held_internal.h - what the files of held.h share. Internal:
 * held.c, held_open.c, held_index.c, held_put.c, held_apply.c, held_admin.c,
 * held_salvage.c.
 *
 * Databases of data/held.mdb; integers in keys are big-endian:
 *
 *     records  name 00 | id u64                     -> record
 *     fills    name 00 | uuid[16] | epoch u64 |
 *              first_ms u64 | id u64                -> crc32 of the key
 *     meta     "version"  -> crc32 | version u32 = 2 | features u32
 *              "state"    -> crc32 | zero u32 | change u64, +1 per commit |
 *              next id u64 | records u64 | bytes u64 | hash u64
 *
 * Records: held_record.h.  Values of meta begin with a crc32 of their key and
 * of what follows, little-endian.  `bytes` are those of all records.  `hash` is
 * the sum, mod 2^64, of the SipHash-1-3 (key of zeros) of every key of records
 * and fills, with the number 1, 2 of its database before it.  A key that is
 * damaged, or a branch that leads past it, hides what is held: so all keys are
 * compared with the hash when the file is opened, and each minute while it is
 * looked at (held_index_check).
 *
 * A record is one value and in one commit, which has it in memory once more:
 * that is the price of a record without parts.
 */
#ifndef COUNTD_COMMON_STORE_LMDB_HELD_INTERNAL_H
#define COUNTD_COMMON_STORE_LMDB_HELD_INTERNAL_H

#include <assert.h>
#include <lmdb.h>
#include <sys/types.h>

#include "common/base/diag.h"
#include "common/store/lmdb/held.h"
#include "common/store/lmdb/held_record.h"
#include "common/store/lmdb/pages.h"

#define HELD_VERSION   2
#define HELD_CUT_PAGES 16384u /* dirty pages of a commit, about: 64 MiB */
#define HELD_PAGE      4096u  /* bytes, about, for these */
#define HELD_MAP_ROOM  ((uint64_t)256 << 20) /* free before a commit begins */
#define HELD_KEEP      1024u /* dirty pages; more memory LMDB may not keep */

/* The state record. */
struct held_sums {
    uint64_t change;
    uint64_t next_id;
    uint64_t records;
    uint64_t bytes;
    uint64_t hash;
};

/* One open environment. */
struct held_file {
    MDB_env *env; /* NULL: none */
    int fd;       /* of the data file, for its flock; -1 */
    dev_t device;
    ino_t inode;
    ino_t lock_inode; /* 0: there is none */
    MDB_dbi records, fills, meta;
    bool stale;          /* to be closed and looked at anew */
    uint64_t checked_ms; /* held_index_check; monotonic */
    uint64_t dirtied;    /* pages of its largest commit */
};

/* The marks and deltas of the record that was read last.  Names and keys are
 * in the value, wherever that is. */
struct held_memory {
    struct store_mark *marks;
    struct store_delta *deltas;
    size_t mark_room, delta_room;
};

struct held {
    struct held_options options;
    struct held_file file;

    MDB_txn *look;           /* NULL: none, or there is no file */
    struct held_sums looked; /* of the last look */
    dev_t look_device;       /* the file of it */
    ino_t look_inode;        /* 0: there was none */

    MDB_txn *write;        /* NULL: none */
    struct pages_map map;  /* of it, for what is deleted */
    struct held_sums sums; /* as the commit will leave them */
    uint64_t pages;        /* dirtied, about */
    bool flocked;
    bool failed; /* our last commit: only we may go on from what it left */
    long holder;

    int lock_fd; /* held_lock(); -1 */
    struct diag_repeat trouble;

    struct held_memory memory; /* of the record that held_next() gave */
};

/* ---- steps (held_put.c) ------------------------------------------------ */

/* Begins a step that writes, as held_begin(); -ENOENT without `make` when there
 * is no file. */
int held_step_begin(struct held *h, bool make);

/* ---- the file (held_open.c) -------------------------------------------- */

/* Has the file open that has the name now.
 *   -ENOENT   there is none (any more: a damaged one was set aside)
 *   -EAGAIN   it was replaced, and some process has the old one open yet
 *   -EBADMSG  damaged, and this handle only reads */
int held_file_get(struct held *h);
void held_file_close(struct held *h);

/* Every commit has a higher one. */
extern const struct pages_counter held_change_counter;

/* Closes the environment and opens it again; the descriptor, and with it the
 * flock, stays.  *why not. */
int held_file_reopen(struct held *h, const char **why);

/* Takes the flock of the open file, without waiting.
 *   -EAGAIN  another process has it: h->holder
 *   -ESTALE  the file has lost its name */
int held_file_flock(struct held *h);
void held_file_unlock(struct held *h);

/* Makes a file with nothing in it; 0 also when somebody was faster. */
int held_file_make(struct held *h);

/* Whether the open file still has the name, and its lock file as well. */
bool held_file_is_named(const struct held *h);

/* Whether LMDB may delete a value that it gave in h->write, else -EBADMSG. */
int held_value_check(struct held *h, const MDB_val *value);

/* Begins a transaction of the open file, one that writes with room for a record
 * of so many bytes.
 *   -EAGAIN  what LMDB shows is not the file's newest commit */
int held_begin_read(struct held *h, MDB_txn **out);
int held_begin_write(struct held *h, uint64_t record_size, MDB_txn **out);

/* 0 or a negative errno for LMDB's code.  Damage marks the file stale, so that
 * it is looked at anew before it is used again. */
int held_error(struct held *h, int code);

/* Says what failed, each minute; returns rc. */
int held_trouble(struct held *h, const char *what, int rc);

/* ---- keys, state, index (held_index.c) --------------------------------- */

#define HELD_KEY_MAX (STORE_NAME_MAX + 1 + 16 + 8 + 8 + 8)

struct held_key {
    size_t size;
    uint8_t bytes[HELD_KEY_MAX];
};

/* `name 00`, which all keys of a keyspace begin with. */
struct held_key held_key_name(const uint8_t *name, size_t size);
void held_key_add(struct held_key *k, const void *bytes, size_t size);
void held_key_add64(struct held_key *k, uint64_t v);

static inline MDB_val
held_val(struct held_key *k)
{
    return (MDB_val){.mv_size = k->size, .mv_data = k->bytes};
}

/* The id at the end of a key. */
uint64_t held_key_id(const MDB_val *key);

/* Whether a key begins so. */
bool held_key_under(const MDB_val *key, const struct held_key *start);

/* Calls `one` for each key of a database that begins so; stops on non-zero. */
int held_each_key(
    struct held *h, MDB_txn *txn, MDB_dbi dbi, const struct held_key *start,
    int (*one)(void *ctx, const MDB_val *key, const MDB_val *value), void *ctx);

/* Reads a state record; false when it is damaged. */
bool held_sums_parse(const uint8_t *value, size_t size, struct held_sums *out);
int held_sums_get(struct held *h, MDB_txn *txn, struct held_sums *out);
int held_sums_put(struct held *h, MDB_txn *txn, const struct held_sums *sums);

/* Version and state of a new file. */
int held_meta_make(MDB_txn *txn, MDB_dbi meta);

/* -EBADMSG, -EPROTONOSUPPORT with *why. */
int held_version_check(MDB_txn *txn, MDB_dbi meta, const char **why);

/* Adds a record of value->mv_size bytes, which the caller then writes where
 * value->mv_data says, and its fills; or deletes them.  The hash of h->sums
 * follows. */
int held_index_add(struct held *h, const struct store_batch *batch, uint64_t id,
                   MDB_val *value);
int held_index_delete(struct held *h, const struct store_batch *batch,
                      uint64_t id);

/* Deletes whatever keys there are of a record that cannot be read. */
int held_index_purge(struct held *h, const uint8_t *name, size_t name_size,
                     uint64_t id);

/* Compares all keys with the state: -EBADMSG when they are not those. */
int held_index_check(struct held *h, MDB_txn *txn,
                     const struct held_sums *sums);

/* The least and the greatest first_ms under a name (size 0: of all), in the
 * look: UINT64_MAX and 0 when there is none.  Reads all fills of it. */
int held_index_span(struct held *h, const uint8_t *name, size_t name_size,
                    uint64_t *oldest, uint64_t *newest);

/* Whether all fills of a record are there, in the look: -EBADMSG. */
int held_index_find(struct held *h, const struct store_batch *batch,
                    uint64_t id);

/* ---- records in the file (held.c) -------------------------------------- */

/* The first key of the look that begins so: 0 or -ENOENT. */
int held_find(struct held *h, MDB_dbi dbi, const struct held_key *start,
              MDB_val *key, MDB_val *value);

/* Reads a record as it is in the file: its key and value agree.  -EBADMSG. */
int held_head_read(const MDB_val *key, const MDB_val *value,
                   struct held_head *out);

/* Has its marks and deltas in memory.  -EBADMSG, -ENOMEM */
int held_record_read(struct held_memory *m, const struct held_head *head,
                     struct held_record *out);

/* The id of the first record of a keyspace above `after`, in the look; -ENOENT:
 * there is none. */
int held_next_id(struct held *h, const uint8_t *name, size_t name_size,
                 uint64_t after, uint64_t *id);

#endif
