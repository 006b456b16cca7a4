/* common/store/history/append.c - what a merge brings: a run for each period
 * that its minutes lie in.
 *
 * Entry points: history_append(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/base/array.h"
#include "common/store/history/runs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Where a part of the deltas goes: those of minutes from `from` to `to`. */
struct append_target {
    unsigned tier;
    uint32_t period;
    uint32_t from, to;
    struct history_row all; /* over all keys */
    size_t first, count;    /* of its deltas in append.order */
};

struct append_targets {
    struct append_target *list;
    size_t count, capacity;
};

#define CACHE_BITS 13 /* of the number of minutes whose target is remembered */

static const uint8_t run_begins[1];

struct append {
    struct history *history;
    const struct kv *kv;
    const struct store_delta *deltas;
    size_t count;
    uint32_t now;     /* minute */
    uint32_t *target; /* of each delta; UINT32_MAX: none */
    uint32_t *order;  /* the deltas, by target, then as they come */
    uint32_t *cache;  /* the target found last for such a minute */
    struct run_writer writer;
    struct history_row row;
};

/* When a delta counts: a clock that is far ahead is not believed. */
static uint32_t
minute_of(const struct append *a, const struct store_delta *d)
{
    return d->minute > a->now + HISTORY_AHEAD_MAX ? a->now : d->minute;
}

/* ---- targets ----------------------------------------------------------- */

/* Where a minute goes: into the finest tier that still keeps it.  False:
 * nowhere. */
static bool
target_of(const struct history *h, uint32_t minute, struct append_target *out)
{
    uint32_t to = UINT32_MAX;

    for (unsigned i = 0; i < h->count; i++) {
        const struct history_tier *t = &h->tier[i];

        if (minute >= t->floor) {
            const uint32_t period = history_period(t, minute);
            const uint32_t end = period + t->period;

            out->tier = i;
            out->period = out->from = period;
            out->to = end > period && end < to ? end : to;
            out->all = (struct history_row){.key = run_begins};
            out->count = 0;
            return true;
        }
        if (t->floor < to)
            to = t->floor;
    }
    return false;
}

/* The newest first: most deltas are of one time. */
static struct append_target *
find_target(const struct append_targets *l, uint32_t minute)
{
    for (size_t i = l->count; i > 0; i--)
        if (minute >= l->list[i - 1].from && minute < l->list[i - 1].to)
            return &l->list[i - 1];
    return NULL;
}

static int
add_target(struct append_targets *l, const struct append_target *t)
{
    if (array_grow(&l->list, &l->capacity, l->count + 1, sizeof *l->list) < 0)
        return -ENOMEM;
    l->list[l->count++] = *t;
    return 0;
}

static void
add_cell(struct history_row *r, unsigned cell, int128 sum)
{
    const uint64_t bit = (uint64_t)1 << cell;

    if ((r->cells & bit) == 0)
        r->sums[cell] = 0;
    r->cells |= bit;
    r->sums[cell] += sum;
}

/* Days are a multiple of minutes apart: the place is not that of the last
 * digits. */
static uint32_t *
cached_target(const struct append *a, uint32_t minute)
{
    return &a->cache[(uint32_t)(minute * UINT32_C(2654435769)) >>
                     (32 - CACHE_BITS)];
}

static unsigned
cell_of(const struct append *a, const struct append_target *to, uint32_t minute)
{
    return (minute - to->period) / a->history->tier[to->tier].step;
}

/* All that the deltas go to; adds them up. */
static int
find_targets(struct append *a, struct append_targets *l, uint64_t *ahead)
{
    struct history *h = a->history;
    struct append_target t, *to;
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < a->count; i++) {
        const uint32_t minute = minute_of(a, &a->deltas[i]);
        const int128 sum = a->deltas[i].sum;

        h->added += sum;
        *ahead += minute != a->deltas[i].minute;
        uint32_t *const cached = cached_target(a, minute);
        const uint32_t guess = *cached;

        to = guess < l->count && minute >= l->list[guess].from &&
                     minute < l->list[guess].to
                 ? &l->list[guess]
                 : find_target(l, minute);
        if (to == NULL && target_of(h, minute, &t)) {
            rc = add_target(l, &t);
            to = rc == 0 ? &l->list[l->count - 1] : NULL;
        }
        a->target[i] = to == NULL ? UINT32_MAX : (uint32_t)(to - l->list);
        if (rc == 0 && to != NULL) {
            *cached = a->target[i];
            to->count++;
            add_cell(&to->all, cell_of(a, to, minute), sum);
        } else if (rc == 0) { /* older than all that is kept */
            h->tier[h->count - 1].in += sum;
            h->tier[h->count - 1].dropped += sum;
        }
    }
    return rc;
}

/* ---- rows -------------------------------------------------------------- */

/* Increments that are older than a tier retains go to a coarser tier at once,
 * if the tier has nothing as old: rolling it up period by period would take as
 * long as retention takes to remove it. */
static void
raise_floors(struct history *h, uint32_t now, uint32_t oldest)
{
    for (unsigned i = 0; i + 1 < h->count; i++) {
        struct history_tier *t = &h->tier[i];
        uint32_t floor;

        if (now <= t->keep + t->period)
            continue;
        floor = history_period(t, now - t->keep - t->period);
        if (oldest >= floor)
            continue;
        for (unsigned j = 0; j <= i; j++)
            if (h->tier[j].first < floor)
                floor = history_period(t, h->tier[j].first);
        if (floor > t->floor)
            t->floor = floor;
    }
}

/* Sorts the deltas by target. */
static void
order_deltas(struct append *a, struct append_targets *l)
{
    size_t at = 0;

    for (size_t t = 0; t < l->count; t++) {
        l->list[t].first = at;
        at += l->list[t].count;
        l->list[t].count = 0;
    }
    for (size_t i = 0; i < a->count; i++)
        if (a->target[i] != UINT32_MAX) {
            struct append_target *to = &l->list[a->target[i]];

            a->order[to->first + to->count++] = (uint32_t)i;
        }
}

static bool
is_same_key(const struct store_delta *a, const struct store_delta *b)
{
    return bytes_equal(a->key, a->key_size, b->key, b->key_size);
}

/* The row of all keys, then that of each. */
static int
add_rows(struct append *a, const struct append_target *to)
{
    struct history_row *row = &a->row;
    int rc;

    rc = run_add(&a->writer, &to->all);
    for (size_t i = to->first; rc == 0 && i < to->first + to->count;) {
        const struct store_delta *first = &a->deltas[a->order[i]], *d = first;

        row->cells = 0;
        do
            add_cell(row, cell_of(a, to, minute_of(a, d)), d->sum);
        while (++i < to->first + to->count &&
               is_same_key(d = &a->deltas[a->order[i]], first));
        row->key = first->key;
        row->key_size = first->key_size;
        rc = run_add(&a->writer, row);
    }
    return rc;
}

static int
add_run(struct append *a, const struct append_target *to)
{
    struct history *h = a->history;
    struct history_tier *t = &h->tier[to->tier];
    struct run_info run = {.run = ++h->run};
    struct period p;
    int rc;

    rc = period_get(h, a->kv, to->tier, to->period, &p);
    if (rc == 0 && p.count >= HISTORY_RUNS_FULL)
        rc = -EBUSY; /* check_room() comes before a period is that full */
    if (rc < 0)
        return rc;
    run_begin(&a->writer, &p, &run, run_begins, 0);
    rc = add_rows(a, to);
    if (rc == 0)
        rc = run_end(&a->writer, NULL, 0);
    if (rc < 0)
        return rc;
    t->in += run.sum;
    t->blocks += run.blocks;
    t->bytes += run.bytes;
    period_add(h, &p, &run);
    return period_put(h, a->kv, &p);
}

/* Whether every period has room for a run.  If not, nothing was written, the
 * history is as it was `before`, and compact_from lets the caller's compaction
 * find the full periods: -EAGAIN. */
static int
check_room(struct append *a, const struct append_targets *l,
           const struct history *before)
{
    struct history *h = a->history;
    bool full = false;
    struct period p;

    for (size_t i = 0; i < l->count; i++) {
        const struct append_target *to = &l->list[i];
        const int rc = period_get(h, a->kv, to->tier, to->period, &p);

        if (rc < 0)
            return rc;
        if (p.count <= HISTORY_RUNS_FULL * 3 / 4)
            continue;
        if (!full)
            *h = *before;
        full = true;
        if (h->tier[to->tier].compact_from > to->period)
            h->tier[to->tier].compact_from = to->period;
    }
    return full ? -EAGAIN : 0;
}

/* ---- deltas ------------------------------------------------------------ */

int
history_append(struct history *h, const struct kv *kv,
               const struct history_of *of, uint64_t *ahead)
{
    struct append_targets l = {.count = 0};
    struct append a = {.history = h,
                       .kv = kv,
                       .deltas = of->deltas,
                       .count = of->delta_count,
                       .now = of->limits.now,
                       .writer.kv = kv};
    const struct history before = *h;
    uint32_t oldest = UINT32_MAX;
    int rc;

    *ahead = 0;
    for (size_t i = 0; i < a.count; i++)
        if (a.deltas[i].minute < oldest)
            oldest = a.deltas[i].minute;
    raise_floors(h, a.now, oldest);
    a.target = malloc((a.count + 1) * sizeof *a.target);
    a.order = malloc((a.count + 1) * sizeof *a.order);
    a.cache = calloc((size_t)1 << CACHE_BITS, sizeof *a.cache);
    rc = a.target && a.order && a.cache ? find_targets(&a, &l, ahead) : -ENOMEM;
    if (rc == 0)
        rc = check_room(&a, &l, &before);
    if (rc == 0)
        order_deltas(&a, &l);
    for (size_t i = 0; rc == 0 && i < l.count; i++)
        rc = add_run(&a, &l.list[i]);
    free(l.list);
    free(a.target);
    free(a.order);
    free(a.cache);
    return rc;
}
