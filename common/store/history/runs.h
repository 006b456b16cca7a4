/* common/store/history/runs.h - inside history: the record of a period, and
 * runs as they are written and read. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_HISTORY_RUNS_H
#define COUNTD_COMMON_STORE_HISTORY_RUNS_H

#include <string.h>

#include "common/store/history/history.h"

/* ---- periods (periods.c) ----------------------------------------------- */

enum run_flag {
    RUN_ROLLED = 1, /* its sums are in the next tier, too */
    RUN_NEW = 2,    /* being written: not read */
    RUN_GONE = 4,   /* being swept up: not read */
    RUN_INPUT = 8   /* of job 0 that is on its way; of job 1, 2: 16, 32 */
};

#define RUN_INPUTS (7 * RUN_INPUT)

struct run_info {
    uint8_t level;
    uint8_t flags;
    uint32_t run;
    uint32_t blocks;
    uint64_t bytes;
    uint64_t cells; /* bits of the cells that any of its rows has */
    int128 sum;     /* sum of all its rows except the first */
};

struct period {
    uint8_t tier;
    uint32_t start;
    uint32_t before; /* the period before it; HISTORY_NEVER: none */
    unsigned count;
    struct run_info runs[HISTORY_RUNS_MAX];
};

static inline bool
run_counts(const struct run_info *r)
{
    return (r->flags & (RUN_NEW | RUN_GONE)) == 0;
}

/* The first period of a tier that begins at `start` or later: 1, 0 none.
 * Sees that none is hidden between it and the one before. */
int period_after(const struct history *h, const struct kv *kv, unsigned tier,
                 uint32_t start, struct period *out);

/* That of this start; made, but not put, when there is none. */
int period_get(struct history *h, const struct kv *kv, unsigned tier,
               uint32_t start, struct period *out);

/* Puts it, or, when it has no runs, removes it. */
int period_put(struct history *h, const struct kv *kv, const struct period *p);

/* Adds a run to a period and to what its tier says. */
void period_add(struct history *h, struct period *p,
                const struct run_info *run);

/* Whether the runs of a period above the finest tier are to become one: those
 * beside the largest are an eighth of it or more, and all together are worth a
 * commit.  So at most nine rows are written for each that comes. */
bool period_is_split(const struct period *p);

/* A span of a history (read.c). */
struct runs_span {
    const struct history *history;
    const struct kv *kv;
    uint32_t from, to; /* minutes */
};

/* Calls `run` for each run that counts for the span in a tier: its own, and
 * those of finer ones that are not rolled up yet. */
int runs_each(const struct runs_span *s, unsigned tier,
              int (*run)(void *ctx, const struct period *p,
                         const struct run_info *r),
              void *ctx);

/* Which cells of a period, of which tier and start are enough, lie in the span. */
uint64_t runs_cells_of(const struct runs_span *s, const struct period *p);

/* ---- keys (periods.c) -------------------------------------------------- */

struct run_key {
    size_t size;
    uint8_t bytes[KV_KEY_MAX];
};

#define RUN_KEY_HEAD 10

/* The key of the block of a period's run that begins at `at`. */
void run_key(struct run_key *k, const struct period *p,
             const struct run_info *run, const uint8_t *at, size_t size);

static inline bool
run_key_same(const struct run_key *k, const struct kv_item *item)
{
    return item->key_size >= RUN_KEY_HEAD &&
           memcmp(item->key, k->bytes, RUN_KEY_HEAD) == 0;
}

/* ---- writing (write.c) ------------------------------------------------- */

/* A run that is being written, block by block. */
struct run_writer {
    const struct kv *kv; /* the caller's, before run_begin() */
    struct run_key key;  /* key of the block in work */
    struct run_info *run;
    struct rows_writer block;
};

/* Goes on with a period's run at `at` (size 0: its beginning). */
void run_begin(struct run_writer *w, const struct period *p,
               struct run_info *run, const uint8_t *at, size_t at_size);
int run_add(struct run_writer *w, const struct history_row *row);

/* Ends it, or, with the key that comes `next`, for now: then it goes on at
 * w->key, behind its head. */
int run_end(struct run_writer *w, const uint8_t *next, size_t next_size);

/* ---- reading (sources.c) ----------------------------------------------- */

/* A run that is read in order. */
struct source {
    const struct kv *kv; /* the caller's, before source_open() */
    bool over;
    bool head_only; /* only the head of its block was read */
    bool inside;    /* for struct sources: its key begins as `base` */
    struct run_key key;
    struct rows_reader block;
    uint8_t *copy;  /* copy of the block if the kv may change; or NULL */
    size_t *loaded; /* counts blocks; or NULL */

    uint64_t mask;        /* cells that are asked for */
    bool all;             /* `mask` has all cells of the run */
    uint32_t start, step; /* minutes of its first cell, and of each */
};

/* Stands on the first row of a period's run with this key or a later one. */
int source_open(struct source *s, const struct period *p,
                const struct run_info *run, const uint8_t *key,
                size_t key_size);

/* Goes on to the next row; s->over at the end. */
int source_next(struct source *s);

/* Goes on to the head of the next block, which there must be.  Until
 * source_land(), the source stands on no row: only s->block.most and .next are
 * known. */
int source_next_head(struct source *s);

/* Goes on to the first row with this key or a later one, which is in the block
 * of the source or is the first of the next one; s->over at the end. */
int source_land(struct source *s, const uint8_t *key, size_t size);

/* Adds the cells that are asked for, of the row it stands on (read.c). */
void source_add_cells(const struct source *s, const struct history_range *to);

/* Several runs, as one: which of them stand on the lowest key.
 *
 * Each has a word: the eight bytes of its key behind `base`, with which the
 * keys of those that come next begin; of what is beyond, and comes later, the
 * greatest there is.  The lowest word is found without a branch for each run,
 * and keys are compared where words are the same.  When none is left inside,
 * or other keys have the same word, another base is chosen.
 *
 * Arrays are the caller's.  `all` and `least` have SOURCES_CAPACITY(count) / 8
 * elements, the others SOURCES_CAPACITY(count). */
#define SOURCES_CAPACITY(count) (((count) + 7) / 8 * 8)

struct sources {
    size_t count; /* sources */
    size_t left;  /* sources that are not over */
    struct source *all;
    uint64_t *words;
    uint64_t *least;  /* the least of each eight words */
    uint16_t *lowest; /* numbers of those with the lowest key */
    size_t lowest_count;
    bool unclear; /* other keys have the lowest one's word */
    uint16_t base_size;
    uint8_t base[HISTORY_KEY_MAX];
};

/* Begins, or begins again when sources were moved. */
void sources_begin(struct sources *l);

/* Goes on behind the lowest key. */
int sources_next(struct sources *l);

/* The row of the i-th of those with the lowest key; there is one while any is
 * left. */
static inline const struct source *
sources_lowest(const struct sources *l, size_t i)
{
    return &l->all[l->lowest[i]];
}

#endif
