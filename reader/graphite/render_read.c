/* reader/graphite/render_read.c - points, and the keys of topKeys; see
 * render.h.
 *
 * Entry points: render_top_step(), then render_read_step(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <string.h>

#include "reader/graphite/render.h"

/* ---- what is read --------------------------------------------------------- */

static struct render_span
find_span(const struct render_leaf *leaf)
{
    const struct render_grid *g = leaf->grid;
    const int64_t half = leaf->shift < 0 ? -g->step / 2 : g->step / 2;
    const int64_t shift = (leaf->shift + half) / g->step * g->step;
    int64_t step = g->step, lead = 0; /* seconds, then points */

    for (const struct target_node *n = leaf->node->parent; n; n = n->parent) {
        const struct function_call *call = functions_call(n);

        if (call->function->scope == FUNCTION_LOOKS_BACK)
            lead += functions_window(call, step) * step;
        else if (call->function->scope == FUNCTION_SUMMARIZES &&
                 call->interval > step)
            step = call->interval;
    }
    lead = (lead + g->step - 1) / g->step;
    return (struct render_span){.first = g->first - lead * g->step - shift,
                                .shift = shift,
                                .count = g->count + (size_t)lead};
}

/* ---- points ------------------------------------------------------------- */

/* The series that the key at r->found belongs to: that of the key before, if
 * both have the same path. */
static struct series *
find_series(struct render *r)
{
    struct series_list *list = &r->leaf->list;
    const struct render_span *span = &r->leaf->span;
    const struct path_found *f = r->found;
    struct series *s;

    if (!list->items)
        list->items = scratch_take(r->scratch, (r->leaf->count + 1) *
                                                   sizeof(struct series *));
    if (!list->items)
        return NULL;
    if (list->count > 0) {
        s = list->items[list->count - 1];
        if (target_text_equals(s->path, f->path))
            return s;
    }
    s = series_new(r->scratch, span->count);
    if (!s)
        return NULL;
    s->path = f->path;
    s->name = pattern_show(r->scratch, f->path);
    if (!s->name.at)
        return NULL;
    s->start = span->first + span->shift;
    s->step = r->leaf->grid->step;
    list->items[list->count++] = s;
    return s;
}

/* Points up to the last one that is not after now. */
static size_t
count_elapsed(const struct render *r)
{
    const struct render_span *span = &r->leaf->span;
    const int64_t elapsed =
        r->now < span->first ? 0
                             : (r->now - span->first) / r->leaf->grid->step + 1;

    return (uint64_t)elapsed < span->count ? (size_t)elapsed : span->count;
}

/* Points before 1970, of which there is nothing. */
static size_t
count_before_all(const struct render_leaf *leaf)
{
    const int64_t first = leaf->span.first, step = leaf->grid->step;

    return first < 0 ? (size_t)((-first + step - 1) / step) : 0;
}

/* Whether a key that begins as those of a sum belongs to it: its node at wants_from
 * is the last one. */
static bool
is_summed(const struct store_history_query *q, const uint8_t *key, size_t size)
{
    const size_t at = q->wants_from;

    return at < size && pattern_node_size(key + at, size - at) == size - at;
}

static void
begin_query(struct render *r, size_t count)
{
    const struct render_grid *g = r->leaf->grid;
    const struct pattern *p = &r->leaf->pattern;
    const int64_t from = r->leaf->span.first + (int64_t)r->read * g->step;

    if (count > STORE_BUCKETS_MAX)
        count = STORE_BUCKETS_MAX;
    r->query = (struct store_history_query){
        .op = STORE_HISTORY_KEY,
        .name = r->found->keyspace,
        .name_size = r->found->keyspace_size,
        .key = r->found->key,
        .key_size = r->found->key_size,
        .from = (uint32_t)(from / 60),
        .to = (uint32_t)((from + (int64_t)count * g->step) / 60),
        .step = (uint32_t)(g->step / 60),
        .buckets = r->buckets};
    if (!r->leaf->is_sum)
        return;
    r->query.op = STORE_HISTORY_KEYSPACE;
    r->query.prefix = r->found->key;
    r->query.prefix_size = r->found->key_size;
    r->query.wants = is_summed;
    r->query.wants_from =
        r->found->key_size - p->nodes[p->count - 1].prefix_size;
}

/* Adds what was read.  A step without increments is 0 where history is
 * complete, and none where it may not be. */
static size_t
add_buckets(struct render *r, struct series *s)
{
    const struct store_history_query *q = &r->query;
    const size_t count = (q->to - q->from) / q->step;

    for (size_t i = 0; i < count; i++) {
        const struct store_bucket *b = &r->buckets[i];
        long double *point = &s->points[r->read + i];

        if (b->any || q->from + i * q->step >= q->since)
            *point = series_add(*point, (long double)b->sum);
    }
    return count;
}

int
render_read_step(struct render *r, uint64_t until_ns)
{
    struct series *s;
    size_t elapsed;
    int rc;

    if (!r->found) {
        if (r->leaf->node->kind == TARGET_CALL)
            functions_call(r->leaf->node)->list = r->leaf->list;
        return 1;
    }
    s = find_series(r);
    if (!s)
        return render_fail_memory(r);
    elapsed = count_elapsed(r);
    if (r->read == 0)
        r->read = count_before_all(r->leaf);
    if (!r->has_begun && r->read < elapsed) {
        begin_query(r, elapsed - r->read);
        r->has_begun = true;
    }
    rc = r->read < elapsed ? store_history(r->store, &r->query, until_ns) : 0;
    r->gives_way = rc == -EAGAIN;
    if (r->gives_way)
        return 0;
    r->has_begun = false;
    if (rc == 0 && r->read < elapsed)
        r->read += add_buckets(r, s);
    else if (rc == -ENOENT || rc == -ENODATA || rc == -EINVAL)
        r->read = elapsed; /* it has no history, or none of such steps */
    else if (rc < 0)
        return render_fail_keyspace(r, r->found->keyspace,
                                    r->found->keyspace_size, rc);
    if (r->read >= elapsed) {
        r->found = r->found->next;
        r->read = 0;
    }
    return 0;
}

/* ---- topKeys ------------------------------------------------------------ */

/* Makes the keys of the top what was found, in their order. */
static int
set_found(struct render *r)
{
    const struct path_found *keyspace = r->leaf->found;
    struct path_found *first = NULL, **end = &first;

    for (uint64_t i = 0; i < r->query.rows; i++) {
        const struct store_top *t = &r->top[i];
        const struct path_found key = {.is_leaf = true,
                                       .keyspace = keyspace->keyspace,
                                       .keyspace_size = keyspace->keyspace_size,
                                       .key = t->key,
                                       .key_size = t->key_size};
        struct path_found *f = path_found_new(r->scratch, &key);

        if (!f)
            return render_fail_memory(r);
        *end = f;
        end = &f->next;
    }
    r->leaf->found = first;
    r->leaf->count = r->query.rows;
    return 1;
}

/* The span of the query, in minutes.  False: history has no such times. */
static bool
set_top_span(const struct render_leaf *leaf, struct store_history_query *q)
{
    const struct render_grid *g = leaf->grid;
    const int64_t from = (g->first - leaf->span.shift) / 60;
    const int64_t to = from + (int64_t)g->count * g->step / 60;

    q->from = (uint32_t)from;
    q->to = (uint32_t)to;
    return from >= 0 && to < UINT32_MAX;
}

int
render_top_step(struct render *r, uint64_t until_ns)
{
    const struct path_found *keyspace = r->leaf->found;
    int rc;

    r->leaf->span = find_span(r->leaf);
    if (r->leaf->node->kind == TARGET_PATH)
        return 1;
    if (!r->has_begun) {
        r->query = (struct store_history_query){
            .op = STORE_HISTORY_TOP,
            .name = keyspace->keyspace,
            .name_size = keyspace->keyspace_size,
            .top = r->top,
            .length =
                (uint64_t)functions_call(r->leaf->node)->values[1]->whole};
        if (!set_top_span(r->leaf, &r->query))
            return set_found(r); /* no rows */
        r->has_begun = true;
    }
    rc = store_history(r->store, &r->query, until_ns);
    r->gives_way = rc == -EAGAIN;
    if (r->gives_way)
        return 0;
    if (rc == -ENOENT || rc == -ENODATA || rc == -EINVAL)
        r->query.rows = 0;
    else if (rc < 0)
        return render_fail_keyspace(r, keyspace->keyspace,
                                    keyspace->keyspace_size, rc);
    return set_found(r);
}
