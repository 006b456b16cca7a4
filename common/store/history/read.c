/* common/store/history/read.c - the history of one key, or of those that begin
 * so. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/history/runs.h"

#include <errno.h>

#include "common/base/clock.h"

#define PART 8 /* periods between looks at the clock */

int
history_tier_of(const struct history *h, uint32_t from, uint32_t to,
                uint32_t step, unsigned *tier)
{
    if (step == 0 || from > to || (to - from) % step != 0)
        return -EINVAL;
    for (unsigned i = h->count; i > 0; i--) {
        const uint32_t unit = h->tier[i - 1].step;

        if (from % unit == 0 && step % unit == 0) {
            *tier = i - 1;
            return 0;
        }
    }
    return -EINVAL;
}

uint32_t
history_since(const struct history *h, unsigned tier)
{
    const struct history_tier *t = &h->tier[tier];
    const uint32_t start = (h->start + t->step - 1) / t->step * t->step;

    return t->floor > start ? t->floor : start;
}

/* ---- runs that answer -------------------------------------------------- */

/* Runs of a tier are all read; of a finer one those that are not rolled. */
static bool
is_wanted(const struct run_info *r, bool finer)
{
    return run_counts(r) && (!finer || (r->flags & RUN_ROLLED) == 0);
}

int
runs_each(const struct runs_span *s, unsigned tier,
          int (*run)(void *ctx, const struct period *p,
                     const struct run_info *r),
          void *ctx)
{
    struct period p;
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i <= tier; i++) {
        const struct history_tier *t = &s->history->tier[i];
        uint32_t at = history_period(t, s->from);

        if (i < tier && (t->open == HISTORY_NEVER || t->open >= s->to))
            continue;
        if (i < tier && at < t->open)
            at = t->open;
        if (at < t->floor)
            at = t->floor;
        while (rc == 0 && at < s->to &&
               (rc = period_after(s->history, s->kv, i, at, &p)) > 0 &&
               p.start < s->to) {
            rc = 0;
            for (unsigned j = 0; rc == 0 && j < p.count; j++)
                if (is_wanted(&p.runs[j], i < tier))
                    rc = run(ctx, &p, &p.runs[j]);
            at = p.start + t->period;
        }
        if (rc > 0)
            rc = 0;
    }
    return rc;
}

uint64_t
runs_cells_of(const struct runs_span *s, const struct period *p)
{
    const struct history_tier *t = &s->history->tier[p->tier];
    uint64_t mask = 0;

    for (uint32_t i = 0; i < t->period / t->step; i++) {
        const uint32_t at = p->start + i * t->step;

        if (at >= s->from && at < s->to)
            mask |= (uint64_t)1 << i;
    }
    return mask;
}

/* ---- sums by steps ------------------------------------------------------ */

struct reading {
    const struct history_range *asked;
    struct runs_span part; /* of its span */
};

void
source_add_cells(const struct source *s, const struct history_range *to)
{
    int128 sums[HISTORY_CELLS];

    rows_sums(&s->block, sums);
    for (uint64_t rest = s->block.cells & s->mask; rest != 0;
         rest &= rest - 1) {
        const unsigned i = (unsigned)__builtin_ctzll(rest);
        struct store_bucket *b =
            &to->buckets[(s->start + i * s->step - to->from) / to->step];

        b->any = true;
        b->sum += sums[i];
    }
}

static int
read_run(void *ctx, const struct period *p, const struct run_info *run)
{
    const struct reading *r = ctx;
    const struct history_range *a = r->asked;
    struct source s = {.kv = r->part.kv,
                       .mask = run->cells & runs_cells_of(&r->part, p),
                       .start = p->start,
                       .step = r->part.history->tier[p->tier].step};
    int rc;

    if (s.mask == 0)
        return 0;
    rc = source_open(&s, p, run, a->key, a->key_size);
    if (rc < 0 || s.over || s.block.key_size != a->key_size ||
        memcmp(s.block.key, a->key, a->key_size) != 0)
        return rc;
    source_add_cells(&s, a);
    return 0;
}

/* Adds the keys that begin so, for a part of the span. */
static int
read_keys(const struct reading *r)
{
    struct history_scan *keys = r->asked->keys;
    int rc;

    keys->range = r->asked;
    keys->prefix = r->asked->key;
    keys->prefix_size = r->asked->key_size;
    keys->from = r->part.from;
    keys->to = r->part.to;
    rc = history_scan(r->part.history, r->part.kv, keys);
    if (rc == 0)
        keys->at->size = 0;
    return rc;
}

/* A part ends with a period of the tier that answers: what such a part is made
 * of is few runs, and the rest may be of a later moment. */
int
history_read(const struct history *h, const struct kv *kv,
             const struct history_range *a, uint64_t until_ns, uint32_t *done)
{
    struct reading r = {.asked = a, .part = {.history = h, .kv = kv}};
    struct runs_span *part = &r.part;
    unsigned tier;
    int rc;

    rc = history_tier_of(h, a->from, a->to, a->step, &tier);
    while (rc == 0 && a->from + *done < a->to) {
        const struct history_tier *t = &h->tier[tier];
        uint64_t end;

        part->from = a->from + *done;
        end = (uint64_t)history_period(t, part->from) +
              (uint64_t)t->period * PART;
        part->to = end < a->to ? (uint32_t)end : a->to;
        rc = a->keys ? read_keys(&r) : runs_each(part, tier, read_run, &r);
        if (rc < 0)
            break;
        *done = part->to - a->from;
        if (until_ns != 0 && part->to < a->to && clock_ns() >= until_ns)
            rc = -EAGAIN;
    }
    return rc;
}
