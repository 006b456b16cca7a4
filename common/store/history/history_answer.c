/* common/store/history/history_answer.c - questions of store.h.
 *
 * The top is found in two phases: the keys with the largest sums, over all
 * keys; then each one's sum in the time before.
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

/* ---- of each key -------------------------------------------------------- */

static int128
offer_key(void *ctx, const uint8_t *key, size_t size, int128 sum)
{
    struct store_history_query *q = ctx;

    history_top_offer(q, key, size, sum);
    return q->rows < q->length ? INT128_LEAST
                               : store_bucket_sum(&q->top[0].sum) + 1;
}

static int128
count_key(void *ctx, const uint8_t *key, size_t size, int128 sum)
{
    history_rank_count(ctx, key, size, sum);
    return INT128_LEAST;
}

/* ---- over all keys ----------------------------------------------------- */

/* Goes on with a scan of the span, from where the last call ended. */
static int
scan_on(const struct history *h, const struct kv *kv,
        struct store_history_query *q, uint64_t until_ns,
        int128 (*row)(void *ctx, const uint8_t *key, size_t size, int128 sum))
{
    struct history_scan s = {.from = q->from,
                             .to = q->to,
                             .until_ns = until_ns,
                             .row = row,
                             .ctx = q,
                             .least = INT128_LEAST,
                             .at_size = q->at_size};
    int rc;

    if (q->at_size > 0)
        s.least = store_bucket_sum(
            &(struct store_bucket){q->least_high, q->least_low, true});
    memcpy(s.at, q->at, q->at_size);
    rc = history_scan(h, kv, &s);
    memcpy(q->at, s.at, s.at_size);
    q->at_size = s.at_size;
    q->least_high = (int64_t)(s.least >> 64);
    q->least_low = (uint64_t)s.least;
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
    if (q->phase == 0) {
        rc = scan_on(h, kv, q, until_ns, offer_key);
        if (rc < 0)
            return rc;
        history_top_sort(q);
        q->phase = 1;
    }
    q->before_known = q->from >= span && q->from - span >= q->since;
    if (q->from < span)
        return 0;
    while (rc == 0 && q->done < q->rows) {
        struct store_top *t = &q->top[q->done];
        const struct history_range asked = {
            t->key, t->key_size, q->from - span, q->from, span, &t->before};

        rc = history_read(h, kv, &asked, until_ns, &q->minutes);
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
    int rc;

    if (q->phase == 0) {
        const struct history_range asked = {q->key, q->key_size,     q->from,
                                            q->to,  q->to - q->from, &q->sum};

        rc = history_read(h, kv, &asked, until_ns, &q->minutes);
        if (rc < 0)
            return rc;
        q->phase = 1;
    }
    return scan_on(h, kv, q, until_ns, count_key);
}

static int
answer_buckets(const struct history *h, const struct kv *kv,
               struct store_history_query *q, uint64_t until_ns)
{
    const bool all = q->op == STORE_HISTORY_KEYSPACE;
    const uint32_t count = (q->to - q->from) / q->step;
    const struct history_range asked = {.key =
                                            all ? (const uint8_t *)"" : q->key,
                                        .key_size = all ? 0 : q->key_size,
                                        .from = q->from,
                                        .to = q->to,
                                        .step = q->step,
                                        .buckets = q->buckets};

    if (count > STORE_BUCKETS_MAX)
        return -E2BIG;
    if (q->minutes == 0)
        memset(q->buckets, 0, count * sizeof *q->buckets);
    return history_read(h, kv, &asked, until_ns, &q->minutes);
}

int
history_answer(const struct history *h, const struct kv *kv,
               struct store_history_query *q, uint64_t until_ns)
{
    uint32_t step = q->to - q->from;
    unsigned tier;
    int rc;

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
        break;
    }
    return answer_buckets(h, kv, q, until_ns);
}
