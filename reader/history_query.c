/* reader/history_query.c - see history_query.h: history_query_start(),
 * history_query_step(), history_query_rows(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/history_query.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/store/history/history_top.h"
#include "reader/answer.h"

#define MINUTE 60 /* seconds */

static_assert(HISTORY_QUERY_MEMORY >=
                  STORE_BUCKETS_MAX * sizeof(struct store_bucket),
              "a query has either a top or buckets");

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
set_times(struct store_history_query *to, const struct time_range *span,
          int64_t step)
{
    if (span->from < 0 || span->to < span->from || span->to > INT64_MAX - step)
        return -EINVAL;
    if (minutes_of(span->from / step * step, &to->from) < 0)
        return -EINVAL;
    return minutes_of((span->to + step - 1) / step * step, &to->to);
}

/* Chooses the step of a period: asks without rows what is missing from each.
 * -EAGAIN: the time is over, and the next call goes on. */
static int
choose_step(struct history_query *p, uint64_t until_ns)
{
    static const int64_t steps[] = {MINUTE, 3600, 86400};

    for (; p->tried < sizeof steps / sizeof steps[0]; p->tried++) {
        struct store_history_query *q = &p->trial;
        int rc;

        *q = (struct store_history_query){.op = STORE_HISTORY_TOP,
                                          .name = p->q.name,
                                          .name_size = p->q.name_size};
        rc = set_times(q, &p->span, steps[p->tried]);
        if (rc == 0)
            rc = store_history(p->store, q, until_ns);
        if (rc < 0 && rc != -EINVAL)
            return rc;
        if (rc == 0 && (p->step == 0 || q->since < p->q.since)) {
            p->step = steps[p->tried];
            p->q.from = q->from;
            p->q.to = q->to;
            p->q.since = q->since;
        }
        if (p->step > 0 && p->q.since <= q->from)
            break;
    }
    p->is_chosen = true;
    return p->step > 0 ? 0 : -EINVAL;
}

void
history_query_start(struct history_query *p,
                    const struct store_history_query *q, struct time_range span,
                    int64_t step)
{
    const bool is_sums =
        q->op == STORE_HISTORY_TOP || q->op == STORE_HISTORY_RANK;

    p->q = *q;
    p->q.buckets = p->memory;
    p->q.top = p->memory;
    if (q->op == STORE_HISTORY_KEY && q->key_size == 0)
        p->q.op = STORE_HISTORY_KEYSPACE;
    p->span = span;
    p->step = 0;
    p->tried = 0;
    p->is_all_time = is_sums && span.to == 0;
    p->is_chosen = !is_sums || p->is_all_time;
    p->error = 0;
    if (q->op == STORE_HISTORY_STEP) {
        p->q.to = span.to == 0 ? UINT32_MAX : 0;
        p->error = minutes_of(span.from / MINUTE * MINUTE, &p->q.from);
    } else if (!is_sums) {
        p->step = step;
        if (minutes_of(span.from, &p->q.from) < 0 ||
            minutes_of(span.to, &p->q.to) < 0 || span.to < span.from ||
            minutes_of(step, &p->q.step) < 0 || p->q.step == 0)
            p->error = -EINVAL;
    }
}

/* Goes on over the counts of all keys with the prefix. */
static int
take_counts(struct history_query *p, uint64_t until_ns)
{
    struct store_history_query *to = &p->q;
    struct query_row row;
    const uint8_t *at;

    do {
        struct store_query q = {.op = STORE_KEYS,
                                .name = to->name,
                                .name_size = to->name_size,
                                .prefix = to->prefix,
                                .prefix_size = to->prefix_size,
                                .after = to->at.key,
                                .after_size = to->at.size,
                                .length = HISTORY_QUERY_ROWS};
        const int rc = answer_query(p->store, &q, p->rows, sizeof p->rows);

        if (rc < 0)
            return rc;
        at = q.bytes;
        for (uint64_t i = 0; i < q.rows; i++) {
            at = query_row_get(at, &row);
            to->at.size = row.key_size;
            memcpy(to->at.key, row.key, row.key_size);
            history_take_key(to, to->at.key, to->at.size, row.count);
        }
        if (q.rows < HISTORY_QUERY_ROWS) {
            history_end_keys(to);
            return 0;
        }
    } while (until_ns == 0 || clock_ns() < until_ns);
    return -EAGAIN;
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
    if (p->error < 0)
        return true;
    if (!p->is_chosen)
        p->error = choose_step(p, until_ns);
    if (p->error == 0)
        p->error = p->is_all_time ? take_counts(p, until_ns)
                                  : store_history(p->store, &p->q, until_ns);
    if (p->error == -EAGAIN && until_ns != 0) {
        p->error = 0;
        return false;
    }
    if (!is_answer(p->error))
        answer_report(p->q.name, p->q.name_size, p->error);
    return true;
}

/* ---- answers ------------------------------------------------------------ */

size_t
history_query_rows(const struct history_query *p)
{
    assert(p->error == 0);
    return store_history_has_buckets(&p->q) ? (p->q.to - p->q.from) / p->q.step
                                            : (size_t)p->q.rows;
}

int64_t
history_query_since(const struct history_query *p)
{
    return (int64_t)p->q.since * MINUTE;
}
