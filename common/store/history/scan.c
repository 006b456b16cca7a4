/* common/store/history/scan.c - keys of a span, each with its sum.
 *
 * All runs that have something in the span are read side by side; each takes
 * some 700 bytes of memory until the scan ends or stops.
 *
 * Entry points: history_scan(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/base/array.h"
#include "common/base/bytes.h"
#include "common/store/history/runs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"

#define STEPS_PER_CLOCK 1024 /* rows and heads between looks at the clock */

struct scan {
    const struct history *h;
    const struct kv *kv;
    struct history_scan *asked;
    struct sources sources;
    size_t capacity; /* sources that there is memory for */
    size_t loaded;   /* blocks, by all sources */
};

/* ---- opening ----------------------------------------------------------- */

/* Opens a run that has cells in the span. */
static int
open_run(void *ctx, const struct period *p, const struct run_info *run)
{
    struct scan *s = ctx;
    const struct history_scan *asked = s->asked;
    const struct history_tier *t = &s->h->tier[p->tier];
    const uint64_t mask =
        runs_cells_between(t, p->start, asked->from, asked->to);
    struct sources *l = &s->sources;
    struct source *to;

    if ((run->cells & mask) == 0)
        return 0;
    if (array_grow(&l->all, &s->capacity, l->count + 1, sizeof *l->all) < 0)
        return -ENOMEM;
    to = &l->all[l->count++];
    to->copy = NULL;
    to->loaded = &s->loaded;
    to->mask = mask;
    to->all = (run->cells & ~mask) == 0;
    to->start = p->start;
    to->step = t->step;
    return source_open(to, s->kv, p, run, asked->at, asked->at_size);
}

/* ---- blocks that cannot matter ----------------------------------------- */

/* The most that a key may have in all blocks before every source's next one;
 * *end is where the first of those begins (NULL: nowhere).  False if unknown: a
 * source is read for a part of its cells only, and others may be negative. */
static bool
most_ahead(const struct sources *l, int128 *most, const uint8_t **end,
           size_t *end_size)
{
    *most = 0;
    *end = NULL;
    *end_size = 0;
    for (size_t i = 0; i < l->count; i++) {
        const struct rows_reader *b = &l->all[i].block;

        if (l->all[i].over)
            continue;
        if (!l->all[i].all && !b->no_negative)
            return false;
        if (b->most > 0)
            *most += b->most;
        if (b->next != NULL &&
            (*end == NULL ||
             bytes_compare(b->next, b->next_size, *end, *end_size) < 0)) {
            *end = b->next;
            *end_size = b->next_size;
        }
    }
    return true;
}

/* Moves every source whose next block begins at `end` or before to that block's
 * head. */
static int
pass_heads(const struct sources *l, const uint8_t *end, size_t end_size)
{
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < l->count; i++) {
        struct source *s = &l->all[i];

        if (!s->over && s->block.next != NULL &&
            bytes_compare(s->block.next, s->block.next_size, end, end_size) <=
                0)
            rc = source_next_head(s);
    }
    return rc;
}

/* Goes on behind what cannot reach `least`: by heads of blocks, and then by
 * rows to the key behind the last of these blocks.  Adds the heads to *steps,
 * and stops at STEPS_PER_CLOCK of them. */
static int
pass_over(struct sources *l, int128 least, unsigned *steps)
{
    uint8_t key[HISTORY_KEY_MAX];
    const uint8_t *end;
    size_t size, passed = 0;
    int128 most;
    int rc = 0;

    for (; *steps < STEPS_PER_CLOCK && most_ahead(l, &most, &end, &size) &&
           most < least;
         passed = size) {
        if (end == NULL) {
            l->left = 0;
            return 0;
        }
        ++*steps;
        memcpy(key, end, size);
        rc = pass_heads(l, key, size);
        if (rc < 0)
            return rc;
    }
    if (passed == 0)
        return 0;
    for (size_t i = 0; rc == 0 && i < l->count; i++)
        if (!l->all[i].over)
            rc = source_land(&l->all[i], key, passed);
    if (rc == 0)
        sources_begin(l);
    return rc;
}

/* ---- rows -------------------------------------------------------------- */

/* The sum of the lowest key; false: nothing came to it in the span. */
static bool
sum_lowest(const struct sources *l, int128 *sum)
{
    bool any = false;

    *sum = 0;
    for (size_t i = 0; i < l->lowest_count; i++) {
        const struct source *s = sources_lowest(l, i);

        if ((s->block.cells & s->mask) != 0) {
            *sum += rows_sum(&s->block, s->mask);
            any = true;
        }
    }
    return any;
}

/* Where to go on: at the lowest key that has not been given. */
static int
stop_here(struct history_scan *asked, const struct sources *l)
{
    const struct rows_reader *b = &sources_lowest(l, 0)->block;

    memcpy(asked->at, b->key, b->key_size);
    asked->at_size = b->key_size;
    return -EAGAIN;
}

static bool
is_wanted(const struct history_scan *asked, const struct rows_reader *b)
{
    return b->key_size > 0 &&
           (!asked->wants || asked->wants(asked->ctx, b->key, b->key_size));
}

/* Gives the row of the lowest key, and goes on to the next one. */
static int
give_lowest(struct history_scan *asked, struct sources *l)
{
    const struct rows_reader *b = &sources_lowest(l, 0)->block;
    int128 sum;

    if (is_wanted(asked, b) && asked->range)
        for (size_t i = 0; i < l->lowest_count; i++)
            source_add_cells(sources_lowest(l, i), asked->range);
    else if (is_wanted(asked, b) && sum_lowest(l, &sum) && sum >= asked->least)
        asked->least = asked->row(asked->ctx, b->key, b->key_size, sum);
    return sources_next(l);
}

/* Whether keys with the prefix are left: there is none behind another key. */
static bool
has_more(const struct history_scan *asked, const struct sources *l)
{
    const struct rows_reader *b;

    if (l->left == 0 || asked->prefix_size == 0)
        return l->left > 0;
    b = &sources_lowest(l, 0)->block;
    return bytes_begin(b->key, b->key_size, asked->prefix, asked->prefix_size);
}

/* Whether rows can be passed over is asked when a block begins: `loaded` counts
 * blocks.  Between two looks at the clock come at least as many rows as there
 * are runs: what stops has to open them all again. */
static int
give_rows(struct scan *s)
{
    struct history_scan *asked = s->asked;
    struct sources *l = &s->sources;
    const size_t least =
        l->count > STEPS_PER_CLOCK ? l->count : STEPS_PER_CLOCK;
    size_t looked = 0; /* value of `loaded` at the last check */
    unsigned steps = 0;
    int rc = 0;

    while (rc == 0 && has_more(asked, l)) {
        if (asked->is_full && asked->is_full(asked->ctx))
            return 0;
        if (steps >= least) {
            steps = 0;
            if (asked->until_ns != 0 && clock_ns() >= asked->until_ns)
                return stop_here(asked, l);
        }
        if (s->loaded != looked && asked->least > INT128_LEAST) {
            looked = s->loaded;
            rc = pass_over(l, asked->least, &steps);
        } else {
            rc = give_lowest(asked, l);
            steps++;
        }
    }
    return rc;
}

/* ---- a scan ------------------------------------------------------------ */

/* The memory of what is done with several sources: words, their least ones,
 * numbers. */
static int
scan_all(struct scan *s)
{
    struct sources *l = &s->sources;
    const size_t capacity = SOURCES_CAPACITY(l->count);
    int rc;

    l->words = malloc((capacity + capacity / 8) * sizeof *l->words +
                      capacity * sizeof *l->lowest);
    if (l->words == NULL)
        return -ENOMEM;
    l->least = l->words + capacity;
    l->lowest = (uint32_t *)(l->least + capacity / 8);
    sources_begin(l);
    rc = give_rows(s);
    free(l->words);
    return rc;
}

int
history_scan(const struct history *h, const struct kv *kv,
             struct history_scan *asked)
{
    const struct history_range *r = asked->range;
    struct scan s = {.h = h, .kv = kv, .asked = asked};
    unsigned tier;
    int rc;

    rc = r ? history_tier_of(h, r->from, r->to, r->step, &tier)
           : history_tier_of(h, asked->from, asked->to, asked->to - asked->from,
                             &tier);
    if (asked->at_size == 0 && asked->prefix_size > 0) {
        memcpy(asked->at, asked->prefix, asked->prefix_size);
        asked->at_size = (uint16_t)asked->prefix_size;
    }
    if (rc == 0)
        rc = runs_each(h, kv, tier, asked->from, asked->to, open_run, &s);
    if (rc == 0 && s.sources.count > 0)
        rc = scan_all(&s);
    free(s.sources.all);
    return rc;
}
