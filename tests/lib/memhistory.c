/* tests/lib/memhistory.c - see memhistory.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/memhistory.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "tests/lib/test.h"

static void
add_sum(struct store_bucket *b, int128 sum)
{
    b->any = true;
    b->sum += sum;
}

static int
by_key(const void *a, const void *b)
{
    const struct store_top *x = a, *y = b;

    return bytes_compare(x->key, x->key_size, y->key, y->key_size);
}

static int
by_sum(const void *a, const void *b)
{
    const struct store_top *x = a, *y = b;
    const int128 p = x->sum.sum, q = y->sum.sum;

    return p != q ? (p > q ? -1 : 1) : by_key(a, b);
}

/* Whether an entry is of a span, and of the keys that are asked about. */
static bool
is_wanted(const struct memhistory *p, const struct store_history_query *q,
          uint32_t from, uint32_t to)
{
    return p->minute >= from && p->minute < to &&
           p->key.size >= q->prefix_size &&
           memcmp(p->key.bytes, q->prefix ? q->prefix : p->key.bytes,
                  q->prefix_size) == 0 &&
           (!q->wants || q->wants(q, p->key.bytes, p->key.size));
}

/* The size of its row's name: of all of it, or up to the end of its group. */
static uint16_t
row_size(const struct memhistory *p, const struct store_history_query *q)
{
    for (size_t i = q->prefix_size; q->group != 0 && i < p->key.size; i++)
        if (p->key.bytes[i] == q->group)
            return (uint16_t)(i + 1);
    return (uint16_t)p->key.size;
}

/* Sums of each key or group of a span, by key; *n of them.  The caller's to
 * free. */
static struct store_top *
sum_rows(const struct memhistory *table, size_t count,
         const struct store_history_query *q, uint32_t from, uint32_t to,
         size_t *n)
{
    struct store_top *all = test_memory(calloc(count + 1, sizeof *all));
    size_t kept = 0, found = 0;

    for (size_t i = 0; i < count; i++) {
        const struct memhistory *p = &table[i];

        if (!is_wanted(p, q, from, to))
            continue;
        all[found].key_size = row_size(p, q);
        memcpy(all[found].key, p->key.bytes, all[found].key_size);
        add_sum(&all[found++].sum, p->sum);
    }
    qsort(all, found, sizeof *all, by_key);
    for (size_t i = 0; i < found; i++) {
        if (kept > 0 && by_key(&all[kept - 1], &all[i]) == 0)
            add_sum(&all[kept - 1].sum, all[i].sum.sum);
        else
            all[kept++] = all[i];
    }
    *n = kept;
    return all;
}

static void
answer_top(const struct memhistory *table, size_t count,
           struct store_history_query *q)
{
    const uint32_t span = q->to - q->from;
    struct store_top *now, *before = NULL;
    size_t n, earlier = 0;

    now = sum_rows(table, count, q, q->from, q->to, &n);
    if (q->from >= span)
        before = sum_rows(table, count, q, q->from - span, q->from, &earlier);
    qsort(now, n, sizeof *now, by_sum);
    q->before_known = q->from >= span;
    for (q->rows = 0; q->rows < n && q->rows < q->length; q->rows++) {
        struct store_top *t = &q->top[q->rows];
        const struct store_top *was;

        *t = now[q->rows];
        was = earlier == 0 ? NULL
                           : bsearch(t, before, earlier, sizeof *t, by_key);
        if (was)
            t->before = was->sum;
    }
    free(now);
    free(before);
}

static void
answer_rank(const struct memhistory *table, size_t count,
            struct store_history_query *q)
{
    struct store_top *now, own = {.key_size = (uint16_t)q->key_size};
    const struct store_top *found;

    now = sum_rows(table, count, q, q->from, q->to, &q->keys);
    if (q->key_size == 0) {
        for (size_t i = 0; i < q->keys; i++)
            add_sum(&q->sum, now[i].sum.sum);
        free(now);
        return;
    }
    memcpy(own.key, q->key, q->key_size);
    found = bsearch(&own, now, q->keys, sizeof own, by_key);
    if (found)
        own = *found;
    q->sum = own.sum;
    for (size_t i = 0; i < q->keys; i++)
        q->rank += by_sum(&now[i], &own) < 0;
    free(now);
}

struct memhistory
memhistory_of(const struct store_delta *d, uint32_t now)
{
    const uint32_t day = 1440;
    struct memhistory at = {.key.size = d->key_size,
                            .minute = d->minute > now + day ? now : d->minute,
                            .sum = d->sum};

    memcpy(at.key.bytes, d->key, d->key_size);
    return at;
}

int
memhistory_answer(const struct memhistory *table, size_t count,
                  struct store_history_query *q)
{
    if (q->to < q->from)
        return -EINVAL;
    q->since = 0;
    if (q->op == STORE_HISTORY_TOP)
        answer_top(table, count, q);
    if (q->op == STORE_HISTORY_RANK)
        answer_rank(table, count, q);
    if (q->op == STORE_HISTORY_TOP || q->op == STORE_HISTORY_RANK)
        return 0;
    if (q->step == 0 || (q->to - q->from) % q->step != 0)
        return -EINVAL;
    if ((q->to - q->from) / q->step > STORE_BUCKETS_MAX)
        return -E2BIG;
    memset(q->buckets, 0, (q->to - q->from) / q->step * sizeof *q->buckets);
    for (size_t i = 0; i < count; i++) {
        const struct memhistory *p = &table[i];

        if (q->op == STORE_HISTORY_KEYSPACE
                ? is_wanted(p, q, q->from, q->to)
                : p->minute >= q->from && p->minute < q->to &&
                      bytes_equal(p->key.bytes, p->key.size, q->key,
                                  q->key_size))
            add_sum(&q->buckets[(p->minute - q->from) / q->step], p->sum);
    }
    return 0;
}

static void
assert_bucket(const struct store_bucket *a, const struct store_bucket *b)
{
    assert_int_equal(a->any, b->any);
    assert_true(a->sum == b->sum);
}

void
memhistory_compare(const struct memhistory *table, size_t count, bool deleted,
                   struct store_history_query q,
                   int (*ask)(void *ctx, struct store_history_query *q),
                   void *ctx)
{
    static struct store_bucket got[MEMHISTORY_ROWS], want[MEMHISTORY_ROWS];
    static struct store_top got_top[MEMHISTORY_ROWS], want_top[MEMHISTORY_ROWS];
    struct store_history_query p = q;
    int rc;

    q.buckets = got;
    q.top = got_top;
    p.buckets = want;
    p.top = want_top;
    do
        rc = ask(ctx, &q);
    while (rc == -EAGAIN);
    assert_rc(rc, 0);
    if (q.since > q.from)
        return; /* nothing is promised */
    assert_rc(memhistory_answer(table, count, &p), 0);
    assert_int_equal(q.rows, p.rows);
    assert_true(q.rank == p.rank && q.keys == p.keys);
    assert_bucket(&q.sum, &p.sum);
    for (uint64_t i = 0; i < q.rows; i++) {
        assert_int_equal(got_top[i].key_size, want_top[i].key_size);
        assert_memory_equal(got_top[i].key, want_top[i].key,
                            got_top[i].key_size);
        assert_bucket(&got_top[i].sum, &want_top[i].sum);
        if (q.before_known)
            assert_bucket(&got_top[i].before, &want_top[i].before);
    }
    if (q.op != STORE_HISTORY_KEY && q.op != STORE_HISTORY_KEYSPACE)
        return;
    for (uint32_t i = 0; i < (q.to - q.from) / q.step; i++) {
        if (q.op == STORE_HISTORY_KEYSPACE && deleted && !want[i].any)
            got[i].any = false;
        assert_bucket(&got[i], &want[i]);
    }
}
