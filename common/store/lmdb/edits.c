/* common/store/lmdb/edits.c - edits_make(): changes of keys, and the edits of
 * the two trees that follow from them.
 *
 * The old counts are looked up and the tree of keys is edited in key order. The
 * edits of the tree of ranks (a row is removed from one place and inserted at
 * another) are then sorted by rank and applied. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/keyspace_history.h"

#include <errno.h>
#include <stdlib.h>

#define PAGES_MIN 64
#define PAGES_MAX 90000 /* LMDB spills above 131,071 */
#define SLICE_MIN 16    /* changes; fewer are not worth a commit */

/* ---- memory ------------------------------------------------------------ */

void
slice_free(struct slice *sl)
{
    free(sl->changes);
    *sl = (struct slice){.capacity = 0};
}

/* Empties the slice and reserves memory for n changes, in one piece. */
static int
slice_reserve(struct slice *sl, size_t n)
{
    sl->count = 0;
    if (n <= sl->capacity)
        return 0;
    slice_free(sl);
    sl->changes = malloc(n * (sizeof *sl->changes + 4 * sizeof *sl->rows +
                              4 * sizeof *sl->ranks));
    if (sl->changes == NULL)
        return -ENOMEM;
    sl->rows = (struct row *)(sl->changes + n);
    sl->sorted = sl->rows + 2 * n;
    sl->ranks = (struct rank_key *)(sl->sorted + 2 * n);
    sl->ranks2 = sl->ranks + 2 * n;
    sl->capacity = n;
    return 0;
}

/* ---- how much one transaction may do ----------------------------------- */

/* Estimates from above the pages that `edits` edits of a tree with `groups`
 * groups dirty: header and buffer of each group touched, and per edit a share of
 * a group's merge. */
static uint64_t
pages_of_edits(uint64_t groups, uint64_t edits, size_t row)
{
    const uint64_t bytes = edits * (row + 2);
    const uint64_t folds = bytes / (GROUP_TARGET * BLOCK_SIZE / 11);
    const uint64_t touched = edits < groups ? edits : groups;

    return 16 + 5 * touched / 4 + bytes / BLOCK_SIZE +
           (GROUP_TARGET + 2) * (folds < groups ? folds : groups);
}

/* Estimates the pages that `changes` changes of keys of `key_size` bytes dirty.
 */
static uint64_t
tree_pages(const uint64_t groups[KEYSPACE_TREES], size_t changes,
           size_t key_size)
{
    const size_t row = BLOCK_ROW_HEAD + key_size;

    return pages_of_edits(groups[TREE_KEYS], changes, row) +
           pages_of_edits(groups[TREE_RANKS], 2 * changes, row);
}

/* The memory of the changes themselves counts, too. */
uint64_t
edits_budget(const struct lmdb *s, size_t changes)
{
    const uint64_t edits = (uint64_t)changes * SLICE_CHANGE_COST;
    const uint64_t pages =
        edits < s->options.txn_memory
            ? (s->options.txn_memory - edits) / KEYSPACE_PAGE_COST
            : 0;

    return pages < PAGES_MIN   ? PAGES_MIN
           : pages > PAGES_MAX ? PAGES_MAX
                               : pages;
}

/* The most of the `rest` changes left that one transaction should make. Slices
 * are of equal size: each touches most of the tree of ranks, whatever its keys.
 */
static size_t
compute_limit(const struct edits *e, size_t rest)
{
    size_t n = rest, slices;

    while (n > SLICE_MIN &&
           tree_pages(e->groups, n, e->key_size) > edits_budget(e->store, n))
        n -= n / 8 + 1;
    if (n < SLICE_MIN)
        return rest < SLICE_MIN ? rest : SLICE_MIN;
    slices = (rest + n - 1) / n;
    return (rest + slices - 1) / slices;
}

int
edits_begin(struct edits *e, size_t rest)
{
    for (int i = 0; i < KEYSPACE_TREES; i++) {
        MDB_stat st;
        const int rc = lmdb_error(mdb_stat(e->txn, e->keyspace->dbis[i], &st));

        if (rc < 0)
            return rc;
        e->groups[i] = st.ms_entries / GROUP_TARGET + 1;
    }
    if (e->limit == 0)
        e->limit = compute_limit(e, rest);
    return slice_reserve(&e->store->slice, e->limit);
}

/* Returns -EXFULL if the map cannot hold what the changes need. */
static int
check_map(struct edits *e)
{
    const size_t count = e->store->slice.count;
    const size_t times = e->deltas != NULL ? e->delta_count : count;
    const uint64_t history = 8 + times * (e->key_size + 8) / ROWS_SIZE_MAX;
    MDB_envinfo info;
    MDB_stat st;
    const int rc = lmdb_env_sizes(e->keyspace->env, &info, &st);

    if (rc < 0)
        return rc;
    e->map_least = (64 + tree_pages(e->groups, count, e->key_size) + history +
                    info.me_last_pgno) *
                   st.ms_psize;
    return e->map_least > info.me_mapsize ? -EXFULL : 0;
}

/* ---- looking up -------------------------------------------------------- */

int
edits_find(struct tree *keys, struct key_change *c, struct tree_finder *f)
{
    const struct row r = {.key = c->key, .key_size = c->key_size};
    struct row found;
    int rc;

    rc = tree_find(keys, &r, f, &found);
    if (rc == -ENOENT) {
        c->old = 0;
        c->exists = c->was_saturated = false;
        return 0;
    }
    if (rc < 0)
        return rc;
    c->old = found.count;
    c->exists = true;
    c->was_saturated = (found.flags & BLOCK_SATURATED) != 0;
    return 0;
}

static int
find_all(struct edits *e, struct tree *keys)
{
    struct slice *sl = &e->store->slice;
    struct tree_finder finder = {.valid = false};

    e->clipped = 0;
    for (size_t i = 0; i < sl->count; i++) {
        struct key_change *c = &sl->changes[i];
        const int rc = edits_find(keys, c, &finder);

        if (rc < 0)
            return rc;
        c->saturated = c->was_saturated;
        c->new = store_add(c->old, c->sum, &c->saturated);
        e->clipped += (int128)c->old + c->sum - c->new;
    }
    return 0;
}

/* ---- edits ------------------------------------------------------------- */

/* The edit of the tree of keys that removes a key. */
static struct row
remove_key(const struct key_change *c, struct edits *e)
{
    e->applied.keys++;
    e->state->saturated -= c->was_saturated ? 1 : 0;
    e->state->sum -= c->old;
    return (struct row){.count = c->old,
                        .key = c->key,
                        .key_size = c->key_size,
                        .flags = BLOCK_DELETE};
}

static struct row
change_key(const struct key_change *c, struct edits *e)
{
    const unsigned sign = c->exists ? BLOCK_UPDATE : BLOCK_INSERT;
    const uint64_t flagged = c->saturated && !c->was_saturated ? 1 : 0;

    e->applied.keys++;
    e->applied.created += c->exists ? 0 : 1;
    e->applied.saturated += flagged;
    e->state->saturated += flagged;
    e->state->sum += (int128)c->new - c->old;
    return (struct row){
        .count = c->new,
        .key = c->key,
        .key_size = c->key_size,
        .flags = (uint16_t)(sign | (c->saturated ? BLOCK_SATURATED : 0)),
    };
}

/* Makes the edits of the tree of keys; returns their number. */
static size_t
keys_edits(struct edits *e)
{
    struct slice *sl = &e->store->slice;
    size_t n = 0;

    for (size_t i = 0; i < sl->count; i++) {
        const struct key_change *c = &sl->changes[i];

        if (c->gone && c->exists)
            sl->rows[n++] = remove_key(c, e);
        else if (!c->gone && (!c->exists || c->old != c->new ||
                              c->saturated != c->was_saturated))
            sl->rows[n++] = change_key(c, e);
    }
    return n;
}

/* Sorts by the 64-bit key, keeping the order of equals.  Returns the array that
 * holds the result, one of the two. */
static struct rank_key *
rank_sort(struct rank_key *a, struct rank_key *b, size_t n)
{
    for (unsigned shift = 0; shift < 64; shift += 8) {
        size_t starts[256] = {0}, at = 0;
        struct rank_key *swap;

        for (size_t i = 0; i < n; i++)
            starts[a[i].key >> shift & 255]++;
        if (n == 0 || starts[a[0].key >> shift & 255] == n)
            continue; /* all have the same byte here */
        for (size_t i = 0; i < 256; i++) {
            const size_t count = starts[i];

            starts[i] = at;
            at += count;
        }
        for (size_t i = 0; i < n; i++)
            b[starts[a[i].key >> shift & 255]++] = a[i];
        swap = a;
        a = b;
        b = swap;
    }
    return a;
}

static void
rank_edit(struct slice *sl, size_t n, const struct key_change *c, int64_t count,
          unsigned sign)
{
    /* Integers that rise as counts fall. */
    sl->ranks[n] = (struct rank_key){~((uint64_t)count ^ (uint64_t)1 << 63), n};
    sl->rows[n] = (struct row){.count = count,
                               .key = c->key,
                               .key_size = c->key_size,
                               .flags = (uint16_t)sign};
}

/* Makes the edits of the tree of ranks, sorted, in sl->sorted; returns their
 * number.  They are made in key order and the sort is stable, so ties stay in
 * key order. */
static size_t
rank_edits(struct slice *sl)
{
    const struct rank_key *sorted;
    size_t n = 0;

    for (size_t i = 0; i < sl->count; i++) {
        const struct key_change *c = &sl->changes[i];

        if (!c->gone && c->exists && c->old == c->new)
            continue;
        if (c->exists)
            rank_edit(sl, n++, c, c->old, BLOCK_DELETE);
        if (!c->gone)
            rank_edit(sl, n++, c, c->new, BLOCK_INSERT);
    }
    sorted = rank_sort(sl->ranks, sl->ranks2, n);
    for (size_t i = 0; i < n; i++)
        sl->sorted[i] = sl->rows[sorted[i].index];
    return n;
}

/* Looks up the keys and edits their tree, or edits the tree of ranks. */
static int
edit_tree(struct edits *e, int i, struct tree *t)
{
    struct slice *sl = &e->store->slice;
    int rc = 0;

    if (i == TREE_RANKS)
        return tree_apply(t, sl->sorted, rank_edits(sl));
    if (e->veto != NULL)
        rc = e->veto(e->ctx, t);
    if (rc == 0)
        rc = find_all(e, t);
    if (rc < 0)
        return rc;
    return tree_apply(t, sl->rows, keys_edits(e));
}

static int
edit_trees(struct edits *e, const struct pages_map *map)
{
    const uint64_t budget = edits_budget(e->store, e->limit);
    int rc = 0;

    e->pages = 0;
    for (int i = 0; rc == 0 && i < KEYSPACE_TREES; i++) {
        struct lmdb_kv database;
        struct tree t = {
            .kv = lmdb_kv(&database),
            .kind = tree_kind(i),
            .root = e->state->roots[i],
            .work = e->store->work,
            .generation = (uint32_t)e->state->change,
            .pages = e->pages,
            .pages_fold = budget * 3 / 4,
            .pages_max = e->limit > 1 ? budget + budget / 4 : UINT64_MAX,
        };

        rc = lmdb_kv_open(&database, e->txn, e->keyspace->dbis[i], map);
        if (rc < 0)
            break;
        rc = edit_tree(e, i, &t);
        e->state->roots[i] = t.root;
        e->pages = t.pages;
        mdb_cursor_close(database.cursor);
    }
    return rc;
}

int
edits_make(struct edits *e)
{
    const struct keyspace_state before = *e->state;
    struct pages_map map;
    int rc;

    rc = check_map(e);
    if (rc == 0)
        rc = keyspace_map_find(e->txn, e->keyspace, &map);
    if (rc == 0)
        rc = edit_trees(e, &map);
    return rc < 0 ? rc : keyspace_history_change(e, &map, &before);
}
