/* tests/unit/test_tree.c - an order of rows against a sorted array: random
 * edits, all sizes of keys and batches, growing, shrinking, and what is
 * refused. */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/store/lmdb/pager.h"
#include "common/store/tree/tree.h"
#include "tests/lib/random.h"
#include "tests/lib/tmpdir.h"

struct item {
    int64_t count;
    uint16_t size;
    bool flag;
    uint8_t key[256];
};

struct fixture {
    struct tmpdir dir;
    struct random random;
    MDB_env *env;
    MDB_dbi dbi;
    struct lmdb_pager pager;
    struct tree tree; /* its root between transactions */
    struct tree_cache cache;
    uint64_t snapshots;
    struct item *items; /* the model, in the order's order */
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

static void
start(struct fixture *f, enum block_order kind, size_t map)
{
    char path[600];
    MDB_txn *txn;

    memset(f, 0, sizeof *f);
    f->random.state = random_seed("test_tree");
    tmpdir_make_in_memory(&f->dir);
    (void)snprintf(path, sizeof path, "%s/o.mdb", f->dir.path);
    assert_int_equal(mdb_env_create(&f->env), 0);
    assert_int_equal(mdb_env_set_maxdbs(f->env, 2), 0);
    assert_int_equal(mdb_env_set_mapsize(f->env, map), 0);
    assert_int_equal(
        mdb_env_open(f->env, path, MDB_NOSUBDIR | MDB_NOSYNC, 0600), 0);
    assert_int_equal(mdb_txn_begin(f->env, NULL, 0, &txn), 0);
    assert_int_equal(mdb_dbi_open(txn, "o", MDB_CREATE, &f->dbi), 0);
    assert_int_equal(mdb_txn_commit(txn), 0);
    f->tree = (struct tree){
        .pager = lmdb_pager(&f->pager),
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
    mdb_env_close(f->env);
    tmpdir_remove(&f->dir);
    free(f->items);
}

static void
begin(struct fixture *f, unsigned flags)
{
    f->tree.snapshot = flags == MDB_RDONLY ? ++f->snapshots : 0;
    assert_int_equal(mdb_txn_begin(f->env, NULL, flags, &f->pager.txn), 0);
    assert_int_equal(mdb_cursor_open(f->pager.txn, f->dbi, &f->pager.cursor),
                     0);
}

static void
end(struct fixture *f, bool commit)
{
    mdb_cursor_close(f->pager.cursor);
    if (commit)
        assert_int_equal(mdb_txn_commit(f->pager.txn), 0);
    else
        mdb_txn_abort(f->pager.txn);
}

/* Applies in a transaction of its own; the root stays when that fails. */
static int
apply(struct fixture *f, const struct row *edits, size_t count)
{
    const struct tree_root root = f->tree.root;
    int rc;

    begin(f, 0);
    f->tree.generation++;
    f->tree.pages = 0;
    rc = tree_apply(&f->tree, edits, count);
    end(f, rc == 0);
    if (rc < 0)
        f->tree.root = root;
    return rc;
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

static void
fault(void *ctx, const char *text)
{
    (void)ctx;
    print_error("fault: %s\n", text);
}

static void
ignore_fault(void *ctx, const char *text)
{
    (void)ctx;
    (void)text;
}

static uint64_t
values_of(const struct fixture *f)
{
    MDB_stat st;

    assert_int_equal(mdb_stat(f->pager.txn, f->dbi, &st), 0);
    return st.ms_entries;
}

static void
ignore_row(void *ctx, const struct row *r)
{
    (void)ctx;
    (void)r;
}

static void
compare(struct fixture *f)
{
    struct tree_check check = {.fault = fault, .row = ignore_row};
    struct tree_finder finder = {.valid = false};
    struct compare c = {.f = f};

    begin(f, MDB_RDONLY);
    assert_int_equal(f->tree.root.count, f->count);
    assert_rc(tree_scan(&f->tree, NULL, compare_row, &c), 0);
    assert_int_equal(c.at, f->count);
    for (size_t i = 0; i < f->count; i += 1 + random_below(&f->random, 200)) {
        const struct row want = item_row(&f->items[i]);
        struct row got;
        uint64_t rank;

        assert_rc(tree_rank(&f->tree, &want, &rank), 0);
        assert_int_equal(rank, i);
        assert_rc(tree_find(&f->tree, &want, &finder, &got), 0);
        assert_true(got.count == want.count);
        c.at = i + 1;
        if (random_chance(&f->random, 2)) {
            assert_rc(tree_scan(&f->tree, &want, compare_row, &c), 0);
            assert_int_equal(c.at, f->count);
        }
    }
    f->tree.cache = NULL;
    check.values = values_of(f);
    tree_check(&f->tree, &check);
    assert_int_equal(check.faults, 0);
    f->tree.cache = &f->cache;
    end(f, false);
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
    start(&f, p->kind, (size_t)1 << 30);
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

static void
random_edits_equal_the_model(void **state)
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

    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        print_message("plan %zu\n", i);
        run(&plans[i]);
    }
}

/* ---- shape ---- */

/* Inserts keys from ... to - 1 in one batch. */
static int
insert_run(struct fixture *f, unsigned from, unsigned to, unsigned prefix)
{
    struct item *items = calloc(to - from, sizeof *items);
    struct row *rows = calloc(to - from, sizeof *rows);
    int rc;

    assert_true(items != NULL && rows != NULL);
    for (unsigned i = from; i < to; i++) {
        struct item *item = &items[i - from];

        memset(item->key, 'p', prefix);
        item->size =
            (uint16_t)(prefix + (unsigned)sprintf((char *)item->key + prefix,
                                                  "%08u", i));
        item->count = i;
        rows[i - from] = item_row(item);
        rows[i - from].flags = BLOCK_INSERT;
    }
    rc = apply(f, rows, to - from);
    free(items);
    free(rows);
    return rc;
}

static void
check_clean(struct fixture *f, uint64_t rows)
{
    struct tree_check check = {.fault = fault, .row = ignore_row};

    begin(f, MDB_RDONLY);
    check.values = values_of(f);
    tree_check(&f->tree, &check);
    assert_int_equal(check.faults, 0);
    assert_int_equal(check.rows, rows);
    f->tree.cache = &f->cache;
    end(f, false);
}

static void
a_directory_of_many_levels_holds_together(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, BLOCK_KEYS, (size_t)1 << 30);

    /* Long common beginnings make separators long: 14 children per node. */
    for (unsigned at = 0; at < 60000; at += 6000)
        assert_rc(insert_run(&f, at, at + 6000, 240), 0);

    assert_true(f.tree.root.level >= 3);
    check_clean(&f, 60000);
    stop(&f);
}

static void
what_is_loaded_in_order_is_packed_full(void **state)
{
    struct fixture f;
    MDB_stat st;

    (void)state;
    start(&f, BLOCK_KEYS, (size_t)1 << 30);
    for (unsigned at = 0; at < 200000; at += 10000)
        assert_rc(insert_run(&f, at, at + 10000, 0), 0);

    begin(&f, MDB_RDONLY);
    assert_int_equal(mdb_stat(f.pager.txn, f.dbi, &st), 0);
    end(&f, false);

    /* 8-byte keys: 20 bytes a row with its offset. */
    assert_true(st.ms_overflow_pages <= 200000 * 20 / 4056 * 21 / 20);
    check_clean(&f, 200000);
    stop(&f);
}

static void
an_order_that_is_emptied_leaves_nothing(void **state)
{
    struct fixture f;
    struct item *items = calloc(3000, sizeof *items);
    struct row *rows = calloc(3000, sizeof *rows);
    MDB_stat st;

    (void)state;
    assert_true(items != NULL && rows != NULL);
    start(&f, BLOCK_KEYS, (size_t)1 << 30);
    assert_rc(insert_run(&f, 0, 3000, 200), 0);
    for (unsigned i = 0; i < 3000; i++) {
        memset(items[i].key, 'p', 200);
        items[i].size =
            (uint16_t)(200 + sprintf((char *)items[i].key + 200, "%08u", i));
        rows[i] = item_row(&items[i]);
        rows[i].flags = BLOCK_DELETE;
    }

    assert_rc(apply(&f, rows, 3000), 0);

    assert_int_equal(f.tree.root.id, 0);
    assert_int_equal(f.tree.root.count, 0);
    begin(&f, MDB_RDONLY);
    assert_int_equal(mdb_stat(f.pager.txn, f.dbi, &st), 0);
    assert_int_equal(st.ms_entries, 0);
    end(&f, false);
    assert_rc(insert_run(&f, 0, 10, 0), 0);
    check_clean(&f, 10);
    free(items);
    free(rows);
    stop(&f);
}

/* ---- what is refused ---- */

static void
wrong_signs_are_damage(void **state)
{
    struct row r = {.count = 3, .key = (const uint8_t *)"00000003"};
    struct fixture f;

    (void)state;
    start(&f, BLOCK_KEYS, (size_t)1 << 30);
    r.key_size = 8;
    assert_rc(insert_run(&f, 0, 10, 0), 0);

    r.flags = BLOCK_INSERT; /* it is there */
    assert_rc(apply(&f, &r, 1), -EBADMSG);
    r.key = (const uint8_t *)"00000300";
    r.flags = BLOCK_UPDATE; /* it is not */
    assert_rc(apply(&f, &r, 1), -EBADMSG);
    r.flags = BLOCK_DELETE;
    assert_rc(apply(&f, &r, 1), -EBADMSG);

    check_clean(&f, 10);
    stop(&f);
}

static void
a_small_map_and_a_small_budget_are_told_apart(void **state)
{
    struct fixture f;

    (void)state;
    start(&f, BLOCK_KEYS, (size_t)1 << 16);
    assert_rc(insert_run(&f, 0, 30000, 0), -EXFULL);
    f.tree.pages_max = 5;
    assert_rc(insert_run(&f, 0, 30000, 0), -E2BIG);
    f.tree.pages_max = UINT64_MAX;
    assert_int_equal(mdb_env_set_mapsize(f.env, (size_t)1 << 24), 0);
    assert_rc(insert_run(&f, 0, 30000, 0), 0);
    check_clean(&f, 30000);
    stop(&f);
}

static void
a_value_that_is_missing_or_stale_is_found(void **state)
{
    struct fixture f;
    MDB_cursor *c;
    MDB_val k, v;
    unsigned values = 0;

    (void)state;
    start(&f, BLOCK_KEYS, (size_t)1 << 30);
    assert_rc(insert_run(&f, 0, 2000, 0), 0);
    for (unsigned round = 0; round < 5; round++)
        assert_rc(insert_run(&f, 5000 + round * 10, 5010 + round * 10, 0), 0);

    for (unsigned i = 0; i == 0 || i < values; i++) {
        struct tree_check check = {.fault = ignore_fault, .row = ignore_row};

        assert_int_equal(mdb_txn_begin(f.env, NULL, 0, &f.pager.txn), 0);
        assert_int_equal(mdb_cursor_open(f.pager.txn, f.dbi, &f.pager.cursor),
                         0);
        assert_int_equal(mdb_cursor_open(f.pager.txn, f.dbi, &c), 0);
        values = 0;
        while (mdb_cursor_get(c, &k, &v, values ? MDB_NEXT : MDB_FIRST) == 0)
            if (values++ == i)
                assert_int_equal(mdb_cursor_del(c, 0), 0);
        mdb_cursor_close(c);

        check.values = values_of(&f);
        tree_check(&f.tree, &check);
        assert_true(check.faults > 0);

        f.tree.cache = &f.cache;
        end(&f, false);
    }
    stop(&f);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(random_edits_equal_the_model),
    cmocka_unit_test(a_directory_of_many_levels_holds_together),
    cmocka_unit_test(what_is_loaded_in_order_is_packed_full),
    cmocka_unit_test(an_order_that_is_emptied_leaves_nothing),
    cmocka_unit_test(wrong_signs_are_damage),
    cmocka_unit_test(a_small_map_and_a_small_budget_are_told_apart),
    cmocka_unit_test(a_value_that_is_missing_or_stale_is_found),
};

TEST_MAIN(tests)
