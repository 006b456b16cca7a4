/* common/store/history/history_step.c - the keys of one step in key order, with
 * their sums: what takes all of a history out, each increment once.
 *
 * A tier answers for the times that it retains and the finer ones no longer do:
 * from the first step of the next tier on that begins behind what was removed
 * here.  Before that step the next tier has all that came, and the rest of this
 * one with it.
 *
 * Entry points: history_answer_step(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/history/runs.h"

#include <errno.h>
#include <string.h>

/* ---- the step ------------------------------------------------------------ */

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

/* The first cell between two times, so far. */
struct first_cell {
    const struct history *h;
    uint32_t from, at;
};

static int
see_run(void *ctx, const struct period *p, const struct run_info *run)
{
    struct first_cell *f = ctx;
    const struct history_tier *t = &f->h->tier[p->tier];
    const uint64_t cells =
        run->cells & runs_cells_between(t, p->start, f->from, f->at);

    if (cells != 0)
        f->at = p->start + (uint32_t)__builtin_ctzll(cells) * t->step;
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
        struct first_cell f = {h, from - from % step, end};
        int rc;

        if (f.from >= end)
            continue;
        rc = moves ? runs_each(h, kv, i, f.from, end, see_run, &f) : 0;
        if (rc < 0)
            return rc;
        if (moves && f.at == end)
            continue;
        q->from = moves ? f.at - f.at % step : f.from;
        q->to = q->from + step;
        return 1;
    }
    q->from = q->to = 0;
    return 0;
}

/* ---- its rows ------------------------------------------------------------ */

static int128
take_row(void *ctx, const uint8_t *key, size_t size, int128 sum)
{
    struct store_history_query *q = ctx;
    struct store_top *t = &q->top[q->rows];

    if (size == q->key_size && memcmp(key, q->key, size) == 0)
        return INT128_LEAST; /* rows are behind it */
    t->sum = (struct store_bucket){(int64_t)(sum >> 64), (uint64_t)sum, true};
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
take_rows(const struct history *h, const struct kv *kv,
          struct store_history_query *q, uint64_t until_ns)
{
    struct history_scan s = {.from = q->from,
                             .to = q->to,
                             .until_ns = until_ns,
                             .row = take_row,
                             .is_full = is_full,
                             .ctx = q,
                             .least = INT128_LEAST,
                             .at_size = q->at_size};
    int rc;

    memcpy(s.at, q->at, q->at_size);
    rc = history_scan(h, kv, &s);
    memcpy(q->at, s.at, s.at_size);
    q->at_size = s.at_size;
    return rc;
}

int
history_answer_step(const struct history *h, const struct kv *kv,
                    struct store_history_query *q, uint64_t until_ns)
{
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
        memcpy(q->at, q->key, q->key_size);
        q->at_size = (uint16_t)q->key_size;
        q->phase = 1;
    }
    return take_rows(h, kv, q, until_ns);
}
