/* common/store/lmdb/purge.c - rewrites a keyspace's file: from its rows
 * (lmdb_purge()), or without them (lmdb_vacate()).
 *
 * What lmdb_del() deletes is in no row, but its bytes stay: in unused parts of
 * pages, in separators of nodes and groups, in buffered edits.  A copy of the
 * pages would copy them.  So a new file is made: both trees are loaded from
 * their rows, and history and the marks are copied record by record.  It
 * replaces the old one under the old one's flock, when it is durable: a crash
 * leaves one of the two complete. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/keyspace_file.h"
#include "common/store/lmdb/keyspace_history.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/files.h"
#include "common/setup/reserve.h"

#define ROWS_AT_ONCE 4096

/* Rows on their way into a tree; their keys are copied. */
struct loader {
    struct tree *to;
    size_t count;
    int rc; /* of the first failure */
    struct tree_check check;
    struct row rows[ROWS_AT_ONCE];
    uint8_t keys[ROWS_AT_ONCE][BLOCK_KEY_MAX];
};

struct rebuild {
    struct lmdb *store;
    const struct keyspace *keyspace;
    MDB_txn *from;
    struct pages_map from_map;
    struct keyspace_state state; /* of the new file, in the end */
    bool is_empty;               /* the new file has no rows */
    struct loader loader;
};

/* ---- the trees --------------------------------------------------------- */

static void
flush_rows(struct loader *l)
{
    if (l->rc == 0 && l->count > 0)
        l->rc = tree_apply(l->to, l->rows, l->count);
    l->count = 0;
}

static void
load_row(void *ctx, const struct row *r)
{
    struct loader *l = ctx;

    if (l->count == ROWS_AT_ONCE)
        flush_rows(l);
    if (l->rc < 0 || l->check.faults > 0)
        return;
    if (r->key_size > BLOCK_KEY_MAX) {
        l->rc = -EBADMSG;
        return;
    }
    memcpy(l->keys[l->count], r->key, r->key_size);
    l->rows[l->count] = (struct row){
        .count = r->count,
        .key = l->keys[l->count],
        .key_size = r->key_size,
        .flags = (uint16_t)((r->flags & BLOCK_SATURATED) | BLOCK_INSERT),
    };
    l->count++;
}

/* Reads all rows of a tree, checked, into the loader's. */
static int
read_rows(struct rebuild *b, int i)
{
    struct loader *l = &b->loader;
    int rc;

    l->check = (struct tree_check){.row = load_row, .ctx = l};
    rc = keyspace_each_row(b->from, b->keyspace, i, &b->state.roots[i],
                           &l->check);
    if (rc < 0)
        return rc;
    flush_rows(l);
    return l->rc;
}

static int
load_tree(struct rebuild *b, int i, MDB_txn *txn, MDB_dbi dbi)
{
    /* Nothing is in the new file before: no value can be in a damaged page. */
    static const struct pages_map none;
    struct lmdb_kv database;
    struct tree t = {
        .kind = tree_kind(i),
        .root = {.next_id = 1},
        .work = b->store->work,
        .generation = (uint32_t)b->state.change,
        .pages_fold = UINT64_MAX,
        .pages_max = UINT64_MAX,
    };
    int rc;

    rc = lmdb_kv_open(&database, txn, dbi, &none);
    if (rc < 0)
        return rc;
    t.kv = lmdb_kv(&database);
    b->loader.to = &t;
    b->loader.count = 0;
    b->loader.rc = 0;
    rc = read_rows(b, i);
    mdb_cursor_close(database.cursor);
    if (rc == 0 && t.root.count != b->state.roots[i].count)
        rc = -EBADMSG;
    b->state.roots[i] = t.root;
    return rc;
}

/* ---- the records ------------------------------------------------------- */

struct copying {
    MDB_txn *txn;
    MDB_dbi to;
};

static int
copy_record(void *ctx, const MDB_val *key, const MDB_val *value)
{
    const struct copying *c = ctx;
    MDB_val k = *key, v = *value;

    return lmdb_error(mdb_put(c->txn, c->to, &k, &v, MDB_APPEND));
}

static int
copy_records(const struct rebuild *b, int database, MDB_txn *txn,
             const MDB_dbi dbis[KEYSPACE_DATABASES])
{
    struct copying c = {.txn = txn, .to = dbis[database]};

    return lmdb_each(b->from, b->keyspace->dbis[database], &b->from_map,
                     copy_record, &c);
}

/* Writes what a keyspace without rows has beside its marks. */
static int
clear_rows(struct rebuild *b, MDB_txn *txn, MDB_dbi meta)
{
    struct keyspace_state *state = &b->state;
    const bool had_history = state->has_history;

    state->sum = 0;
    state->saturated = 0;
    state->has_history = false;
    state->history_due = HISTORY_NEVER;
    for (int i = 0; i < KEYSPACE_TREES; i++)
        state->roots[i] = (struct tree_root){.next_id = 1};
    return had_history ? keyspace_history_del(txn, meta) : 0;
}

/* Writes the new file. */
static int
fill_rebuilt(void *ctx, MDB_txn *txn)
{
    struct rebuild *b = ctx;
    const struct keyspace *k = b->keyspace;
    MDB_dbi dbis[KEYSPACE_DATABASES];
    int rc;

    rc = keyspace_databases(txn, MDB_CREATE, dbis);
    if (rc == 0)
        rc = marks_each(b->from, k->dbis[KEYSPACE_META], &b->state, NULL, NULL);
    if (rc == 0)
        rc = copy_records(b, KEYSPACE_META, txn, dbis);
    if (rc == 0 && b->is_empty)
        rc = clear_rows(b, txn, dbis[KEYSPACE_META]);
    if (rc == 0 && !b->is_empty)
        rc = copy_records(b, KEYSPACE_HISTORY, txn, dbis);
    for (int i = 0; rc == 0 && !b->is_empty && i < KEYSPACE_TREES; i++)
        rc = load_tree(b, i, txn, dbis[i]);
    return rc < 0 ? rc
                  : keyspace_state_put(txn, dbis[KEYSPACE_META], &b->state);
}

/* ---- the file ---------------------------------------------------------- */

static int
replace_file(struct rebuild *b)
{
    struct keyspace_making m = {.fill = fill_rebuilt, .ctx = b};
    MDB_envinfo info;
    MDB_stat st;
    const int rc = lmdb_env_sizes(mdb_txn_env(b->from), &info, &st);

    if (rc < 0)
        return rc;
    m.map = (info.me_last_pgno + 1) * st.ms_psize * 4 + KEYSPACE_MAP_FIRST;
    return keyspace_file_make(b->store, &m, b->keyspace->file, true);
}

/* Creates the new file in memory; returns its descriptor. */
static int
make_in_memory(struct rebuild *b)
{
    const struct keyspace_making m = {
        KEYSPACE_MAP_FIRST + b->state.marks * KEYSPACE_MARK_SIZE * 2,
        fill_rebuilt, b};
    char path[KEYSPACE_PATH_SIZE];
    int fd, rc;

    fd = memfd_create("countd", MFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    rc = keyspace_file_fill(path, &m);
    if (rc == 0)
        return fd;
    (void)close(fd);
    return rc;
}

/* Writes the file in memory into the reserve, whose blocks are allocated, and
 * truncates it. */
static int
fill_reserve(int reserve, int memory)
{
    struct stat st;
    int64_t copied;

    if (fstat(memory, &st) < 0)
        return -errno;
    if (st.st_size > RESERVE_BYTES)
        return -ENOSPC;
    copied = copy_at(memory, 0, (uint64_t)st.st_size, reserve, 0);
    if (copied < st.st_size)
        return copied < 0 ? (int)copied : -EIO;
    if (ftruncate(reserve, st.st_size) < 0 || fsync(reserve) < 0)
        return -errno;
    return 0;
}

/* Writes the new file into the reserve of the data directory, so no free block
 * is needed. */
static int
replace_by_reserve(struct rebuild *b, int data_fd)
{
    int memory, reserve, rc;

    reserve = reserve_take(data_fd);
    if (reserve < 0)
        return reserve == -ENOENT ? -ENOSPC : reserve;
    memory = make_in_memory(b);
    rc = memory;
    if (memory >= 0) {
        rc = fill_reserve(reserve, memory);
        (void)close(memory);
    }
    if (rc == 0)
        rc = keyspace_file_put(b->store, data_fd, RESERVE_FILE,
                               b->keyspace->file);
    if (rc == 0 && fsync(data_fd) < 0)
        rc = -errno;
    (void)close(reserve);
    return rc;
}

/* Replaces the file under its flock, so that no process commits to it
 * meanwhile: by one with the same rows, or (data_fd >= 0) without rows. */
static int
rebuild_keyspace(struct lmdb *s, const uint8_t *name, size_t name_size,
                 int data_fd)
{
    struct rebuild *b;
    struct keyspace *k;
    int rc;

    rc = keyspace_get(s, name, name_size, KEYSPACE_FIND, &k);
    if (rc < 0)
        return rc;
    b = calloc(1, sizeof *b);
    if (b == NULL)
        return -ENOMEM;
    b->store = s;
    b->keyspace = k;
    b->is_empty = data_fd >= 0;
    rc = keyspace_write(s, k, &b->from);
    if (rc == 0) {
        rc = keyspace_state_get(b->from, k->dbis[KEYSPACE_META], &b->state);
        b->state.change++;
        if (rc == 0)
            rc = keyspace_map_find(b->from, k, &b->from_map);
        if (rc == 0)
            rc = b->is_empty ? replace_by_reserve(b, data_fd) : replace_file(b);
        keyspace_abort(k, b->from);
        keyspace_close(k); /* an open file would keep its blocks allocated */
    }
    free(b);
    return rc;
}

/* Compacts what there is to compact: no run refers to what a deletion has
 * cancelled, but it may have the keys. */
static int
compact_all(struct lmdb *s, const uint8_t *name, size_t name_size)
{
    struct keyspace *k;
    bool more = true;
    int rc = 0;

    while (rc == 0 && more) {
        rc = keyspace_get(s, name, name_size, KEYSPACE_FIND, &k);
        if (rc == 0)
            rc = keyspace_history_compact(s, k, &more);
    }
    return rc;
}

/* Tries once more where the file was replaced meanwhile. */
static int
replace_keyspace(struct lmdb *s, const uint8_t *name, size_t name_size,
                 int data_fd)
{
    const bool purges = data_fd < 0;
    int rc = -ESTALE;

    for (int i = 0; i < 2 && rc == -ESTALE; i++) {
        rc = purges ? compact_all(s, name, name_size) : 0;
        if (rc == 0)
            rc = rebuild_keyspace(s, name, name_size, data_fd);
    }
    if (rc == -ENOSPC || rc == -EBUSY)
        return rc;
    return keyspace_report(s, name, name_size, purges ? "purge" : "vacate", rc);
}

int
lmdb_purge(struct store *store, const uint8_t *name, size_t name_size)
{
    struct lmdb *s = lmdb_of(store);

    lmdb_read_end(store);
    /* A purge that was killed may have left half a copy. */
    keyspace_file_clean(s->options.keyspace_fd, 0);
    return replace_keyspace(s, name, name_size, -1);
}

int
lmdb_vacate(struct store *store, const uint8_t *name, size_t name_size,
            int data_fd)
{
    lmdb_read_end(store);
    return replace_keyspace(lmdb_of(store), name, name_size, data_fd);
}
