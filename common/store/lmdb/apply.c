/* common/store/lmdb/apply.c - common/store/lmdb/lmdb.h on LMDB: applying
 * batches exactly once.
 *
 * The happy path of store_apply: the batch is cut into slices by key range,
 * each small enough for one transaction.  A slice reads the marks again and
 * compares them with what the sums were made from, looks up the old counts,
 * edits the keys order in key order, sorts what that means for the rank order
 * and edits it, and writes totals, state and marks: PARTIAL up to the slice's
 * last key, DONE with the last slice.  One commit, then the next slice.
 *
 * What can go wrong:
 *   the map is too small     drop the transaction, double the map, again
 *   too many pages           drop it, halve the slice, again
 *   commit fails             nobody knows: close the environment, open it
 *                            again, force a sync, and read the marks: they
 *                            say whether it happened
 *   anything else            drop it; slices committed before stay, and their
 *                            marks say how far they went
 */
#include "common/store/lmdb/keyspace.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#define PAGES_MIN   64
#define PAGES_MAX   90000 /* LMDB spills above 131,071 */
#define CHANGE_COST 256   /* memory of one change in a slice */
#define SLICE_MIN   16    /* changes; less is not worth a commit */
#define GROUP_ROWS  1500  /* about, for estimates */

/* One store_apply on its way. */
struct batch {
    struct lmdb *store;
    const uint8_t *name;
    size_t name_size;
    const struct store_mark *marks;
    struct lmdb_mark_info *expect; /* what the marks must say now */
    size_t mark_count;
    const struct store_delta *deltas;
    size_t count;
    size_t at;          /* first delta of the slice */
    size_t end;         /* first delta behind it */
    size_t limit;       /* changes a slice may have */
    size_t used;        /* changes it has */
    bool checked;       /* keys_max has been looked at */
    uint64_t groups[2]; /* of the two orders, about */
    uint64_t pages;     /* the slice has written, about */
    struct keyspace_state state;
    struct store_applied slice;
    struct store_applied total;
};

/* ---- the handle ---- */

int
lmdb_open(struct lmdb **out, const struct lmdb_options *options)
{
    struct lmdb *s = calloc(1, sizeof *s);
    int rc = -ENOMEM;

    if (s == NULL)
        return -ENOMEM;
    s->options = *options;
    s->txn_memory = options->txn_memory;

    /* One for a view, one for what is opened beside it. */
    if (s->options.open_max < 2)
        s->options.open_max = 2;
    s->slots = calloc(s->options.open_max, sizeof *s->slots);
    if (s->slots == NULL)
        goto fail;
    if (options->writable) {
        s->work = order_work_new();
        if (s->work == NULL)
            goto fail;
        if (getrandom(&s->nonce, sizeof s->nonce, 0) < 0) {
            rc = -errno;
            goto fail;
        }
        keyspace_file_clean(options->keyspace_fd);
    }
    *out = s;
    return 0;

fail:
    lmdb_close(s);
    return rc;
}

static void
slice_free(struct slice *sl)
{
    free(sl->changes);
    free(sl->rows);
    free(sl->sorted);
    free(sl->ranks);
    free(sl->ranks2);
    *sl = (struct slice){.capacity = 0};
}

void
lmdb_close(struct lmdb *s)
{
    if (s == NULL)
        return;
    if (s->view.keyspace != NULL)
        lmdb_view_close(&s->view);
    for (unsigned i = 0; s->slots != NULL && i < s->options.open_max; i++)
        keyspace_close(&s->slots[i]);
    free(s->slots);
    order_work_free(s->work);
    slice_free(&s->slice);
    free(s);
}

void
lmdb_rest(struct lmdb *s)
{
    for (unsigned i = 0; i < s->options.open_max; i++)
        if (!s->slots[i].reading)
            keyspace_close(&s->slots[i]);
}

void
lmdb_txn_memory(struct lmdb *s, size_t txn_memory)
{
    s->txn_memory = txn_memory;
}

static bool
name_ok(const uint8_t *name, size_t size)
{
    return size >= 1 && size <= NAME_MAX_SIZE &&
           memchr(name, '\0', size) == NULL;
}

/* ---- marks ---- */

static int
read_marks(MDB_txn *txn, const struct keyspace *k,
           const struct store_mark *marks, size_t count,
           struct lmdb_mark_info *infos)
{
    for (size_t i = 0; i < count; i++) {
        const int rc = keyspace_mark_info(txn, k->meta, &marks[i], &infos[i]);

        if (rc < 0)
            return rc;
    }
    return 0;
}

int
lmdb_marks(struct lmdb *s, const uint8_t *name, size_t name_size,
           const struct store_mark *marks, size_t mark_count,
           struct lmdb_mark_info *infos)
{
    struct keyspace *k;
    int rc;

    if (!name_ok(name, name_size))
        return -EINVAL;
    rc = keyspace_get(s, name, name_size, KEYSPACE_FIND, &k);
    if (rc == -ENOENT) {
        for (size_t i = 0; i < mark_count; i++)
            infos[i] = (struct lmdb_mark_info){.state = STORE_MARK_NONE};
        return 0;
    }
    if (rc < 0)
        return rc;
    rc = keyspace_read(k);
    if (rc < 0)
        return keyspace_trouble(s, name, name_size, "begin", rc);
    rc = read_marks(k->reader, k, marks, mark_count, infos);
    keyspace_read_end(k);
    return rc < 0 ? keyspace_trouble(s, name, name_size, "marks", rc) : 0;
}

/* What the mark says once the slice is in. */
static struct lmdb_mark_info
mark_after(const struct batch *b, size_t i)
{
    struct lmdb_mark_info info = b->expect[i];
    const struct store_delta *last;

    if (info.state == STORE_MARK_DONE || b->end == b->count) {
        info.state = STORE_MARK_DONE;
        info.last_key_size = 0;
        return info;
    }
    last = &b->deltas[b->end - 1];

    /* A log of which more is in already stays where it is: its records up to
     * there are not in this batch. */
    if (info.state == STORE_MARK_PARTIAL) {
        const struct row had = {.key = info.last_key,
                                .key_size = info.last_key_size};
        const struct row now = {.key = last->key, .key_size = last->key_size};

        if (row_compare_keys(&had, &now) >= 0)
            return info;
    }
    info.state = STORE_MARK_PARTIAL;
    info.last_key_size = last->key_size;
    memcpy(info.last_key, last->key, last->key_size);
    return info;
}

static int
write_marks(MDB_txn *txn, const struct keyspace *k, const struct batch *b)
{
#ifdef COUNTD_MUTANT_NO_MARK
    (void)txn; /* a planted bug for `make mutants`: marks are not written */
    (void)k;   /* likewise */
    (void)b;   /* likewise */
    (void)mark_after;
#else
    for (size_t i = 0; i < b->mark_count; i++) {
        const struct lmdb_mark_info info = mark_after(b, i);
        struct keyspace_mark m = {
            .epoch = b->marks[i].epoch,
            .first_ms = b->marks[i].first_ms,
            .done = info.state == STORE_MARK_DONE,
            .last_key_size = info.last_key_size,
        };
        int rc;

        memcpy(m.last_key, info.last_key, info.last_key_size);
        rc = keyspace_mark_put(txn, k->meta, b->marks[i].uuid, &m);
        if (rc < 0)
            return rc;
    }
#endif
    return 0;
}

static bool
same_info(const struct lmdb_mark_info *a, const struct lmdb_mark_info *b)
{
    if (a->state != b->state)
        return false;
    return a->state != STORE_MARK_PARTIAL ||
           (a->last_key_size == b->last_key_size &&
            memcmp(a->last_key, b->last_key, a->last_key_size) == 0);
}

/* -ESTALE unless every mark still says what it is expected to. */
static int
check_marks(MDB_txn *txn, const struct keyspace *k, const struct batch *b)
{
    for (size_t i = 0; i < b->mark_count; i++) {
        struct lmdb_mark_info now;
        const int rc = keyspace_mark_info(txn, k->meta, &b->marks[i], &now);

        if (rc < 0)
            return rc;
        if (!same_info(&now, &b->expect[i]))
            return -ESTALE;
    }
    return 0;
}

/* ---- slices: which keys, what becomes of them ---- */

static int128
delta_sum(const struct store_delta *d)
{
    return (int128)d->sum_high * ((int128)1 << 64) + (int128)d->sum_low;
}

static bool
same_key(const struct store_delta *a, const struct store_delta *b)
{
    return a->key_size == b->key_size &&
           memcmp(a->key, b->key, a->key_size) == 0;
}

/* Groups that `edits` uniform ones touch: groups * (1 - e^(-edits / groups)),
 * from above, by steps of the exponential. */
static uint64_t
touched(uint64_t groups, uint64_t edits)
{
    uint64_t left = groups;

    for (unsigned i = 0; i < 8 && edits >= groups / 2; i++) {
        left = left * 5 / 8; /* e^(-1/2) is 0.607 */
        edits -= groups / 2;
    }
    return groups - left + (edits < left ? edits : left);
}

/* Pages that n edits of an order with so many groups dirty, about: header and
 * buffer of each group touched, and a share of its fold per edit. */
static uint64_t
order_pages(uint64_t groups, uint64_t edits, size_t row)
{
    const uint64_t bytes = edits * (row + 2);
    const uint64_t folds = bytes / (ORDER_GROUP_TARGET * BLOCK_SIZE / 11);

    return 16 + 5 * touched(groups, edits) / 4 + bytes / BLOCK_SIZE +
           (ORDER_GROUP_TARGET + 2) * (folds < groups ? folds : groups);
}

/* Pages a slice of n changes dirties, about. */
static uint64_t
estimate_pages(const struct batch *b, size_t n)
{
    const size_t row = b->count > 0
                           ? (size_t)BLOCK_ROW_HEAD + b->deltas[b->at].key_size
                           : BLOCK_ROW_HEAD;

    return order_pages(b->groups[0], n, row) +
           order_pages(b->groups[1], 2 * n, row);
}

/* Pages that a slice of n changes may dirty: what its own memory leaves. */
static uint64_t
pages_budget(const struct lmdb *s, size_t n)
{
    const uint64_t edits = (uint64_t)n * CHANGE_COST;
    const uint64_t pages = edits < s->txn_memory
                               ? (s->txn_memory - edits) / KEYSPACE_PAGE_COST
                               : 0;

    return pages < PAGES_MIN   ? PAGES_MIN
           : pages > PAGES_MAX ? PAGES_MAX
                               : pages;
}

/* How many changes the next slice may have; slices are of a size, since each
 * touches most of the rank order, whatever its keys. */
static size_t
slice_limit(const struct batch *b)
{
    const size_t rest = b->count - b->at;
    size_t n = rest, slices;

    while (n > SLICE_MIN && estimate_pages(b, n) > pages_budget(b->store, n))
        n -= n / 8 + 1;
    if (n < SLICE_MIN)
        return rest < SLICE_MIN ? rest : SLICE_MIN;
    slices = (rest + n - 1) / n;
    return (rest + slices - 1) / slices;
}

static int
slice_reserve(struct slice *sl, size_t n)
{
    if (n <= sl->capacity)
        return 0;
    slice_free(sl);
    sl->changes = malloc(n * sizeof *sl->changes);
    sl->rows = malloc(2 * n * sizeof *sl->rows);
    sl->sorted = malloc(2 * n * sizeof *sl->sorted);
    sl->ranks = malloc(2 * n * sizeof *sl->ranks);
    sl->ranks2 = malloc(2 * n * sizeof *sl->ranks2);
    if (sl->changes == NULL || sl->rows == NULL || sl->sorted == NULL ||
        sl->ranks == NULL || sl->ranks2 == NULL) {
        slice_free(sl);
        return -ENOMEM;
    }
    sl->capacity = n;
    return 0;
}

/* Sums the deltas from b->at on into changes, as many as fit.  Sums of 0 stay:
 * whether +5 and -5 come in one batch or in two must make no difference to
 * what keys there are. */
static void
slice_fill(struct batch *b)
{
    struct change *changes = b->store->slice.changes;
    size_t i = b->at, n = 0;

    while (i < b->count) {
        const struct store_delta *first = &b->deltas[i];
        int128 sum = 0;

        if (n == b->limit)
            break;
        while (i < b->count && same_key(first, &b->deltas[i]))
            sum += delta_sum(&b->deltas[i++]);
        changes[n++] = (struct change){
            .key = first->key, .key_size = first->key_size, .sum = sum};
    }
    b->end = i;
    b->used = n;
}

/* Adds, keeping to the range of int64. */
static void
change_apply(struct change *c)
{
    int128 now = (int128)c->old + c->sum;

    c->saturated = c->was_saturated;
    if (now > INT64_MAX) {
        now = INT64_MAX;
        c->saturated = true;
    } else if (now < INT64_MIN) {
        now = INT64_MIN;
        c->saturated = true;
    }
    c->new = (int64_t)now;
}

static int
lookup(struct order *keys, struct change *c, struct order_finder *f)
{
    const struct row r = {.key = c->key, .key_size = c->key_size};
    struct row found;
    int rc;

    rc = order_find(keys, &r, f, &found);
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
lookup_all(struct batch *b, struct order *keys)
{
    struct order_finder finder = {.valid = false};

    for (size_t i = 0; i < b->used; i++) {
        struct change *c = &b->store->slice.changes[i];
        const int rc = lookup(keys, c, &finder);

        if (rc < 0)
            return rc;
        change_apply(c);
    }
    return 0;
}

/* Refuses a batch that would make too many keys, before any of it is in. */
static int
check_quota(struct batch *b, struct order *keys)
{
    struct order_finder finder = {.valid = false};
    const uint64_t max = b->store->options.keys_max;
    uint64_t total = b->state.keys.count;
    size_t i = 0;

    if (b->checked || max == 0)
        return 0;
    b->checked = true;
    if (total + b->count <= max)
        return 0;
    while (i < b->count) {
        const struct store_delta *first = &b->deltas[i];
        struct change c = {.key = first->key, .key_size = first->key_size};
        int rc;

        while (i < b->count && same_key(first, &b->deltas[i]))
            c.sum += delta_sum(&b->deltas[i++]);
        rc = lookup(keys, &c, &finder);
        if (rc < 0)
            return rc;
        if (!c.exists && ++total > max)
            return -EDQUOT;
    }
    return 0;
}

/* ---- edits ---- */

/* The keys order's edits; returns how many. */
static size_t
keys_edits(struct batch *b)
{
    struct slice *sl = &b->store->slice;
    size_t n = 0;

    for (size_t i = 0; i < b->used; i++) {
        const struct change *c = &sl->changes[i];
        const unsigned sign = c->exists ? BLOCK_UPDATE : BLOCK_INSERT;

        if (c->exists && c->old == c->new && c->saturated == c->was_saturated)
            continue;
        b->slice.keys++;
        b->slice.created += c->exists ? 0 : 1;
        b->slice.saturated += c->saturated && !c->was_saturated ? 1 : 0;
        b->state.saturated += c->saturated && !c->was_saturated ? 1 : 0;
        b->state.sum += (int128)c->new - c->old;
        sl->rows[n++] = (struct row){
            .count = c->new,
            .key = c->key,
            .key_size = c->key_size,
            .flags = (uint16_t)(sign | (c->saturated ? BLOCK_SATURATED : 0)),
        };
    }
    return n;
}

/* Sorts by the 64-bit key, keeping the order of equals; the result is in one
 * of the two arrays, which is returned. */
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

/* An integer that rises as counts fall. */
static uint64_t
rank_of(int64_t count)
{
    return ~((uint64_t)count ^ (uint64_t)1 << 63);
}

/* The rank order's edits, sorted, in slice.sorted; returns how many.  They
 * are made in key order and the sort is stable, so ties come out by key. */
static size_t
rank_edits(struct batch *b)
{
    struct slice *sl = &b->store->slice;
    const struct rank_key *sorted;
    size_t n = 0;

    for (size_t i = 0; i < b->used; i++) {
        const struct change *c = &sl->changes[i];
        struct row r = {.key = c->key, .key_size = c->key_size};

        if (c->exists && c->old == c->new)
            continue;
        if (c->exists) {
            r.count = c->old;
            r.flags = BLOCK_DELETE;
            sl->ranks[n] = (struct rank_key){rank_of(r.count), n};
            sl->rows[n++] = r;
        }
        r.count = c->new;
        r.flags = BLOCK_INSERT;
        sl->ranks[n] = (struct rank_key){rank_of(r.count), n};
        sl->rows[n++] = r;
    }
    sorted = rank_sort(sl->ranks, sl->ranks2, n);
    for (size_t i = 0; i < n; i++)
        sl->sorted[i] = sl->rows[sorted[i].index];
    return n;
}

static int
open_order(struct batch *b, MDB_txn *txn, MDB_dbi dbi, enum block_order kind,
           const struct order_root *root, struct order *o)
{
    const uint64_t budget = pages_budget(b->store, b->limit);

    *o = (struct order){
        .txn = txn,
        .kind = kind,
        .root = *root,
        .work = b->store->work,
        .generation = (uint32_t)b->state.change,
        .pages_fold = budget * 3 / 4,
        .pages_max = b->limit > 1 ? budget + budget / 4 : UINT64_MAX,
    };
    return order_error(mdb_cursor_open(txn, dbi, &o->cursor));
}

static int
apply_ranks(struct batch *b, MDB_txn *txn, const struct keyspace *k,
            uint64_t pages)
{
    const size_t n = rank_edits(b);
    struct order o;
    int rc;

    rc = open_order(b, txn, k->ranks, BLOCK_RANKS, &b->state.ranks, &o);
    if (rc < 0)
        return rc;
    o.pages = pages;
    rc = order_apply(&o, b->store->slice.sorted, n);
    b->state.ranks = o.root;
    b->pages = o.pages;
    mdb_cursor_close(o.cursor);
    return rc;
}

static int
apply_orders(struct batch *b, MDB_txn *txn, const struct keyspace *k)
{
    struct order o;
    uint64_t pages;
    int rc;

    rc = open_order(b, txn, k->keys, BLOCK_KEYS, &b->state.keys, &o);
    if (rc < 0)
        return rc;
    rc = check_quota(b, &o);
    if (rc == 0)
        rc = lookup_all(b, &o);
    if (rc == 0)
        rc = order_apply(&o, b->store->slice.rows, keys_edits(b));
    b->state.keys = o.root;
    pages = o.pages;
    mdb_cursor_close(o.cursor);
    if (rc < 0)
        return rc;
    return apply_ranks(b, txn, k, pages);
}

/* ---- one slice, one transaction ---- */

/* Everything but the commit. */
static int
slice_write(struct batch *b, MDB_txn *txn, const struct keyspace *k)
{
    int rc;

    rc = check_marks(txn, k, b);
    if (rc < 0)
        return rc;
    rc = keyspace_state_get(txn, k->meta, &b->state);
    if (rc < 0)
        return rc;
    b->slice = (struct store_applied){.commits = 1};
    b->pages = 0;
    b->state.change++;
    b->state.nonce = ++b->store->nonce;

    /* The file may owe its name to a creator that died before it synced the
     * directory, and logs are emptied for what is committed under it.  The
     * creator's own commit was change 1. */
    if (b->state.change == 2 && fsync(b->store->options.keyspace_fd) < 0)
        return -errno;
    if (b->used > 0) {
        rc = apply_orders(b, txn, k);
        if (rc < 0)
            return rc;
    }
    rc = write_marks(txn, k, b);
    if (rc < 0)
        return rc;
    return keyspace_state_put(txn, k->meta, &b->state);
}

/* Whether the slice is in, by marks or by the commit itself. */
static int
look_for_slice(const struct batch *b, const struct keyspace *k, bool *in)
{
    struct keyspace_state now;
    bool all = true, any = false;
    int rc;

    rc = keyspace_state_get(k->reader, k->meta, &now);
    for (size_t i = 0; rc == 0 && i < b->mark_count; i++) {
        const struct lmdb_mark_info want = mark_after(b, i);
        struct lmdb_mark_info is;

        rc = keyspace_mark_info(k->reader, k->meta, &b->marks[i], &is);
        all = all && same_info(&is, &want);
        any = any || !same_info(&is, &b->expect[i]);
    }
    *in = (all && any) ||
          (now.change == b->state.change && now.nonce == b->state.nonce);
    return rc;
}

/* A commit that changes nothing but its own number. */
static int
commit_fence(struct lmdb *s, struct keyspace *k)
{
    struct keyspace_state state;
    MDB_txn *txn;
    int rc;

    rc = keyspace_write(s, k, &txn);
    if (rc < 0)
        return rc;
    rc = keyspace_state_get(txn, k->meta, &state);
    state.change++;
    state.nonce = ++s->nonce;
    if (rc == 0)
        rc = keyspace_state_put(txn, k->meta, &state);
    if (rc == 0)
        return order_error(mdb_txn_commit(txn));
    mdb_txn_abort(txn);
    return rc;
}

/* After a failed commit: opens the keyspace anew and reads what is there.
 * 0: it happened after all; else `failed`. */
static int
read_outcome(struct batch *b, struct keyspace **k, int failed)
{
    bool in = false;
    int rc;

    keyspace_close(*k);
    rc = keyspace_get(b->store, b->name, b->name_size, KEYSPACE_FIND, k);
    if (rc < 0)
        return failed;
    rc = order_error(mdb_env_sync((*k)->env, 1));
    if (rc == 0)
        rc = keyspace_read(*k);
    if (rc < 0)
        return failed;
    rc = look_for_slice(b, *k, &in);
    keyspace_read_end(*k);
    if (rc < 0 || !in)
        return failed;

    /* The meta page that says so may be in the page cache only, and the kernel
     * may think it is clean: another commit writes the other one. */
    rc = commit_fence(b->store, *k);
    if (rc < 0)
        keyspace_close(*k);
    return rc < 0 ? failed : 0;
}

/* Makes sure the map can hold what the slice may add. */
static int
slice_room(const struct batch *b, struct keyspace *k)
{
    MDB_envinfo info;
    uint64_t pages = 64;
    int rc;

    rc = order_error(mdb_env_info(k->env, &info));
    if (rc < 0)
        return rc;
    if (b->used > 0)
        pages += estimate_pages(b, b->used);
    pages = (pages + info.me_last_pgno) * 4096;
    return pages > info.me_mapsize ? keyspace_grow(k, pages) : 0;
}

/* One try at the slice.  -EXFULL and -E2BIG: not this way. */
static int
slice_try(struct batch *b, struct keyspace **k)
{
    MDB_txn *txn;
    int rc, code;

    rc = slice_room(b, *k);
    if (rc == 0)
        rc = keyspace_write(b->store, *k, &txn);
    if (rc < 0)
        return rc;
    rc = slice_write(b, txn, *k);
    if (rc < 0) {
        mdb_txn_abort(txn);
        return rc;
    }
    code = mdb_txn_commit(txn);
    if (code == 0) {
        /* A commit to a file that has just lost its name is none. */
        (*k)->stale = keyspace_replaced(b->store, *k);
        if (b->store->failed == (*k)->hash)
            b->store->failed = 0;
        return (*k)->stale ? -ESTALE : 0;
    }
    rc = order_error(code);

    /* These come before LMDB touches the disk. */
    if (code == MDB_MAP_FULL || code == MDB_TXN_FULL)
        return rc;
    rc = keyspace_disk_error(b->store, rc, estimate_pages(b, b->used) * 4096);
    (void)keyspace_trouble(b->store, b->name, b->name_size, "commit", rc);
    b->store->failed = (*k)->hash;
    return read_outcome(b, k, rc);
}

/* Applies the deltas from b->at to b->end. */
static int
slice_apply(struct batch *b, struct keyspace **k)
{
    int rc;

    do {
        rc = slice_reserve(&b->store->slice, b->limit);
        if (rc < 0)
            return rc;
        slice_fill(b);
        rc = slice_try(b, k);
        if (rc == -EXFULL) {
            rc = keyspace_grow(*k, 0);
            if (rc == 0)
                rc = -EXFULL;
        } else if (rc == -E2BIG && b->limit > 1) {
            b->limit /= 2;
            rc = -EXFULL;
        }
    } while (rc == -EXFULL);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < b->mark_count; i++)
        b->expect[i] = mark_after(b, i);
    b->at = b->end;
    keyspace_retain(b->store, *k, b->pages, b->at == b->count);
    b->total.keys += b->slice.keys;
    b->total.created += b->slice.created;
    b->total.saturated += b->slice.saturated;
    b->total.commits += b->slice.commits;
    return 0;
}

/* How large it is now, for estimates. */
static int
peek_size(struct batch *b, struct keyspace *k)
{
    MDB_stat keys, ranks;
    int rc;

    rc = keyspace_read(k);
    if (rc < 0)
        return rc;
    rc = order_error(mdb_stat(k->reader, k->keys, &keys));
    if (rc == 0)
        rc = order_error(mdb_stat(k->reader, k->ranks, &ranks));
    keyspace_read_end(k);
    b->groups[0] = keys.ms_entries / ORDER_GROUP_TARGET + 1;
    b->groups[1] = ranks.ms_entries / ORDER_GROUP_TARGET + 1;
    return rc;
}

static int
apply_slices(struct batch *b)
{
    struct keyspace *k;
    int rc;

    rc = keyspace_get(b->store, b->name, b->name_size, KEYSPACE_CREATE, &k);
    b->total.no_room = rc == -EDQUOT;
    if (rc < 0)
        return rc;
    do {
        rc = peek_size(b, k);
        if (rc < 0)
            break;
        b->limit = b->at < b->count ? slice_limit(b) : 1;
        rc = slice_apply(b, &k);
    } while (rc == 0 && b->at < b->count);
    if (rc < 0 && rc != -ESTALE && rc != -EDQUOT)
        (void)keyspace_trouble(b->store, b->name, b->name_size, "apply", rc);
    return rc;
}

int
lmdb_apply(struct lmdb *s, const uint8_t *name, size_t name_size,
           const struct store_mark *marks, const struct lmdb_mark_info *seen,
           size_t mark_count, const struct store_delta *deltas,
           size_t delta_count, struct store_applied *applied)
{
    struct batch b = {
        .store = s,
        .name = name,
        .name_size = name_size,
        .marks = marks,
        .mark_count = mark_count,
        .deltas = deltas,
        .count = delta_count,
    };
    struct keyspace *k;
    int rc;

    assert(s->options.writable);
    if (!name_ok(name, name_size))
        return -EINVAL;
    *applied = (struct store_applied){.keys = 0};
    for (size_t i = 0; i < mark_count; i++)
        if (seen[i].state == STORE_MARK_AHEAD)
            return -EINVAL;

    /* No records: no reason to make a keyspace.  (Where there are records,
     * even such as sum to 0, the marks are needed: each log of the batch may
     * be freed before the others.) */
    if (delta_count == 0) {
        rc = keyspace_get(s, name, name_size, KEYSPACE_FIND, &k);
        if (rc < 0)
            return rc == -ENOENT ? 0 : rc;
    }
    b.expect = malloc((mark_count + 1) * sizeof *b.expect);
    if (b.expect == NULL)
        return -ENOMEM;
    if (mark_count > 0)
        memcpy(b.expect, seen, mark_count * sizeof *seen);
    rc = apply_slices(&b);
    free(b.expect);
    if (s->slice.capacity * CHANGE_COST > s->options.txn_memory)
        slice_free(&s->slice);
    *applied = b.total;
    return rc;
}

int
lmdb_fence(struct lmdb *s, const uint8_t *name, size_t name_size)
{
    struct batch b = {.store = s, .name = name, .name_size = name_size};
    struct keyspace *k;
    int rc;

    assert(s->options.writable);
    if (!name_ok(name, name_size))
        return -EINVAL;
    rc = keyspace_get(s, name, name_size, KEYSPACE_FIND, &k);
    if (rc < 0)
        return rc;
    b.limit = 1;
    return slice_apply(&b, &k);
}
