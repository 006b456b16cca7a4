/* common/store/history/scan.c - keys of a span, each with its sum.
 *
 * Up to SOURCES_MAX runs are read side by side.  If there are more, that many
 * at a time are read up to the first WINDOW_ROWS keys, whose sums are added up;
 * then the same for the keys after these.  So the memory does not depend on how
 * many runs there are, and each window opens each run once; blocks are skipped
 * only if all runs are read side by side.
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

#define SOURCES_MAX     1024
#define WINDOW_ROWS     4096
#define STEPS_PER_CLOCK 1024 /* rows and heads between looks at the clock */

/* A run that has cells in the span. */
struct span_run {
    uint8_t tier, level;
    uint32_t period, run;
    uint64_t cells;
};

struct window_row {
    int128 sum;
    uint16_t key_size;
    uint8_t key[HISTORY_KEY_MAX];
};

/* The rows of the runs that were read before, and the rows that result from
 * merging them with the runs that are read now. */
struct window {
    struct window_row *rows, *merged;
    size_t count, at; /* rows; index of the next row */
    size_t merged_count;
};

struct scan {
    struct runs_span span;
    struct span_run *runs;
    size_t count, capacity; /* runs */
    struct source *sources;
    uint64_t *words;              /* memory of struct sources */
    size_t loaded;                /* blocks, by all sources */
    size_t end_size;              /* 0: no end */
    uint8_t end[HISTORY_KEY_MAX]; /* this key and later ones are not read */
    struct window window;
};

/* ---- opening ----------------------------------------------------------- */

static int
add_run(void *ctx, const struct period *p, const struct run_info *run)
{
    struct scan *s = ctx;

    if ((run->cells & runs_cells_of(&s->span, p)) == 0)
        return 0;
    if (array_grow(&s->runs, &s->capacity, s->count + 1, sizeof *s->runs) < 0)
        return -ENOMEM;
    s->runs[s->count++] =
        (struct span_run){p->tier, run->level, p->start, run->run, run->cells};
    return 0;
}

static int
open_source(struct scan *s, struct source *at, const struct span_run *r,
            const struct history_scan *asked)
{
    const struct period period = {.tier = r->tier, .start = r->period};
    const struct run_info run = {.level = r->level, .run = r->run};

    at->kv = s->span.kv;
    at->copy = NULL;
    at->loaded = &s->loaded;
    at->mask = runs_cells_of(&s->span, &period);
    at->all = (r->cells & ~at->mask) == 0;
    at->start = r->period;
    at->step = s->span.history->tier[r->tier].step;
    return source_open(at, &period, &run, asked->at->key, asked->at->size);
}

/* ---- blocks that are skipped ------------------------------------------- */

/* The most that a key may have in the blocks before every source's next block;
 * *end is where the first of these next blocks begins (NULL: there is none).
 * False if unknown: only some cells of a source are read, and others may be
 * negative. */
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

/* Skips what cannot reach `least`: by heads of blocks, and then by rows to the
 * key after the last of these blocks.  Adds the number of heads to *steps, and
 * stops at STEPS_PER_CLOCK of them. */
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

/* The sum of the lowest key; false: it has no increments in the span. */
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

/* Stores where to go on: at the lowest key that has not been given. */
static int
stop_here(struct history_scan *asked, const struct sources *l)
{
    const struct rows_reader *b = &sources_lowest(l, 0)->block;

    memcpy(asked->at->key, b->key, b->key_size);
    asked->at->size = b->key_size;
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
    else if (is_wanted(asked, b) && sum_lowest(l, &sum) &&
             sum >= asked->at->least)
        asked->at->least = asked->row(asked->ctx, b->key, b->key_size, sum);
    return sources_next(l);
}

/* Whether keys with the prefix are left: after the first key without it there
 * are none. */
static bool
has_more(const struct scan *s, const struct history_scan *asked,
         const struct sources *l)
{
    const struct rows_reader *b;

    if (l->left == 0 || (asked->prefix_size == 0 && s->end_size == 0))
        return l->left > 0;
    b = &sources_lowest(l, 0)->block;
    return bytes_begin(b->key, b->key_size, asked->prefix,
                       asked->prefix_size) &&
           (s->end_size == 0 ||
            bytes_compare(b->key, b->key_size, s->end, s->end_size) < 0);
}

/* Whether rows can be skipped is checked when a block begins: `loaded` counts
 * blocks. */
static int
give_rows(const struct scan *s, struct history_scan *asked, struct sources *l)
{
    size_t looked = 0; /* value of `loaded` at the last check */
    unsigned steps = 0;
    int rc = 0;

    while (rc == 0 && has_more(s, asked, l)) {
        if (asked->is_full && asked->is_full(asked->ctx))
            return 0;
        if (steps >= STEPS_PER_CLOCK) {
            steps = 0;
            if (asked->until_ns != 0 && clock_ns() >= asked->until_ns)
                return stop_here(asked, l);
        }
        if (s->loaded != looked && asked->at->least > INT128_LEAST) {
            looked = s->loaded;
            rc = pass_over(l, asked->at->least, &steps);
        } else {
            rc = give_lowest(asked, l);
            steps++;
        }
    }
    return rc;
}

/* Reads the runs from `first` on, as many as are read at a time. */
static int
scan_runs(struct scan *s, size_t first, struct history_scan *asked)
{
    const size_t left = s->count - first;
    const size_t count = left < SOURCES_MAX ? left : SOURCES_MAX;
    const size_t capacity = SOURCES_CAPACITY(count);
    struct sources l = {.count = count,
                        .all = s->sources,
                        .words = s->words,
                        .least = s->words + capacity,
                        .lowest =
                            (uint16_t *)(s->words + capacity + capacity / 8)};
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < count; i++)
        rc = open_source(s, &s->sources[i], &s->runs[first + i], asked);
    if (rc < 0)
        return rc;
    sources_begin(&l);
    return give_rows(s, asked, &l);
}

/* ---- more runs than are read at a time ---------------------------------- */

/* Adds a row to the merged rows.  False: there is no space, and the window ends
 * before that row. */
static bool
push_row(struct scan *s, const uint8_t *key, size_t size, int128 sum)
{
    struct window *w = &s->window;
    struct window_row *to;

    if (w->merged_count == WINDOW_ROWS) {
        memcpy(s->end, key, size);
        s->end_size = size;
        return false;
    }
    to = &w->merged[w->merged_count++];
    to->sum = sum;
    to->key_size = (uint16_t)size;
    memcpy(to->key, key, size);
    return true;
}

/* Adds the rows of earlier runs that come before a key; size 0: all. */
static bool
push_before(struct scan *s, const uint8_t *key, size_t size)
{
    struct window *w = &s->window;

    for (; w->at < w->count; w->at++) {
        const struct window_row *r = &w->rows[w->at];

        if (size > 0 && bytes_compare(r->key, r->key_size, key, size) >= 0)
            break;
        if (!push_row(s, r->key, r->key_size, r->sum))
            return false;
    }
    return true;
}

static int128
merge_row(void *ctx, const uint8_t *key, size_t size, int128 sum)
{
    struct scan *s = ctx;
    struct window *w = &s->window;

    if (push_before(s, key, size)) {
        const struct window_row *r = &w->rows[w->at];

        if (w->at < w->count && bytes_equal(r->key, r->key_size, key, size)) {
            sum += r->sum;
            w->at++;
        }
        (void)push_row(s, key, size, sum); /* then the scan ends here */
    }
    return INT128_LEAST;
}

/* Fills the window from asked->at on; it ends before s->end. */
static int
fill_window(struct scan *s, const struct history_scan *asked)
{
    struct window *w = &s->window;
    int rc = 0;

    w->count = 0;
    s->end_size = 0;
    for (size_t i = 0; rc == 0 && i < s->count; i += SOURCES_MAX) {
        struct store_history_place at = *asked->at;
        struct history_scan part = *asked;
        struct window_row *const rows = w->rows;

        part.wants = NULL; /* or it could go over any number of keys */
        part.until_ns = 0;
        part.row = merge_row;
        part.is_full = NULL;
        part.ctx = s;
        part.range = NULL;
        part.at = &at;
        at.least = INT128_LEAST;
        w->at = w->merged_count = 0;
        rc = scan_runs(s, i, &part);
        if (rc == 0)
            (void)push_before(s, s->end, s->end_size); /* then it ends there */
        w->rows = w->merged;
        w->merged = rows;
        w->count = w->merged_count;
    }
    return rc;
}

/* Gives the rows of the window; for a range they show only where it ends. */
static int
give_window(struct scan *s, struct history_scan *asked)
{
    struct history_scan part = *asked;
    int rc = 0;

    part.until_ns = 0;
    for (size_t i = 0; asked->range && rc == 0 && i < s->count;
         i += SOURCES_MAX)
        rc = scan_runs(s, i, &part);
    for (size_t i = 0; !asked->range && i < s->window.count; i++) {
        const struct window_row *r = &s->window.rows[i];

        if (asked->is_full && asked->is_full(asked->ctx))
            break;
        if (r->sum >= asked->at->least &&
            (!asked->wants || asked->wants(asked->ctx, r->key, r->key_size)))
            asked->at->least =
                asked->row(asked->ctx, r->key, r->key_size, r->sum);
    }
    return rc;
}

static int
scan_windows(struct scan *s, struct history_scan *asked)
{
    struct window *w = &s->window;
    struct window_row *rows = malloc((size_t)2 * WINDOW_ROWS * sizeof *rows);
    int rc;

    if (rows == NULL)
        return -ENOMEM;
    w->rows = rows;
    w->merged = rows + WINDOW_ROWS;
    for (;;) {
        rc = fill_window(s, asked);
        if (rc == 0)
            rc = give_window(s, asked);
        if (rc < 0 || s->end_size == 0 ||
            (asked->is_full && asked->is_full(asked->ctx)))
            break;
        memcpy(asked->at->key, s->end, s->end_size);
        asked->at->size = (uint16_t)s->end_size;
        if (asked->until_ns != 0 && clock_ns() >= asked->until_ns) {
            rc = -EAGAIN;
            break;
        }
    }
    free(rows);
    return rc;
}

/* ---- a scan ------------------------------------------------------------ */

/* The memory for several sources: words, the least words, numbers. */
static int
scan_all(struct scan *s, struct history_scan *asked)
{
    const size_t count = s->count < SOURCES_MAX ? s->count : SOURCES_MAX;
    const size_t capacity = SOURCES_CAPACITY(count);
    int rc = -ENOMEM;

    s->sources = malloc(count * sizeof *s->sources);
    s->words =
        malloc(capacity * sizeof *s->words + capacity / 8 * sizeof *s->words +
               capacity * sizeof(uint16_t));
    if (s->sources && s->words)
        rc = s->count <= SOURCES_MAX ? scan_runs(s, 0, asked)
                                     : scan_windows(s, asked);
    free(s->sources);
    free(s->words);
    return rc;
}

int
history_scan(const struct history *h, const struct kv *kv,
             struct history_scan *asked)
{
    const struct history_range *r = asked->range;
    struct scan s = {.span = {h, kv, asked->from, asked->to}};
    unsigned tier;
    int rc;

    rc = r ? history_tier_of(h, r->from, r->to, r->step, &tier)
           : history_tier_of(h, asked->from, asked->to, asked->to - asked->from,
                             &tier);
    if (asked->at->size == 0 && asked->prefix_size > 0) {
        memcpy(asked->at->key, asked->prefix, asked->prefix_size);
        asked->at->size = (uint16_t)asked->prefix_size;
    }
    if (rc == 0)
        rc = runs_each(&s.span, tier, add_run, &s);
    if (rc == 0 && s.count > 0)
        rc = scan_all(&s, asked);
    free(s.runs);
    return rc;
}
