/* common/store/lmdb/move.c - lmdb_move(): gives a keyspace to another store, and
 * sets its file aside; keyspace_each_row().
 *
 * The file's flock is held from before it is read until it has lost its name.
 * It gets its other name first, which shows whether that is free; a process that
 * is killed leaves both, and the next move goes on: the other store knows by the
 * nonce whether it has all of it. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/keyspace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

struct moving {
    struct lmdb *store;
    const struct keyspace *keyspace;
    MDB_txn *txn;
    struct keyspace_state state;
    struct pages_map map;
    const struct store_taker *to;
    void *ctx;
    bool by_count; /* which rows are given */
    int rc;        /* of a row, the first that is not 0 */
    struct tree_check rows;
};

/* ---- what is given ------------------------------------------------------- */

int
keyspace_each_row(MDB_txn *txn, const struct keyspace *k, int tree,
                  const struct tree_root *root, struct tree_check *c)
{
    struct tree t = {.kind = tree_kind(tree), .root = *root};
    struct lmdb_kv database;
    MDB_stat st;
    int rc;

    rc = lmdb_error(mdb_stat(txn, k->dbis[tree], &st));
    if (rc == 0)
        rc = lmdb_kv_open(&database, txn, k->dbis[tree], NULL);
    if (rc < 0)
        return rc;
    t.kv = lmdb_kv(&database);
    c->values = st.ms_entries;
    tree_check(&t, c);
    mdb_cursor_close(database.cursor);
    return c->fault == NULL && c->faults > 0 ? -EBADMSG : 0;
}

static void
give_row(void *ctx, const struct row *r)
{
    const struct store_row row = {r->count, (r->flags & BLOCK_SATURATED) != 0};
    struct moving *m = ctx;

    if (m->rc == 0 && m->rows.faults == 0)
        m->rc = (m->by_count ? m->to->rank : m->to->row)(m->ctx, r->key,
                                                         r->key_size, &row);
}

static int
give_rows(struct moving *m, int tree)
{
    int rc;

    m->rows = (struct tree_check){.row = give_row, .ctx = m};
    m->by_count = tree == TREE_RANKS;
    rc = keyspace_each_row(m->txn, m->keyspace, tree, &m->state.roots[tree],
                           &m->rows);
    return m->rc != 0 ? m->rc : rc;
}

static int
give_mark(void *ctx, const struct keyspace_mark *mark)
{
    const struct moving *m = ctx;

    return mark->done ? m->to->mark(m->ctx, &mark->fill) : -EINPROGRESS;
}

static int
give_block(void *ctx, const MDB_val *key, const MDB_val *value)
{
    const struct moving *m = ctx;

    return m->to->block(m->ctx, key->mv_data, key->mv_size, value->mv_data,
                        value->mv_size);
}

/* 1: the other store has it. */
static int
give_totals(struct moving *m)
{
    const struct store_totals t = keyspace_totals(&m->state);
    uint8_t history[HISTORY_STATE_MAX];
    struct history h;
    size_t size = 0;
    int rc = 0;

    if (m->state.has_history) {
        rc = keyspace_history_get(m->txn, m->keyspace->dbis[KEYSPACE_META], &h);
        size = rc == 0 ? history_put(&h, history) : 0;
    }
    return rc < 0 ? rc : m->to->begin(m->ctx, &t, history, size);
}

static int
give_all(struct moving *m)
{
    const MDB_dbi *dbis = m->keyspace->dbis;
    int rc = give_totals(m);

    if (rc != 0)
        return rc < 0 ? rc : m->to->done(m->ctx);
    for (int i = 0; rc == 0 && i < KEYSPACE_TREES; i++)
        rc = give_rows(m, i);
    if (rc == 0)
        rc = marks_each(m->txn, dbis[KEYSPACE_META], &m->state, give_mark, m);
    if (rc == 0)
        rc = lmdb_each(m->txn, dbis[KEYSPACE_HISTORY], &m->map, give_block, m);
    return rc < 0 ? rc : m->to->done(m->ctx);
}

/* ---- the file ------------------------------------------------------------ */

/* Gives the file its other name, beside the first. */
static int
link_aside(const struct moving *m, char aside[KEYSPACE_FILE_SIZE])
{
    const int dir_fd = m->store->options.keyspace_fd;
    const char *file = m->keyspace->file;
    struct stat st;

    (void)snprintf(aside, KEYSPACE_FILE_SIZE, "%.*s.moved",
                   (int)(strlen(file) - strlen(KEYSPACE_SUFFIX)), file);
    if (linkat(dir_fd, file, dir_fd, aside, 0) == 0)
        return 0;
    if (errno == EEXIST &&
        fstatat(dir_fd, aside, &st, AT_SYMLINK_NOFOLLOW) == 0)
        return st.st_ino == m->keyspace->inode ? 0 : -EEXIST;
    return -errno;
}

/* In a transaction that does not write. */
static int
move_file(struct moving *m)
{
    char aside[KEYSPACE_FILE_SIZE];
    int rc;

    rc =
        keyspace_state_get(m->txn, m->keyspace->dbis[KEYSPACE_META], &m->state);
    if (rc == 0)
        rc = keyspace_map_find(m->txn, m->keyspace, &m->map);
    if (rc == 0)
        rc = link_aside(m, aside);
    if (rc < 0)
        return rc;
    rc = give_all(m);
    if (rc == 0)
        return keyspace_file_put(m->store, -1, NULL, m->keyspace->file);
    /* If it stays, the next move finds it. */
    (void)unlinkat(m->store->options.keyspace_fd, aside, 0);
    return rc;
}

int
lmdb_move(struct store *store, const uint8_t *name, size_t name_size,
          const struct store_taker *to, void *ctx)
{
    struct moving m = {.store = lmdb_of(store), .to = to, .ctx = ctx};
    struct keyspace *k;
    int rc;

    lmdb_read_end(store);
    rc = keyspace_get(m.store, name, name_size, KEYSPACE_FIND, &k);
    if (rc == 0)
        rc = keyspace_write(m.store, k, &m.txn);
    if (rc < 0)
        return rc;
    m.keyspace = k;
    rc = move_file(&m);
    keyspace_abort(k, m.txn);
    keyspace_close(k);
    return rc;
}
