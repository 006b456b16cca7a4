/* tests/unit/test_graphite_render.c - points of Grafana's targets. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>

#include "tests/lib/random.h"
#include "tests/unit/graphite_fixture.h"

/* ---- points ------------------------------------------------------------- */

static const struct store_engine *plain_engine;

#define CASE(name, r) TEST_IN(name, struct fixture *r, set_up, tear_down)

CASE(points_are_the_increments_of_their_steps, r)
{
    add_some(r);
    assert_string_equal(show_target(r, "web.a", SOME),
                        "web.a +60/60: 1 2 3 4 5");
    /* from < t <= until, at multiples of the step. */
    assert_string_equal(show_target(r, "web.a", DAY0, DAY0 + 240, 0),
                        "web.a +60/60: 2 3 4 5");
    assert_string_equal(show_target(r, "web.a", DAY0 + 1, DAY0 + 239, 0),
                        "web.a +59/60: 2 3 4");
    assert_string_equal(show_target(r, "web.*", DAY0 - 1, DAY0 + 59, 0),
                        "web.a +1/60: 1 | web.b +1/60: 10");
    assert_string_equal(show_target(r, "web.*.d", SOME),
                        "web.c.d +60/60: 0 0 7 0 0");
    assert_string_equal(show_target(r, "web.nosuch", SOME), "");
    assert_string_equal(show_target(r, "web", SOME), "");
    /* There is at least one, also where no step begins. */
    assert_string_equal(show_target(r, "web.a", DAY0 + 61, DAY0 + 89, 0),
                        "web.a -1/60: 2");
    assert_string_equal(show_target(r, "web.a", DAY0 + 60, DAY0 + 61, 1),
                        "web.a +0/60: 2");
    assert_string_equal(
        show_target(r, "summarize(web.*, '2min')", DAY0 + 130, DAY0 + 140, 0),
        "summarize(web.a, \"2min\", \"sum\") -10/120: 3 | "
        "summarize(web.b, \"2min\", \"sum\") -10/120: 30");
    /* A step after now has no value yet. */
    assert_string_equal(show_target(r, "web.a", NOW - 60, NOW + 120, 0),
                        "web.a +29/60: 0 - -");
}

CASE(a_step_is_the_smallest_with_few_enough_points, r)
{
    static const struct {
        int64_t span;
        int64_t points, step; /* minutes */
    } rows[] = {{60, 60, 1},        {60, 59, 2},       {60, 20, 3},
                {60, 12, 5},        {60, 6, 10},       {60, 5, 15},
                {60, 3, 20},        {60, 2, 30},       {60, 1, 60},
                {600, 9, 120},      {1440, 4, 360},    {1440, 3, 480},
                {1440, 1, 1440},    {14400, 10, 1440}, {14400, 4, 4320},
                {525600, 100, 5760}};

    add_some(r);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct render_grid *g = &(struct render_grid){0};

        (void)render_target(r, "web.a", DAY0 - rows[i].span * 60, DAY0,
                            rows[i].points);
        assert_non_null(r->render.nodes);
        g = r->render.grids;
        assert_int_equal(g->step, rows[i].step * 60);
        assert_true(g->count <= (size_t)rows[i].points);
        assert_int_equal(g->first % g->step, 0);
        assert_true(g->first > DAY0 - rows[i].span * 60 &&
                    g->first - g->step <= DAY0 - rows[i].span * 60);
        assert_true(g->last <= DAY0 && g->last + g->step > DAY0);
    }
}

static uint64_t
render_now_ms(void)
{
    return (uint64_t)NOW * 1000;
}

static int
set_up_tiers(void **state)
{
    struct fixture *r;

    assert_int_equal(set_up(state), 0);
    r = *state;
    store_listing_close(r->search.listing);
    store_close(r->store);
    r->store = engine_open_history(r->tmp.fd, ENGINE_TIERS, render_now_ms);
    r->search.store = r->store;
    assert_rc(store_listing_open(r->store, &r->search.listing), 0);
    return 0;
}

/* A history that began an hour ago, in a store that has counted for longer. */
static int
read_young(struct store *s, struct store_history_query *q, uint64_t until_ns)
{
    const int rc = plain_engine->history(s, q, until_ns);

    q->since = (uint32_t)(NOW / 60 - 60);
    return rc;
}

TEST_IN(a_step_is_the_finest_that_is_kept_so_long, struct fixture *r,
        set_up_tiers, tear_down)
{
    static const struct {
        int64_t days, points, step;
    } rows[] = {
        {1, 0, 60},      {2, 0, 60},       {3, 0, 3600},
        {3, 40, 7200},   {30, 9, 345600},  {90, 0, 3600},
        {100, 0, 86400}, {3650, 0, 86400}, {30000, 0, 86400}}; /* the longest */
    struct store_engine young = *r->store->engine;

    plain_engine = r->store->engine;
    young.history = read_young;
    add_sum(r, "web", "a", NOW, 1);
    for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
        const size_t row = i / 2;
        const int64_t from =
            rows[row].days > NOW / 86400 ? 0 : NOW - rows[row].days * 86400;
        const char *shown;

        r->store->engine = i % 2 ? &young : plain_engine;
        shown = show_target(r, "web.a", from, NOW, rows[row].points);
        if (r->render.grids->step != rows[row].step)
            fail_msg("%lld days: %lld s", (long long)rows[row].days,
                     (long long)r->render.grids->step);
        if (i % 2) /* before it there is no value, not 0 */
            assert_has(shown, ": - - -");
    }
    r->store->engine = plain_engine;
}

CASE(sums_are_exact_at_every_step, r)
{
    struct random random = {random_seed("graphite sums")};
    int64_t at[200], sum[200];

    for (int i = 0; i < 200; i++) {
        at[i] = DAY0 + (int64_t)random_below(&random, 3 * 86400);
        sum[i] = (int64_t)random_next(&random) / 1024;
        add_sum(r, i % 2 ? "k" : "k.a", i % 2 ? "a.b" : "b", at[i], sum[i]);
    }
    for (int i = 0; i < 50; i++) {
        const int64_t from = DAY0 + (int64_t)random_below(&random, 2 * 86400);
        const int64_t until = from + 60 + (int64_t)random_below(&random, 86400);
        const struct series_list *list;

        (void)render_target(r, "k.a.b", from, until,
                            1 + (int64_t)random_below(&random, 60));
        list = first_result(r);
        assert_int_equal(list->count, 1);
        for (size_t p = 0; p < list->items[0]->count; p++) {
            const struct series *s = list->items[0];
            const int64_t t = series_time(s, p);
            int64_t expected = 0;

            for (int n = 0; n < 200; n++)
                if (at[n] / 60 * 60 >= t && at[n] / 60 * 60 < t + s->step)
                    expected += sum[n];
            assert_true(t > NOW ? !series_has(s, p) : s->points[p] == expected);
        }
    }
}

/* The values of what show_target() returns; "" when there is none. */
static const char *
values_of(const char *shown)
{
    const char *at = strstr(shown, " +");

    return at ? at : "";
}

/* In keyspaces that share nodes with keys, with empty nodes and escaped dots. */
CASE(the_sum_of_a_prefix_is_that_of_its_keys, r)
{
    static const char *const keyspaces[] = {"u", "u.a", "u.a."};
    static const char *const parts[] = {"a", "b", "/", ".", "%2E"};
    struct random random = {random_seed("graphite prefixes")};
    char key[8], target[80], expected[SHOWN];
    unsigned found = 0;

    for (int i = 0; i < 90; i++) {
        const size_t size = 1 + (size_t)random_below(&random, 5);

        for (size_t n = 0; n < size; n++)
            key[n] = "ab/."[random_below(&random, 4)];
        key[size] = '\0';
        add_sum(r, keyspaces[random_below(&random, 3)], key,
                DAY0 + 60 * (int64_t)random_below(&random, 5),
                (int64_t)random_below(&random, 100) - 30);
    }
    for (int i = 0; i < 400; i++) {
        char *at = stpcpy(target, "sum(scale(u.");

        for (int n = (int)random_below(&random, 5); n > 0; n--)
            at = stpcpy(at, parts[random_below(&random, 5)]);
        at = stpcpy(at, "*");
        strcpy(at, ",1))");
        strcpy(expected, values_of(show_target(r, target, SOME)));
        strcpy(at, ")");
        memmove(target + 4, target + 10, strlen(target + 10) + 1);
        if (strcmp(values_of(show_target(r, target, SOME)), expected) != 0)
            fail_msg("%s is%s, not%s", target,
                     values_of(show_target(r, target, SOME)), expected);
        found += expected[0] != '\0';
    }
    assert_in_range(found, 50, 350);
}

CASE(the_sum_of_a_prefix_is_one_series_of_any_number_of_keys, r)
{
    for (int i = 0; i < 1000; i++) {
        char key[32];

        (void)sprintf(key, "acme/%d", i);
        add_sum(r, "usage", key, DAY0, i);
        add_sum(r, "usage", i % 2 ? "acme/x.y" : "acme", DAY0, 1);
    }
    r->render.limits = (struct render_limits){1, 10, 1 << 20};
    assert_string_equal(show_target(r, "usage.acme/*|sum()", SOME),
                        "sumSeries(usage.acme/*) +60/60: 499500 0 0 0 0");
    assert_has(show_target(r, "usage.acme/*", SOME), "more than 1 series");
    assert_has(show_target(r, "sum(usage.acme/*9)", SOME),
               "more than 1 series");
    assert_has(show_target(r, "maxSeries(usage.acme/*)", SOME),
               "more than 1 series");
    assert_string_equal(show_target(r, "sum(usage.acmeology*)", SOME), "");
}

CASE(a_summary_is_of_whole_steps, r)
{
    add_some(r);
    /* With three points 120 s would be the step, which does not divide 180. */
    assert_string_equal(
        show_target(r, "summarize(web.a, '3min')", DAY0 - 60, DAY0 + 240, 3),
        "summarize(web.a, \"3min\", \"sum\") +60/180: 6 9");
    /* A shorter interval than the step is the step. */
    assert_string_equal(show_target(r, "summarize(web.a, '10s')", SOME),
                        "summarize(web.a, \"10s\", \"sum\") +60/60: 1 2 3 4 5");
}

CASE(answers_are_exact_integers_within_64_bits, r)
{
    add_sum(r, "big", "x", DAY0, INT64_MAX);
    add_sum(r, "big", "y", DAY0, INT64_MAX);
    add_sum(r, "big", "n", DAY0, INT64_MIN);
    assert_string_equal(
        render_target(r, "big.x", DAY0 - 1, DAY0, 0),
        "[{\"target\":\"big.x\",\"tags\":{\"name\":\"big.x\"},\"datapoints\":[["
        "9223372036854775807,1795219200]]}]");
    assert_has(render_target(r, "sum(big.x,big.y)", DAY0 - 1, DAY0, 0),
               "[1.8446744073709552e+19,1795219200]");
    assert_has(render_target(r, "scale(big.x,10)", DAY0 - 1, DAY0, 0),
               "[9.2233720368547758e+19,1795219200]");
    assert_has(render_target(r, "big.n", DAY0 - 1, DAY0, 0),
               "[-9223372036854775808,1795219200]");
    assert_has(render_target(r, "scale(big.x,0.1)", DAY0 - 1, DAY0, 0),
               "[9.2233720368547763e+17,1795219200]");
    assert_has(render_target(r, "perSecond(big.x)", DAY0 - 1, DAY0 + 60, 0),
               "[[null,1795219200],[null,1795219260]]");
}

CASE(more_than_the_limits_is_refused, r)
{
    add_some(r);
    r->render.limits = (struct render_limits){1, 100, 1 << 20};
    assert_has(show_target(r, "web.*", SOME), "more than 1 series");
    r->render.limits = (struct render_limits){10, 9, 1 << 20};
    assert_string_equal(show_target(r, "web.*", SOME),
                        "10 points, and 9 are the limit: give a shorter time, "
                        "fewer series or maxDataPoints (graphite.max_points)");
    r->render.limits = (struct render_limits){10, 10, 100};
    assert_has(show_target(r, "web.*", SOME), "an answer of more than 1 MiB");
    r->render.limits = (struct render_limits){2, 10, 1 << 20};
    begin_render(r, SOME);
    for (int i = 0; i < 3; i++)
        assert_int_equal(render_add_target(&r->render, "web.a", 5) == 0, i < 2);
    assert_has(r->render.why, "more than 2 targets");
    r->scratch.max = 200000;
    r->render.limits = (struct render_limits){100, 1000000, 1 << 20};
    assert_has(show_target(r, "web.*", DAY0 - 6000000, DAY0, 0),
               "of memory is needed");
}

static int read_error;

static int
fail_reads(struct store *s, struct store_query *q, size_t size_max)
{
    (void)s;
    (void)q;
    (void)size_max;
    return read_error;
}

CASE(a_keyspace_that_cannot_be_read_is_an_error, r)
{
    static struct store_engine failing; /* closes the store, too */

    add_some(r);
    failing = *r->store->engine;
    failing.read = fail_reads;
    r->store->engine = &failing;
    read_error = -EBADMSG;
    assert_string_equal(show_target(r, "web.*", SOME),
                        "keyspace web cannot be read");
    assert_int_equal(r->render.status, HTTP_INTERNAL_ERROR);
}

static int
fail_second_listing(struct store_listing *l, uint64_t until_ns,
                    struct store_listed *out)
{
    static bool is_listed;
    const int rc =
        is_listed ? -EIO : plain_engine->listing_next(l, until_ns, out);

    is_listed |= rc == 1;
    return rc;
}

CASE(keyspaces_that_cannot_be_listed_are_an_error_of_none, r)
{
    static struct store_engine failing; /* closes the listing, too */

    add_some(r);
    plain_engine = r->search.listing->engine;
    failing = *plain_engine;
    failing.listing_next = fail_second_listing;
    r->search.listing->engine = &failing;
    assert_string_equal(show_target(r, "w*.*", SOME),
                        "keyspaces cannot be listed");
    assert_int_equal(r->render.status, HTTP_INTERNAL_ERROR);
}
