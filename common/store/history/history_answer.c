/* common/store/history/history_answer.c - questions of store.h.
 *
 * The top is found in two phases: the keys or groups with the largest sums, over
 * all keys; then each one's sum in the time before.
 *
 * Entry points: history_answer(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/store/history/history_top.h"
#include "common/store/history/runs.h"

/* ---- over all keys ----------------------------------------------------- */

static int128
take_key(void *ctx, const uint8_t *key, size_t size, int128 sum)
{
    struct store_history_query *q = ctx;

    history_take_key(q, key, size, sum);
    return q->op == STORE_HISTORY_RANK || q->group != 0 || q->rows < q->length
               ? INT128_LEAST
               : q->top[0].sum.sum + 1;
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
    if (q->at.size == 0)
        q->at.least = INT128_LEAST;
    return (struct history_scan){.prefix = q->prefix,
                                 .prefix_size = q->prefix_size,
                                 .wants = q->wants ? is_wanted : NULL,
                                 .from = q->from,
                                 .to = q->to,
                                 .until_ns = until_ns,
                                 .row = take_key,
                                 .ctx = q,
                                 .at = &q->at};
}

/* Goes on taking the keys of the span. */
static int
take_keys(const struct history *h, const struct kv *kv,
          struct store_history_query *q, uint64_t until_ns)
{
    struct history_scan s = begin_scan(q, until_ns);
    const int rc = history_scan(h, kv, &s);

    if (rc < 0)
        return rc;
    history_end_keys(q);
    q->at.size = 0;
    q->phase++;
    return 0;
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
        struct history_scan s = begin_scan(q, until_ns);
        const struct history_range asked = {
            .key = t->key,
            .key_size = t->key_size,
            .from = q->from - span,
            .to = q->from,
            .step = span,
            .buckets = &t->before,
            .keys = history_is_group(q, t) ? &s : NULL};

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
    struct history_scan s = begin_scan(q, until_ns);
    struct history_range asked = {.key = of_key               ? q->key
                                         : q->prefix_size > 0 ? q->prefix
                                                              : q->at.key,
                                  .key_size =
                                      of_key ? q->key_size : q->prefix_size,
                                  .from = q->from,
                                  .to = q->to,
                                  .step = q->step,
                                  .buckets = q->buckets};

    if (count > STORE_BUCKETS_MAX)
        return -E2BIG;
    if (q->minutes == 0 && q->at.size == 0)
        memset(q->buckets, 0, count * sizeof *q->buckets);
    if (!of_key && (q->prefix_size > 0 || q->wants))
        asked.keys = &s;
    return history_read(h, kv, &asked, until_ns, &q->minutes);
}

/* ---- the keys of one step ------------------------------------------------ */

/* What takes all of a history out, each increment once: a tier answers for the
 * times that it retains and the finer ones no longer do, from the first step of
 * the next tier on that begins behind what was removed here.  Before that step
 * the next tier has all that came, and the rest of this one with it. */

/* The times for which each tier answers begin here; they end where those of the
 * next finer one begin. */
static void
find_zones(const struct history *h, uint32_t begins[HISTORY_TIERS])
{
    uint32_t begin = 0;

    for (unsigned i = h->count; i-- > 0;) {
        const unsigned coarser = i + 1 < h->count ? i + 1 : i;
        const uint32_t unit = h->tier[coarser].step;
        const uint32_t own = (h->tier[i].floor + unit - 1) / unit * unit;

        begins[i] = begin = own > begin ? own : begin;
    }
}

/* Looks for the first cell of a span, whose end falls to where that begins. */
static int
see_run(void *ctx, const struct period *p, const struct run_info *run)
{
    struct runs_span *s = ctx;
    const uint64_t cells = run->cells & runs_cells_of(s, p);

    if (cells != 0)
        s->to = p->start + (uint32_t)__builtin_ctzll(cells) *
                               s->history->tier[p->tier].step;
    return 0;
}

/* Sets the span of a query to the step of q->from, or, where `moves`, to the
 * first from there on in which something came.  0: there is none. */
static int
find_step(const struct history *h, const struct kv *kv,
          struct store_history_query *q, bool moves)
{
    uint32_t begins[HISTORY_TIERS];

    find_zones(h, begins);
    for (unsigned i = h->count; i-- > 0;) {
        const uint32_t step = h->tier[i].step;
        const uint32_t end = i > 0 ? begins[i - 1] : UINT32_MAX / step * step;
        const uint32_t from = q->from > begins[i] ? q->from : begins[i];
        const struct runs_span span = {h, kv, from - from % step, end};
        struct runs_span first = span;
        int rc;

        if (span.from >= end)
            continue;
        rc = moves ? runs_each(&span, i, see_run, &first) : 0;
        if (rc < 0)
            return rc;
        if (moves && first.to == end)
            continue;
        q->from = moves ? first.to - first.to % step : span.from;
        q->to = q->from + step;
        return 1;
    }
    q->from = q->to = 0;
    return 0;
}

static int128
take_step_row(void *ctx, const uint8_t *key, size_t size, int128 sum)
{
    struct store_history_query *q = ctx;
    struct store_top *t = &q->top[q->rows];

    if (size == q->key_size && memcmp(key, q->key, size) == 0)
        return INT128_LEAST; /* rows are behind it */
    t->sum = (struct store_bucket){sum, true};
    t->key_size = (uint16_t)size;
    memcpy(t->key, key, size);
    q->rows++;
    return INT128_LEAST;
}

static bool
is_full(void *ctx)
{
    const struct store_history_query *q = ctx;

    return q->rows == q->length;
}

static int
answer_step(const struct history *h, const struct kv *kv,
            struct store_history_query *q, uint64_t until_ns)
{
    struct history_scan s;
    const uint32_t all =
        UINT32_MAX / h->tier[h->count - 1].step * h->tier[h->count - 1].step;
    int rc = 1;

    if (q->length == 0)
        return -EINVAL;
    if (q->phase == 0) {
        if (q->to == UINT32_MAX) {
            q->from = 0;
            q->to = all;
        } else {
            rc = find_step(h, kv, q, q->key_size == 0);
        }
        if (rc <= 0)
            return rc;
        if (q->key_size > 0)
            memcpy(q->at.key, q->key, q->key_size);
        q->at.size = (uint16_t)q->key_size;
        q->phase = 1;
    }
    s = begin_scan(q, until_ns);
    q->at.least = INT128_LEAST;
    s.row = take_step_row;
    s.is_full = is_full;
    return history_scan(h, kv, &s);
}

/* ---- a question ---------------------------------------------------------- */

int
history_answer(const struct history *h, const struct kv *kv,
               struct store_history_query *q, uint64_t until_ns)
{
    uint32_t step = q->to - q->from;
    unsigned tier;
    int rc;

    if (q->op == STORE_HISTORY_STEP)
        return answer_step(h, kv, q, until_ns);
    if (q->to < q->from)
        return -EINVAL;
    if (store_history_has_buckets(q))
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
