/* common/store/lmdb/keyspace_history.c - see keyspace_history.h:
 * keyspace_history_begin() and _change(), called by a transaction that
 * changes counts; then compaction in transactions of its own, and queries
 * (lmdb_history()). */
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

/* Reads the record, or begins history.  1: there is one; 0: history is off. */
static int
open_history(struct keyspace_history *p, MDB_txn *txn,
             struct keyspace_state *state)
{
    const struct lmdb_options *o = &p->store->options;
    int rc = 0;

    p->of = (struct history_of){
        .name = p->keyspace->name,
        .name_size = p->keyspace->name_size,
        .rules = o->history,
        .only_new = o->history_of_new,
        .has_history = state->has_history,
        .keys = p->before.roots[TREE_KEYS].count,
        .sum = p->before.sum,
        .deltas = p->of.deltas,
        .delta_count = p->of.delta_count,
        .limits = {history_minute(o->now_ms), o->history_max},
        .compact = p->store->compact};
    if (state->has_history)
        rc = keyspace_history_get(txn, p->keyspace->dbis[KEYSPACE_META], &p->h);
    rc = history_enter(&p->h, &p->of, rc);
    if (rc == 0)
        return keyspace_history_clear(p->keyspace, txn, state);
    state->has_history = state->has_history || rc > 0;
    return rc;
}

static int
close_history(struct keyspace_history *p, MDB_txn *txn,
              struct keyspace_state *state)
{
    if (!history_explains(&p->h, state->sum))
        return -EBADMSG;
    state->history_due = history_due(&p->h, &p->kv);
    return keyspace_history_put(txn, p->keyspace->dbis[KEYSPACE_META], &p->h);
}

/* ---- what a transaction adds ------------------------------------------- */

int
keyspace_history_begin(struct keyspace_history *p, struct lmdb *s,
                       const struct keyspace *k, MDB_txn *txn,
                       const struct keyspace_state *state)
{
    int rc;

    p->store = s;
    p->keyspace = k;
    p->before = *state;
    p->of.delta_count = 0;
    p->pages = 0;
    p->pager.cursor = NULL;
    p->kv = lmdb_kv(&p->pager);
    rc = keyspace_map_find(txn, k, &p->map);
    return rc < 0 ? rc
                  : lmdb_pager_open(&p->pager, txn, k->dbis[KEYSPACE_HISTORY],
                                    &p->map);
}

void
keyspace_history_end(struct keyspace_history *p)
{
    if (p->pager.cursor != NULL)
        mdb_cursor_close(p->pager.cursor);
    p->pager.cursor = NULL;
}

/* Adds what int64 could not hold to `clipped`; returns how many keys are
 * deleted. */
static size_t
count_clipped(struct keyspace_history *p)
{
    const struct slice *sl = &p->store->slice;
    size_t deleted = 0;

    for (size_t i = 0; i < sl->count; i++) {
        const struct key_change *c = &sl->changes[i];

        if (!c->gone)
            p->h.clipped += (int128)c->old + c->sum - c->new;
        deleted += c->gone && c->exists;
    }
    return deleted;
}

/* Erases the deleted keys from history.  -E2BIG: there are several and their
 * blocks do not fit into one transaction. */
static int
erase_deleted(struct keyspace_history *p, size_t deleted)
{
    const struct slice *sl = &p->store->slice;
    struct history_erasure *keys;
    size_t blocks = SIZE_MAX, n = 0;
    int rc;

    if (deleted == 0)
        return 0;
    if (deleted > 1)
        blocks = edits_budget(p->store, 1);
    keys = calloc(deleted, sizeof *keys);
    if (keys == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < sl->count; i++) {
        const struct key_change *c = &sl->changes[i];

        if (c->gone && c->exists)
            keys[n++] = (struct history_erasure){
                .key = c->key, .key_size = c->key_size, .count = c->old};
    }
    rc = history_erase(&p->h, &p->kv, keys, n, &blocks);
    p->pages += rc == 0 ? blocks : 0;
    free(keys);
    return rc;
}

/* Blocks that a transaction compacts after it has added `added` blocks. */
static size_t
compact_share(const struct keyspace_history *p, uint64_t added)
{
    const uint64_t budget = edits_budget(p->store, p->store->slice.count);
    const uint64_t left = p->pages < budget ? (budget - p->pages) / 2 : 0;
    const uint64_t wanted = HISTORY_SLICE + 10 * added;

    return left < HISTORY_SLICE ? HISTORY_SLICE
                                : (size_t)(wanted < left ? wanted : left);
}

int
keyspace_history_change(struct keyspace_history *p, MDB_txn *txn,
                        struct keyspace_state *state)
{
    struct history_compacted done;
    uint64_t added;
    int rc;

    rc = open_history(p, txn, state);
    if (rc <= 0)
        return rc;
    rc = history_add(&p->h, &p->kv, &p->of, &added);
    if (rc == 0)
        rc = erase_deleted(p, count_clipped(p));
    if (rc < 0)
        return rc;
    p->pages += added;
    rc = history_compact_some(&p->h, &p->kv, &p->of, compact_share(p, added),
                              &done);
    p->pages += done.blocks;
    return rc < 0 ? rc : close_history(p, txn, state);
}

/* ---- compaction alone -------------------------------------------------- */

struct history_maintenance {
    struct keyspace_history history;
    bool sweep; /* only remove blocks of unreferenced runs */
    bool more;
};

static int
make_compaction(struct work *w, MDB_txn *txn, struct keyspace_state *state)
{
    struct history_maintenance *t = w->ctx;
    struct keyspace_history *p = &t->history;
    struct history_compacted done = {.more = false};
    int rc;

    if (!state->has_history)
        return 0;
    rc = keyspace_history_begin(p, p->store, p->keyspace, txn, state);
    if (rc == 0)
        rc = open_history(p, txn, state);
    if (rc > 0) {
        rc = t->sweep ? history_sweep(&p->h, &p->kv, p->store->compact,
                                      HISTORY_SLICE, &done)
                      : history_compact_some(&p->h, &p->kv, &p->of,
                                             HISTORY_SLICE, &done);
        if (rc == 0)
            rc = close_history(p, txn, state);

        /* Compaction that is not possible yet is tried again in an hour. */
        if (state->history_due <= p->of.limits.now)
            state->history_due = done.more ? 0 : p->of.limits.now + 60;
    }
    t->more = done.more;
    keyspace_history_end(p);
    return rc;
}

int
keyspace_history_compact(struct lmdb *s, struct keyspace *k, bool sweep,
                         bool *more)
{
    struct history_maintenance t = {.sweep = sweep};
    struct work w = {.make = make_compaction, .ctx = &t};
    int rc;

    t.history.store = s;
    t.history.keyspace = k;
    rc = keyspace_change(s, k, &w);
    *more = t.more;
    return rc;
}

/* ---- queries ----------------------------------------------------------- */

int
lmdb_history(struct store *store, struct store_history_query *q,
             uint64_t until_ns)
{
    struct lmdb *s = lmdb_of(store);
    struct lmdb_pager pager;
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
    pager = keyspace_pager(s->view.keyspace, KEYSPACE_HISTORY);
    kv = lmdb_kv(&pager);
    if (rc == 0)
        rc = history_answer(&h, &kv, q, until_ns);
    if (rc != -EBADMSG)
        return rc;
    lmdb_read_end(store);
    return keyspace_report(s, q->name, q->name_size, "history", rc);
}
