/* common/client/lib/history.c - libcountd: history: countd_history(),
 * countd_period_top(), countd_period_rank(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/lib/countd.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/bytes.h"
#include "common/client/lib/exchange.h"
#include "common/client/lib/handle.h"
#include "common/wire/query.h"

/* An answer, and where its next row is. */
struct history_rows {
    struct countd_rows *memory; /* the caller's to free */
    struct query_history_head facts;
    size_t count;
    const uint8_t *at;
    size_t left;
};

static int
open_answer(struct history_rows *a, struct countd_rows *memory)
{
    const struct countd_row *all = &memory->rows[0];

    *a = (struct history_rows){.memory = memory,
                               .count = (size_t)all->count,
                               .at = (const uint8_t *)all->key +
                                     QUERY_HISTORY_HEAD,
                               .left = all->key_size - QUERY_HISTORY_HEAD};
    query_history_get((const uint8_t *)all->key, &a->facts);
    switch (a->facts.error) {
    case 0:
        return 0;
    case -EINVAL:
    case -E2BIG:
    case -ENOENT:
    case -ENODATA:
        return (int)a->facts.error;
    default:
        return -EPROTO;
    }
}

/* After success the answer's memory is there to be freed. */
static int
run_history_query(struct countd *c, struct query *q, size_t keyspace_size,
                  size_t key_size, struct history_rows *out)
{
    struct countd_rows *rows = NULL;
    int rc;

    rc = exchange_one(&c->reading, q, keyspace_size, key_size, true, &rows);
    if (rc < 0)
        return rc;
    rc = open_answer(out, rows);
    if (rc < 0)
        free(rows);
    return rc;
}

static struct countd_sum
sum_of(int64_t high, uint64_t low, bool any)
{
    struct countd_sum sum = {.high = high, .low = low, .any = any};

    if (high == ((int64_t)low < 0 ? -1 : 0))
        sum.value = (int64_t)low;
    else
        sum.value = high < 0 ? INT64_MIN : INT64_MAX;
    return sum;
}

/* The times to which the server has widened those of a period.  -EPROTO: these
 * are none. */
static int
widen_times(const struct query_history_head *facts, int64_t *from, int64_t *to)
{
    const int64_t step = facts->step;

    if (step <= 0 || *from < 0 || *to > INT64_MAX - step)
        return -EPROTO;
    *from -= *from % step;
    *to = (*to + step - 1) / step * step;
    return 0;
}

static int
next_row(struct history_rows *a, struct query_history_row *row)
{
    const int size = query_history_row_get(a->at, a->left, row);

    if (size < 0)
        return size;
    a->at += size;
    a->left -= (size_t)size;
    return 0;
}

static struct countd_sum
row_sum(const struct query_history_row *row)
{
    return sum_of(row->sum_high, row->sum_low,
                  (row->flags & QUERY_HISTORY_ANY) != 0);
}

/* ---- history ----------------------------------------------------------- */

static int
take_buckets(struct history_rows *a, const struct query *q,
             struct countd_buckets **out)
{
    struct countd_buckets *b =
        malloc(sizeof *b + a->count * sizeof *b->buckets);
    struct query_history_row row;
    int rc = 0;

    if (!b)
        return -ENOMEM;
    *b = (struct countd_buckets){.as_of_ms = a->memory->as_of_ms,
                                 .since = a->facts.since,
                                 .count = a->count,
                                 .buckets = (struct countd_bucket *)(b + 1)};
    for (size_t i = 0; rc == 0 && i < a->count; i++) {
        rc = next_row(a, &row);
        if (rc == 0)
            b->buckets[i] = (struct countd_bucket){
                q->from + (int64_t)i * q->step, row_sum(&row)};
    }
    if (rc < 0)
        free(b);
    else
        *out = b;
    return rc;
}

PUBLIC int
countd_history(struct countd *c, const void *keyspace, size_t keyspace_size,
               const void *key, size_t key_size, int64_t from, int64_t to,
               int64_t step, struct countd_buckets **out)
{
    struct query q = {.op = QUERY_HISTORY,
                      .keyspace = keyspace,
                      .key = key,
                      .from = from,
                      .to = to,
                      .step = step};
    struct history_rows a;
    int rc;

    rc = run_history_query(c, &q, keyspace_size, key_size, &a);
    if (rc < 0)
        return rc;
    /* Buckets that were not asked for have no start. */
    if (step <= 0 || to < from ||
        a.count != ((uint64_t)to - (uint64_t)from) / (uint64_t)step)
        rc = -EPROTO;
    else
        rc = take_buckets(&a, &q, out);
    free(a.memory);
    return rc;
}

PUBLIC void
countd_buckets_free(struct countd_buckets *buckets)
{
    free(buckets);
}

/* ---- periods ----------------------------------------------------------- */

/* Keys stay where they came: their memory is the head of it all. */
struct top {
    struct countd_top top; /* first: what the caller has */
    struct countd_rows *memory;
};

/* Whether a row comes after `before`: a smaller sum, or a key that is greater.
 */
static bool
is_in_order(const struct countd_top_row *before,
            const struct countd_top_row *row)
{
    const struct countd_sum *a = &before->sum, *b = &row->sum;

    if (a->high != b->high)
        return a->high > b->high;
    if (a->low != b->low)
        return a->low > b->low;
    return bytes_compare(before->key, before->key_size, row->key,
                         row->key_size) < 0;
}

static int
take_top(struct history_rows *a, const struct query *q, struct countd_top **out)
{
    struct top *t = malloc(sizeof *t + a->count * sizeof *t->top.rows);
    struct query_history_row row;
    int rc = 0;

    if (!t)
        return -ENOMEM;
    t->memory = a->memory;
    t->top = (struct countd_top){.as_of_ms = a->memory->as_of_ms,
                                 .since = a->facts.since,
                                 .before_known = a->facts.known != 0,
                                 .count = a->count,
                                 .rows = (struct countd_top_row *)(t + 1),
                                 .from = q->from,
                                 .to = q->to};
    rc = widen_times(&a->facts, &t->top.from, &t->top.to);
    for (size_t i = 0; rc == 0 && i < a->count; i++) {
        rc = next_row(a, &row);
        if (rc == 0)
            t->top.rows[i] = (struct countd_top_row){
                .sum = row_sum(&row),
                .before = sum_of(row.before_high, row.before_low,
                                 (row.flags & QUERY_HISTORY_ANY_BEFORE) != 0),
                .key = (const char *)row.key,
                .key_size = row.key_size};
        if (rc == 0 && i > 0 &&
            !is_in_order(&t->top.rows[i - 1], &t->top.rows[i]))
            rc = -EPROTO;
    }
    if (rc < 0)
        free(t);
    else
        *out = &t->top;
    return rc;
}

PUBLIC int
countd_period_top(struct countd *c, const void *keyspace, size_t keyspace_size,
                  int64_t from, int64_t to, int64_t length,
                  struct countd_top **out)
{
    struct query q = {.op = QUERY_PERIOD_TOP,
                      .keyspace = keyspace,
                      .from = from,
                      .to = to,
                      .length = length};
    struct history_rows a;
    int rc;

    rc = run_history_query(c, &q, keyspace_size, 0, &a);
    if (rc < 0)
        return rc;
    rc = a.count <= (uint64_t)length ? take_top(&a, &q, out) : -EPROTO;
    if (rc < 0)
        free(a.memory);
    return rc;
}

PUBLIC void
countd_top_free(struct countd_top *top)
{
    struct top *t = (struct top *)top;

    if (t)
        free(t->memory);
    free(t);
}

PUBLIC int
countd_period_rank(struct countd *c, const void *keyspace, size_t keyspace_size,
                   const void *key, size_t key_size, int64_t from, int64_t to,
                   struct countd_period *out)
{
    struct query q = {.op = QUERY_PERIOD_RANK,
                      .keyspace = keyspace,
                      .key = key,
                      .from = from,
                      .to = to};
    struct query_history_row row;
    struct history_rows a;
    int rc;

    rc = run_history_query(c, &q, keyspace_size, key_size, &a);
    if (rc < 0)
        return rc;
    rc = a.count == 1 ? next_row(&a, &row) : -EPROTO;
    if (rc == 0)
        rc = widen_times(&a.facts, &from, &to);
    if (rc == 0)
        *out = (struct countd_period){.as_of_ms = a.memory->as_of_ms,
                                      .since = a.facts.since,
                                      .sum = row_sum(&row),
                                      .rank = a.facts.rank,
                                      .keys = a.facts.keys,
                                      .from = from,
                                      .to = to};
    free(a.memory);
    return rc;
}
