/* common/store/history/history_answer.c - questions of store.h.
 *
 * The top is found in two phases: the keys or groups with the largest sums, over
 * all keys; then each one's sum in the time before.
 *
 * Entry points: history_answer(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/store/history/history.h"
#include "common/store/history/history_top.h"

/* ---- over all keys ----------------------------------------------------- */

static int128
take_key(void *ctx, const uint8_t *key, size_t size, int128 sum)
{
    struct store_history_query *q = ctx;

    history_take_key(q, key, size, sum);
    return q->op == STORE_HISTORY_RANK || q->group != 0 || q->rows < q->length
               ? INT128_LEAST
               : store_bucket_sum(&q->top[0].sum) + 1;
}

static bool
is_wanted(void *ctx, const uint8_t *key, size_t size)
{
    const struct store_history_query *q = ctx;

    return q->wants(q, key, size);
}

/* A scan from where the last call ended. */
static struct history_scan
begin_scan(struct store_history_query *q, uint64_t until_ns)
{
    struct history_scan s = {.prefix = q->prefix,
                             .prefix_size = q->prefix_size,
                             .wants = q->wants ? is_wanted : NULL,
                             .from = q->from,
                             .to = q->to,
                             .until_ns = until_ns,
                             .row = take_key,
                             .ctx = q,
                             .least = INT128_LEAST,
                             .at_size = q->at_size};

    if (q->at_size > 0)
        s.least = store_bucket_sum(
            &(struct store_bucket){q->least_high, q->least_low, true});
    memcpy(s.at, q->at, q->at_size);
    return s;
}

static void
keep_scan(struct store_history_query *q, const struct history_scan *s)
{
    memcpy(q->at, s->at, s->at_size);
    q->at_size = s->at_size;
    q->least_high = (int64_t)(s->least >> 64);
    q->least_low = (uint64_t)s->least;
}

/* Goes on taking the keys of the span. */
static int
take_keys(const struct history *h, const struct kv *kv,
          struct store_history_query *q, uint64_t until_ns)
{
    struct history_scan s = begin_scan(q, until_ns);
    const int rc = history_scan(h, kv, &s);

    keep_scan(q, &s);
    if (rc < 0)
        return rc;
    history_end_keys(q);
    q->at_size = 0;
    q->phase++;
    return 0;
}

/* Goes on with the sums of a key, or of those that begin so. */
static int
read_sums(const struct history *h, const struct kv *kv,
          struct store_history_query *q, struct history_range range,
          bool is_prefix, uint64_t until_ns)
{
    struct history_scan s = begin_scan(q, until_ns);
    int rc;

    if (is_prefix)
        range.keys = &s;
    rc = history_read(h, kv, &range, until_ns, &q->minutes);
    keep_scan(q, &s);
    return rc;
}

static int
answer_top(const struct history *h, const struct kv *kv,
           struct store_history_query *q, uint64_t until_ns)
{
    const uint32_t span = q->to - q->from;
    int rc = 0;

    if (q->length == 0 || span == 0)
        return 0;
    if (q->phase == 0)
        rc = take_keys(h, kv, q, until_ns);
    if (rc < 0)
        return rc;
    q->before_known = q->from >= span && q->from - span >= q->since;
    if (q->from < span)
        return 0;
    while (rc == 0 && q->done < q->rows) {
        struct store_top *t = &q->top[q->done];
        const struct history_range asked = {
            t->key,     t->key_size, q->from - span, q->from, span,
            &t->before, NULL};

        rc = read_sums(h, kv, q, asked, history_is_group(q, t), until_ns);
        if (rc < 0)
            return rc;
        q->minutes = 0;
        if (++q->done < q->rows && until_ns != 0 && clock_ns() >= until_ns)
            rc = -EAGAIN;
    }
    return rc;
}

static int
answer_rank(const struct history *h, const struct kv *kv,
            struct store_history_query *q, uint64_t until_ns)
{
    int rc = 0;

    if (q->phase == 0 && q->key_size > 0) {
        const struct history_range asked = {q->key, q->key_size,     q->from,
                                            q->to,  q->to - q->from, &q->sum,
                                            NULL};

        rc = history_read(h, kv, &asked, until_ns, &q->minutes);
        if (rc < 0)
            return rc;
        q->phase = 1;
    }
    return take_keys(h, kv, q, until_ns);
}

static int
answer_buckets(const struct history *h, const struct kv *kv,
               struct store_history_query *q, uint64_t until_ns)
{
    const bool of_key = q->op == STORE_HISTORY_KEY;
    const uint32_t count = (q->to - q->from) / q->step;
    const struct history_range asked = {.key = of_key               ? q->key
                                               : q->prefix_size > 0 ? q->prefix
                                                                    : q->at,
                                        .key_size = of_key ? q->key_size
                                                           : q->prefix_size,
                                        .from = q->from,
                                        .to = q->to,
                                        .step = q->step,
                                        .buckets = q->buckets};

    if (count > STORE_BUCKETS_MAX)
        return -E2BIG;
    if (q->minutes == 0 && q->at_size == 0)
        memset(q->buckets, 0, count * sizeof *q->buckets);
    return read_sums(h, kv, q, asked,
                     !of_key && (q->prefix_size > 0 || q->wants), until_ns);
}

int
history_answer(const struct history *h, const struct kv *kv,
               struct store_history_query *q, uint64_t until_ns)
{
    uint32_t step = q->to - q->from;
    unsigned tier;
    int rc;

    if (q->op == STORE_HISTORY_STEP)
        return history_answer_step(h, kv, q, until_ns);
    if (q->to < q->from)
        return -EINVAL;
    if (q->op == STORE_HISTORY_KEY || q->op == STORE_HISTORY_KEYSPACE)
        step = q->step;
    else if (step == 0)
        return 0; /* no time, nothing in it */
    rc = history_tier_of(h, q->from, q->to, step, &tier);
    if (rc < 0)
        return rc;
    q->since = history_since(h, tier);
    q->floor = h->tier[tier].floor;
    q->keep = h->tier[tier].keep + h->tier[tier].period;
    switch (q->op) {
    case STORE_HISTORY_TOP:
        return answer_top(h, kv, q, until_ns);
    case STORE_HISTORY_RANK:
        return answer_rank(h, kv, q, until_ns);
    case STORE_HISTORY_KEY:
    case STORE_HISTORY_KEYSPACE:
    case STORE_HISTORY_STEP:
        break;
    }
    return answer_buckets(h, kv, q, until_ns);
}
