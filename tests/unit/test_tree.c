/* tests/unit/test_tree.c - a tree of rows in memory against a sorted array:
 * random edits, all sizes of keys and batches, growing, shrinking; then damage
 * and calls that fail. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/store/tree/tree.h"
#include "tests/lib/checks.h"
#include "tests/lib/mempager.h"
#include "tests/lib/random.h"

struct item {
    int64_t count;
    uint16_t size;
    bool flag;
    uint8_t key[256];
};

struct fixture {
    struct random random;
    struct mempager pager;
    struct tree tree; /* its root between transactions */
    struct tree_cache cache;
    uint64_t snapshots;
    bool hold;          /* a change that succeeds is left open, for undo() */
    struct item *items; /* the model, in the tree's order */
    size_t count, room;
};

static enum block_order item_order;

static struct row
item_row(const struct item *i)
{
    return (struct row){.count = i->count, .key = i->key, .key_size = i->size};
}

static int
item_compare(const void *a, const void *b)
{
    const struct row x = item_row(a), y = item_row(b);

    return row_compare(item_order, &x, &y);
}

static int
by_order(const void *a, const void *b)
{
    return row_compare(item_order, a, b);
}

static void
start(struct fixture *f, enum block_order kind)
{
    memset(f, 0, sizeof *f);
    f->random.state = random_seed("test_tree");
    mempager_init(&f->pager);
    f->tree = (struct tree){
        .pager = mempager_pager(&f->pager),
        .kind = kind,
        .root = {.next_id = 1},
        .cache = &f->cache,
        .work = tree_work_new(),
        .pages_fold = UINT64_MAX,
        .pages_max = UINT64_MAX,
    };
    assert_non_null(f->tree.work);
    item_order = kind;
}

static void
stop(struct fixture *f)
{
    tree_work_free(f->tree.work);
    mempager_fini(&f->pager);
    free(f->items);
}

/* A read of a new snapshot. */
static void
look(struct fixture *f)
{
    f->tree.snapshot = ++f->snapshots;
}

/* Applies in a transaction of its own; nothing is done when that fails. */
static int
apply(struct fixture *f, const struct row *edits, size_t count)
{
    const struct tree_root root = f->tree.root;
    int rc;

    mempager_begin(&f->pager);
    f->tree.generation++;
    f->tree.pages = 0;
    rc = tree_apply(&f->tree, edits, count);
    if (rc == 0 && f->hold)
        return 0;
    mempager_end(&f->pager, rc == 0);
    if (rc < 0)
        f->tree.root = root;
    return rc;
}

static void
undo(struct fixture *f, const struct tree_root *root)
{
    mempager_end(&f->pager, false);
    f->tree.root = *root;
}

/* ---- comparing ---- */

struct compare {
    const struct fixture *f;
    size_t at;
};

static int
compare_row(void *ctx, const struct row *r)
{
    struct compare *c = ctx;
    const struct item *want = &c->f->items[c->at];

    assert_true(c->at < c->f->count);
    assert_true(r->count == want->count);
    assert_int_equal(r->key_size, want->size);
    assert_memory_equal(r->key, want->key, want->size);
    assert_int_equal((r->flags & BLOCK_SATURATED) != 0, want->flag);
    c->at++;
    return 0;
}

/* Tells a fault, unless it is looked for. */
static void
fault(void *ctx, const char *text)
{
    if (*(const bool *)ctx)
        print_error("fault: %s\n", text);
}

static void
ignore_row(void *ctx, const struct row *r)
{
    (void)ctx;
    (void)r;
}

/* The number of faults; each is told unless it is looked for. */
static uint64_t
faults(const struct fixture *f, bool tell)
{
    struct tree_check check = {
        .fault = fault,
        .row = ignore_row,
        .ctx = &tell,
        .values = f->pager.count,
    };

    tree_check(&f->tree, &check);
    if (check.faults == 0)
        assert_int_equal(check.rows, f->tree.root.count);
    return check.faults;
}

static void
check_clean(const struct fixture *f, uint64_t rows)
{
    assert_int_equal(faults(f, true), 0);
    assert_int_equal(f->tree.root.count, rows);
}

/* A read in key order, anywhere, against the model. */
static void
compare_keys(struct fixture *f, size_t i)
{
    static uint8_t bytes[20 * BLOCK_ROW_MAX];
    const struct item *like = &f->items[random_below(&f->random, f->count)];
    const struct item *after = &f->items[i];
    const struct tree_keys k = {
        .offset = random_chance(&f->random, 50)
                      ? random_below(&f->random, f->count + 2)
                      : 0,
        .prefix = like->key,
        .prefix_size = random_below(&f->random, (uint64_t)like->size + 1),
        .after = after->key,
        .after_size = random_chance(&f->random, 50) ? after->size : 0,
        .length = random_below(&f->random, 200)};
    const size_t size = random_below(&f->random, sizeof bytes);
    uint64_t rows, expected = 0;
    const int64_t used = tree_keys(&f->tree, &k, bytes, size, &rows);
    size_t at = 0;

    assert_true(used >= 0);
    for (i = k.offset; i < f->count; i++) {
        const struct item *want = &f->items[i];
        struct row got;

        if (bytes_compare(want->key, want->size, k.after, k.after_size) <= 0 ||
            want->size < k.prefix_size ||
            memcmp(want->key, k.prefix, k.prefix_size) != 0)
            continue;
        if (expected == k.length ||
            size - at < (size_t)BLOCK_ROW_HEAD + want->size)
            break;
        assert_true(expected++ < rows);
        got = row_get(bytes + at);
        assert_int_equal(got.flags, 0);
        assert_true(got.count == want->count);
        assert_int_equal(got.key_size, want->size);
        assert_memory_equal(got.key, want->key, want->size);
        at += row_size(bytes + at);
    }
    assert_int_equal(expected, rows);
    assert_int_equal(at, used);
}

static void
compare(struct fixture *f)
{
    struct tree_finder finder = {.valid = false};
    struct compare c = {.f = f};

    look(f);
    assert_int_equal(f->tree.root.count, f->count);
    assert_rc(tree_scan(&f->tree, compare_row, &c), 0);
    assert_int_equal(c.at, f->count);
    for (size_t i = 0; i < f->count; i += 1 + random_below(&f->random, 200)) {
        const struct row want = item_row(&f->items[i]);
        struct row got;
        uint64_t rank;

        assert_rc(tree_rank(&f->tree, &want, &rank), 0);
        assert_int_equal(rank, i);
        assert_rc(tree_find(&f->tree, &want, &finder, &got), 0);
        assert_true(got.count == want.count);
        if (f->tree.kind == BLOCK_KEYS && random_chance(&f->random, 10))
            compare_keys(f, i);
    }
    check_clean(f, f->count);
}

/* ---- random edits ---- */

struct plan {
    enum block_order kind;
    size_t batch;      /* edits at most */
    uint64_t span;     /* different keys */
    unsigned key_kind; /* 0 short, 1 up to 256 bytes, 2 256 with one prefix */
    unsigned counts;   /* different counts */
    unsigned rounds;
};

static void
random_item(struct fixture *f, const struct plan *p, struct item *out)
{
    const uint64_t id = random_below(&f->random, p->span);

    memset(out, 0, sizeof *out);
    if (p->key_kind == 0) {
        out->size =
            (uint16_t)sprintf((char *)out->key, "%llu", (unsigned long long)id);
    } else {
        memset(out->key, 'p', sizeof out->key);
        out->size = (uint16_t)(p->key_kind == 2 ? 256 : 16 + id * 31 % 241);
        (void)sprintf((char *)out->key + out->size - 16, "%015llu",
                      (unsigned long long)id);
        out->key[out->size - 1] = 'e';
    }
    out->count =
        (int64_t)random_below(&f->random, p->counts) - (int64_t)p->counts / 2;
    out->flag = p->kind == BLOCK_KEYS && random_chance(&f->random, 10);
}

static struct item *
model_find(struct fixture *f, const struct item *want)
{
    if (f->count == 0)
        return NULL;
    return bsearch(want, f->items, f->count, sizeof *f->items, item_compare);
}

/* A batch of edits for `erase` percent deletes; applies them to the model and
 * returns them in `items` (sorted) and `rows`. */
static size_t
random_batch(struct fixture *f, const struct plan *p, unsigned erase,
             struct item *items, struct row *rows)
{
    const size_t n = 1 + random_below(&f->random, p->batch);
    size_t kept = 0, old = f->count;

    for (size_t i = 0; i < n; i++)
        random_item(f, p, &items[i]);
    if (erase > 0 && f->count > 0) /* what is there is what can be erased */
        for (size_t i = 0; i < n; i += 2)
            items[i] = f->items[random_below(&f->random, f->count)];
    qsort(items, n, sizeof *items, item_compare);
    if (f->count + n > f->room) {
        f->room = (f->count + n) * 2;
        f->items = realloc(f->items, f->room * sizeof *f->items);
        assert_non_null(f->items);
    }
    for (size_t i = 0; i < n; i++) {
        struct item *there;
        unsigned sign = BLOCK_INSERT;

        if (kept > 0 && item_compare(&items[kept - 1], &items[i]) == 0)
            continue;
        f->count = old;
        there = model_find(f, &items[i]);
        if (there != NULL)
            sign = random_chance(&f->random, erase) || p->kind == BLOCK_RANKS
                       ? BLOCK_DELETE
                       : BLOCK_UPDATE;
        items[kept] = items[i];
        rows[kept] = item_row(&items[kept]);
        rows[kept].flags =
            (uint16_t)(sign | (items[kept].flag && sign != BLOCK_DELETE
                                   ? BLOCK_SATURATED
                                   : 0));
        kept++;
    }
    f->count = old;
    return kept;
}

static void
model_apply(struct fixture *f, const struct item *items, const struct row *rows,
            size_t n)
{
    size_t added = f->count, out = 0;

    for (size_t i = 0; i < n; i++) {
        struct item *there = model_find(f, &items[i]);

        if ((rows[i].flags & BLOCK_SIGN) == BLOCK_INSERT)
            f->items[added++] = items[i];
        else if ((rows[i].flags & BLOCK_SIGN) == BLOCK_UPDATE)
            *there = items[i];
    }

    /* Deletes, by merging two sorted lists. */
    for (size_t i = 0, d = 0; i < f->count; i++) {
        while (d < n && item_compare(&items[d], &f->items[i]) < 0)
            d++;
        if (d < n && item_compare(&items[d], &f->items[i]) == 0 &&
            (rows[d].flags & BLOCK_SIGN) == BLOCK_DELETE)
            continue;
        f->items[out++] = f->items[i];
    }
    memmove(f->items + out, f->items + f->count,
            (added - f->count) * sizeof *f->items);
    f->count = out + (added - f->count);
    qsort(f->items, f->count, sizeof *f->items, item_compare);
}

static void
run(const struct plan *p)
{
    struct item *items = malloc(p->batch * sizeof *items + sizeof *items);
    struct row *rows = malloc(p->batch * sizeof *rows + sizeof *rows);
    struct fixture f;

    assert_true(items != NULL && rows != NULL);
    start(&f, p->kind);
    for (unsigned round = 0; round < p->rounds; round++) {
        /* Grow, stay, and shrink again to almost nothing. */
        const unsigned erase = round < p->rounds / 2 ? 20 : 95;
        const size_t n = random_batch(&f, p, erase, items, rows);

        f.tree.pages_fold = random_chance(&f.random, 30) ? 0 : UINT64_MAX;
        assert_rc(apply(&f, rows, n), 0);
        model_apply(&f, items, rows, n);
        if (round % 10 == 9 || round + 1 == p->rounds)
            compare(&f);
    }
    stop(&f);
    free(items);
    free(rows);
}

TEST(random_edits_equal_the_model)
{
    static const struct plan plans[] = {
        {BLOCK_KEYS, 10, 30, 0, 10, 200},
        {BLOCK_KEYS, 300, 5000, 0, 1000, 120},
        {BLOCK_KEYS, 3000, 40000, 0, 1000, 60},
        {BLOCK_KEYS, 40, 40000, 0, 1000, 300},
        {BLOCK_KEYS, 600, 6000, 2, 1000, 80},
        {BLOCK_RANKS, 10, 30, 0, 4, 200},
        {BLOCK_RANKS, 2000, 30000, 0, 100000, 80},
        {BLOCK_RANKS, 50, 30000, 0, 1000000, 300},
        {BLOCK_RANKS, 1000, 8000, 1, 3, 80},
        {BLOCK_RANKS, 600, 6000, 2, 1, 80},
    };

    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        print_message("plan %zu\n", i);
        run(&plans[i]);
    }
}

/* ---- shape ---- */

/* Row number i: the longer `prefix`, the fewer rows to a block and the longer
 * the separators, in the rank order because counts repeat. */
static void
name_item(struct item *item, unsigned i, unsigned prefix)
{
    memset(item->key, 'p', prefix);
    item->size =
        (uint16_t)(prefix +
                   (unsigned)sprintf((char *)item->key + prefix, "%08u", i));
    item->count = i / 2000;
}

/* One edit for each of the keys from ... to - 1 that is wanted, in one
 * batch. */
static int
edit_some(struct fixture *f, unsigned from, unsigned to, unsigned prefix,
          unsigned sign, bool (*wanted)(void *ctx, unsigned i), void *ctx)
{
    struct item *items = calloc(to - from, sizeof *items);
    struct row *rows = calloc(to - from, sizeof *rows);
    size_t count = 0;
    int rc;

    assert_true(items != NULL && rows != NULL);
    for (unsigned i = from; i < to; i++) {
        struct item *item = &items[count];

        if (wanted != NULL && !wanted(ctx, i))
            continue;
        name_item(item, i, prefix);
        rows[count] = item_row(item);
        rows[count++].flags = (uint16_t)sign;
    }
    qsort(rows, count, sizeof *rows, by_order);
    rc = apply(f, rows, count);
    free(items);
    free(rows);
    return rc;
}

static int
insert_run(struct fixture *f, unsigned from, unsigned to, unsigned prefix)
{
    return edit_some(f, from, to, prefix, BLOCK_INSERT, NULL, NULL);
}

TEST(what_is_loaded_in_order_is_packed_full)
{
    struct fixture f;
    size_t blocks = 0;

    start(&f, BLOCK_KEYS);
    for (unsigned at = 0; at < 200000; at += 10000)
        assert_rc(insert_run(&f, at, at + 10000, 0), 0);

    for (size_t i = 0; i < f.pager.count; i++)
        blocks += mempager_nth(&f.pager, i)->bytes[4] == BLOCK_BASE ? 1u : 0u;

    /* 8-byte keys: 20 bytes a row with its offset. */
    assert_true(blocks <= 200000 * 20 / 4056 * 21 / 20);
    check_clean(&f, 200000);
    stop(&f);
}

TEST(a_tree_that_is_emptied_leaves_nothing)
{
    struct fixture f;

    start(&f, BLOCK_KEYS);
    assert_rc(insert_run(&f, 0, 3000, 200), 0);

    assert_rc(edit_some(&f, 0, 3000, 200, BLOCK_DELETE, NULL, NULL), 0);

    assert_int_equal(f.tree.root.id, 0);
    assert_int_equal(f.tree.root.count, 0);
    assert_int_equal(f.pager.count, 0);
    assert_rc(insert_run(&f, 0, 10, 0), 0);
    check_clean(&f, 10);
    stop(&f);
}

#define RANGE_KEYS 40000u

struct present {
    bool keys[RANGE_KEYS];
    bool want;
};

/* Whether the key is not yet as it is to be; it is then. */
static bool
changes(void *ctx, unsigned i)
{
    struct present *p = ctx;

    if (p->keys[i] == p->want)
        return false;
    p->keys[i] = p->want;
    return true;
}

TEST(whole_ranges_come_and_go_in_a_directory_of_many_levels)
{
    static struct present p;
    struct fixture f;
    uint64_t count = 0;
    unsigned level = 0;

    memset(&p, 0, sizeof p);
    start(&f, BLOCK_KEYS);
    for (unsigned round = 0; round < 100; round++) {
        const unsigned length =
            1 + (unsigned)random_below(&f.random, round < 20 ? 6000 : 3000);
        unsigned from = random_chance(&f.random, 30)
                            ? 0
                            : (unsigned)random_below(&f.random, RANGE_KEYS);
        const unsigned to =
            from + length < RANGE_KEYS ? from + length : RANGE_KEYS;

        p.want = round < 20 || random_chance(&f.random, 50);
        assert_rc(edit_some(&f, from, to, 240,
                            p.want ? BLOCK_INSERT : BLOCK_DELETE, changes, &p),
                  0);
        count = 0;
        for (unsigned i = 0; i < RANGE_KEYS; i++)
            count += p.keys[i] ? 1u : 0u;
        check_clean(&f, count);
        level = f.tree.root.level > level ? f.tree.root.level : level;
    }
    assert_true(level >= 3);
    stop(&f);
}

/* ---- what is refused ---- */

TEST(more_than_the_budget_is_refused)
{
    struct fixture f;

    start(&f, BLOCK_KEYS);
    f.tree.pages_max = 5;
    assert_rc(insert_run(&f, 0, 30000, 0), -E2BIG);
    f.tree.pages_max = UINT64_MAX;
    assert_rc(insert_run(&f, 0, 30000, 0), 0);
    check_clean(&f, 30000);
    stop(&f);
}

/* ---- damage, and calls that fail ---- */

#define GROWN 5000u /* keys; rows are at most so many */

static bool
odd(void *ctx, unsigned i)
{
    (void)ctx;
    return i % 2 == 1;
}

static bool
fiftieth(void *ctx, unsigned i)
{
    (void)ctx;
    return i % 50 == 0;
}

static bool
some_even(void *ctx, unsigned i)
{
    (void)ctx;
    return i % 50 != 0 && (i % 2000 < 500 ? i % 2 == 0 : i % 50 == 2);
}

/* A tree with nodes, buffers and base blocks: long keys, first one batch, then
 * a few rows into each group. */
static void
start_grown(struct fixture *f, enum block_order kind)
{
    start(f, kind);
    assert_rc(edit_some(f, 0, GROWN, 200, BLOCK_INSERT, odd, NULL), 0);
    assert_rc(edit_some(f, 0, GROWN, 200, BLOCK_INSERT, fiftieth, NULL), 0);
    assert_true(f->tree.root.level >= 1);
    check_clean(f, GROWN / 2 + GROWN / 50);
}

/* A change of many groups: some get it into their buffers, some are folded. */
static int
change_much(struct fixture *f)
{
    return edit_some(f, 0, GROWN, 200, BLOCK_INSERT, some_even, NULL);
}

static int
no_row(void *ctx, const struct row *r)
{
    (void)ctx;
    (void)r;
    return 0;
}

/* Reads the tree in every way.  0, or the first error. */
static int
read_all(struct fixture *f)
{
    static uint8_t bytes[100000];
    uint64_t rows, rank;
    int rc;

    rc = tree_scan(&f->tree, no_row, NULL);
    for (uint64_t at = 0;
         f->tree.kind == BLOCK_RANKS && rc == 0 && at < f->tree.root.count;
         at += rows) {
        const int64_t size =
            tree_range(&f->tree, at, 1000, bytes, sizeof bytes, &rows);

        rc = size < 0 ? (int)size : 0;
    }
    for (unsigned i = 1; rc == 0 && i < GROWN; i += 300) {
        struct tree_finder finder = {.valid = false};
        struct item item;
        struct row want, got;

        name_item(&item, i, 200);
        want = item_row(&item);
        rc = tree_find(&f->tree, &want, &finder, &got);
        if (rc == 0)
            rc = tree_rank(&f->tree, &want, &rank);
    }
    return rc;
}

TEST(any_call_of_the_pager_may_fail)
{
    const enum block_order kinds[] = {BLOCK_KEYS, BLOCK_RANKS};

    for (unsigned k = 0; k < 2; k++) {
        struct fixture f;
        uint64_t count;
        int rc = -1;

        start_grown(&f, kinds[k]);
        count = f.tree.root.count;
        f.tree.cache = NULL;
        f.pager.error = -EXFULL;
        for (unsigned n = 1; rc != 0; n++) {
            mempager_begin(&f.pager);
            f.pager.fail_at = n;
            rc = read_all(&f);
            f.pager.fail_at = 0;
            mempager_end(&f.pager, false);
            assert_rc(rc, rc == 0 ? 0 : -EXFULL);
        }
        rc = -1;
        for (unsigned n = 1; rc != 0; n++) {
            f.pager.fail_at = n;
            rc = change_much(&f);
            f.pager.fail_at = 0;
            assert_rc(rc, rc == 0 ? 0 : -EXFULL);
            assert_true(rc == 0 || f.tree.root.count == count);
        }
        check_clean(&f, f.tree.root.count);
        stop(&f);
    }
}

/* Flips a bit of a value; the same again puts it right. */
static void
flip(struct mempager_value *v, uint64_t bit)
{
    v->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

TEST(damage_never_gets_a_new_checksum)
{
    unsigned refused = 0, passed = 0;
    struct fixture f;

    start_grown(&f, BLOCK_KEYS);
    f.hold = true;
    for (size_t i = 0; i < f.pager.count; i++) {
        const struct tree_root root = f.tree.root;
        struct mempager_value *v = mempager_nth(&f.pager, i);
        const uint64_t key = v->key, bit = random_below(&f.random, 8 * v->size);

        /* A cache that has seen everything good, and then the change. */
        look(&f);
        assert_rc(read_all(&f), 0);
        flip(v, bit);
        if (change_much(&f) == 0) {
            assert_true(faults(&f, false) > 0);
            passed++;
            undo(&f, &root);
        } else {
            refused++;
        }
        flip(mempager_find(&f.pager, key), bit);
        check_clean(&f, root.count);
    }
    print_message("refused %u, not rewritten %u\n", refused, passed);
    assert_true(refused > 0 && passed > 0);
    stop(&f);
}

/* Reads and checks in a transaction, which is undone. */
static void
expect_damage(struct fixture *f)
{
    look(f);
    tree_cache_forget(&f->cache);
    assert_true(faults(f, false) > 0);
    assert_rc(read_all(f), -EBADMSG);
    mempager_end(&f->pager, false);
}

TEST(a_value_that_is_missing_is_found)
{
    struct fixture f;

    start_grown(&f, BLOCK_KEYS);
    for (size_t i = 0; i < f.pager.count; i++) {
        const struct pager pager = mempager_pager(&f.pager);

        mempager_begin(&f.pager);
        assert_rc(pager.remove(pager.ctx, mempager_nth(&f.pager, i)->key), 0);
        expect_damage(&f);
    }
    check_clean(&f, f.tree.root.count);
    stop(&f);
}

struct saved {
    uint64_t key;
    size_t size;
    uint8_t bytes[BLOCK_SIZE];
};

static struct saved
save(const struct mempager_value *v)
{
    struct saved s = {.key = v->key, .size = v->size};

    memcpy(s.bytes, v->bytes, v->size);
    return s;
}

TEST(a_value_of_an_earlier_change_is_found)
{
    static struct saved old[300];
    struct fixture f;
    unsigned stale = 0;
    size_t count;

    start_grown(&f, BLOCK_KEYS);
    count = f.pager.count;
    assert_true(count <= sizeof old / sizeof old[0]);
    for (size_t i = 0; i < count; i++)
        old[i] = save(mempager_nth(&f.pager, i));
    assert_rc(change_much(&f), 0);

    for (size_t i = 0; i < count; i++) {
        const struct pager pager = mempager_pager(&f.pager);
        const struct mempager_value *now = mempager_find(&f.pager, old[i].key);

        if (now == NULL ||
            bytes_equal(now->bytes, now->size, old[i].bytes, old[i].size))
            continue;
        mempager_begin(&f.pager);
        assert_rc(pager.put(pager.ctx, old[i].key, old[i].bytes, old[i].size),
                  0);
        expect_damage(&f);
        stale++;
    }
    assert_true(stale > 3); /* of groups that got a buffer */
    check_clean(&f, f.tree.root.count);
    stop(&f);
}
