/* reader/graphite/render_grid.c - the step of points; see render.h.
 *
 * Steps are tried from the finest on.  A step is good if the history of every
 * keyspace has one that divides it, and enough if that is kept as long ago as
 * the first point, whether or not the store was there then: a year is in days
 * from the first day on.  If none is, the one that is kept longest is chosen.
 * Under summarize() steps that divide its interval come first, so that each
 * interval is the sum of whole steps. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <assert.h>
#include <errno.h>

#include "reader/graphite/render.h"

#define DAY       INT64_C(1440) /* minutes */
#define TRIES_MAX 400           /* multiples of days */

/* Minutes; then come multiples of days. */
static const int64_t steps[] = {1,  2,   3,   5,   10,  15,  20, 30,
                                60, 120, 180, 240, 360, 480, 720};

#define STEPS (sizeof steps / sizeof steps[0])

/* A span without a multiple of the step has the point that `until` lies in. */
static void
set_step(const struct render *r, struct render_grid *g, int64_t minutes)
{
    assert(minutes > 0);
    g->step = minutes * 60;
    g->first = (r->times.from / g->step + 1) * g->step;
    g->last = r->times.until / g->step * g->step;
    if (g->first > g->last)
        g->first = g->last;
    g->count = (size_t)((g->last - g->first) / g->step) + 1;
}

/* The step that is tried, minutes; 0: there are no more. */
static int64_t
candidate_step(const struct render *r)
{
    const struct render_choice *c = &r->choice;
    int64_t days = 1;

    if (c->candidate < STEPS)
        return steps[c->candidate];
    if (c->candidate >= STEPS + (c->is_free ? TRIES_MAX : 1))
        return 0;
    if (c->is_free && r->max_data_points > 0)
        days =
            (r->times.until - r->times.from) / (DAY * 60) / r->max_data_points;
    days = days < 1 ? 1 : days;
    return (days + (int64_t)(c->candidate - STEPS)) * DAY;
}

static bool
is_few(const struct render *r, const struct render_grid *g)
{
    return r->max_data_points == 0 || g->count <= (uint64_t)r->max_data_points;
}

/* Whether a step may be tried at all. */
static bool
can_try(struct render *r, int64_t minutes)
{
    struct render_grid *g = r->grid;

    set_step(r, g, minutes);
    if ((g->last + g->step) / 60 >= UINT32_MAX)
        return false;
    return r->choice.is_free ? is_few(r, g) : g->interval % g->step == 0;
}

/* The next keyspace of the grid; NULL: all have been looked at. */
static const struct path_found *
next_keyspace(struct render *r)
{
    struct render_choice *c = &r->choice;
    const struct path_found *before = c->at;

    if (!c->has_begun) {
        c->has_begun = true;
        c->leaf = r->leaves;
        c->at = c->leaf ? c->leaf->found : NULL;
        c->since = 0;
        c->is_bad = false;
        before = NULL;
    } else if (c->at)
        c->at = c->at->next;
    for (; c->leaf; c->at = c->leaf ? c->leaf->found : NULL) {
        for (; c->leaf->grid == r->grid && c->at; c->at = c->at->next)
            if (!before ||
                !bytes_equal(c->at->keyspace, c->at->keyspace_size,
                             before->keyspace, before->keyspace_size))
                return c->at;
        c->leaf = c->leaf->next;
    }
    return NULL;
}

/* Since when steps as those of the answer are kept, if the store was there. */
static uint32_t
kept_since(const struct render *r)
{
    const int64_t kept = r->now / 60 - r->query.keep;

    return kept > (int64_t)r->query.floor ? (uint32_t)kept : r->query.floor;
}

/* Looks at whether the history of a keyspace has the step, and since when. */
static int
check_keyspace_steps(struct render *r, const struct path_found *k,
                     int64_t minutes)
{
    struct render_choice *c = &r->choice;
    int rc;

    r->query = (struct store_history_query){
        .op = STORE_HISTORY_TOP,
        .name = k->keyspace,
        .name_size = k->keyspace_size,
        .from = (uint32_t)(r->grid->first / 60),
        .to = (uint32_t)(r->grid->first / 60 + minutes)};
    rc = store_history(r->store, &r->query, 0);
    c->is_asking = r->gives_way = rc == -EAGAIN;
    if (rc == -EAGAIN)
        return 0;
    if (rc == -EINVAL)
        c->is_bad = true;
    else if (rc == 0 && kept_since(r) > c->since)
        c->since = kept_since(r);
    else if (rc < 0 && rc != -ENOENT && rc != -ENODATA)
        return render_fail_keyspace(r, k->keyspace, k->keyspace_size, rc);
    return 0;
}

/* All keyspaces have been looked at.  True: the choice is made. */
static bool
judge_step(struct render *r, int64_t minutes)
{
    struct render_choice *c = &r->choice;
    const bool is_enough =
        (int64_t)c->since * 60 <= r->grid->first - r->grid->shift;

    if (c->is_bad)
        return false;
    if (is_enough ||
        (!c->is_best_enough && (c->best == 0 || c->since < c->best_since))) {
        c->best = minutes;
        c->best_since = c->since;
        c->is_best_enough = is_enough;
    }
    if (!c->is_free) /* else the longest one that divides the interval */
        return is_enough && is_few(r, r->grid);
    return is_enough || c->candidate >= STEPS;
}

/* The next candidate; true: there are none, and the best one is the choice. */
static int
next_candidate(struct render *r)
{
    struct render_choice *c = &r->choice;

    c->candidate++;
    c->has_begun = false;
    if (candidate_step(r) > 0)
        return 0;
    if (!c->is_free && !c->is_best_enough) {
        *c = (struct render_choice){.is_free = true};
        return 0;
    }
    if (c->best == 0)
        return render_fail(r, HTTP_BAD_REQUEST,
                           "there is no step that the history of all these "
                           "keyspaces has");
    set_step(r, r->grid, c->best);
    return 1;
}

int
render_grid_step(struct render *r, uint64_t until_ns)
{
    struct render_choice *c = &r->choice;
    const int64_t minutes = candidate_step(r);
    const struct path_found *k;

    (void)until_ns; /* it looks at one keyspace */
    c->is_free |= r->grid->interval == 0;
    if (!c->has_begun && !can_try(r, minutes))
        return next_candidate(r);
    k = c->is_asking ? c->at : next_keyspace(r);
    if (k)
        return check_keyspace_steps(r, k, minutes);
    if (!judge_step(r, minutes))
        return next_candidate(r);
    set_step(r, r->grid, c->best);
    return 1;
}
