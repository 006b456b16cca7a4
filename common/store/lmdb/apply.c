/* common/store/lmdb/apply.c - applying batches exactly once, lmdb_apply(), and
 * removing keys, lmdb_del().
 *
 * The batch is cut into slices by key range, each small enough
 * for one transaction.  Each transaction (make_slice()) reads the marks, which
 * say what is applied: nothing, the deltas up to a key, or all.  It edits both
 * trees by the next slice of what is missing, and writes totals and marks:
 * partial, up to the slice's last key, or done with the last slice.  If the
 * whole batch is applied already, one commit that changes nothing makes that
 * durable: the process that wrote it may have died between commit and sync.
 *
 * What can go wrong:
 *   the map is too small     drop the transaction, enlarge the map, again
 *   too many pages           drop it, halve the slice, again
 *   commit fails             the outcome is unknown: the file is opened again,
 *                            which makes it durable (write.c), and the marks
 *                            tell the next call whether it happened
 *   anything else            drop it; slices committed before stay, and their
 *                            marks say how far they went
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/lmdb/keyspace.h"

#include <errno.h>

/* State of one lmdb_apply() or lmdb_del(). */
struct apply_call {
    const struct store_batch *given;
    /* Keys that are removed, and then there are no deltas; or NULL. */
    const struct store_key *gone;
    size_t count; /* deltas, or keys */
    struct marks marks;
    bool in;        /* the marks say that everything is applied */
    size_t at;      /* first delta, or key, of the slice */
    size_t end;     /* first one after it */
    bool counted;   /* keys_max has been checked */
    struct edits e; /* of the slice */
    struct store_applied total;
};

/* ---- where the batch stands -------------------------------------------- */

/* Whether two fills are applied equally far; only PARTIAL has a last key. */
static bool
is_same_state(const struct mark_found *a, const struct mark_found *b)
{
    const struct store_mark_info x = {.state = a->state};
    const struct store_mark_info y = {.state = b->state};

    return store_marks_agree(&x, &y) &&
           bytes_equal(a->last_key, a->last_key_size, b->last_key,
                       b->last_key_size);
}

/* The index of the first delta whose key is above that of a mark. */
static size_t
first_above(const struct store_batch *given, const struct mark_found *f)
{
    size_t low = 0, high = given->delta_count;

    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        const struct store_delta *d = &given->deltas[mid];

        if (bytes_compare(d->key, d->key_size, f->last_key, f->last_key_size) >
            0)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

/* Finds the delta to continue with from what the marks say is applied; without
 * marks a slice follows the one before. */
static int
find_place(struct apply_call *b, MDB_txn *txn,
           const struct keyspace_state *state)
{
    const struct mark_found *found = b->marks.found;
    int rc;

    if (b->marks.count == 0)
        return 0;
    rc = marks_read(txn, b->e.keyspace->dbis[KEYSPACE_META], state, &b->marks);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < b->marks.count; i++)
        if (found[i].state == STORE_MARK_AHEAD)
            return -EOVERFLOW;
    for (size_t i = 1; i < b->marks.count; i++)
        if (!is_same_state(&found[0], &found[i]))
            return -ESTALE;
    b->in = found[0].state == STORE_MARK_DONE;
    b->at = 0;
    if (b->in)
        b->at = b->given->delta_count;
    else if (found[0].state == STORE_MARK_PARTIAL)
        b->at = first_above(b->given, &found[0]);
    return 0;
}

/* ---- slices ------------------------------------------------------------ */

/* The removal of a key, or the sum of its deltas, from *i on. */
static void
next_change(const struct apply_call *b, size_t *i, struct key_change *c)
{
    const struct store_delta *d, *end;

    if (b->gone) {
        const struct store_key *k = &b->gone[(*i)++];

        *c = (struct key_change){
            .key = k->key, .key_size = (uint16_t)k->key_size, .gone = true};
        return;
    }
    d = &b->given->deltas[*i];
    end = b->given->deltas + b->count;
    c->key = d->key;
    c->key_size = d->key_size;
    c->sum = d->sum;
    c->gone = false;
    for (d++; d < end && bytes_equal(d->key, d->key_size, c->key, c->key_size);
         d++)
        c->sum += d->sum;
    *i = (size_t)(d - b->given->deltas);
}

/* Refuses a batch that would create too many keys, before any of it is applied.
 */
static int
check_quota(void *ctx, struct tree *keys)
{
    struct apply_call *b = ctx;
    struct tree_finder finder = {.valid = false};
    const uint64_t max = b->e.store->options.keys_max;
    uint64_t total = keys->root.count;
    size_t i = b->at;

    if (b->counted || max == 0)
        return 0;
    b->counted = true;
    if (total + (b->count - i) <= max)
        return 0;
    while (i < b->count) {
        struct key_change c;
        int rc;

        next_change(b, &i, &c);
        rc = edits_find(keys, &c, &finder);
        if (rc < 0)
            return rc;
        if (!c.exists && ++total > max)
            return -EDQUOT;
    }
    return 0;
}

static int
write_marks(struct apply_call *b, MDB_txn *txn, struct keyspace_state *state)
{
    const struct store_delta *last =
        b->end < b->count ? &b->given->deltas[b->end - 1] : NULL;

    return marks_write(txn, b->e.keyspace->dbis[KEYSPACE_META], state,
                       &b->marks, last);
}

/* Makes the next slice: as many changes from b->at on as fit, in both trees and
 * in history.  Sums of 0 stay: whether +5 and -5 arrive in one batch or in two
 * must not change which keys exist. */
static int
make_edits(struct apply_call *b)
{
    struct slice *sl = &b->e.store->slice;
    struct edits *e = &b->e;
    int rc;

    e->deltas = b->gone ? NULL : &b->given->deltas[b->at];
    e->key_size = b->gone ? b->gone[b->at].key_size : e->deltas->key_size;
    rc = edits_begin(e, b->count - b->at);
    if (rc < 0)
        return rc;
    while (b->end < b->count && sl->count < e->limit)
        next_change(b, &b->end, &sl->changes[sl->count++]);
    e->delta_count = b->gone ? 0 : b->end - b->at;
    return edits_make(e);
}

/* Does everything but the commit. */
static int
make_slice(struct work *w, MDB_txn *txn, struct keyspace_state *state)
{
    struct apply_call *b = w->ctx;
    int rc;

    b->e.txn = txn;
    b->e.state = state;
    b->e.applied = (struct store_applied){.commits = 1};
    b->e.pages = 0;
    rc = find_place(b, txn, state);
    if (rc < 0)
        return rc;
    b->end = b->at;
    if (b->at < b->count) {
        rc = make_edits(b);
        w->map_least = b->e.map_least;
        if (rc < 0)
            return rc;
    }
    return b->in || b->marks.count == 0 ? 0 : write_marks(b, txn, state);
}

/* ---- one slice, one transaction ---------------------------------------- */

/* Applies the next slice. */
static int
apply_slice(struct apply_call *b)
{
    struct work w = {.make = make_slice, .ctx = b};
    struct lmdb *s = b->e.store;
    int rc;

    while ((rc = keyspace_change(s, b->e.keyspace, &w)) == -E2BIG &&
           b->e.limit > 1)
        b->e.limit /= 2;
    if (rc < 0 && b->e.keyspace->env == NULL) {
        rc = keyspace_disk_error(s, rc, b->e.pages * KEYSPACE_PAGE_COST);
        /* Repairs what the commit left, or the next call does: only the last
         * keyspace whose commit failed is known to the store. */
        (void)keyspace_get(s, b->given->name, b->given->name_size,
                           KEYSPACE_FIND, &b->e.keyspace);
    }
    if (rc < 0)
        return rc;
    b->at = b->end;
    b->e.limit = 0;
    b->total.keys += b->e.applied.keys;
    b->total.created += b->e.applied.created;
    b->total.saturated += b->e.applied.saturated;
    b->total.commits += b->e.applied.commits;
    keyspace_free_pages(s, b->e.keyspace, b->e.pages, b->at == b->count);
    return 0;
}

/* ---- the batch --------------------------------------------------------- */

/* Applies all slices, at least one: that makes durable what an earlier call has
 * left.  `what` it is in a message. */
static int
apply_all(struct apply_call *b, const char *what)
{
    const struct store_batch *g = b->given;
    int rc;

    /* Without deltas no keyspace is created.  (Deltas that sum to 0 still need
     * the marks: each log of the batch may be freed before the others.) */
    rc = keyspace_get(b->e.store, g->name, g->name_size,
                      g->delta_count == 0 ? KEYSPACE_FIND : KEYSPACE_CREATE,
                      &b->e.keyspace);
    b->total.at_keyspace_max = rc == -EDQUOT;
    if (rc < 0)
        return rc;
    do {
        if (b->e.keyspace->env == NULL)
            rc = keyspace_get(b->e.store, g->name, g->name_size, KEYSPACE_FIND,
                              &b->e.keyspace);
        if (rc == 0)
            rc = apply_slice(b);
    } while (rc == 0 && b->at < b->count);
    return rc == -ESTALE || rc == -EDQUOT || rc == -EOVERFLOW
               ? rc
               : keyspace_report(b->e.store, g->name, g->name_size, what, rc);
}

int
lmdb_apply(struct store *store, const struct store_batch *given,
           struct store_applied *applied)
{
    struct lmdb *s = lmdb_lane(store, given->name, given->name_size);
    struct apply_call b = {.given = given,
                           .count = given->delta_count,
                           .e = {.store = s, .veto = check_quota, .ctx = &b}};
    int rc;

    *applied = (struct store_applied){.keys = 0};
    rc = marks_init(&b.marks, given->marks, given->mark_count);
    if (rc < 0)
        return rc;
    lmdb_read_end(&s->store);
    rc = apply_all(&b, "apply");
    marks_fini(&b.marks);
    /* What all lanes keep is not more than one commit may take. */
    if (s->slice.capacity * SLICE_CHANGE_COST >
        s->options.txn_memory / s->options.lanes)
        slice_free(&s->slice);
    *applied = b.total;
    if (rc == -EAGAIN)
        applied->holder = s->holder;
    return rc == -ENOENT && given->delta_count == 0 ? 0 : rc;
}

int
lmdb_del(struct store *store, struct store_deletion *asked)
{
    const struct store_batch named = {.name = asked->name,
                                      .name_size = asked->name_size};
    const uint64_t before = asked->deleted;
    struct lmdb *s = lmdb_of(store);
    int rc = -ESTALE;

    for (size_t i = 0; i < asked->count; i++)
        if (asked->keys[i].key_size < 1 ||
            asked->keys[i].key_size > BLOCK_KEY_MAX)
            return -EINVAL;
    lmdb_read_end(store);

    /* A file that took the place of another may have all keys. */
    for (int i = 0; i < 2 && rc == -ESTALE; i++) {
        struct apply_call b = {.given = &named,
                               .gone = asked->keys,
                               .count = asked->count,
                               .e.store = s};

        rc = apply_all(&b, "del");
        asked->deleted = before + b.total.keys;
    }
    keyspace_repair(s, asked->name, asked->name_size);
    return rc;
}
