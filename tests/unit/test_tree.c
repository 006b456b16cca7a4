/* tests/unit/test_tree.c - a tree of rows in memory against an array: random
 * edits, all sizes of keys and batches, growing, shrinking; then damage and
 * calls that fail. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/store/tree/tree.h"
#include "tests/lib/checks.h"
#include "tests/lib/memvalues.h"
#include "tests/lib/random.h"

#define ITEMS 200000u

struct item {
    int64_t count;
    bool is_there, flag;
};

struct fixture {
    struct random random;
    struct memvalues values;
    struct tree tree; /* its root between transactions */
    struct tree_cache cache;
    uint64_t snapshots;
    bool holds;               /* a change that succeeds is left open */
    unsigned before, behind;  /* bytes of a key, beside its number; at most */
    uint64_t count;           /* items that are there */
    struct item items[ITEMS]; /* the model; the order of keys is theirs */
    uint8_t keys[ITEMS][BLOCK_KEY_MAX + 1];
    struct row edits[2 * ITEMS];
    size_t edit_count;
};

static enum block_order order;

static int
compare_rows(const void *a, const void *b)
{
    return row_compare(order, a, b);
}

static void
start_tree(struct fixture *f, enum block_order kind)
{
    order = kind;
    f->random.state = random_seed("test_tree");
    memvalues_init(&f->values);
    f->tree = (struct tree){
        .kv = memvalues_kv(&f->values),
        .kind = kind,
        .root = {.next_id = 1},
        .cache = &f->cache,
        .work = tree_work_new(),
        .pages_fold = UINT64_MAX,
        .pages_max = UINT64_MAX,
    };
    assert_non_null(f->tree.work);
    memset(&f->cache, 0, sizeof f->cache);
    memset(f->items, 0, sizeof f->items);
    f->count = 0;
    f->before = f->behind = 0;
    f->holds = false;
}

static void
start_keys(struct fixture *f)
{
    start_tree(f, BLOCK_KEYS);
}

static void
stop_tree(struct fixture *f)
{
    tree_work_free(f->tree.work);
    memvalues_fini(&f->values);
}

static void
restart_tree(struct fixture *f, enum block_order kind)
{
    stop_tree(f);
    start_tree(f, kind);
}

#define CASE(name, f) TEST_WITH(name, struct fixture, f, start_keys, stop_tree)

/* The row of item i, as it is. */
static struct row
row_of(struct fixture *f, unsigned i)
{
    char *key = (char *)f->keys[i];
    const unsigned used = f->before + 8;

    memset(key, 'p', BLOCK_KEY_MAX);
    (void)sprintf(key + f->before, "%08u", i);
    key[used] = 'p';
    return (struct row){
        .count = f->items[i].count,
        .key = f->keys[i],
        .key_size = (uint16_t)(used + (f->behind > 0 ? i * 31 % f->behind : 0)),
        .flags = f->items[i].flag ? BLOCK_SATURATED : 0,
    };
}

/* ---- edits --------------------------------------------------------------- */

static void
add_edit(struct fixture *f, unsigned i, unsigned sign)
{
    struct row *r = &f->edits[f->edit_count++];

    *r = row_of(f, i);
    r->flags = (uint16_t)(sign | (sign != BLOCK_DELETE ? r->flags : 0u));
}

/* A read of a new snapshot. */
static void
begin_read(struct fixture *f)
{
    f->tree.snapshot = ++f->snapshots;
}

/* Applies the edits in a transaction of their own; nothing is done when that
 * fails. */
static int
apply_edits(struct fixture *f)
{
    const struct tree_root root = f->tree.root;
    int rc;

    qsort(f->edits, f->edit_count, sizeof *f->edits, compare_rows);
    memvalues_begin(&f->values);
    f->tree.generation++;
    f->tree.pages = 0;
    rc = tree_apply(&f->tree, f->edits, f->edit_count);
    f->edit_count = 0;
    if (rc == 0 && f->holds)
        return 0;
    memvalues_end(&f->values, rc == 0);
    if (rc < 0)
        f->tree.root = root;
    return rc;
}

/* Inserts, or deletes, the items from `from` on that are not as they are to be,
 * and are chosen (NULL: all), in one batch. */
static int
edit_some(struct fixture *f, unsigned from, unsigned to, bool is_there,
          bool (*chosen)(unsigned i))
{
    int rc;

    for (unsigned i = from; i < to; i++) {
        if (f->items[i].is_there == is_there || (chosen && !chosen(i)))
            continue;
        f->items[i].count = i / 2000;
        add_edit(f, i, is_there ? BLOCK_INSERT : BLOCK_DELETE);
    }
    rc = apply_edits(f);
    for (unsigned i = from; rc == 0 && !f->holds && i < to; i++)
        if (f->items[i].is_there != is_there && (!chosen || chosen(i))) {
            f->items[i].is_there = is_there;
            f->count += is_there ? 1 : UINT64_MAX;
        }
    return rc;
}

/* ---- comparing ----------------------------------------------------------- */

struct compare {
    const struct row *want;
    size_t at, count;
};

static int
compare_row(void *ctx, const struct row *r)
{
    struct compare *c = ctx;
    const struct row *want = &c->want[c->at++];

    assert_true(c->at <= c->count);
    assert_true(r->count == want->count);
    assert_int_equal(r->key_size, want->key_size);
    assert_memory_equal(r->key, want->key, want->key_size);
    assert_int_equal(r->flags & BLOCK_SATURATED, want->flags);
    return 0;
}

/* Prints a fault, unless it is looked for. */
static void
print_fault(void *ctx, const char *text)
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

static uint64_t
count_faults(const struct fixture *f, bool prints)
{
    struct tree_check check = {
        .fault = print_fault,
        .row = ignore_row,
        .ctx = &prints,
        .values = f->values.count,
    };

    tree_check(&f->tree, &check);
    if (check.faults == 0)
        assert_int_equal(check.rows, f->tree.root.count);
    return check.faults;
}

static void
check_clean(const struct fixture *f)
{
    assert_int_equal(count_faults(f, true), 0);
    assert_int_equal(f->tree.root.count, f->count);
}

/* Whether a read of keys wants this row. */
static bool
is_wanted(const struct store_query *k, const struct row *r)
{
    return bytes_compare(r->key, r->key_size, k->after, k->after_size) > 0 &&
           bytes_begin(r->key, r->key_size, k->prefix, k->prefix_size);
}

/* A read in key order, anywhere, behind some row or not. */
static void
compare_keys(struct fixture *f, const struct row *want, const struct row *after)
{
    static uint8_t bytes[20 * BLOCK_ROW_MAX];
    const struct row *like = &want[random_below(&f->random, f->count)];
    struct store_query k = {
        .op = STORE_KEYS,
        .bytes = bytes,
        .offset = random_chance(&f->random, 50)
                      ? (int64_t)random_below(&f->random, f->count + 2)
                      : 0,
        .prefix = like->key,
        .prefix_size = random_below(&f->random, (uint64_t)like->key_size + 1),
        .after = after->key,
        .after_size = random_chance(&f->random, 50) ? after->key_size : 0,
        .length = random_below(&f->random, 200)};
    const size_t size = random_below(&f->random, sizeof bytes);
    uint64_t expected = 0;
    const int64_t used = tree_keys(&f->tree, &k, size);
    size_t at = 0;

    for (size_t i = (size_t)k.offset; i < f->count && expected < k.length;
         i++) {
        struct compare c = {&want[i], 0, 1};
        struct row got;

        if (!is_wanted(&k, &want[i]))
            continue;
        if (size - at < (size_t)BLOCK_ROW_HEAD + want[i].key_size)
            break;
        assert_true(expected++ < k.rows);
        got = row_get(bytes + at);
        assert_int_equal(got.flags, 0);
        got.flags = want[i].flags;
        (void)compare_row(&c, &got);
        at += row_size(bytes + at);
    }
    assert_int_equal(expected, k.rows);
    assert_int_equal(at, used);
}

static void
compare_all(struct fixture *f)
{
    struct tree_finder finder = {.valid = false};
    struct row *want = f->edits; /* there are none now */
    struct compare c = {want, 0, f->count};

    for (unsigned i = 0, n = 0; i < ITEMS; i++)
        if (f->items[i].is_there)
            want[n++] = row_of(f, i);
    qsort(want, f->count, sizeof *want, compare_rows);
    begin_read(f);
    assert_rc(tree_scan(&f->tree, compare_row, &c), 0);
    assert_int_equal(c.at, f->count);
    for (size_t i = 0; i < f->count; i += 1 + random_below(&f->random, 200)) {
        struct row got;
        uint64_t rank;

        assert_rc(tree_rank(&f->tree, &want[i], &rank), 0);
        assert_int_equal(rank, i);
        assert_rc(tree_find(&f->tree, &want[i], &finder, &got), 0);
        assert_true(got.count == want[i].count);
        if (f->tree.kind == BLOCK_KEYS && random_chance(&f->random, 10))
            compare_keys(f, want, &want[i]);
    }
    check_clean(f);
}

/* ---- random edits -------------------------------------------------------- */

struct plan {
    enum block_order kind;
    unsigned batch; /* items that change, at most */
    unsigned span;  /* different keys */
    unsigned before, behind;
    unsigned counts; /* different counts */
    unsigned rounds;
};

static void
change_item(struct fixture *f, const struct plan *p, unsigned i, bool erases)
{
    struct item *item = &f->items[i];
    const struct item was = *item;

    item->is_there = !(was.is_there && erases);
    f->count += (uint64_t)item->is_there - was.is_there;
    if (was.is_there && (p->kind == BLOCK_RANKS || erases))
        add_edit(f, i, BLOCK_DELETE);
    item->count =
        (int64_t)random_below(&f->random, p->counts) - (int64_t)p->counts / 2;
    item->flag = p->kind == BLOCK_KEYS && random_chance(&f->random, 10);
    if (!item->is_there)
        return;
    if (p->kind == BLOCK_RANKS && was.is_there && was.count == item->count)
        f->edit_count--; /* it stays in its place */
    else
        add_edit(f, i,
                 p->kind == BLOCK_KEYS && was.is_there ? BLOCK_UPDATE
                                                       : BLOCK_INSERT);
}

/* A batch in which `erase` percent of what is there is deleted. */
static void
change_some(struct fixture *f, const struct plan *p, unsigned erase)
{
    static bool changed[ITEMS];
    const uint64_t n = 1 + random_below(&f->random, p->batch);

    memset(changed, 0, sizeof changed);
    for (uint64_t i = 0; i < n; i++) {
        unsigned at = (unsigned)random_below(&f->random, p->span);

        /* Only an item that is there can be erased. */
        for (int tries = 0; tries < 50 && i % 2 == 0 && !f->items[at].is_there;
             tries++)
            at = (at + 1) % p->span;
        changed[at] = true;
    }
    for (unsigned i = 0; i < p->span; i++)
        if (changed[i])
            change_item(f, p, i, random_chance(&f->random, erase));
    assert_rc(apply_edits(f), 0);
}

CASE(random_edits_equal_the_model, f)
{
    static const struct plan plans[] = {
        {BLOCK_KEYS, 10, 30, 0, 0, 10, 200},
        {BLOCK_KEYS, 300, 5000, 0, 0, 1000, 120},
        {BLOCK_KEYS, 3000, 40000, 0, 0, 1000, 60},
        {BLOCK_KEYS, 40, 40000, 0, 0, 1000, 300},
        {BLOCK_KEYS, 600, 6000, 248, 0, 1000, 80},
        {BLOCK_RANKS, 10, 30, 0, 0, 4, 200},
        {BLOCK_RANKS, 1000, 30000, 0, 0, 100000, 80},
        {BLOCK_RANKS, 25, 30000, 0, 0, 1000000, 300},
        {BLOCK_RANKS, 500, 8000, 8, 241, 3, 80},
        {BLOCK_RANKS, 300, 6000, 248, 0, 1, 80},
    };

    for (const struct plan *p = plans; p < plans + sizeof plans / sizeof *plans;
         p++) {
        print_message("plan %d\n", (int)(p - plans));
        restart_tree(f, p->kind);
        f->before = p->before;
        f->behind = p->behind;
        for (unsigned round = 0; round < p->rounds; round++) {
            /* Grow, stay, and shrink again to almost nothing. */
            f->tree.pages_fold = random_chance(&f->random, 30) ? 0 : UINT64_MAX;
            change_some(f, p, round < p->rounds / 2 ? 20 : 95);
            if (round % 10 == 9 || round + 1 == p->rounds)
                compare_all(f);
        }
    }
}

/* ---- shape --------------------------------------------------------------- */

CASE(what_is_loaded_in_order_is_packed_full, f)
{
    size_t blocks = 0;

    for (unsigned at = 0; at < ITEMS; at += 10000)
        assert_rc(edit_some(f, at, at + 10000, true, NULL), 0);

    for (size_t i = 0; i < f->values.count; i++)
        blocks +=
            memvalues_nth(&f->values, i)->bytes[4] == BLOCK_BASE ? 1u : 0u;

    /* 8-byte keys: 20 bytes a row with its offset. */
    assert_true(blocks <= ITEMS * 20 / 4056 * 21 / 20);
    check_clean(f);
}

CASE(a_tree_that_is_emptied_leaves_nothing, f)
{
    f->before = 200;
    assert_rc(edit_some(f, 0, 3000, true, NULL), 0);

    assert_rc(edit_some(f, 0, 3000, false, NULL), 0);

    assert_int_equal(f->tree.root.id, 0);
    assert_int_equal(f->values.count, 0);
    check_clean(f);
    assert_rc(edit_some(f, 0, 10, true, NULL), 0);
    check_clean(f);
}

#define RANGE_KEYS 40000u

CASE(whole_ranges_come_and_go_in_a_directory_of_many_levels, f)
{
    unsigned level = 0;

    f->before = 240;
    for (unsigned round = 0; round < 100; round++) {
        const unsigned length =
            1 + (unsigned)random_below(&f->random, round < 20 ? 6000 : 3000);
        const unsigned from =
            random_chance(&f->random, 30)
                ? 0
                : (unsigned)random_below(&f->random, RANGE_KEYS);
        const unsigned to =
            from + length < RANGE_KEYS ? from + length : RANGE_KEYS;

        assert_rc(edit_some(f, from, to,
                            round < 20 || random_chance(&f->random, 50), NULL),
                  0);
        check_clean(f);
        level = f->tree.root.level > level ? f->tree.root.level : level;
    }
    assert_true(level >= 3);
}

CASE(more_than_the_budget_is_refused, f)
{
    f->tree.pages_max = 5;
    assert_rc(edit_some(f, 0, 30000, true, NULL), -E2BIG);
    f->tree.pages_max = UINT64_MAX;
    assert_rc(edit_some(f, 0, 30000, true, NULL), 0);
    check_clean(f);
}

/* ---- damage, and calls that fail ------------------------------------------ */

#define GROWN 5000u /* items */

static bool
is_odd(unsigned i)
{
    return i % 2 == 1;
}

static bool
is_fiftieth(unsigned i)
{
    return i % 50 == 0;
}

static bool
is_some_even(unsigned i)
{
    return i % 50 != 0 && (i % 2000 < 500 ? i % 2 == 0 : i % 50 == 2);
}

/* Makes a tree with nodes, buffers and base blocks: long keys, first one batch,
 * then a few rows into each group. */
static void
grow_tree(struct fixture *f, enum block_order kind)
{
    restart_tree(f, kind);
    f->before = 200;
    assert_rc(edit_some(f, 0, GROWN, true, is_odd), 0);
    assert_rc(edit_some(f, 0, GROWN, true, is_fiftieth), 0);
    assert_true(f->tree.root.level >= 1);
    check_clean(f);
}

/* A change of many groups: some get it into their buffers, some are folded. */
static int
change_much(struct fixture *f)
{
    return edit_some(f, 0, GROWN, true, is_some_even);
}

static int
pass_row(void *ctx, const struct row *r)
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

    rc = tree_scan(&f->tree, pass_row, NULL);
    for (uint64_t at = 0;
         f->tree.kind == BLOCK_RANKS && rc == 0 && at < f->tree.root.count;
         at += rows) {
        int64_t size;

        rows = 1000;
        size = tree_range(&f->tree, at, bytes, sizeof bytes, &rows);
        rc = size < 0 ? (int)size : 0;
    }
    for (unsigned i = 1; rc == 0 && i < GROWN; i += 300) {
        struct tree_finder finder = {.valid = false};
        const struct row want = row_of(f, i);
        struct row got;

        rc = tree_find(&f->tree, &want, &finder, &got);
        if (rc == 0)
            rc = tree_rank(&f->tree, &want, &rank);
    }
    return rc;
}

CASE(any_call_of_the_kv_may_fail, f)
{
    for (int kind = BLOCK_KEYS; kind <= BLOCK_RANKS; kind++) {
        int rc = -1;

        grow_tree(f, (enum block_order)kind);
        f->tree.cache = NULL;
        f->values.error = -EXFULL;
        for (unsigned n = 1; rc != 0; n++) {
            memvalues_begin(&f->values);
            f->values.fail_at = n;
            rc = read_all(f);
            f->values.fail_at = 0;
            memvalues_end(&f->values, false);
            assert_rc(rc, rc == 0 ? 0 : -EXFULL);
        }
        rc = -1;
        for (unsigned n = 1; rc != 0; n++) {
            f->values.fail_at = n;
            rc = change_much(f);
            f->values.fail_at = 0;
            assert_rc(rc, rc == 0 ? 0 : -EXFULL);
            assert_int_equal(f->tree.root.count, f->count);
        }
        check_clean(f);
    }
}

/* Flips a bit of a value; the same again puts it right. */
static void
flip_bit(struct memvalues_value *v, uint64_t bit)
{
    v->bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
}

CASE(damage_never_gets_a_new_checksum, f)
{
    unsigned refused = 0, passed = 0;

    grow_tree(f, BLOCK_KEYS);
    f->holds = true;
    for (size_t i = 0; i < f->values.count; i++) {
        const struct tree_root root = f->tree.root;
        struct memvalues_value *v = memvalues_nth(&f->values, i);
        const uint64_t key = v->key,
                       bit = random_below(&f->random, 8 * v->size);

        /* A cache that has seen everything good, and then the change. */
        begin_read(f);
        assert_rc(read_all(f), 0);
        flip_bit(v, bit);
        if (change_much(f) == 0) {
            assert_true(count_faults(f, false) > 0);
            passed++;
            memvalues_end(&f->values, false);
            f->tree.root = root;
        } else {
            refused++;
        }
        flip_bit(memvalues_find(&f->values, key), bit);
        check_clean(f);
    }
    print_message("refused %u, not rewritten %u\n", refused, passed);
    assert_true(refused > 0 && passed > 0);
}

/* Reads and checks in a transaction, which is undone. */
static void
expect_damage(struct fixture *f)
{
    begin_read(f);
    tree_cache_forget(&f->cache);
    assert_true(count_faults(f, false) > 0);
    assert_rc(read_all(f), -EBADMSG);
    memvalues_end(&f->values, false);
}

CASE(a_value_that_is_missing_is_found, f)
{
    grow_tree(f, BLOCK_KEYS);
    for (size_t i = 0; i < f->values.count; i++) {
        memvalues_begin(&f->values);
        assert_rc(memvalues_del(&f->values, memvalues_nth(&f->values, i)->key),
                  0);
        expect_damage(f);
    }
    check_clean(f);
}

struct saved {
    uint64_t key;
    size_t size;
    uint8_t bytes[BLOCK_SIZE];
};

CASE(a_value_of_an_earlier_change_is_found, f)
{
    static struct saved old[300];
    unsigned stale = 0;
    size_t count;

    grow_tree(f, BLOCK_KEYS);
    count = f->values.count;
    assert_true(count <= sizeof old / sizeof old[0]);
    for (size_t i = 0; i < count; i++) {
        const struct memvalues_value *v = memvalues_nth(&f->values, i);

        old[i] = (struct saved){.key = v->key, .size = v->size};
        memcpy(old[i].bytes, v->bytes, v->size);
    }
    assert_rc(change_much(f), 0);

    for (size_t i = 0; i < count; i++) {
        const struct memvalues_value *now =
            memvalues_find(&f->values, old[i].key);

        if (now == NULL ||
            bytes_equal(now->bytes, now->size, old[i].bytes, old[i].size))
            continue;
        memvalues_begin(&f->values);
        assert_rc(
            memvalues_put(&f->values, old[i].key, old[i].bytes, old[i].size),
            0);
        expect_damage(f);
        stale++;
    }
    assert_true(stale > 3); /* of groups that got a buffer */
    check_clean(f);
}
