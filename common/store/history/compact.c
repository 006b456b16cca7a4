/* common/store/history/compact.c - which jobs there are: periods with many runs
 * of a level, periods that have ended, and those past their retention.
 *
 * Entry points: history_compact(), history_due(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/history/compact.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/diag.h"

/* ---- choosing runs ----------------------------------------------------- */

#define LEVEL_ROLLED (HISTORY_CLOSED + 1) /* instead of a level */

/* Whether a run could be merged with others: one that is not rolled, of a level
 * (HISTORY_CLOSED: of any); LEVEL_ROLLED: one that is rolled, of any level. */
static bool
is_free(const struct run_info *r, unsigned level)
{
    const uint8_t rolled = level == LEVEL_ROLLED ? RUN_ROLLED : 0;

    return run_counts(r) && (r->flags & (RUN_INPUTS | RUN_ROLLED)) == rolled &&
           (level >= HISTORY_CLOSED || r->level == level);
}

static unsigned
count_free(const struct period *p, unsigned level)
{
    unsigned n = 0;

    for (unsigned i = 0; i < p->count; i++)
        n += is_free(&p->runs[i], level);
    return n;
}

/* Whether another job works on a period. */
static bool
is_busy(const struct history *h, const struct period *p)
{
    for (unsigned i = 0; i < HISTORY_JOBS; i++) {
        const struct history_job *j = &h->jobs[i];

        if (j->kind != HISTORY_REST &&
            ((j->tier == p->tier && j->period == p->start) ||
             (j->to_tier == p->tier && j->to_period == p->start)))
            return true;
    }
    return false;
}

/* ---- beginning jobs ---------------------------------------------------- */

/* Begins a job with the free runs of `from` of a level, as is_free() has it.  1;
 * -EAGAIN: the period has no free place for its run. */
static int
begin_job(struct compact_work *w, unsigned slot, enum history_job_kind kind,
          struct period *from, unsigned level)
{
    struct history *h = w->history;
    struct run_info new = {.flags = RUN_NEW};
    struct period other, *to = from;
    int rc = 0;

    if (kind == HISTORY_ROLL) {
        const unsigned up = from->tier + 1u;

        to = &other;
        rc = period_get(h, w->kv, up, history_period(&h->tier[up], from->start),
                        to);
    }
    if (rc == 0 && to->count == HISTORY_RUNS_MAX)
        rc = -EAGAIN;
    if (rc < 0)
        return rc;
    new.run = ++h->run;
    for (unsigned i = 0; i < from->count; i++)
        if (is_free(&from->runs[i], level))
            from->runs[i].flags |= (uint8_t)(RUN_INPUT << slot);
    if (kind == HISTORY_COMPACT) {
        new.level = (uint8_t)(level < HISTORY_CLOSED - 1 ? level + 1 : level);
        if (level == LEVEL_ROLLED) {
            new.level = HISTORY_CLOSED;
            new.flags |= RUN_ROLLED;
        }
    }
    to->runs[to->count++] = new;
    h->jobs[slot] = (struct history_job){.kind = kind,
                                         .tier = from->tier,
                                         .to_tier = to->tier,
                                         .period = from->start,
                                         .to_period = to->start,
                                         .level = new.level,
                                         .run = new.run};
    rc = period_put(h, w->kv, from);
    if (rc == 0 && to != from)
        rc = period_put(h, w->kv, to);
    return rc < 0 ? rc : 1;
}

/* ---- periods with many runs --------------------------------------------- */

/* Whether a period has eight runs of a level that are not rolled, or is split.
 * *level is the lowest such level that job `slot` takes, or -1.  Rolled runs
 * are left to finish_period(). */
static bool
is_crowded(const struct period *p, unsigned slot, int *level)
{
    bool crowded = period_is_split(p);

    *level = crowded && slot == 1 ? HISTORY_CLOSED : -1;
    for (unsigned i = HISTORY_CLOSED; i-- > 0;)
        if (count_free(p, i) >= HISTORY_EIGHT) {
            crowded = true;
            if (slot == 0 ? i == 0 : i > 0)
                *level = (int)i;
        }
    return crowded;
}

/* Looks for a period with eight runs of a level: job 0 for those of level 0,
 * job 1 for others.  No period before compact_from has any.  1: a job has
 * begun. */
static int
choose_crowd(struct compact_work *w, unsigned slot, unsigned tier)
{
    struct history_tier *t = &w->history->tier[tier];
    uint32_t at = t->compact_from;
    bool keep = false; /* compact_from */
    struct period p;
    int rc;

    while (at != HISTORY_NEVER) {
        bool crowded, busy = false;
        int level;

        rc = period_after(w->history, w->kv, tier, at, &p);
        if (rc < 0)
            return rc;
        if (rc == 0) {
            if (!keep)
                t->compact_from = HISTORY_NEVER;
            return 0;
        }
        crowded = is_crowded(&p, slot, &level);
        for (unsigned i = 0; i < p.count; i++)
            busy = busy || (p.runs[i].flags & (RUN_INPUTS | RUN_NEW)) != 0;
        keep = keep || crowded || busy;
        if (!keep)
            t->compact_from = p.start + t->period;
        if (level >= 0 && p.count < HISTORY_RUNS_MAX)
            return begin_job(w, slot, HISTORY_COMPACT, &p, (unsigned)level);
        at = p.start + t->period;
    }
    return 0;
}

/* ---- periods that have ended -------------------------------------------- */

/* Begins the next job of a period that has ended and is not busy: its runs are
 * merged into one, which is rolled up; eight rolled runs are merged into one.
 * 1: a job has begun; 0: there is nothing to do. */
static int
finish_period(struct compact_work *w, struct period *p)
{
    const struct history *h = w->history;
    const bool rolls = p->tier + 1u < h->count;
    const unsigned apart = count_free(p, HISTORY_CLOSED);

    if (apart > 1)
        return begin_job(w, COMPACT_CLOSING, HISTORY_COMPACT, p,
                         HISTORY_CLOSED);
    if (apart == 1 && rolls)
        return begin_job(w, COMPACT_CLOSING, HISTORY_ROLL, p, HISTORY_CLOSED);
    if (count_free(p, LEVEL_ROLLED) >= HISTORY_EIGHT)
        return begin_job(w, COMPACT_CLOSING, HISTORY_COMPACT, p, LEVEL_ROLLED);
    return 0;
}

static int
choose_closed(struct compact_work *w, unsigned tier)
{
    struct history *h = w->history;
    struct history_tier *t = &h->tier[tier];
    struct period p;
    int rc;

    while (t->open != HISTORY_NEVER) {
        rc = period_after(h, w->kv, tier, t->open, &p);
        if (rc < 0)
            return rc;
        t->open = rc == 0 ? HISTORY_NEVER : p.start;
        if (rc == 0 ||
            p.start + t->period + HISTORY_CLOSED_AFTER > w->of->limits.now)
            return 0;
        if (is_busy(h, &p))
            return 0;
        rc = finish_period(w, &p);
        if (rc != 0) /* -EAGAIN: other jobs must free a place first */
            return rc == -EAGAIN ? 0 : rc;
        t->open = p.start + t->period;
    }
    return 0;
}

/* ---- periods that are no longer kept ------------------------------------ */

/* Whether a finer tier still has something of this time. */
static bool
is_finer_left(const struct history *h, unsigned tier, uint32_t end)
{
    for (unsigned i = 0; i < tier; i++)
        if (h->tier[i].first < end)
            return true;
    return false;
}

/* Drops a whole period, if the next tier has it or there is no next tier, and
 * the finer tiers no longer have it.  1: it is being swept. */
static int
drop_period(struct compact_work *w, struct period *p)
{
    struct history *h = w->history;
    struct history_tier *t = &h->tier[p->tier];
    const uint32_t end = p->start + t->period;
    int rc;

    if (is_busy(h, p) || is_finer_left(h, p->tier, end) ||
        (p->tier + 1u < h->count && count_free(p, HISTORY_CLOSED) > 0))
        return 0;

    /* Raise the floors of the finer tiers too: a late increment for a dropped
     * span must not be stored there. */
    for (unsigned i = 0; i < p->tier; i++)
        if (h->tier[i].floor < end)
            h->tier[i].floor = end;
    for (unsigned i = 0; i < p->count; i++) {
        if (run_counts(&p->runs[i]))
            t->dropped += p->runs[i].sum;
        p->runs[i].flags |= RUN_GONE;
    }
    t->floor = end;
    h->jobs[COMPACT_CLOSING] = compact_sweep_of(p->tier, p->start);
    rc = period_put(h, w->kv, p);
    return rc < 0 ? rc : 1;
}

/* Two periods are dropped at a time, the next ones a period later: so a clock
 * that jumps ahead costs little history. */
static int
choose_old(struct compact_work *w, unsigned tier)
{
    struct history_tier *t = &w->history->tier[tier];
    const uint32_t now = w->of->limits.now;
    struct period p;
    int rc;

    if (t->dropped_at > now)
        t->dropped_at = now;
    if (t->dropped_at != 0 && now - t->dropped_at < t->period)
        return 0;
    for (int i = 0; i < 2; i++) {
        rc = period_after(w->history, w->kv, tier, t->floor, &p);
        if (rc > 0)
            rc = (uint64_t)p.start + t->period + t->keep > now
                     ? 0
                     : drop_period(w, &p);
        if (rc <= 0)
            return rc < 0 ? rc : i;
        t->dropped_at = now;
    }
    return 1;
}

/* Above history.max, the oldest period of the finest tier is dropped. */
static int
choose_limit(struct compact_work *w)
{
    static struct diag_repeat repeat;
    const struct history_limits *limits = &w->of->limits;
    const struct history *h = w->history;
    uint64_t bytes = 0;
    struct period p;
    int rc = 0;

    for (unsigned i = 0; i < h->count; i++)
        bytes += h->tier[i].bytes;
    if (limits->max == 0 || bytes <= limits->max)
        return 0;
    for (unsigned i = 0; rc == 0 && i < h->count; i++) {
        rc = period_after(h, w->kv, i, h->tier[i].floor, &p);
        if (rc > 0)
            rc = p.start + h->tier[i].period + HISTORY_CLOSED_AFTER <=
                         limits->now
                     ? drop_period(w, &p)
                     : 0;
    }
    if (rc > 0)
        diag_repeating(&repeat, DIAG_WARNING,
                       "keyspace=%s: history exceeds history.max: the oldest "
                       "of it is removed before its time",
                       compact_name(w->of));
    return rc;
}

/* ---- the next job ------------------------------------------------------ */

/* Chooses and begins a job.  1: one has begun. */
static int
choose_job(struct compact_work *w, unsigned slot)
{
    const unsigned count = w->history->count;
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < count; i++)
        rc = slot != COMPACT_CLOSING ? choose_crowd(w, slot, i)
                                     : choose_closed(w, i);
    if (rc != 0 || slot != COMPACT_CLOSING)
        return rc;
    for (unsigned i = 0; rc == 0 && i < count; i++)
        rc = choose_old(w, i);
    return rc == 0 ? choose_limit(w) : rc;
}

/* Once more a round when a job in one slot may have made work for another. */
int
history_compact(struct history *h, const struct kv *kv,
                const struct history_of *of, size_t blocks,
                struct history_compacted *out)
{
    struct compact_work w = {
        .history = h, .kv = kv, .of = of, .blocks = blocks, .out = out};
    bool worked = true;
    int rc = 0;

    *out = (struct history_compacted){.more = false};
    while (worked && out->blocks < blocks) {
        worked = false;
        for (unsigned slot = 0; slot < HISTORY_JOBS; slot++) {
            if (out->blocks >= blocks)
                break;
            rc = h->jobs[slot].kind == HISTORY_REST ? choose_job(&w, slot) : 1;
            if (rc > 0) {
                rc = compact_job(&w, slot);
                worked = true;
            }
            if (rc < 0)
                return rc;
        }
    }
    out->more = worked;
    return 0;
}

/* ---- when -------------------------------------------------------------- */

/* The minute at which a period of a tier has ended and is worth the work. */
static uint32_t
due_to_close(const struct history *h, const struct kv *kv, unsigned tier)
{
    const struct history_tier *t = &h->tier[tier];
    uint64_t blocks = 0, at;
    struct period p;

    if (t->open == HISTORY_NEVER)
        return HISTORY_NEVER;
    if (period_after(h, kv, tier, t->open, &p) <= 0)
        return HISTORY_NEVER; /* damage is reported when it is used */
    for (unsigned i = 0; i < p.count; i++)
        blocks += p.runs[i].blocks;
    at = (uint64_t)p.start + t->period + HISTORY_CLOSED_AFTER;
    if (blocks <= HISTORY_SMALL)
        at += HISTORY_AHEAD_MAX;
    return at < HISTORY_NEVER ? (uint32_t)at : HISTORY_NEVER;
}

/* The minute at which a period is no longer kept; later if it has little. */
static uint32_t
due_old(const struct history *h, unsigned tier)
{
    const struct history_tier *t = &h->tier[tier];
    const bool small = t->blocks <= (uint64_t)HISTORY_SMALL * HISTORY_CELLS;
    const uint32_t wait = small ? HISTORY_AHEAD_MAX : t->period;
    uint64_t at;

    if (t->first == HISTORY_NEVER)
        return HISTORY_NEVER;
    at = (uint64_t)t->first + t->period + t->keep;
    at += small ? HISTORY_AHEAD_MAX : 0;
    if (at < (uint64_t)t->dropped_at + wait)
        at = (uint64_t)t->dropped_at + wait;
    return at < HISTORY_NEVER ? (uint32_t)at : HISTORY_NEVER;
}

uint32_t
history_due(const struct history *h, const struct kv *kv)
{
    uint32_t due = HISTORY_NEVER;

    for (unsigned i = 0; i < HISTORY_JOBS; i++)
        if (h->jobs[i].kind != HISTORY_REST)
            return 0;
    for (unsigned i = 0; i < h->count; i++) {
        const uint32_t over = due_to_close(h, kv, i), old = due_old(h, i);

        if (h->tier[i].compact_from != HISTORY_NEVER)
            return 0;
        due = over < due ? over : due;
        due = old < due ? old : due;
    }
    return due;
}
