/* common/store/history/compact_job.c - a slice of a job.
 *
 * Entry points: compact_job(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/history/compact.h"

#include <errno.h>
#include <stdlib.h>

struct history_compact *
history_compact_new(void)
{
    return malloc(sizeof(struct history_compact));
}

void
history_compact_free(struct history_compact *c)
{
    free(c);
}

/* ---- merging ----------------------------------------------------------- */

/* A job's periods, which may be one. */
struct merge_job {
    struct history_job *job;
    struct period from, other;
    struct period *to; /* one of these */
    struct run_info *new;
    uint8_t input; /* flag of its runs */
    struct sources sources;
};

/* Adds the row a source stands on to the row in work: cell by cell, or, when
 * it is rolled up, all to one. */
static void
merge_row(struct history_compact *c, const struct source *s, int roll_cell)
{
    struct history_row *row = &c->row;

    if (roll_cell >= 0) {
        const int128 sum = rows_sum(&s->block, UINT64_MAX);

        row->sums[roll_cell] =
            row->cells == 0 ? sum : row->sums[roll_cell] + sum;
        row->cells = (uint64_t)1 << roll_cell;
        return;
    }
    if (row->cells == 0) {
        row->cells = s->block.cells;
        rows_sums(&s->block, row->sums);
        return;
    }
    rows_sums(&s->block, c->sums);
    for (uint64_t rest = s->block.cells; rest != 0; rest &= rest - 1) {
        const int i = __builtin_ctzll(rest);
        const uint64_t bit = rest & -rest;

        row->sums[i] =
            (row->cells & bit) != 0 ? row->sums[i] + c->sums[i] : c->sums[i];
        row->cells |= bit;
    }
}

/* Writes the lowest key's row, of all that have it. */
static int
write_lowest(struct history_compact *c, struct sources *l, int roll_cell)
{
    const struct rows_reader *b = &sources_lowest(l, 0)->block;
    int rc;

    c->row.key = b->key;
    c->row.key_size = b->key_size;
    c->row.cells = 0;
    for (size_t i = 0; i < l->lowest_count; i++)
        merge_row(c, sources_lowest(l, i), roll_cell);
    rc = run_add(&c->writer, &c->row);
    return rc < 0 ? rc : sources_next(l);
}

static int
open_sources(struct compact_work *w, struct merge_job *job)
{
    const struct history_job *j = job->job;
    struct history_compact *c = w->of->compact;
    size_t n = 0;
    int rc = 0;

    for (unsigned i = 0; rc == 0 && i < job->from.count; i++) {
        const struct run_info *r = &job->from.runs[i];

        if ((r->flags & job->input) == 0)
            continue;
        c->sources[n].kv = w->kv;
        c->sources[n].copy = c->copies[n];
        c->sources[n].loaded = &w->out->blocks;
        rc = source_open(&c->sources[n], &job->from, r, j->at, j->at_size);
        n++;
    }
    job->sources = (struct sources){.count = n,
                                    .all = c->sources,
                                    .words = c->words,
                                    .least = c->least,
                                    .lowest = c->lowest};
    if (rc == 0)
        sources_begin(&job->sources);
    return rc;
}

/* Writes rows until there is none (0), or the slice is over (1). */
static int
write_rows(struct compact_work *w, struct merge_job *job)
{
    struct history_job *j = job->job;
    struct history *h = w->history;
    struct history_compact *c = w->of->compact;
    struct run_writer *out = &c->writer;
    const uint32_t before = job->new->blocks;
    const uint64_t bytes = job->new->bytes;
    const int roll_cell =
        j->kind == HISTORY_ROLL
            ? (int)((j->period - j->to_period) / h->tier[j->to_tier].step)
            : -1;
    struct sources *s = &job->sources;
    int rc = 0;

    out->kv = w->kv;
    run_begin(out, job->to, job->new, j->at, j->at_size);
    while (rc == 0 && s->left > 0 &&
           (job->new->blocks == before ||
            w->out->blocks + (job->new->blocks - before) < w->blocks))
        rc = write_lowest(c, s, roll_cell);
    if (rc == 0 && s->left > 0)
        rc = run_end(out, sources_lowest(s, 0)->block.key,
                     sources_lowest(s, 0)->block.key_size);
    else if (rc == 0)
        rc = run_end(out, NULL, 0);
    if (rc < 0)
        return rc;
    w->out->blocks += job->new->blocks - before;
    h->tier[j->to_tier].blocks += job->new->blocks - before;
    h->tier[j->to_tier].bytes += job->new->bytes - bytes;
    j->at_size = (uint16_t)(out->key.size - RUN_KEY_HEAD);
    memcpy(j->at, out->key.bytes + RUN_KEY_HEAD, j->at_size);
    return s->left > 0;
}

/* ---- the end of a job -------------------------------------------------- */

static void
note_crowd(struct history *h, const struct period *p, unsigned level)
{
    unsigned n = 0;

    for (unsigned i = 0; i < p->count; i++)
        n += run_counts(&p->runs[i]) && p->runs[i].level == level;
    if ((n >= HISTORY_EIGHT || period_is_split(p)) &&
        h->tier[p->tier].compact_from > p->start) /* NEVER is above all */
        h->tier[p->tier].compact_from = p->start;
}

/* Completes a job: the new run counts from now on, and its inputs are removed
 * or marked as rolled. */
static int
finish_job(struct compact_work *w, struct merge_job *job)
{
    struct history *h = w->history;
    struct history_job *j = job->job;
    struct history_tier *to = &h->tier[j->to_tier];
    const bool roll = j->kind == HISTORY_ROLL;
    int128 sum = 0;

    for (unsigned i = 0; i < job->from.count; i++) {
        struct run_info *r = &job->from.runs[i];

        if ((r->flags & job->input) == 0)
            continue;
        sum += r->sum;
        r->flags = (uint8_t)((r->flags & ~job->input) |
                             (roll ? RUN_ROLLED : RUN_GONE));
    }
    if (sum != job->new->sum)
        return -EBADMSG;
    job->new->flags &= (uint8_t)~RUN_NEW;
    if (roll) {
        h->tier[j->tier].rolled += sum;
        to->in += sum;
        if (to->open == HISTORY_NEVER || to->open > j->to_period)
            to->open = j->to_period;
    }
    note_crowd(h, job->to, job->new->level);
    j->kind = roll ? HISTORY_REST : HISTORY_SWEEP;
    return 0;
}

/* ---- merge jobs -------------------------------------------------------- */

static int
get_periods(struct compact_work *w, struct merge_job *job)
{
    struct history_job *j = job->job;
    int rc;

    rc = period_get(w->history, w->kv, j->tier, j->period, &job->from);
    job->to = &job->from;
    if (rc == 0 && j->kind == HISTORY_ROLL) {
        rc = period_get(w->history, w->kv, j->to_tier, j->to_period,
                        &job->other);
        job->to = &job->other;
    }
    if (rc < 0)
        return rc;
    job->new = NULL;
    for (unsigned i = 0; i < job->to->count; i++)
        if (job->to->runs[i].run == j->run &&
            (job->to->runs[i].flags & RUN_NEW) != 0)
            job->new = &job->to->runs[i];
    return job->new != NULL ? 0 : -EBADMSG;
}

static int
merge_runs(struct compact_work *w, unsigned slot)
{
    struct merge_job job = {.job = &w->history->jobs[slot],
                            .input = (uint8_t)(RUN_INPUT << slot)};
    const bool roll = job.job->kind == HISTORY_ROLL;
    int rc;

    rc = get_periods(w, &job);
    if (rc == 0)
        rc = open_sources(w, &job);
    if (rc == 0)
        rc = write_rows(w, &job);
    if (rc == 0)
        rc = finish_job(w, &job);
    if (rc < 0)
        return rc;
    rc = period_put(w->history, w->kv, &job.from);
    if (rc == 0 && roll)
        rc = period_put(w->history, w->kv, &job.other);
    return rc;
}

/* ---- sweeping ---------------------------------------------------------- */

/* Removes blocks of a run; 1 when all are. */
static int
sweep_run(struct compact_work *w, const struct period *p, struct run_info *r)
{
    struct history_tier *t = &w->history->tier[p->tier];
    struct run_key first;
    struct kv_item item;
    size_t n = 0;
    int rc;

    run_key(&first, p, r, (const uint8_t *)"", 0);
    while ((rc = w->kv->after(w->kv->ctx, first.bytes, first.size, &item)) >
               0 &&
           run_key_same(&first, &item)) {
        const uint64_t bytes = item.key_size + item.size;
        struct run_key key = {.size = item.key_size};

        if (w->out->blocks >= w->blocks)
            return 0;
        if (item.key_size > sizeof key.bytes || r->blocks == 0)
            return -EBADMSG;
        memcpy(key.bytes, item.key, item.key_size);
        rc = w->kv->del(w->kv->ctx, key.bytes, key.size);
        if (rc < 0)
            return rc;
        r->blocks--;
        r->bytes -= bytes;
        t->blocks--;
        t->bytes -= bytes;
        w->out->blocks += n++ % 4 == 0; /* cheaper than writing one */
    }
    return rc < 0 ? rc : r->blocks == 0 ? 1 : -EBADMSG;
}

/* The next period of the tier that has gone, if there is one. */
static int
sweep_next(struct compact_work *w, struct history_job *j)
{
    const struct history_tier *t = &w->history->tier[j->tier];
    struct period p;
    int rc;

    j->kind = HISTORY_REST;
    rc = period_after(w->history, w->kv, j->tier, 0, &p);
    if (rc <= 0 || p.start >= t->floor)
        return rc < 0 ? rc : 0;
    j->kind = HISTORY_SWEEP;
    j->period = j->to_period = p.start;
    return 0;
}

static int
sweep_runs(struct compact_work *w, unsigned slot)
{
    struct history_job *j = &w->history->jobs[slot];
    struct period p;
    unsigned kept = 0;
    int rc, done = 1;

    rc = period_get(w->history, w->kv, j->tier, j->period, &p);
    if (rc < 0)
        return rc;
    for (unsigned i = 0; i < p.count; i++) {
        const bool gone = (p.runs[i].flags & RUN_GONE) != 0;

        rc = gone && done > 0 ? sweep_run(w, &p, &p.runs[i]) : 0;
        if (rc < 0)
            return rc;
        if (gone)
            done = rc;
        if (!gone || rc == 0)
            p.runs[kept++] = p.runs[i];
    }
    p.count = kept;
    rc = period_put(w->history, w->kv, &p);
    if (rc < 0 || done == 0)
        return rc;
    if (slot == COMPACT_CLOSING)
        return sweep_next(w, j);
    j->kind = HISTORY_REST;
    return 0;
}

int
compact_job(struct compact_work *w, unsigned slot)
{
    return w->history->jobs[slot].kind == HISTORY_SWEEP ? sweep_runs(w, slot)
                                                        : merge_runs(w, slot);
}
