/* tests/lib/compare_dirs.c - see compare_dirs.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/compare_dirs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "tests/lib/expect.h"
#include "tests/lib/stored.h"
#include "tests/lib/test.h"

#define NAMES_MAX 256
#define DAY       1440u

static uint64_t moment_ms;

/* Both are asked at the same time. */
static uint64_t
now_ms(void)
{
    return moment_ms;
}

struct side {
    struct stored_dir stored;
    char names[NAMES_MAX][STORE_NAME_MAX + 1];
    unsigned count;
};

struct compare_dirs {
    struct side sides[2];
    char (*keys)[STORE_NAME_MAX + 1]; /* of the keyspace at hand */
    unsigned key_count, key_room;
    bool deep;
    unsigned any; /* buckets that had increments */
};

static int
take_name(void *ctx, const uint8_t *name, size_t size, int64_t keys)
{
    struct side *s = ctx;

    (void)keys; /* the totals say it */
    assert_true(s->count < NAMES_MAX);
    memcpy(s->names[s->count++], name, size);
    return 0;
}

static void
side_open(struct side *s, const char *path)
{
    stored_open(&s->stored, path, now_ms);
    assert_rc(store_list(s->stored.store, NULL, 0, take_name, s), 0);
}

/* ---- counts ------------------------------------------------------------- */

static int
take_key(void *ctx, const uint8_t *key, size_t size,
         const struct store_row *row)
{
    struct compare_dirs *t = ctx;

    (void)row; /* asked for again */
    if (t->key_count == t->key_room) {
        t->key_room = 2 * t->key_room + 64;
        t->keys = test_memory(realloc(t->keys, t->key_room * sizeof *t->keys));
    }
    memcpy(t->keys[t->key_count], key, size);
    t->keys[t->key_count++][size] = '\0';
    return 0;
}

static void
compare_counts(struct compare_dirs *t, const char *name)
{
    struct store *a = t->sides[0].stored.store, *b = t->sides[1].stored.store;
    struct store_totals x, y;
    struct store_row p, q;

    assert_rc(stored_totals(a, name, &x), 0);
    assert_rc(stored_totals(b, name, &y), 0);
    assert_int_equal(x.keys, y.keys);
    assert_true(x.sum == y.sum);
    assert_int_equal(x.saturated, y.saturated);
    t->key_count = 0;
    assert_rc(stored_each(a, name, take_key, t), 0);
    for (unsigned i = 0; i < t->key_count; i++) {
        assert_rc(stored_get(a, name, t->keys[i], &p), 0);
        assert_rc(stored_get(b, name, t->keys[i], &q), 0);
        if (p.count != q.count || p.saturated != q.saturated)
            fail_msg("%s/%s: %lld and %lld", name, t->keys[i],
                     (long long)p.count, (long long)q.count);
    }
}

/* ---- history ------------------------------------------------------------ */

static int
ask_side(struct store *s, const struct store_history_query *zero,
         struct store_history_query *q, struct store_bucket *buckets)
{
    int rc;

    *q = *zero;
    q->buckets = buckets;
    rc = store_history(s, q, 0);
    store_read_end(s);
    return rc;
}

/* So many buckets, up to now. */
static void
compare_buckets(struct compare_dirs *t, const char *name, const char *key,
                uint32_t step, unsigned count)
{
    static struct store_bucket x[STORE_BUCKETS_MAX], y[STORE_BUCKETS_MAX];
    struct store_history_query zero = {.op = key ? STORE_HISTORY_KEY
                                                 : STORE_HISTORY_KEYSPACE,
                                       .name = (const uint8_t *)name,
                                       .name_size = strlen(name),
                                       .key = (const uint8_t *)key,
                                       .key_size = key ? strlen(key) : 0,
                                       .step = step};
    struct store_history_query p, q;

    assert_true(count <= STORE_BUCKETS_MAX);
    zero.to = ((uint32_t)(moment_ms / 60000) / step + 1) * step;
    zero.from = zero.to - count * step;
    memset(x, 0, sizeof x);
    memset(y, 0xff, sizeof y);
    assert_rc(ask_side(t->sides[0].stored.store, &zero, &p, x), 0);
    assert_rc(ask_side(t->sides[1].stored.store, &zero, &q, y), 0);
    assert_int_equal(p.since, q.since);
    for (unsigned i = 0; i < count; i++) {
        if (x[i].any != y[i].any || x[i].sum != y[i].sum)
            fail_msg("%s/%s, bucket %u of %u of %u minutes: %lld and %lld",
                     name, key ? key : "", i, count, step, (long long)x[i].sum,
                     (long long)y[i].sum);
        t->any += x[i].any;
    }
}

static void
compare_history(struct compare_dirs *t, const char *name, const char *key)
{
    if (key && !t->deep) {
        compare_buckets(t, name, key, 1, 60);
        return;
    }
    /* All that the tiers keep: two days, ninety days, ten years. */
    compare_buckets(t, name, key, 1, 2 * DAY - 60);
    compare_buckets(t, name, key, 60, 89 * 24);
    compare_buckets(t, name, key, DAY, 3600);
}

void
compare_dirs(const char *path, const char *other, bool deep)
{
    struct compare_dirs *t = test_memory(calloc(1, sizeof *t));

    t->deep = deep;
    moment_ms = clock_unix_ms();
    side_open(&t->sides[0], path);
    side_open(&t->sides[1], other);
    assert_int_equal(t->sides[0].count, t->sides[1].count);
    for (unsigned i = 0; i < t->sides[0].count; i++) {
        const char *name = t->sides[0].names[i];

        assert_string_equal(name, t->sides[1].names[i]);
        compare_counts(t, name);
        compare_history(t, name, NULL);
        for (unsigned k = 0; k < t->key_count; k++)
            compare_history(t, name, t->keys[k]);
    }
    /* Else nothing was compared. */
    assert_true(t->sides[0].count == 0 || t->any > 0);
    stored_close(&t->sides[0].stored);
    stored_close(&t->sides[1].stored);
    free(t->keys);
    free(t);
}

static void
assert_empty(const char *path)
{
    struct side *s = test_memory(calloc(1, sizeof *s));

    side_open(s, path);
    assert_int_equal(s->count, 0);
    stored_close(&s->stored);
    free(s);
}

bool
compare_dirs_replay(struct fleet *f, const char *target)
{
    char archive[600];
    int status;

    (void)snprintf(archive, sizeof archive, "%s/archive", f->path);
    status = FLEET_RUN(f, "-d", target, "replay", archive);
    if (status == 1 && strstr(text, "no archived logs there") != NULL) {
        assert_empty(f->path);
        return false;
    }
    expect(status, 0, "; logs left out 0, missing 0, damaged 0\n");
    return true;
}
