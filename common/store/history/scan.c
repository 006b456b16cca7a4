/* common/store/history/scan.c - all keys of a span, each with its sum. */
#include "common/store/history/runs.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/clock.h"

#define SOURCES_MAX 1024
#define ROWS_A_LOOK 1024 /* between looks at the clock */

struct scan {
    const struct history *h;
    const struct kv *kv;
    struct history_scan *asked;
    struct source *sources;
    size_t count, room;
    size_t loaded; /* blocks, by all of them */
};

/* ---- opening ----------------------------------------------------------- */

static int
add_source(void *ctx, const struct period *p, const struct run_info *run)
{
    struct scan *s = ctx;
    const struct history_tier *t = &s->h->tier[p->tier];
    const uint64_t mask =
        cells_between(t, p->start, s->asked->from, s->asked->to);
    struct source *at;

    if ((run->cells & mask) == 0)
        return 0;
    if (s->count == SOURCES_MAX)
        return -E2BIG;
    if (s->count == s->room) {
        at = realloc(s->sources, (2 * s->room + 8) * sizeof *at);
        if (at == NULL)
            return -ENOMEM;
        s->sources = at;
        s->room = 2 * s->room + 8;
    }
    at = &s->sources[s->count++];
    at->copy = NULL;
    at->loaded = &s->loaded;
    at->mask = mask;
    at->all = (run->cells & ~mask) == 0;
    return source_open(at, s->kv, p->tier, p->start, run, s->asked->at,
                       s->asked->at_size);
}

/* ---- blocks that cannot matter ----------------------------------------- */

/* The most that a key may have in all that lies before every source's next
 * block; *end is where the first of those begins (NULL: nowhere).  Where a
 * source is asked for a part of its cells that cannot be told. */
static bool
most_ahead(const struct sources *l, int128 *most, const uint8_t **end,
           size_t *end_size)
{
    *most = 0;
    *end = NULL;
    *end_size = 0;
    for (size_t i = 0; i < l->count; i++) {
        const struct rows_reader *b = &l->heap[i]->block;

        if (!l->heap[i]->all)
            return false;
        if (b->most > 0)
            *most += b->most;
        if (b->next != NULL &&
            (*end == NULL ||
             history_compare(b->next, b->next_size, *end, *end_size) < 0)) {
            *end = b->next;
            *end_size = b->next_size;
        }
    }
    return true;
}

/* Goes on behind what cannot reach `least`. */
static int
pass_over(struct sources *l, int128 least)
{
    uint8_t key[HISTORY_KEY_MAX];
    const uint8_t *end;
    size_t size;
    int128 most;
    int rc;

    if (!most_ahead(l, &most, &end, &size) || most >= least)
        return 0;
    if (end == NULL) {
        l->count = 0;
        return 0;
    }
    if (l->count == 1) {
        rc = source_skip_below(l->heap[0], least);
        l->count = l->heap[0]->over ? 0 : 1;
        return rc;
    }
    memcpy(key, end, size);
    for (size_t i = 0; i < l->count; i++) {
        rc = source_skip(l->heap[i], key, size);
        if (rc < 0)
            return rc;
    }
    sources_begin(l);
    return 0;
}

/* ---- rows -------------------------------------------------------------- */

/* The sum of the lowest key, which goes into `key`. */
static int
take_row(struct sources *l, uint8_t key[HISTORY_KEY_MAX], size_t *size,
         int128 *sum, bool *any)
{
    const struct rows_reader *b = &l->heap[0]->block;
    const uint64_t prefix[2] = {l->heap[0]->prefix[0], l->heap[0]->prefix[1]};
    int rc;

    *size = b->key_size;
    memcpy(key, b->key, *size);
    *sum = 0;
    *any = false;
    do {
        const struct source *s = l->heap[0];

        if ((s->block.cells & s->mask) != 0) {
            *sum += rows_sum(&s->block, s->mask);
            *any = true;
        }
        rc = sources_next(l);
    } while (rc == 0 && l->count > 0 && l->heap[0]->prefix[0] == prefix[0] &&
             l->heap[0]->prefix[1] == prefix[1] &&
             l->heap[0]->block.key_size == *size &&
             memcmp(l->heap[0]->block.key, key, *size) == 0);
    return rc;
}

/* Where to go on: at the lowest key that has not been given. */
static int
stop_here(struct history_scan *asked, const struct sources *l)
{
    const struct rows_reader *b = &l->heap[0]->block;

    memcpy(asked->at, b->key, b->key_size);
    asked->at_size = b->key_size;
    return -EAGAIN;
}

static int
give_rows(struct history_scan *asked, struct sources *l, const size_t *loaded)
{
    uint8_t key[HISTORY_KEY_MAX];
    int128 sum, least = asked->least;
    size_t size, looked = 0; /* when so many blocks were loaded */
    unsigned rows = 0;
    bool any;
    int rc = 0;

    while (rc >= 0 && l->count > 0) {
        /* A look at what is ahead whenever a block begins. */
        while (rc >= 0 && l->count > 0 && *loaded != looked) {
            looked = *loaded;
            rc = pass_over(l, least);
        }
        if (rc < 0 || l->count == 0)
            break;
        rc = take_row(l, key, &size, &sum, &any);
        if (rc == 0 && any && size > 0 && sum >= least)
            least = asked->row(asked->ctx, key, size, sum);
        if (rc == 0 && ++rows % ROWS_A_LOOK == 0 && l->count > 0 &&
            asked->until_ns != 0 && clock_ns() >= asked->until_ns) {
            asked->least = least;
            return stop_here(asked, l);
        }
    }
    return rc;
}

int
history_scan(const struct history *h, const struct kv *kv,
             struct history_scan *asked)
{
    struct scan s = {.h = h, .kv = kv, .asked = asked};
    struct sources l = {.count = 0};
    unsigned tier;
    int rc;

    rc = history_tier_of(h, asked->from, asked->to, asked->to - asked->from,
                         &tier);
    if (rc == 0)
        rc = runs_each(h, kv, tier, asked->from, asked->to, add_source, &s);
    if (rc == 0 && s.count > 0) {
        l.heap = malloc(s.count * sizeof(struct source *));
        l.count = s.count;
        rc = l.heap != NULL ? 0 : -ENOMEM;
        for (size_t i = 0; rc == 0 && i < s.count; i++) {
            l.heap[i] = &s.sources[i];
            l.heap[i]->loaded = &s.loaded;
        }
    }
    if (rc == 0 && s.count > 0) {
        sources_begin(&l);
        rc = give_rows(asked, &l, &s.loaded);
    }
    free(l.heap);
    free(s.sources);
    return rc;
}
