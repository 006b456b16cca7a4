/* tests/fuzz/fuzz_tree.c - any bytes as the values of a tree: it is read,
 * checked and changed without leaving them, and without end.
 *
 * The input is values one after the other, each behind its size (u16); the
 * first is the root.  A value stands where its own header says, and checksum
 * and size in the header are made right, so that what is behind them gets
 * tested. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include <errno.h>

#include "common/base/crc.h"
#include "common/store/tree/node.h"
#include "common/store/tree/tree.h"
#include "tests/lib/checks.h"

#define VALUES_MAX 64

struct values {
    unsigned count;
    struct {
        uint8_t *bytes; /* exactly so large, for a sanitizer */
        size_t size;
    } values[VALUES_MAX];
};

/* Finds only the key itself. */
static int
after(void *ctx, const uint8_t *key, size_t size, struct kv_item *out)
{
    const struct values *v = ctx;

    assert(size == 8);
    for (unsigned i = 0; i < v->count; i++) {
        if (get_le64(v->values[i].bytes + 8) != get_be64(key))
            continue;
        *out =
            (struct kv_item){key, v->values[i].bytes, size, v->values[i].size};
        return 1;
    }
    return 0;
}

/* Changes go nowhere: what they read afterwards is as it was. */
static int
put(void *ctx, const uint8_t *key, size_t key_size, const uint8_t *bytes,
    size_t size)
{
    (void)ctx;
    assert(key_size == 8 && size >= BLOCK_HEAD && size <= BLOCK_SIZE);
    assert(get_le64(bytes + 8) == get_be64(key) &&
           get_le16(bytes + 20) == size);
    return 0;
}

static int
del(void *ctx, const uint8_t *key, size_t size)
{
    (void)ctx;
    (void)key;
    (void)size;
    return 0;
}

static void
split_values(struct values *v, const uint8_t *bytes, size_t size)
{
    while (size >= 2 && v->count < VALUES_MAX) {
        size_t n = get_le16(bytes);
        uint8_t *copy;

        bytes += 2;
        size -= 2;
        if (n > size)
            n = size;
        if (n < BLOCK_HEAD || n > BLOCK_SIZE)
            return;
        copy = fuzz_copy(bytes, n);
        put_le16(copy + 20, (uint16_t)n);
        put_le32(copy, crc_of(copy + 4, n - 4));
        v->values[v->count].bytes = copy;
        v->values[v->count++].size = n;
        bytes += n;
        size -= n;
    }
}

/* The root that fits the first value. */
static bool
root_of(const struct values *v, struct tree *t)
{
    const uint8_t *bytes = v->values[0].bytes;

    t->kind = bytes[5] == BLOCK_KEYS ? BLOCK_KEYS : BLOCK_RANKS;
    t->root.id = get_le64(bytes + 8) >> 16;
    t->root.next_id = t->root.id + 1000;
    if (t->root.id == 0)
        return false; /* that is an empty tree */
    if (bytes[4] == BLOCK_NODE && node_check(bytes, v->values[0].size) == 0) {
        const struct node n = {.bytes = bytes, .count = block_count(bytes)};

        t->root.level = block_more(bytes);
        t->root.count = node_before(&n, n.count);
        return t->root.level > 0 && t->root.level < TREE_LEVELS;
    }
    if (bytes[4] != BLOCK_GROUP || group_check(bytes, v->values[0].size) < 0)
        return false;
    for (unsigned i = 0; i < block_count(bytes); i++) {
        const struct group g = {.bytes = bytes};

        t->root.count += group_total(&g, i);
    }
    return true;
}

/* ---- what is done with it ---- */

struct rows {
    uint64_t count;
    struct row some; /* of them */
    uint8_t key[BLOCK_KEY_MAX];
};

static int
take_row(void *ctx, const struct row *r)
{
    struct rows *rows = ctx;

    assert(r->key_size <= BLOCK_KEY_MAX);
    if (++rows->count % 3 == 1) {
        rows->some = *r;
        rows->some.key = rows->key;
        memcpy(rows->key, r->key, r->key_size);
    }
    return 0;
}

static void
take_checked(void *ctx, const struct row *r)
{
    (void)take_row(ctx, r);
}

static void
no_fault(void *ctx, const char *text)
{
    (void)ctx;
    (void)text;
}

static void
read_it(struct tree *t, struct rows *rows)
{
    static uint8_t bytes[1000];
    struct tree_finder f = {.valid = false};
    struct row found;
    uint64_t number;

    if (tree_scan(t, take_row, rows) == 0 && rows->count > 0) {
        (void)tree_find(t, &rows->some, &f, &found); /* any answer will do */
        (void)tree_rank(t, &rows->some, &number);
    }
    if (t->kind != BLOCK_RANKS)
        return;
    for (uint64_t at = 0; at < t->root.count && at < 1000; at += 7) {
        number = 10;
        assert(tree_range(t, at, bytes, sizeof bytes, &number) <=
               (int64_t)sizeof bytes);
    }
}

static void
change_it(struct tree *t, const struct rows *rows)
{
    struct row edits[3] = {
        {.count = 9, .key = (const uint8_t *)"a", .key_size = 1},
        rows->some,
        {.count = -9, .key = (const uint8_t *)"zz", .key_size = 2}};
    const struct tree_root root = t->root;

    edits[0].flags = edits[1].flags = edits[2].flags = BLOCK_INSERT;
    if (rows->count > 0)
        edits[1].flags = BLOCK_DELETE;
    if (edits[1].key_size == 0 ||
        row_compare(t->kind, &edits[0], &edits[1]) >= 0 ||
        row_compare(t->kind, &edits[1], &edits[2]) >= 0)
        edits[1] = edits[2];
    (void)tree_apply(t, edits, edits[1].key == edits[2].key ? 2 : 3);
    t->root = root;
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static struct tree_work *work;
    struct values values = {.count = 0};
    struct rows rows = {.count = 0};
    struct tree t = {
        .kv = {.after = after, .put = put, .del = del, .ctx = &values},
        .pages_max = UINT64_MAX,
    };
    struct tree_check check = {
        .fault = no_fault, .row = take_checked, .ctx = &rows};

    if (work == NULL)
        work = tree_work_new();
    assert(work != NULL);
    t.work = work;
    split_values(&values, bytes, size);
    if (values.count > 0 && root_of(&values, &t)) {
        read_it(&t, &rows);
        tree_check(&t, &check);
        for (unsigned i = 0; i < 2; i++) {
            t.pages_fold = i == 0 ? 0 : UINT64_MAX;
            change_it(&t, &rows);
        }
    }
    for (unsigned i = 0; i < values.count; i++)
        free(values.values[i].bytes);
    return 0;
}
