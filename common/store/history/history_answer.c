/* common/store/history/history_answer.c - questions of store.h.
 *
 * The top is found in two phases: a heap of the largest so far, its least at
 * the root, over all keys; then each one's sum in the time before.
 *
 * Entry points: history_answer(). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/store/history/history.h"

static struct store_bucket
bucket_of(int128 sum)
{
    return (struct store_bucket){(int64_t)(sum >> 64), (uint64_t)sum, true};
}

/* ---- the top ----------------------------------------------------------- */

/* Whether `a` comes before `b` in the top. */
static bool
is_before(const struct store_top *a, const struct store_top *b)
{
    const int128 x = store_bucket_sum(&a->sum), y = store_bucket_sum(&b->sum);

    if (x != y)
        return x > y;
    return bytes_compare(a->key, a->key_size, b->key, b->key_size) < 0;
}

static void
swap_entries(struct store_top *a, struct store_top *b)
{
    const struct store_top c = *a;

    *a = *b;
    *b = c;
}

/* Restores the heap of the first `count` entries after its root changed: the
 * root is the entry that ranks last. */
static void
sift_down(struct store_top *top, uint64_t count)
{
    uint64_t at = 0;

    for (;;) {
        uint64_t child = 2 * at + 1;

        if (child + 1 < count && is_before(&top[child], &top[child + 1]))
            child++;
        if (child >= count || is_before(&top[child], &top[at]))
            return;
        swap_entries(&top[child], &top[at]);
        at = child;
    }
}

static void
sift_up(struct store_top *top, uint64_t at)
{
    while (at > 0 && is_before(&top[(at - 1) / 2], &top[at])) {
        swap_entries(&top[(at - 1) / 2], &top[at]);
        at = (at - 1) / 2;
    }
}

/* Adds a key to the top if its sum is large enough.  Keys come in order, so one
 * with the same sum as the last of a full top ranks after it. */
static int128
offer_key(void *ctx, const uint8_t *key, size_t size, int128 sum)
{
    struct store_history_query *q = ctx;
    const bool full = q->rows == q->length;
    struct store_top *to = full ? q->top : &q->top[q->rows];

    if (!full || sum > store_bucket_sum(&q->top[0].sum)) {
        to->sum = bucket_of(sum);
        to->before = (struct store_bucket){.any = false};
        to->key_size = (uint16_t)size;
        memcpy(to->key, key, size);
        if (full)
            sift_down(q->top, q->rows);
        else
            sift_up(q->top, q->rows++);
    }
    return q->rows < q->length ? INT128_LEAST
                               : store_bucket_sum(&q->top[0].sum) + 1;
}

/* ---- the rank ---------------------------------------------------------- */

/* Counts all keys, and those before the one that is asked about, if any is. */
static int128
count_key(void *ctx, const uint8_t *key, size_t size, int128 sum)
{
    struct store_history_query *q = ctx;
    const int128 own = store_bucket_sum(&q->sum);

    q->keys++;
    if (q->key_size == 0)
        return INT128_LEAST;
    q->rank += sum > own || (sum == own &&
                             bytes_compare(key, size, q->key, q->key_size) < 0);
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
sort_top(const void *a, const void *b)
{
    return is_before(a, b) ? -1 : 1;
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
        qsort(q->top, q->rows, sizeof *q->top, sort_top);
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
