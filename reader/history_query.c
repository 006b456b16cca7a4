/* reader/history_query.c - see history_query.h: history_query_bound(),
 * history_query_start(), history_query_step(), history_query_size(),
 * history_query_put(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/history_query.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/diag.h"
#include "common/wire/name.h"

#define MINUTE 60 /* seconds */

int
history_query_init(struct history_query *p, struct store *store)
{
    const size_t buckets = STORE_BUCKETS_MAX * sizeof *p->buckets;
    const size_t top = STORE_TOP_MAX * sizeof *p->top;
    void *memory = malloc(buckets > top ? buckets : top);

    *p = (struct history_query){
        .store = store, .buckets = memory, .top = memory};
    return memory ? 0 : -ENOMEM;
}

void
history_query_fini(struct history_query *p)
{
    free(p->top);
}

size_t
history_query_bound(const struct query *q)
{
    const size_t head = QUERY_REPLY_SIZE + QUERY_HISTORY_HEAD;

    switch (q->op) {
    case QUERY_PERIOD_TOP:
        return head + (size_t)q->length * HISTORY_QUERY_ROW_MAX;
    case QUERY_PERIOD_RANK:
        return head + QUERY_HISTORY_ROW_SIZE;
    default:
        return head + (size_t)STORE_BUCKETS_MAX * QUERY_HISTORY_ROW_SIZE;
    }
}

/* ---- asking ------------------------------------------------------------ */

/* Converts to the store's minutes; -EINVAL: not a multiple of a minute, or out
 * of range. */
static int
minutes_of(int64_t seconds, uint32_t *out)
{
    if (seconds < 0 || seconds % MINUTE != 0 ||
        seconds / MINUTE >= (int64_t)UINT32_MAX)
        return -EINVAL;
    *out = (uint32_t)(seconds / MINUTE);
    return 0;
}

/* Sets the times of a query, widened to multiples of `step` seconds. */
static int
set_times(struct store_history_query *to, int64_t from, int64_t until,
          int64_t step)
{
    if (from < 0 || until < from || until > INT64_MAX - step)
        return -EINVAL;
    if (minutes_of(from / step * step, &to->from) < 0)
        return -EINVAL;
    return minutes_of((until + step - 1) / step * step, &to->to);
}

/* Chooses the step of a period: asks without rows what is missing from each.
 * -EAGAIN: the time is over, and the next call goes on. */
static int
choose_step(struct history_query *p, uint64_t until_ns)
{
    static const int64_t steps[] = {MINUTE, 3600, 86400};

    for (; p->tried < sizeof steps / sizeof steps[0]; p->tried++) {
        struct store_history_query q = {.op = STORE_HISTORY_TOP,
                                        .name = p->name,
                                        .name_size = p->q.name_size};
        int rc = set_times(&q, p->from, p->to, steps[p->tried]);

        if (rc == 0)
            rc = store_history(p->store, &q, until_ns);
        if (rc < 0 && rc != -EINVAL)
            return rc;
        if (rc == 0 && (p->step == 0 || q.since < p->q.since)) {
            p->step = steps[p->tried];
            p->q.from = q.from;
            p->q.to = q.to;
            p->q.since = q.since;
        }
        if (p->step > 0 && p->q.since <= q.from)
            break;
    }
    p->is_chosen = true;
    return p->step > 0 ? 0 : -EINVAL;
}

static enum store_history_op
op_of(const struct query *q)
{
    if (q->op == QUERY_PERIOD_TOP)
        return STORE_HISTORY_TOP;
    if (q->op == QUERY_PERIOD_RANK)
        return STORE_HISTORY_RANK;
    return q->key_size > 0 ? STORE_HISTORY_KEY : STORE_HISTORY_KEYSPACE;
}

void
history_query_start(struct history_query *p, const struct query *q,
                    int64_t as_of_ms)
{
    assert(query_is_history(q->op));
    memcpy(p->name, q->keyspace, q->keyspace_size);
    if (q->key_size > 0)
        memcpy(p->key, q->key, q->key_size);
    p->op = q->op;
    p->as_of_ms = as_of_ms;
    p->q = (struct store_history_query){.op = op_of(q),
                                        .name = p->name,
                                        .name_size = q->keyspace_size,
                                        .key = p->key,
                                        .key_size = q->key_size,
                                        .buckets = p->buckets,
                                        .top = p->top,
                                        .length = (uint64_t)q->length};
    p->from = q->from;
    p->to = q->to;
    p->step = 0;
    p->tried = 0;
    p->is_chosen = q->op == QUERY_HISTORY;
    p->error = 0;
    if (!p->is_chosen)
        return;
    p->step = q->step;
    if (minutes_of(q->from, &p->q.from) < 0 ||
        minutes_of(q->to, &p->q.to) < 0 || q->to < q->from ||
        minutes_of(q->step, &p->q.step) < 0 || p->q.step == 0)
        p->error = -EINVAL;
}

static bool
is_answer(int error)
{
    return error == 0 || error == -ENOENT || error == -ENODATA ||
           error == -EINVAL || error == -E2BIG;
}

bool
history_query_step(struct history_query *p, uint64_t until_ns)
{
    static struct diag_repeat failures;
    char name[NAME_TEXT_SIZE];

    if (p->error < 0)
        return true;
    if (!p->is_chosen)
        p->error = choose_step(p, until_ns);
    if (p->error == 0)
        p->error = store_history(p->store, &p->q, until_ns);
    if (p->error == -EAGAIN && until_ns != 0) {
        p->error = 0;
        return false;
    }
    if (!is_answer(p->error)) {
        (void)name_escape(p->name, p->q.name_size, name);
        diag_repeating(&failures, DIAG_ERROR,
                       "cannot read the history of keyspace=%s: %s%s", name,
                       diag_text(p->error),
                       p->error == -EBADMSG ? "; countd check says where" : "");
    }
    return true;
}

/* ---- answering --------------------------------------------------------- */

static size_t
count_rows(const struct history_query *p)
{
    if (p->error < 0)
        return 0;
    if (p->op == QUERY_HISTORY)
        return (p->q.to - p->q.from) / p->q.step;
    return p->op == QUERY_PERIOD_TOP ? (size_t)p->q.rows : 1;
}

size_t
history_query_size(const struct history_query *p)
{
    const size_t rows = count_rows(p);
    size_t size = QUERY_REPLY_SIZE + QUERY_HISTORY_HEAD;

    if (!is_answer(p->error))
        return QUERY_REPLY_SIZE;
    for (size_t i = 0; p->op == QUERY_PERIOD_TOP && i < rows; i++)
        size += p->q.top[i].key_size;
    return size + rows * QUERY_HISTORY_ROW_SIZE;
}

static struct query_history_row
row_of(const struct history_query *p, size_t i)
{
    static const struct store_bucket none = {.any = false};
    const bool is_top = p->op == QUERY_PERIOD_TOP;
    const struct store_top *top = is_top ? &p->q.top[i] : NULL;
    const struct store_bucket *sum =
        p->op == QUERY_PERIOD_RANK ? &p->q.sum : &p->q.buckets[i];
    const struct store_bucket *before = is_top ? &top->before : &none;

    if (is_top)
        sum = &top->sum;
    return (struct query_history_row){
        .sum_high = sum->sum_high,
        .sum_low = sum->sum_low,
        .before_high = before->sum_high,
        .before_low = before->sum_low,
        .flags = (uint16_t)((sum->any ? QUERY_HISTORY_ANY : 0) |
                            (before->any ? QUERY_HISTORY_ANY_BEFORE : 0)),
        .key_size = is_top ? top->key_size : 0,
        .key = is_top ? top->key : NULL};
}

size_t
history_query_put(const struct history_query *p, uint8_t *out, bool *failed)
{
    const struct query_history_head facts = {.error = p->error,
                                             .since =
                                                 (int64_t)p->q.since * MINUTE,
                                             .known = p->q.before_known,
                                             .rank = (int64_t)p->q.rank,
                                             .keys = (int64_t)p->q.keys,
                                             .step = p->step};
    struct query_reply reply = {.rows = query_error(p->error)};
    size_t size = QUERY_REPLY_SIZE + QUERY_HISTORY_HEAD;

    *failed = !is_answer(p->error);
    if (*failed) {
        query_reply_put(&reply, out);
        return QUERY_REPLY_SIZE;
    }
    reply.rows = (int64_t)count_rows(p);
    reply.as_of_ms = p->as_of_ms;
    for (size_t i = 0; i < (size_t)reply.rows; i++) {
        const struct query_history_row row = row_of(p, i);

        size += query_history_row_put(out + size, &row);
    }
    reply.size = (int64_t)(size - QUERY_REPLY_SIZE);
    query_reply_put(&reply, out);
    query_history_put(&facts, out + QUERY_REPLY_SIZE);
    return size;
}
