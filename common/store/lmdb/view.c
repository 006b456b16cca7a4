/* common/store/lmdb/view.c - common/store/lmdb/lmdb.h on LMDB: views. */
#include "common/store/lmdb/keyspace.h"

#include <assert.h>
#include <errno.h>

#include "common/base/clock.h"

#define TRUST_MS 60000 /* a value that was checked is checked again after */

static struct tree
view_tree(struct lmdb *s, const struct keyspace *k, struct lmdb_pager *pager,
          enum block_order kind, const struct tree_root *root)
{
    return (struct tree){
        .pager = lmdb_pager(pager),
        .kind = kind,
        .root = *root,
        .cache = &s->cache,
        .snapshot = k->snapshot,
    };
}

/* Now and then all values are checked again, so that damage to those in use is
 * seen. */
static void
forget_checks(struct lmdb *s)
{
    const uint64_t now = clock_ms();

    if (now - s->forgot_ms < TRUST_MS)
        return;
    s->forgot_ms = now;
    tree_cache_forget(&s->cache);
}

int
lmdb_view_open(struct lmdb *s, const uint8_t *name, size_t name_size,
               struct lmdb_view **out)
{
    struct lmdb_view *v = &s->view;
    struct keyspace *k;
    int rc;

    assert(v->keyspace == NULL); /* one view per handle */
    if (name_size < 1 || name_size > NAME_MAX_SIZE)
        return -ENOENT;
    rc = keyspace_get(s, name, name_size, KEYSPACE_FIND, &k);
    if (rc < 0)
        return rc;
    forget_checks(s);
    rc = keyspace_read(k);
    if (rc < 0)
        return keyspace_trouble(s, name, name_size, "begin", rc);
    rc = keyspace_state_get(k->reader, k->meta, &v->state);
    if (rc < 0) {
        keyspace_read_end(k);
        return keyspace_trouble(s, name, name_size, "state", rc);
    }

    /* The same commit in the same place as last time is the same snapshot. */
    if (k->snapshot == 0 || k->change != v->state.change ||
        k->nonce != v->state.nonce) {
        k->snapshot = ++s->snapshots;
        k->change = v->state.change;
        k->nonce = v->state.nonce;
    }
    v->store = s;
    v->keyspace = k;

    /* Cursors follow the snapshot when they are used. */
    v->keys_pager = (struct lmdb_pager){
        .txn = k->reader, .cursor = k->keys_cursor, .renew = true};
    v->ranks_pager = (struct lmdb_pager){
        .txn = k->reader, .cursor = k->ranks_cursor, .renew = true};
    v->keys = view_tree(s, k, &v->keys_pager, BLOCK_KEYS, &v->state.keys);
    v->ranks = view_tree(s, k, &v->ranks_pager, BLOCK_RANKS, &v->state.ranks);
    *out = v;
    return 0;
}

void
lmdb_view_close(struct lmdb_view *v)
{
    keyspace_read_end(v->keyspace);
    v->keyspace = NULL;
}

/* Says what is wrong with the file, unless that is just an answer. */
static int
outcome(struct lmdb_view *v, const char *what, int rc)
{
    if (rc >= 0 || rc == -ENOENT)
        return rc;
    return keyspace_trouble(v->store, v->keyspace->name, v->keyspace->name_size,
                            what, rc);
}

int
lmdb_view_totals(struct lmdb_view *v, struct store_totals *out)
{
    *out = (struct store_totals){
        .keys = v->state.keys.count,
        .sum_high = (int64_t)(v->state.sum >> 64),
        .sum_low = (uint64_t)v->state.sum,
        .saturated = v->state.saturated,
    };
    return 0;
}

int64_t
lmdb_view_range(struct lmdb_view *v, uint64_t offset, uint64_t length,
                uint8_t *bytes, size_t size, uint64_t *rows)
{
    int64_t done;

    done = tree_range(&v->ranks, offset, length, bytes, size, rows);
    if (done < 0)
        return outcome(v, "range", (int)done);
    return done;
}

int
lmdb_view_get(struct lmdb_view *v, const uint8_t *key, size_t key_size,
              struct store_row *out)
{
    const struct row r = {.key = key, .key_size = (uint16_t)key_size};
    struct tree_finder finder = {.valid = false};
    struct row found;
    int rc;

    if (key_size < 1 || key_size > BLOCK_KEY_MAX)
        return -ENOENT;
    rc = tree_find(&v->keys, &r, &finder, &found);
    if (rc < 0)
        return outcome(v, "get", rc);
    out->count = found.count;
    out->saturated = (found.flags & BLOCK_SATURATED) != 0;
    return 0;
}

int
lmdb_view_rank(struct lmdb_view *v, const uint8_t *key, size_t key_size,
               uint64_t *rank)
{
    struct row r = {.key = key, .key_size = (uint16_t)key_size};
    struct store_row row;
    int rc;

    rc = lmdb_view_get(v, key, key_size, &row);
    if (rc < 0)
        return rc;
    r.count = row.count;
    rc = tree_rank(&v->ranks, &r, rank);

    /* The keys order has it, so the rank order must. */
    return outcome(v, "rank", rc == -ENOENT ? -EBADMSG : rc);
}

struct scan {
    int (*row)(void *ctx, const uint8_t *key, size_t key_size,
               const struct store_row *r);
    void *ctx;
    bool stopped; /* by `row`: its code is no error of ours */
};

static int
scan_row(void *ctx, const struct row *r)
{
    struct scan *scan = ctx;
    const struct store_row row = {
        .count = r->count,
        .saturated = (r->flags & BLOCK_SATURATED) != 0,
    };
    const int rc = scan->row(scan->ctx, r->key, r->key_size, &row);

    scan->stopped = rc != 0;
    return rc;
}

int
lmdb_view_scan(struct lmdb_view *v, const uint8_t *after, size_t after_size,
               int (*row)(void *ctx, const uint8_t *key, size_t key_size,
                          const struct store_row *r),
               void *ctx)
{
    struct scan scan = {.row = row, .ctx = ctx};
    const struct row from = {.key = after, .key_size = (uint16_t)after_size};
    int rc;

    if (after != NULL && after_size > BLOCK_KEY_MAX)
        return -EINVAL;
    rc = tree_scan(&v->keys, after != NULL ? &from : NULL, scan_row, &scan);
    return scan.stopped ? rc : outcome(v, "scan", rc);
}
