/* tests/unit/graphite_fixture.h - a store, and what looks things up
 * and computes for Grafana on it. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_UNIT_GRAPHITE_FIXTURE_H
#define COUNTD_TESTS_UNIT_GRAPHITE_FIXTURE_H

#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "reader/graphite/render.h"
#include "tests/lib/engines.h"
#include "tests/lib/stored.h"
#include "tests/lib/tmpdir.h"

#define NOW   ((int64_t)1795302451) /* 23:07:31 */
#define SHOWN (1 << 20)

struct fixture {
    struct tmpdir tmp;
    struct store *store;
    struct scratch scratch;
    struct chunks answer;
    struct path_search search;
    struct render render;
    char text[SHOWN]; /* of the last answer */
};

/* Later than what any test counts. */
static uint64_t
now_ms(void)
{
    return (uint64_t)(NOW + 10 * 86400) * 1000;
}

static inline void
note_nothing(void *ctx, const uint8_t *keyspace, size_t size)
{
    (void)ctx;
    (void)keyspace;
    (void)size;
}

static int
set_up(void **state)
{
    struct fixture *r = calloc(1, sizeof *r);

    assert_non_null(r);
    tmpdir_make_in_memory(&r->tmp);
    r->store = engine_open_history(r->tmp.fd, ENGINE_MINUTES, now_ms);
    scratch_init(&r->scratch, (size_t)64 << 20);
    r->search.store = r->store;
    r->search.scratch = &r->scratch;
    r->search.entered = note_nothing;
    assert_rc(store_listing_open(r->store, &r->search.listing), 0);
    *state = r;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *r = *state;

    store_listing_close(r->search.listing);
    store_close(r->store);
    tmpdir_remove(&r->tmp);
    scratch_free(&r->scratch);
    free(r);
    return 0;
}

static inline int
parse_pattern(struct fixture *r, const char *text, struct pattern *out)
{
    return pattern_parse(&r->scratch, (struct target_text){text, strlen(text)},
                         out, r->render.why);
}

/* ---- targets -------------------------------------------------------------- */

#define DAY0 ((int64_t)1795219200) /* a midnight */

static inline void
add_sum(struct fixture *r, const char *keyspace, const char *key, int64_t time,
        int64_t sum)
{
    const struct store_delta d = {.key = (const uint8_t *)key,
                                  .key_size = (uint16_t)strlen(key),
                                  .minute = (uint32_t)(time / 60),
                                  .sum = sum};

    assert_rc(stored_apply(r->store, keyspace, NULL, &d, 1), 0);
}

/* Five minutes of two keys and one that has a dot. */
static inline void
add_some(struct fixture *r)
{
    for (int i = 0; i < 5; i++) {
        add_sum(r, "web", "a", DAY0 + 60 * i, i + 1);
        add_sum(r, "web", "b", DAY0 + 60 * i, 10 * (i + 1));
    }
    add_sum(r, "web", "c.d", DAY0 + 120, 7);
}

#define SOME DAY0 - 60, DAY0 + 240, 0 /* the five minutes */

static inline void
begin_render(struct fixture *r, int64_t from, int64_t until, int64_t max_points)
{
    scratch_free(&r->scratch);
    r->render.store = r->store;
    r->render.scratch = &r->scratch;
    r->render.search = &r->search;
    r->render.now = NOW;
    r->render.times = (struct function_times){from, until};
    r->render.max_data_points = max_points;
    if (r->render.limits.max_series == 0)
        r->render.limits = (struct render_limits){100, 100000, 1 << 20};
    r->render.answer = &r->answer;
    chunks_init(&r->answer, &r->scratch, r->render.limits.max_bytes);
    render_start(&r->render);
}

/* The series of the first target. */
static inline const struct series_list *
first_result(const struct fixture *r)
{
    const struct target_node *n = r->render.nodes;

    while (n->parent)
        n = n->after;
    return n->result;
}

/* Returns the answer, or why there is none. */
static inline const char *
finish_render(struct fixture *r)
{
    int rc;

    do {
        rc = render_step(&r->render, 0);
        store_read_end(r->store);
    } while (rc == 0);
    if (rc < 0)
        return r->render.why;
    assert_true(r->answer.size < sizeof r->text);
    chunks_copy(&r->answer, (uint8_t *)r->text);
    r->text[r->answer.size] = '\0';
    return r->text;
}

static inline const char *
render_target(struct fixture *r, const char *target, int64_t from,
              int64_t until, int64_t max_points)
{
    begin_render(r, from, until, max_points);
    if (render_add_target(&r->render, target, strlen(target)) < 0)
        return r->render.why;
    return finish_render(r);
}

/* The same, each series as NAME: VALUES, with its first time and step. */
static inline const char *
show_target(struct fixture *r, const char *target, int64_t from, int64_t until,
            int64_t max_points)
{
    static char shown[SHOWN];
    const struct series_list *list;
    char *at = shown;
    const char *answer = render_target(r, target, from, until, max_points);

    if (answer == r->render.why)
        return answer;
    *at = '\0';
    list = first_result(r);
    for (size_t i = 0; i < list->count; i++) {
        const struct series *s = list->items[i];

        at += sprintf(at, "%s%.*s %+lld/%lld:", i > 0 ? " | " : "",
                      (int)s->name.size, s->name.at,
                      (long long)(s->start - from), (long long)s->step);
        for (size_t p = 0; p < s->count; p++)
            at += series_has(s, p) ? sprintf(at, " %.6Lg", s->points[p])
                                   : sprintf(at, " -");
    }
    return shown;
}

#endif
