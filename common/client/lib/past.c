/* common/client/lib/past.c - libcountd: what came when: countd_history(),
 * countd_period_top(), countd_period_rank(), from documents as in questions.c.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "common/client/lib/document.h"

static void
put_times(struct document *d, int64_t from, int64_t to)
{
    if (from < 0 || to < from)
        d->error = d->error < 0 ? d->error : -EINVAL;
    document_put_number(d, "from", from, "");
    document_put_number(d, "to", to, "");
}

static int
take_buckets(struct document *d, struct countd_buckets **out)
{
    struct countd_buckets *b =
        calloc(1, sizeof *b + document_rows_max(d) * sizeof *b->buckets);

    if (!b)
        return -ENOMEM;
    b->buckets = (struct countd_bucket *)(b + 1);
    while (document_next(d)) {
        struct countd_bucket *bucket = &b->buckets[d->row];

        document_number(d, "as_of_ms", &b->as_of_ms);
        document_number(d, "since", &b->since);
        if (!d->in_rows)
            continue;
        document_number(d, "from", &bucket->start);
        document_sum(d, "sum", &bucket->sum);
    }
    b->count = d->row;
    *out = b;
    return 0;
}

PUBLIC int
countd_history(struct countd *c, const void *keyspace, size_t keyspace_size,
               const void *key, size_t key_size, int64_t from, int64_t to,
               int64_t step, struct countd_buckets **out)
{
    struct countd_buckets *b = NULL;
    struct document d;
    int rc;

    if (step <= 0 || step % 60 != 0 || from % step != 0 || to % step != 0)
        return -EINVAL;
    document_about(c, &d, "history", keyspace, keyspace_size, key, key_size);
    put_times(&d, from, to);
    document_put_number(&d, "step", step / 60, "m");
    rc = document_ask(&d);
    if (rc == 0)
        rc = take_buckets(&d, &b);
    if (rc == 0 && b->count != (uint64_t)((to - from) / step))
        rc = -EPROTO;
    rc = document_end_with(&d, rc, b);
    if (rc == 0)
        *out = b;
    return rc;
}

PUBLIC void
countd_buckets_free(struct countd_buckets *buckets)
{
    free(buckets);
}

static int
take_top(struct document *d, struct countd_top **out)
{
    const size_t rows = document_rows_max(d);
    struct countd_top *t =
        calloc(1, sizeof *t + rows * sizeof *t->rows + d->answer.size);
    uint8_t *at;

    if (!t)
        return -ENOMEM;
    t->rows = (struct countd_top_row *)(t + 1);
    at = (uint8_t *)(t->rows + rows);
    while (document_next(d)) {
        struct countd_top_row *row = &t->rows[d->row];
        int name_size;

        document_number(d, "as_of_ms", &t->as_of_ms);
        document_number(d, "since", &t->since);
        if (!d->in_rows) {
            document_number(d, "from", &t->from);
            document_number(d, "to", &t->to);
            continue;
        }
        document_sum(d, "sum", &row->sum);
        document_sum(d, "before", &row->before);
        if (document_is(d, "before")) {
            t->before_known = d->token != JSON_NULL;
            row->before.any = row->before.high != 0 || row->before.low != 0;
        }
        name_size = document_name(d, "key", at);
        if (name_size < 0)
            continue;
        row->key = (const char *)at;
        row->key_size = (size_t)name_size;
        at += name_size;
        *at++ = '\0';
    }
    t->count = d->row;
    *out = t;
    return 0;
}

PUBLIC int
countd_period_top(struct countd *c, const void *keyspace, size_t keyspace_size,
                  int64_t from, int64_t to, int64_t length,
                  struct countd_top **out)
{
    struct countd_top *t = NULL;
    struct document d;
    int rc;

    document_about(c, &d, "top", keyspace, keyspace_size, NULL, 0);
    put_times(&d, from, to);
    document_put_number(&d, "n", length, "");
    rc = document_ask(&d);
    if (rc == 0)
        rc = take_top(&d, &t);
    rc = document_end_with(&d, rc, t);
    if (rc == 0)
        *out = t;
    return rc;
}

PUBLIC void
countd_top_free(struct countd_top *top)
{
    free(top);
}

static int
ask_period(struct countd *c, const void *keyspace, size_t keyspace_size,
           const void *key, size_t key_size, int64_t from, int64_t to,
           struct countd_period *out)
{
    struct countd_period p = {.rank = -1};
    struct document d;
    int rc;

    document_about(c, &d, key_size > 0 ? "rank" : "distinct", keyspace,
                   keyspace_size, key, key_size);
    put_times(&d, from, to);
    if (document_ask(&d) == 0)
        while (document_next(&d)) {
            document_number(&d, "as_of_ms", &p.as_of_ms);
            document_number(&d, "since", &p.since);
            document_number(&d, "from", &p.from);
            document_number(&d, "to", &p.to);
            document_number(&d, "rank", &p.rank);
            document_number(&d, "keys", &p.keys);
            document_sum(&d, "sum", &p.sum);
        }
    rc = document_end(&d);
    if (rc == 0)
        *out = p;
    return rc;
}

PUBLIC int
countd_period_rank(struct countd *c, const void *keyspace, size_t keyspace_size,
                   const void *key, size_t key_size, int64_t from, int64_t to,
                   struct countd_period *out)
{
    int rc =
        ask_period(c, keyspace, keyspace_size, key, key_size, from, to, out);

    if (rc != -ENOMSG)
        return rc;
    rc = ask_period(c, keyspace, keyspace_size, NULL, 0, from, to, out);
    if (rc == 0)
        out->sum = (struct countd_sum){.any = 0};
    return rc;
}
