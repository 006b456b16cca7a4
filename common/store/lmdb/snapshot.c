/* common/store/lmdb/snapshot.c - lmdb_read(): reading.  A view is one snapshot
 * of one keyspace; consecutive queries of a turn for the same keyspace share it
 * (keyspace_use_view()). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/keyspace.h"

#include <errno.h>

/* Queries that share a view: a turn with many connections is long, and its
 * later answers must not show a snapshot from its beginning. */
#define VIEW_USES_MAX 1024

/* ---- views ------------------------------------------------------------- */

static void
view_tree(struct lmdb *s, int i)
{
    const struct keyspace *k = s->view.keyspace;

    s->view.kvs[i] = keyspace_kv(k, i);
    s->view.trees[i] = (struct tree){
        .kv = lmdb_kv(&s->view.kvs[i]),
        .kind = tree_kind(i),
        .root = s->view.state.roots[i],
        .cache = &s->cache,
        .snapshot = k->snapshot,
    };
}

/* Opens the view.  -ENOENT: no such keyspace. */
static int
open_view(struct lmdb *s, const uint8_t *name, size_t name_size)
{
    struct keyspace_state *state = &s->view.state;
    struct keyspace *k;
    int rc;

    if (!store_name_ok(name, name_size))
        return -ENOENT;
    rc = keyspace_get(s, name, name_size, KEYSPACE_FIND, &k);
    if (rc < 0)
        return rc;
    rc = keyspace_read(k);
    if (rc < 0)
        return keyspace_report(s, name, name_size, "begin", rc);
    rc = keyspace_state_get(k->reader, k->dbis[KEYSPACE_META], state);
    if (rc < 0) {
        keyspace_read_end(k);
        return keyspace_report(s, name, name_size, "state", rc);
    }

    /* The same commit of the same file is the same snapshot to the cache. */
    if (k->snapshot == 0 || k->change != state->change ||
        k->nonce != state->nonce) {
        k->snapshot = ++s->snapshots;
        k->change = state->change;
        k->nonce = state->nonce;
    }
    s->view.keyspace = k;
    s->view.uses = 1;
    for (int i = 0; i < KEYSPACE_TREES; i++)
        view_tree(s, i);
    return 0;
}

void
lmdb_read_end(struct store *store)
{
    struct lmdb *s = lmdb_of(store);

    if (s->view.keyspace != NULL)
        keyspace_read_end(s->view.keyspace);
    s->view.keyspace = NULL;
}

int
keyspace_use_view(struct lmdb *s, const uint8_t *name, size_t name_size)
{
    const struct keyspace *k = s->view.keyspace;

    if (k != NULL && s->view.uses < VIEW_USES_MAX &&
        bytes_equal(k->name, k->name_size, name, name_size)) {
        s->view.uses++;
        return 0;
    }
    lmdb_read_end(&s->store);
    return open_view(s, name, name_size);
}

/* ---- queries ----------------------------------------------------------- */

static int
view_get(struct lmdb *s, const struct store_query *q, struct store_row *out)
{
    const struct row r = {.key = q->key, .key_size = (uint16_t)q->key_size};
    struct tree_finder finder;
    struct row found;
    int rc;

    finder.valid = false; /* the rest of it need not be zeros */
    if (q->key_size < 1 || q->key_size > BLOCK_KEY_MAX)
        return -ENOENT;
    rc = tree_find(&s->view.trees[TREE_KEYS], &r, &finder, &found);
    if (rc < 0)
        return rc;
    out->count = found.count;
    out->saturated = (found.flags & BLOCK_SATURATED) != 0;
    return 0;
}

static int
view_rank(struct lmdb *s, struct store_query *q)
{
    struct row r = {.key = q->key, .key_size = (uint16_t)q->key_size};
    int rc;

    rc = view_get(s, q, &q->row);
    if (rc < 0)
        return rc;
    r.count = q->row.count;
    rc = tree_rank(&s->view.trees[TREE_RANKS], &r, &q->rank);

    /* The tree of keys has the key, so the tree of ranks must. */
    return rc == -ENOENT ? -EBADMSG : rc;
}

static int
read_range(struct lmdb *s, struct store_query *q, size_t size_max)
{
    uint64_t offset = (uint64_t)q->offset;
    int64_t size;

    if (q->offset < 0) {
        const uint64_t keys = s->view.state.roots[TREE_KEYS].count;

        offset = 0;
        if (keys > 0 - (uint64_t)q->offset)
            offset = keys + (uint64_t)q->offset;
    }
    if (q->length == 0)
        return 0;
    q->rows = q->length;
    size = tree_range(&s->view.trees[TREE_RANKS], offset, q->bytes, size_max,
                      &q->rows);
    if (size < 0)
        return (int)size;
    q->size = (size_t)size;
    return 0;
}

static int
read_keys(struct lmdb *s, struct store_query *q, size_t size_max)
{
    const int64_t size = tree_keys(&s->view.trees[TREE_KEYS], q, size_max);

    if (size < 0)
        return (int)size;
    q->size = (size_t)size;
    return 0;
}

/* Reads the rows around a key. */
static int
read_around(struct lmdb *s, struct store_query *q, size_t size_max)
{
    int rc;

    rc = view_rank(s, q);
    if (rc < 0)
        return rc;
    q->offset =
        q->rank > q->length / 2 ? (int64_t)(q->rank - q->length / 2) : 0;
    return read_range(s, q, size_max);
}

/* Answers from the view. */
static int
read_view(struct lmdb *s, struct store_query *q, size_t size_max)
{
    switch (q->op) {
    case STORE_GET:
        return view_get(s, q, &q->row);
    case STORE_RANK:
        return view_rank(s, q);
    case STORE_TOTAL:
        q->totals = keyspace_totals(&s->view.state);
        return 0;
    case STORE_AROUND:
        return read_around(s, q, size_max);
    case STORE_KEYS:
        return read_keys(s, q, size_max);
    case STORE_RANGE:
        break;
    }
    return read_range(s, q, size_max);
}

int
lmdb_read(struct store *store, struct store_query *q, size_t size_max)
{
    struct lmdb *s = lmdb_of(store);
    int rc;

    rc = keyspace_use_view(s, q->name, q->name_size);
    if (rc == 0)
        rc = keyspace_report(s, q->name, q->name_size, "read",
                             read_view(s, q, size_max));
    if (rc < 0 && rc != -ENOENT)
        lmdb_read_end(store);
    return rc;
}
