/* reader/graphite/render.c - see render.h: targets are checked, then the phases
 * run one after another.
 *
 * Entry points: render_add_target(), render_start(), render_step(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/render.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/wire/name.h"
#include "common/wire/utf8.h"
#include "reader/answer.h"

/* ---- failures ----------------------------------------------------------- */

int
render_fail(struct render *r, enum http_status status, const char *format, ...)
{
    va_list args;

    r->status = status;
    va_start(args, format);
    (void)vsnprintf(r->why, sizeof r->why, format, args); /* may be cut */
    va_end(args);
    return -1;
}

int
render_fail_memory(struct render *r)
{
    const struct scratch *s = r->scratch;

    if (s->has_no_share || r->answer->scratch->has_no_share)
        return render_fail(r, HTTP_UNAVAILABLE,
                           "other requests use the memory: ask again");
    return render_fail(r, HTTP_BAD_REQUEST,
                       "more than %zu MiB of memory is needed: ask for fewer "
                       "series or points",
                       s->max >> 20);
}

int
render_fail_keyspace(struct render *r, const uint8_t *name, size_t size,
                     int error)
{
    char shown[NAME_SHOWN_SIZE];

    answer_report(name, size, error);
    if (error == -EHOSTDOWN)
        return render_fail(r, HTTP_UNAVAILABLE, "%s", store_trouble(r->store));
    if (size == 0)
        return render_fail(r, HTTP_INTERNAL_ERROR,
                           "keyspaces cannot be listed");
    return render_fail(r, HTTP_INTERNAL_ERROR, "keyspace %s cannot be read",
                       name_show(name, size, shown));
}

int
render_fail_search(struct render *r, int error, const char *what, size_t max)
{
    const struct path_name *keyspace = &r->search->keyspace;

    if (error == -ENOMEM)
        return render_fail_memory(r);
    if (error == -E2BIG)
        return render_fail(r, HTTP_BAD_REQUEST,
                           "more than %zu %s: give a narrower path "
                           "(graphite.max_%s)",
                           max, what, what);
    return render_fail_keyspace(r, keyspace->bytes, keyspace->size, error);
}

/* Reports a fault whose text is in r->why. */
static int
fail_target(struct render *r, int error)
{
    r->status = HTTP_BAD_REQUEST;
    return error == -ENOMEM ? render_fail_memory(r) : -1;
}

/* ---- targets ------------------------------------------------------------ */

static struct render_grid *
find_grid(struct render *r, const struct target_node *root, int64_t interval)
{
    struct render_grid *g = r->grids;

    while (g && (g->root != root || g->interval != interval))
        g = g->next;
    if (g)
        return g;
    g = scratch_take(r->scratch, sizeof *g);
    if (!g)
        return NULL;
    g->root = root;
    g->interval = interval;
    g->next = r->grids;
    r->grids = g;
    return g;
}

/* Sets the keyspace of topKeys() as if it had been found. */
static int
set_top(struct render *r, struct render_leaf *leaf)
{
    const struct target_text name = functions_call(leaf->node)->values[0]->text;
    uint8_t *keyspace = scratch_take(r->scratch, STORE_NAME_MAX);
    int size;

    leaf->found = scratch_take(r->scratch, sizeof *leaf->found);
    if (!leaf->found || !keyspace)
        return render_fail_memory(r);
    size = pattern_unescape(name.at, name.size, keyspace, STORE_NAME_MAX);
    if (size <= 0)
        return render_fail(r, HTTP_BAD_REQUEST,
                           "topKeys: the keyspace has 1 to 256 bytes, and "
                           "two hexadecimal digits after %%");
    leaf->found->keyspace = keyspace;
    leaf->found->keyspace_size = (uint16_t)size;
    return 0;
}

static int64_t
common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a < 0 ? -a : a;
}

/* The interval that the step of a leaf should divide: that of the innermost
 * summarize() or hitcount() around it, and the unit of all shifts. */
static int64_t
leaf_interval(const struct target_node *leaf, int64_t shift_unit)
{
    const struct target_node *n = leaf->parent;

    while (n && functions_call(n)->function->scope != FUNCTION_SUMMARIZES)
        n = n->parent;
    return common_divisor(n ? functions_call(n)->interval : 0, shift_unit);
}

static int
add_leaf(struct render *r, const struct target_node *root,
         struct target_node *node, int64_t shift_unit)
{
    struct render_leaf *leaf = scratch_take(r->scratch, sizeof *leaf);
    int rc = 0;

    if (!leaf)
        return render_fail_memory(r);
    leaf->node = node;
    for (const struct target_node *n = node->parent; n; n = n->parent)
        if (functions_call(n)->function->scope == FUNCTION_SHIFTS)
            leaf->shift += functions_call(n)->interval;
    leaf->grid = find_grid(r, root, leaf_interval(node, shift_unit));
    if (!leaf->grid)
        return render_fail_memory(r);
    if (leaf->shift > leaf->grid->shift)
        leaf->grid->shift = leaf->shift;
    *r->leaves_end = leaf;
    r->leaves_end = &leaf->next;
    if (node->kind == TARGET_CALL)
        return set_top(r, leaf);
    node->result = leaf;
    rc = pattern_parse(r->scratch, node->text, &leaf->pattern, r->why);
    if (rc < 0)
        return fail_target(r, rc);
    leaf->is_sum = node->parent && functions_is(node->parent, "sumSeries") &&
                   path_search_is_prefix(&leaf->pattern);
    return 0;
}

/* Gives the calls of a target their functions.  *shift_unit, 0 at first, divides
 * all shifts in it then. */
static int
bind_calls(struct render *r, const struct target *t, int64_t *shift_unit)
{
    int rc = 0;

    for (struct target_node *n = t->first; n && rc == 0; n = n->after) {
        if (n->kind != TARGET_CALL)
            continue;
        rc = functions_bind(r->scratch, n, r->why);
        if (rc == 0 && functions_call(n)->function->scope == FUNCTION_SHIFTS)
            *shift_unit =
                common_divisor(*shift_unit, functions_call(n)->interval);
    }
    return rc;
}

int
render_add_target(struct render *r, const char *text, size_t size)
{
    const char *copy = scratch_copy(r->scratch, text, size);
    struct target t;
    int64_t shift_unit = 0;
    int rc;

    if (!copy)
        return render_fail_memory(r);
    if (++r->target_count > r->limits.max_series)
        return render_fail(r, HTTP_BAD_REQUEST,
                           "more than %zu targets (graphite.max_series)",
                           r->limits.max_series);
    if (!utf8_is_valid((const uint8_t *)copy, size))
        return render_fail(r, HTTP_BAD_REQUEST, "a target is not UTF-8");
    rc = target_parse(r->scratch, copy, size, &t, r->why);
    if (rc == 0)
        rc = bind_calls(r, &t, &shift_unit);
    if (rc < 0)
        return fail_target(r, rc);
    if (!target_read_path(t.root))
        return render_fail(r, HTTP_BAD_REQUEST,
                           "a target is a path or a call of a function");
    for (struct target_node *n = t.first; n && rc == 0; n = n->after)
        if (n->kind == TARGET_PATH || functions_is(n, "topKeys"))
            rc = add_leaf(r, t.root, n, shift_unit);
    *r->nodes_end = t.first;
    r->nodes_end = &t.root->after;
    return rc;
}

/* ---- phases ------------------------------------------------------------- */

/* The next leaf of the phase; NULL: there are no more. */
static void
enter_leaf(struct render *r, struct render_leaf *leaf)
{
    r->leaf = leaf;
    r->found = leaf ? leaf->found : NULL;
    r->read = 0;
    r->has_begun = false;
}

void
render_start(struct render *r)
{
    const size_t at = offsetof(struct render, target_count);

    memset((uint8_t *)r + at, 0, offsetof(struct render, buckets) - at);
    r->leaves_end = &r->leaves;
    r->nodes_end = &r->nodes;
    r->status = HTTP_OK;
}

static size_t
count_paths(const struct path_found *f)
{
    size_t count = 0;

    for (; f; f = f->next)
        count += !f->next || !target_text_equals(f->path, f->next->path);
    return count;
}

/* Adds the names that were found to the paths of the leaf. */
static int
search_leaf(struct render *r, uint64_t until_ns)
{
    struct render_leaf *leaf = r->leaf;
    struct path_search *s = r->search;
    int rc;

    if (leaf->node->kind == TARGET_CALL) {
        s->entered(s->ctx, leaf->found->keyspace, leaf->found->keyspace_size);
        return 1;
    }
    if (!r->has_begun) {
        path_search_start(s, &leaf->pattern,
                          leaf->is_sum ? PATH_SEARCH_STARTS
                                       : PATH_SEARCH_LEAVES,
                          r->limits.max_series - r->series);
        r->has_begun = true;
    }
    rc = path_search_step(s, until_ns);
    r->gives_way = rc == 0;
    if (rc < 0)
        return render_fail_search(r, rc, "series", r->limits.max_series);
    if (rc == 1) {
        leaf->found = s->found;
        leaf->count = count_paths(s->found);
        r->series += s->count;
    }
    return rc;
}

/* Refuses more points than there may be, before any is read. */
static int
check_points(struct render *r)
{
    size_t points = 0;

    for (const struct render_leaf *leaf = r->leaves; leaf; leaf = leaf->next)
        points += leaf->count * leaf->span.count;
    if (points <= r->limits.max_points)
        return 0;
    return render_fail(r, HTTP_BAD_REQUEST,
                       "%zu points, and %zu are the limit: give a shorter "
                       "time, fewer series or maxDataPoints "
                       "(graphite.max_points)",
                       points, r->limits.max_points);
}

/* Computes one series of a call. */
static int
compute_node(struct render *r, uint64_t until_ns)
{
    const int rc =
        r->node->kind == TARGET_CALL ? functions_step(r->node, &r->times) : 1;

    (void)until_ns; /* one series is computed in one step */
    return rc < 0 ? fail_target(r, rc) : rc;
}

/* The phases in their order, and what each works on.  1: it is done; 0: there
 * is more to do; below 0: an error of render_step().  In the first phase
 * targets are added. */
static const struct {
    enum { LEAVES, GRIDS, NODES, ANSWER } over;
    int (*step)(struct render *r, uint64_t until_ns);
} phases[] = {{LEAVES, NULL},
              {LEAVES, search_leaf},
              {GRIDS, render_grid_step},
              {LEAVES, render_top_step},
              {LEAVES, render_read_step},
              {NODES, compute_node},
              {ANSWER, render_write_step}};

#define PHASES (sizeof phases / sizeof phases[0])

static void
enter_phase(struct render *r, unsigned phase)
{
    r->phase = phase;
    r->grid = r->grids;
    r->node = r->nodes;
    enter_leaf(r, r->leaves);
}

/* Goes on to the next leaf, grid or node. */
static void
enter_next(struct render *r)
{
    switch (phases[r->phase].over) {
    case LEAVES:
        enter_leaf(r, r->leaf->next);
        break;
    case GRIDS:
        r->grid = r->grid->next;
        r->choice = (struct render_choice){.best = 0};
        break;
    case NODES:
        r->node = r->node->after;
        break;
    case ANSWER:
        enter_phase(r, PHASES);
    }
}

static int
take_step(struct render *r, uint64_t until_ns)
{
    const void *const now[] = {r->leaf, r->grid, r->node, r};
    int rc;

    if (now[phases[r->phase].over]) {
        rc = phases[r->phase].step(r, until_ns);
        if (rc == 1)
            enter_next(r);
        return rc;
    }
    enter_phase(r, r->phase + 1);
    return phases[r->phase].step == render_read_step ? check_points(r) : 0;
}

int
render_step(struct render *r, uint64_t until_ns)
{
    r->gives_way = false;
    do {
        if (take_step(r, until_ns) < 0)
            return -1;
        if (r->phase == PHASES)
            return 1;
    } while (!r->gives_way && clock_ns() < until_ns);
    return 0;
}
