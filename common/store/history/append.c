/* common/store/history/append.c - what a merge brings: a run for each period
 * that its minutes lie in.
 *
 * Entry points: history_append(). */
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
};

struct append_targets {
    struct append_target *list;
    size_t count, capacity;
};

static const uint8_t run_begins[1];

struct append {
    struct history *history;
    const struct kv *kv;
    const struct store_delta *deltas;
    size_t count;
    uint32_t now;
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
        const int128 sum = store_delta_sum(&a->deltas[i]);

        h->added += sum;
        *ahead += minute != a->deltas[i].minute;
        to = find_target(l, minute);
        if (to == NULL && target_of(h, minute, &t)) {
            rc = add_target(l, &t);
            to = rc == 0 ? &l->list[l->count - 1] : NULL;
        }
        if (rc == 0 && to != NULL) {
            add_cell(&to->all, cell_of(a, to, minute), sum);
        } else if (rc == 0) { /* older than all that is kept */
            h->tier[h->count - 1].in += sum;
            h->tier[h->count - 1].dropped += sum;
        }
    }
    return rc;
}

/* ---- rows -------------------------------------------------------------- */

/* Adds a delta to a row if it belongs to the target. */
static void
take_delta(const struct append *a, const struct append_target *to, size_t i,
           struct history_row *row)
{
    const uint32_t minute = minute_of(a, &a->deltas[i]);

    if (minute >= to->from && minute < to->to)
        add_cell(row, cell_of(a, to, minute), store_delta_sum(&a->deltas[i]));
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
    for (size_t i = 0; rc == 0 && i < a->count;) {
        const struct store_delta *first = &a->deltas[i];

        row->cells = 0;
        do
            take_delta(a, to, i++, row);
        while (i < a->count && is_same_key(&a->deltas[i], first));
        if (row->cells == 0)
            continue;
        row->key = first->key;
        row->key_size = first->key_size;
        rc = run_add(&a->writer, row);
    }
    return rc;
}

/* A place for one run more in a period. */
static int
find_period(struct history *h, const struct kv *kv, unsigned tier,
            uint32_t start, struct period *p)
{
    int rc = period_get(h, kv, tier, start, p);

    /* Care comes before a period is so full. */
    return rc == 0 && p->count == HISTORY_RUNS_MAX ? -EBUSY : rc;
}

static int
add_run(struct append *a, const struct append_target *to)
{
    struct history *h = a->history;
    struct history_tier *t = &h->tier[to->tier];
    struct run_info run = {.run = ++h->run};
    struct period p;
    int rc;

    rc = find_period(h, a->kv, to->tier, to->period, &p);
    if (rc < 0)
        return rc;
    run_begin(&a->writer, a->kv, to->tier, to->period, &run, run_begins, 0);
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

/* ---- deltas ------------------------------------------------------------ */

int
history_append(struct history *h, const struct kv *kv,
               const struct store_delta *deltas, size_t count, uint32_t now,
               uint64_t *ahead)
{
    struct append_targets l = {.count = 0};
    struct append *a = malloc(sizeof *a);
    int rc;

    *ahead = 0;
    if (a == NULL)
        return -ENOMEM;
    a->history = h;
    a->kv = kv;
    a->deltas = deltas;
    a->count = count;
    a->now = now;
    rc = find_targets(a, &l, ahead);
    for (size_t i = 0; rc == 0 && i < l.count; i++)
        rc = add_run(a, &l.list[i]);
    free(l.list);
    free(a);
    return rc;
}
