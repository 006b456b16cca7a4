/* common/store/lmdb/keyspace_history.c - see keyspace_history.h:
 * keyspace_history_begin() and _change(), called by a transaction that
 * changes counts; then compaction in transactions of its own, and queries
 * (lmdb_history()). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/keyspace_history.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"

uint32_t
keyspace_history_now(const struct lmdb *s)
{
    const uint64_t ms =
        s->options.now_ms != NULL ? s->options.now_ms() : clock_unix_ms();

    return ms / 60000 < HISTORY_NEVER ? (uint32_t)(ms / 60000) : HISTORY_NEVER;
}

/* ---- the record -------------------------------------------------------- */

/* The tiers that the options set for a keyspace; NULL: keep the stored ones. */
static const struct tiers *
tiers_for(const struct keyspace_history *p, const struct keyspace_state *state)
{
    const struct lmdb_options *o = &p->store->options;

    if (o->history == NULL)
        return NULL;
    if (o->history_of_new &&
        (state->has_history || p->before.roots[TREE_KEYS].count > 0))
        return NULL;
    return tiers_of(o->history, p->keyspace->name, p->keyspace->name_size);
}

/* Whether history adds up to the sum of a keyspace. */
static bool
explains_sum(const struct history *h, const struct keyspace_state *state)
{
    return state->sum == h->base + h->added - h->clipped;
}

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
    static struct diag_repeat others;
    const struct tiers *tiers = tiers_for(p, state);
    char text[NAME_TEXT_SIZE];
    int rc;

    if (tiers == NULL && !state->has_history)
        return 0;
    if (tiers != NULL && tiers->count == 0)
        return keyspace_history_clear(p->keyspace, txn, state);
    if (!state->has_history) {
        state->has_history = true;
        history_begin(&p->h, tiers, keyspace_history_now(p->store),
                      p->before.roots[TREE_KEYS].count == 0, p->before.sum);
        return 1;
    }
    rc = keyspace_history_get(txn, p->keyspace->dbis[KEYSPACE_META], &p->h);
    if (rc < 0)
        return rc;
    if (!explains_sum(&p->h, &p->before))
        return -EBADMSG;
    if (tiers != NULL && !history_set(&p->h, tiers)) {
        (void)name_escape(p->keyspace->name, p->keyspace->name_size, text);
        diag_repeating(&others, DIAG_WARNING,
                       "keyspace=%s: history keeps the steps that it began "
                       "with; set history.%s = off for a while to begin anew",
                       text, text);
    }
    return 1;
}

static int
close_history(struct keyspace_history *p, MDB_txn *txn,
              struct keyspace_state *state)
{
    if (!explains_sum(&p->h, state))
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
    p->delta_count = 0;
    p->pages = 0;
    p->pager.cursor = NULL;
    p->kv = lmdb_kv(&p->pager);
    rc =
        lmdb_map_find(txn, k->dbis[KEYSPACE_META], KEYSPACE_STATE_KEY, &p->map);
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
        const struct change *c = &sl->changes[i];

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
        const struct change *c = &sl->changes[i];

        if (c->gone && c->exists)
            keys[n++] = (struct history_erasure){
                .key = c->key, .key_size = c->key_size, .count = c->old};
    }
    rc = history_erase(&p->h, &p->kv, keys, n, &blocks);
    p->pages += rc == 0 ? blocks : 0;
    free(keys);
    return rc;
}

static void
report_ahead(const struct keyspace_history *p, uint64_t ahead)
{
    static struct diag_repeat repeat;
    char text[NAME_TEXT_SIZE];

    if (ahead == 0)
        return;
    (void)name_escape(p->keyspace->name, p->keyspace->name_size, text);
    diag_repeating(&repeat, DIAG_WARNING,
                   "keyspace=%s: sums=%llu are stamped more than a day ahead "
                   "of the clock; history counts them as of now",
                   text, (unsigned long long)ahead);
}

/* Compacts as much as the additions make necessary, within what the transaction
 * may still write. */
static int
compact_some(struct keyspace_history *p, uint32_t now, size_t blocks)
{
    static struct diag_repeat repeat;
    struct lmdb *s = p->store;
    const struct history_limits limits = {.now = now,
                                          .max = s->options.history_max};
    struct history_compacted done;
    char text[NAME_TEXT_SIZE];
    int rc;

    rc = history_compact(&p->h, &p->kv, s->compact, &limits, blocks, &done);
    p->pages += done.blocks;
    if (rc < 0 || !done.shortened)
        return rc;
    (void)name_escape(p->keyspace->name, p->keyspace->name_size, text);
    diag_repeating(&repeat, DIAG_WARNING,
                   "keyspace=%s: history exceeds history.max: the oldest "
                   "of it is removed before its time",
                   text);
    return 0;
}

static uint64_t
count_blocks(const struct history *h)
{
    uint64_t blocks = 0;

    for (unsigned i = 0; i < h->count; i++)
        blocks += h->tier[i].blocks;
    return blocks;
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
    const uint32_t now = keyspace_history_now(p->store);
    uint64_t ahead = 0, before_it;
    int rc;

    rc = open_history(p, txn, state);
    if (rc <= 0)
        return rc;
    before_it = count_blocks(&p->h);
    rc = history_append(&p->h, &p->kv, p->deltas, p->delta_count, now, &ahead);
    if (rc == -EAGAIN) {
        rc = compact_some(p, now, SIZE_MAX);
        before_it = count_blocks(&p->h);
        if (rc == 0)
            rc = history_append(&p->h, &p->kv, p->deltas, p->delta_count, now,
                                &ahead);
        if (rc == -EAGAIN)
            rc = -EBUSY;
    }
    if (rc == 0)
        rc = erase_deleted(p, count_clipped(p));
    if (rc < 0)
        return rc;
    report_ahead(p, ahead);
    p->pages += count_blocks(&p->h) - before_it;
    rc =
        compact_some(p, now, compact_share(p, count_blocks(&p->h) - before_it));
    return rc < 0 ? rc : close_history(p, txn, state);
}

/* ---- compaction alone -------------------------------------------------- */

struct history_maintenance {
    struct keyspace_history history;
    bool sweep; /* only remove blocks of unreferenced runs */
    bool more;
};

static int
make_compaction(void *ctx, MDB_txn *txn, struct keyspace_state *state,
                size_t *least)
{
    struct history_maintenance *t = ctx;
    struct keyspace_history *p = &t->history;
    struct history_compacted done = {.more = false};
    const uint32_t now = keyspace_history_now(p->store);
    const struct history_limits limits = {.now = now,
                                          .max = p->store->options.history_max};
    int rc;

    (void)least; /* little is written: doubling the map suffices */
    if (!state->has_history)
        return 0;
    rc = keyspace_history_begin(p, p->store, p->keyspace, txn, state);
    if (rc == 0)
        rc = open_history(p, txn, state);
    if (rc > 0) {
        rc = t->sweep ? history_sweep(&p->h, &p->kv, p->store->compact,
                                      HISTORY_SLICE, &done)
                      : history_compact(&p->h, &p->kv, p->store->compact,
                                        &limits, HISTORY_SLICE, &done);
        if (rc == 0)
            rc = close_history(p, txn, state);

        /* Compaction that is not possible yet is tried again in an hour. */
        if (state->history_due <= now)
            state->history_due = done.more ? 0 : now + 60;
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

    if ((q->op == STORE_HISTORY_KEY && q->key_size < 1) ||
        q->key_size > BLOCK_KEY_MAX || q->prefix_size > BLOCK_KEY_MAX)
        return -EINVAL;
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
