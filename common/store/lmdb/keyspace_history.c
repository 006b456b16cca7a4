/* common/store/lmdb/keyspace_history.c - see keyspace_history.h:
 * keyspace_history_change(), called by a transaction that changes counts;
 * compaction in transactions of its own, and queries (lmdb_history()). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/keyspace_history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the record -------------------------------------------------------- */

int
keyspace_history_clear(const struct keyspace *k, MDB_txn *txn,
                       struct keyspace_state *state)
{
    int rc;

    if (!state->has_history)
        return 0;
    rc = lmdb_error(mdb_drop(txn, k->dbis[KEYSPACE_HISTORY], 0));
    if (rc == 0)
        rc = keyspace_history_del(txn, k->dbis[KEYSPACE_META]);
    state->has_history = false;
    state->history_due = HISTORY_NEVER;
    return rc;
}

/* The history of a keyspace in a transaction. */
struct open_history {
    const struct keyspace *keyspace;
    MDB_txn *txn;
    struct keyspace_state *state;
    struct lmdb_kv database;
    struct kv kv;
    struct history_of of;
    struct history h; /* the record */
};

/* Reads the record, or begins history.  1: there is one; 0: history is off.
 * close_history() follows. */
static int
open_history(struct open_history *p, struct lmdb *s,
             const struct pages_map *map, const struct keyspace_state *before)
{
    const MDB_dbi *dbis = p->keyspace->dbis;
    const struct lmdb_options *o = &s->options;
    int rc;

    rc = lmdb_kv_open(&p->database, p->txn, dbis[KEYSPACE_HISTORY], map);
    if (rc < 0)
        return rc;
    p->kv = lmdb_kv(&p->database);
    p->of = (struct history_of){
        .name = p->keyspace->name,
        .name_size = p->keyspace->name_size,
        .rules = o->history,
        .only_new = o->history_of_new,
        .has_history = before->has_history,
        .keys = before->roots[TREE_KEYS].count,
        .sum = before->sum,
        .limits = {history_minute(o->now_ms), o->history_max},
        .compact = s->compact};
    if (before->has_history)
        rc = keyspace_history_get(p->txn, dbis[KEYSPACE_META], &p->h);
    rc = history_enter(&p->h, &p->of, rc);
    if (rc == 0)
        return keyspace_history_clear(p->keyspace, p->txn, p->state);
    p->state->has_history = p->state->has_history || rc > 0;
    return rc;
}

static void
close_history(struct open_history *p)
{
    if (p->database.cursor != NULL)
        mdb_cursor_close(p->database.cursor);
}

static int
put_history(struct open_history *p)
{
    if (!history_explains(&p->h, p->state->sum))
        return -EBADMSG;
    p->state->history_due = history_due(&p->h, &p->kv);
    return keyspace_history_put(p->txn, p->keyspace->dbis[KEYSPACE_META],
                                &p->h);
}

/* ---- what a transaction changes ------------------------------------------ */

/* Erases the keys that a deletion has removed.  -E2BIG: there are several and
 * their blocks do not fit into one transaction. */
static int
erase_deleted(struct open_history *p, struct edits *e)
{
    const struct slice *sl = &e->store->slice;
    const uint64_t deleted = e->deltas == NULL ? e->applied.keys : 0;
    size_t blocks = deleted > 1 ? edits_budget(e->store, 1) : SIZE_MAX, n = 0;
    struct history_erasure *keys;
    int rc;

    if (deleted == 0)
        return 0;
    keys = calloc(deleted, sizeof *keys);
    if (keys == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < sl->count; i++) {
        const struct key_change *c = &sl->changes[i];

        if (c->exists)
            keys[n++] = (struct history_erasure){
                .key = c->key, .key_size = c->key_size, .count = c->old};
    }
    rc = history_erase(&p->h, &p->kv, keys, n, &blocks);
    e->pages += rc == 0 ? blocks : 0;
    free(keys);
    return rc;
}

/* Blocks that a transaction compacts after it has added `added` blocks. */
static size_t
compact_share(const struct edits *e, uint64_t added)
{
    const uint64_t budget = edits_budget(e->store, e->store->slice.count);
    const uint64_t left = e->pages < budget ? (budget - e->pages) / 2 : 0;
    const uint64_t wanted = HISTORY_SLICE + 10 * added;

    return left < HISTORY_SLICE ? HISTORY_SLICE
                                : (size_t)(wanted < left ? wanted : left);
}

static int
change_history(struct open_history *p, struct edits *e)
{
    struct history_compacted done;
    uint64_t added;
    int rc;

    p->of.deltas = e->deltas;
    p->of.delta_count = e->delta_count;
    rc = history_add(&p->h, &p->kv, &p->of, &added);
    p->h.clipped += e->clipped;
    if (rc == 0)
        rc = erase_deleted(p, e);
    if (rc < 0)
        return rc;
    e->pages += added;
    rc = history_compact(&p->h, &p->kv, &p->of, compact_share(e, added), &done);
    e->pages += done.blocks;
    return rc < 0 ? rc : put_history(p);
}

int
keyspace_history_change(struct edits *e, const struct pages_map *map,
                        const struct keyspace_state *before)
{
    struct open_history p = {
        .keyspace = e->keyspace, .txn = e->txn, .state = e->state};
    int rc = open_history(&p, e->store, map, before);

    if (rc > 0)
        rc = change_history(&p, e);
    close_history(&p);
    return rc;
}

/* ---- compaction alone -------------------------------------------------- */

struct compaction {
    struct lmdb *store;
    const struct keyspace *keyspace;
    bool more;
};

static int
make_compaction(struct work *w, MDB_txn *txn, struct keyspace_state *state)
{
    struct compaction *c = w->ctx;
    struct open_history p = {
        .keyspace = c->keyspace, .txn = txn, .state = state};
    struct history_compacted done = {.more = false};
    struct pages_map map;
    int rc;

    c->more = false;
    if (!state->has_history)
        return 0;
    rc = keyspace_map_find(txn, c->keyspace, &map);
    if (rc == 0)
        rc = open_history(&p, c->store, &map, state);
    if (rc > 0) {
        rc = history_compact(&p.h, &p.kv, &p.of, HISTORY_SLICE, &done);
        if (rc == 0)
            rc = put_history(&p);

        /* Compaction that is not possible yet is tried again in an hour. */
        if (state->history_due <= p.of.limits.now)
            state->history_due = done.more ? 0 : p.of.limits.now + 60;
    }
    c->more = done.more;
    close_history(&p);
    return rc;
}

int
keyspace_history_compact(struct lmdb *s, struct keyspace *k, bool *more)
{
    struct compaction c = {.store = s, .keyspace = k};
    struct work w = {.make = make_compaction, .ctx = &c};
    const int rc = keyspace_change(s, k, &w);

    *more = c.more;
    return rc;
}

/* ---- queries ----------------------------------------------------------- */

int
lmdb_history(struct store *store, struct store_history_query *q,
             uint64_t until_ns)
{
    struct lmdb *s = lmdb_of(store);
    struct lmdb_kv database;
    struct history h;
    struct kv kv;
    int rc;

    rc = keyspace_use_view(s, q->name, q->name_size);
    if (rc < 0)
        return rc;
    if (!s->view.state.has_history)
        return -ENODATA;
    rc = keyspace_history_get(s->view.keyspace->reader,
                              s->view.keyspace->dbis[KEYSPACE_META], &h);
    database = keyspace_kv(s->view.keyspace, KEYSPACE_HISTORY);
    kv = lmdb_kv(&database);
    if (rc == 0)
        rc = history_answer(&h, &kv, q, until_ns);
    if (rc != -EBADMSG)
        return rc;
    lmdb_read_end(store);
    return keyspace_report(s, q->name, q->name_size, "history", rc);
}
