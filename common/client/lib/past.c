/* common/client/lib/past.c - libcountd: what came when: countd_history(),
 * countd_period_top(), countd_period_rank(), from documents as in questions.c.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>

#include "common/client/lib/document.h"

/* Begins a question.  Without times it is of all time. */
static void
begin(struct countd *c, struct document *d, const char *command,
      const struct countd_query *q)
{
    const uint8_t group = q->group;

    document_about(c, d, command, q->keyspace, q->keyspace_size, q->key,
                   q->key_size);
    if (q->prefix_size > 0)
        document_put_name(d, "prefix", q->prefix, q->prefix_size);
    if (group != 0)
        document_put_name(d, "group", &group, 1);
    if (q->from < 0 || q->to < q->from)
        d->error = d->error < 0 ? d->error : -EINVAL;
    if (q->from == 0 && q->to == 0)
        return;
    document_put_number(d, "from", q->from, "");
    document_put_number(d, "to", q->to, "");
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
countd_history(struct countd *c, const struct countd_query *q,
               struct countd_buckets **out)
{
    struct countd_buckets *b = NULL;
    struct document d;
    int rc;

    if (q->step <= 0 || q->step % 60 != 0 || q->from % q->step != 0 ||
        q->to % q->step != 0 || q->to == 0)
        return -EINVAL;
    begin(c, &d, "history", q);
    document_put_number(&d, "step", q->step / 60, "m");
    rc = document_ask(&d);
    if (rc == 0)
        rc = take_buckets(&d, &b);
    if (rc == 0 && b->count != (uint64_t)((q->to - q->from) / q->step))
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
        document_sum(d, "count", &row->sum);
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
countd_period_top(struct countd *c, const struct countd_query *q,
                  struct countd_top **out)
{
    struct countd_top *t = NULL;
    struct document d;
    int rc;

    begin(c, &d, "top", q);
    document_put_number(&d, "n", q->length, "");
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
ask_period(struct countd *c, const struct countd_query *q,
           struct countd_period *out)
{
    struct countd_period p = {.rank = -1};
    struct document d;
    int rc;

    begin(c, &d, q->key_size > 0 ? "rank" : "distinct", q);
    if (document_ask(&d) == 0)
        while (document_next(&d)) {
            document_number(&d, "as_of_ms", &p.as_of_ms);
            document_number(&d, "since", &p.since);
            document_number(&d, "from", &p.from);
            document_number(&d, "to", &p.to);
            document_number(&d, "rank", &p.rank);
            document_number(&d, q->group != 0 ? "groups" : "keys", &p.keys);
            document_sum(&d, "sum", &p.sum);
            document_sum(&d, "count", &p.sum);
        }
    rc = document_end(&d);
    if (rc == 0)
        *out = p;
    return rc;
}

PUBLIC int
countd_period_rank(struct countd *c, const struct countd_query *q,
                   struct countd_period *out)
{
    struct countd_query all = *q;
    int rc = ask_period(c, q, out);

    if (rc != -ENOMSG)
        return rc;
    all.key_size = 0;
    rc = ask_period(c, &all, out);
    if (rc == 0)
        out->sum = (struct countd_sum){.any = 0};
    return rc;
}
