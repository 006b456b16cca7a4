/* tests/unit/test_graphite_render.c - points of Grafana's targets, and what
 * functions compute of them. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/random.h"
#include "tests/unit/graphite_render_fixture.h"

/* ---- points ------------------------------------------------------------- */

/* Five minutes of two keys and one that has a dot. */
static void
add_some(struct fixture *r)
{
    for (int i = 0; i < 5; i++) {
        add(r, "web", "a", DAY0 + 60 * i, i + 1);
        add(r, "web", "b", DAY0 + 60 * i, 10 * (i + 1));
    }
    add(r, "web", "c.d", DAY0 + 120, 7);
}

static const struct store_engine *plain_engine;

#define SOME DAY0 - 60, DAY0 + 240, 0 /* the five minutes */

#define CASE(name, r) TEST_IN(name, struct fixture *r, set_up, tear_down)

CASE(points_are_the_increments_of_their_steps, r)
{
    add_some(r);
    assert_string_equal(show(r, "web.a", SOME), "web.a +60/60: 1 2 3 4 5");
    /* from < t <= until, at multiples of the step. */
    assert_string_equal(show(r, "web.a", DAY0, DAY0 + 240, 0),
                        "web.a +60/60: 2 3 4 5");
    assert_string_equal(show(r, "web.a", DAY0 + 1, DAY0 + 239, 0),
                        "web.a +59/60: 2 3 4");
    assert_string_equal(show(r, "web.*", DAY0 - 1, DAY0 + 59, 0),
                        "web.a +1/60: 1 | web.b +1/60: 10");
    assert_string_equal(show(r, "web.*.d", SOME), "web.c.d +60/60: 0 0 7 0 0");
    assert_string_equal(show(r, "web.nosuch", SOME), "");
    assert_string_equal(show(r, "web", SOME), "");
    /* There is at least one, also where no step begins. */
    assert_string_equal(show(r, "web.a", DAY0 + 61, DAY0 + 89, 0),
                        "web.a -1/60: 2");
    assert_string_equal(show(r, "web.a", DAY0 + 60, DAY0 + 61, 1),
                        "web.a +0/60: 2");
    assert_string_equal(
        show(r, "summarize(web.*, '2min')", DAY0 + 130, DAY0 + 140, 0),
        "summarize(web.a, \"2min\", \"sum\") -10/120: 3 | "
        "summarize(web.b, \"2min\", \"sum\") -10/120: 30");
    /* A step after now has no value yet. */
    assert_string_equal(show(r, "web.a", NOW - 60, NOW + 120, 0),
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

        (void)render(r, "web.a", DAY0 - rows[i].span * 60, DAY0,
                     rows[i].points);
        assert_non_null(r->render.targets);
        g = r->render.targets->grids;
        assert_int_equal(g->step, rows[i].step * 60);
        assert_true(g->count <= (size_t)rows[i].points);
        assert_int_equal(g->first % g->step, 0);
        assert_true(g->first > DAY0 - rows[i].span * 60 &&
                    g->first - g->step <= DAY0 - rows[i].span * 60);
        assert_true(g->last <= DAY0 && g->last + g->step > DAY0);
    }
}

/* A history that keeps minutes for 2 days and hours for 90. */
static int
read_tiered(struct store *s, struct store_history_query *q, uint64_t until_ns)
{
    const uint32_t step =
        q->op == STORE_HISTORY_KEY ? q->step : q->to - q->from;
    const bool by_hour = q->from % 60 == 0 && q->to % 60 == 0 && step % 60 == 0;
    const int rc = plain_engine->history(s, q, until_ns);

    q->since = (uint32_t)((NOW - (by_hour ? 90 : 2) * 86400) / 3600 * 60);
    q->floor = q->since;
    return rc;
}

CASE(a_step_is_the_finest_that_reaches_back, r)
{
    static const struct {
        int64_t days, points, step;
    } rows[] = {
        {1, 0, 60},      {2, 0, 60},    {3, 0, 3600},  {30, 0, 3600},
        {30, 9, 345600}, {3, 40, 7200}, {365, 0, 3600}}; /* none reaches: least
                                                            is missing */
    struct store_engine tiered = *r->store->engine;

    plain_engine = r->store->engine;
    tiered.history = read_tiered;
    add_some(r);
    r->store->engine = &tiered;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *shown = show(r, "web.a", NOW - rows[i].days * 86400 + 3600,
                                 NOW, rows[i].points);

        assert_int_equal(r->render.targets->grids->step, rows[i].step);
        if (rows[i].days == 365) /* before it there is no value, not 0 */
            assert_non_null(strstr(shown, ": - - -"));
    }
    r->store->engine = plain_engine;
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

TEST_IN(a_young_store_has_the_steps_that_are_configured, struct fixture *r,
        set_up_tiers, tear_down)
{
    static const struct {
        int64_t days, step;
    } rows[] = {{1, 60},      {2, 60},       {3, 3600},     {90, 3600},
                {100, 86400}, {3650, 86400}, {30000, 86400}}; /* the longest */
    struct store_engine young = *r->store->engine;

    plain_engine = r->store->engine;
    young.history = read_young;
    add(r, "web", "a", NOW, 1);
    for (size_t i = 0; i < 2 * sizeof rows / sizeof rows[0]; i++) {
        const size_t row = i / 2;

        r->store->engine = i % 2 ? &young : plain_engine;
        (void)show(r, "web.a",
                   rows[row].days > NOW / 86400 ? 0
                                                : NOW - rows[row].days * 86400,
                   NOW, 0);
        if (r->render.targets->grids->step != rows[row].step)
            fail_msg("%lld days: %lld s", (long long)rows[row].days,
                     (long long)r->render.targets->grids->step);
    }
    r->store->engine = plain_engine;
}

CASE(sums_are_exact_at_every_step, r)
{
    struct random random = {random_seed("graphite sums")};
    int64_t at[200], sum[200];

    for (int i = 0; i < 200; i++) {
        at[i] = DAY0 + (int64_t)random_below(&random, 3 * 86400);
        sum[i] = (int64_t)random_next(&random) / 4;
        add(r, i % 2 ? "k" : "k.a", i % 2 ? "a.b" : "b", at[i], sum[i]);
    }
    for (int i = 0; i < 50; i++) {
        const int64_t from = DAY0 + (int64_t)random_below(&random, 2 * 86400);
        const int64_t until = from + 60 + (int64_t)random_below(&random, 86400);
        const struct series_list *list;

        (void)render(r, "k.a.b", from, until,
                     1 + (int64_t)random_below(&random, 60));
        list = r->render.targets->target.root->result;
        assert_int_equal(list->count, 1);
        for (size_t p = 0; p < list->items[0]->count; p++) {
            const struct series *s = list->items[0];
            const int64_t t = series_time(s, p);
            int128 expected = 0;

            for (int n = 0; n < 200; n++)
                if (at[n] / 60 * 60 >= t && at[n] / 60 * 60 < t + s->step)
                    expected += sum[n];
            assert_true(t > NOW ? !series_has(s, p)
                                : s->points.whole[p] == expected);
        }
    }
}

CASE(functions_compute_what_they_say, r)
{
    static const char *const rows[][2] = {
        {"alias(web.a, 'x')", "x +60/60: 1 2 3 4 5"},
        {"aliasByNode(web.c.d, 2, 0, -2, 9)", "d.web.c. +60/60: 0 0 7 0 0"},
        {"aliasByMetric(scale(web.a, 2))", "a +60/60: 2 4 6 8 10"},
        {"aliasSub(web.a, '(^.*$)', '\\1 A \\1')",
         "web.a A web.a +60/60: 1 2 3 4 5"},
        {"aliasSub(web.*, '^(\\w+)\\.(.)$', '\\2 of \\1')",
         "a of web +60/60: 1 2 3 4 5 | b of web +60/60: 10 20 30 40 50"},
        {"grep(web.*, 'b$')", "web.b +60/60: 10 20 30 40 50"},
        {"exclude(web.*, 'B$')",
         "web.a +60/60: 1 2 3 4 5 | web.b +60/60: 10 20 30 40 50"},
        {"exclude(web.*, '(?i)B$')", "web.a +60/60: 1 2 3 4 5"},
        {"sumSeries(web.a, web.b)",
         "sumSeries(web.a,web.b) +60/60: 11 22 33 44 55"},
        {"sum(web.*)", "sumSeries(web.*) +60/60: 11 22 33 44 55"},
        {"web.*|sum()", "sumSeries(web.*) +60/60: 11 22 33 44 55"},
        {"sumSeries(nosuch.*)", ""},
        {"averageSeries(web.*)",
         "averageSeries(web.*) +60/60: 5.5 11 16.5 22 27.5"},
        {"avg(web.a)", "averageSeries(web.a) +60/60: 1 2 3 4 5"},
        {"maxSeries(web.*, scale(web.b,-1))",
         "maxSeries(web.*,scale(web.b,-1)) +60/60: 10 20 30 40 50"},
        {"minSeries(web.*, web.c.d)",
         "minSeries(web.*,web.c.d) +60/60: 0 0 3 0 0"},
        {"minSeries(nosuch.*)", ""},
        {"divideSeries(web.b, web.a)",
         "divideSeries(web.b,web.a) +60/60: 10 10 10 10 10"},
        {"divideSeries(web.*, web.c.d)",
         "divideSeries(web.a,web.c.d) +60/60: - - 0.428571 - - | "
         "divideSeries(web.b,web.c.d) +60/60: - - 4.28571 - -"},
        {"divideSeries(web.a, nosuch.x)",
         "divideSeries(web.a,MISSING) +60/60: - - - - -"},
        {"divideSeries(nosuch.x, web.a)", ""},
        {"divideSeries(divisorSeries=web.a, dividendSeriesList=web.b)",
         "divideSeries(web.b,web.a) +60/60: 10 10 10 10 10"},
        {"asPercent(web.*)",
         "asPercent(web.a,sumSeries(web.*)) +60/60: 9.09091 9.09091 9.09091 "
         "9.09091 9.09091 | asPercent(web.b,sumSeries(web.*)) +60/60: 90.9091 "
         "90.9091 90.9091 90.9091 90.9091"},
        {"asPercent(web.a, web.b)",
         "asPercent(web.a,web.b) +60/60: 10 10 10 10 10"},
        {"asPercent(web.a, 50)", "asPercent(web.a,50) +60/60: 2 4 6 8 10"},
        {"asPercent(web.a, total=2.5)",
         "asPercent(web.a,2.5) +60/60: 40 80 120 160 200"},
        {"asPercent(nosuch.*)", ""},
        {"transformNull(derivative(web.a))",
         "transformNull(derivative(web.a),0) +60/60: 0 1 1 1 1"},
        {"transformNull(derivative(web.a), -1.5)",
         "transformNull(derivative(web.a),-1.5) +60/60: -1.5 1 1 1 1"},
        {"derivative(web.c.d)", "derivative(web.c.d) +60/60: - 0 7 -7 0"},
        {"keepLastValue(divideSeries(web.a, web.c.d))",
         "keepLastValue(divideSeries(web.a,web.c.d)) +60/60: - - 0.428571 "
         "0.428571 0.428571"},
        {"keepLastValue(divideSeries(web.a, web.c.d), 1)",
         "keepLastValue(divideSeries(web.a,web.c.d)) +60/60: - - 0.428571 - -"},
        {"groupByNode(web.*, 0, 'sum')", "web +60/60: 11 22 33 44 55"},
        {"groupByNode(web.*, 1)",
         "a +60/60: 1 2 3 4 5 | b +60/60: 10 20 30 40 50"},
        {"groupByNode(web.*, 0)", "web +60/60: 5.5 11 16.5 22 27.5"},
        {"groupByNode(web.*, 0, 'max')", "web +60/60: 10 20 30 40 50"},
        {"groupByNode(web.*, 0, 'minSeries')", "web +60/60: 1 2 3 4 5"},
        {"groupByNodes(web.*, 'sum', 0)", "web +60/60: 11 22 33 44 55"},
        {"groupByNodes(web.*.d, 'sum', 2, 0)", "d.web +60/60: 0 0 7 0 0"},
        {"groupByNodes(web.*, 'avg', 0)", "web +60/60: 5.5 11 16.5 22 27.5"},
        {"sumSeriesWithWildcards(web.*, 1)", "web +60/60: 11 22 33 44 55"},
        {"aliasByNode(sumSeriesWithWildcards(web.*.d, 1), 1)",
         "d +60/60: 0 0 7 0 0"},
        {"sumSeriesWithWildcards(web.*, 0, 1)", " +60/60: 11 22 33 44 55"},
        {"hitcount(web.a, '2min')",
         "hitcount(web.a,'2min') +0/120: 60 300 540"},
        {"hitcount(web.a, '2min', true)",
         "hitcount(web.a,'2min',true) +60/120: 180 420 300"},
        {"hitcount(scale(web.a, 0.5), '5min')",
         "hitcount(scale(web.a,0.5),'5min') +60/300: 450"},
        {"hitcount(web.a, '90s')",
         "hitcount(web.a,'90s') +0/90: 30 150 300 420"},
        {"hitcount(web.a, '1s')",
         "hitcount(web.a,'1s') +60/60: 60 120 180 240 300"},
        {"sortByName(web.{b,a})",
         "web.a +60/60: 1 2 3 4 5 | web.b +60/60: 10 20 30 40 50"},
        {"sortByName(web.{a,b}, false, true)",
         "web.b +60/60: 10 20 30 40 50 | web.a +60/60: 1 2 3 4 5"},
        {"sortByName(web.*, reverse=true)",
         "web.b +60/60: 10 20 30 40 50 | web.a +60/60: 1 2 3 4 5"},
        {"removeEmptySeries(divideSeries(web.*, scale(web.a,0)))", ""},
        {"removeEmptySeries(web.*.d)", "web.c.d +60/60: 0 0 7 0 0"},
        {"scale(web.a, -0.5)",
         "scale(web.a,-0.5) +60/60: -0.5 -1 -1.5 -2 -2.5"},
        {"absolute(scale(web.a, -1))",
         "absolute(scale(web.a,-1)) +60/60: 1 2 3 4 5"},
        {"scaleToSeconds(web.a, 120)",
         "scaleToSeconds(web.a,120) +60/60: 2 4 6 8 10"},
        {"scaleToSeconds(web.b, 30)",
         "scaleToSeconds(web.b,30) +60/60: 5 10 15 20 25"},
        {"scaleToSeconds(web.a, 30)",
         "scaleToSeconds(web.a,30) +60/60: 0.5 1 1.5 2 2.5"},
        {"integral(web.a)", "integral(web.a) +60/60: 1 3 6 10 15"},
        {"nonNegativeDerivative(integral(web.a))",
         "nonNegativeDerivative(integral(web.a)) +60/60: - 2 3 4 5"},
        {"nonNegativeDerivative(scale(web.a,-1))",
         "nonNegativeDerivative(scale(web.a,-1)) +60/60: - - - - -"},
        {"perSecond(integral(web.b))",
         "perSecond(integral(web.b)) +60/60: - 0.333333 0.5 0.666667 0.833333"},
        {"summarize(web.a, '2min')",
         "summarize(web.a, \"2min\", \"sum\") +60/120: 3 7 5"},
        {"summarize(web.a, '2min', 'avg')",
         "summarize(web.a, \"2min\", \"avg\") +60/120: 1.5 3.5 5"},
        {"summarize(web.a, '3min', func='max', alignToFrom=true)",
         "summarize(web.a, \"3min\", \"max\", true) +60/180: 3 5"},
        {"summarize(web.a, '2min', 'min')",
         "summarize(web.a, \"2min\", \"min\") +60/120: 1 3 5"},
        {"summarize(web.a, '1h', 'last')",
         "summarize(web.a, \"1h\", \"last\") +60/3600: 5"},
        {"highestMax(web.*, 1)", "web.b +60/60: 10 20 30 40 50"},
        {"highestCurrent(web.*)", "web.b +60/60: 10 20 30 40 50"},
        {"highestAverage(web.*, n=5)",
         "web.b +60/60: 10 20 30 40 50 | web.a +60/60: 1 2 3 4 5"},
        {"sortByTotal(web.{a,b})",
         "web.b +60/60: 10 20 30 40 50 | web.a +60/60: 1 2 3 4 5"},
        {"highestMax(scale(web.*, 0), 2)",
         "scale(web.a,0) +60/60: 0 0 0 0 0 | scale(web.b,0) +60/60: 0 0 0 0 0"},
        {"limit(web.*, 1)", "web.a +60/60: 1 2 3 4 5"},
        {"limit(web.*, 0)", ""},
        {"consolidateBy(web.a, 'max')", "web.a +60/60: 1 2 3 4 5"},
        {"constantLine(2.5)", "2.5 +0/150: 2.5 2.5 2.5"},
        {"topKeys('web', 2)",
         "web.b +60/60: 10 20 30 40 50 | web.a +60/60: 1 2 3 4 5"},
        {"scale(topKeys('web', 1), 2)",
         "scale(web.b,2) +60/60: 20 40 60 80 100"},
        {"topKeys('nosuch', 1)", ""}};

    add_some(r);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *got = show(r, rows[i][0], SOME);

        if (strcmp(got, rows[i][1]) != 0)
            fail_msg("%s:\n  %s, not\n  %s", rows[i][0], got, rows[i][1]);
    }
}

CASE(numbers_in_names_are_sorted_by_their_values, r)
{
    static const char *const names[] = {"x10", "x9", "x1y", "y", "x", "x09"};
    static const char *const orders[][2] = {
        {"sortByName(n.*)", "xx09x10x1yx9y"},
        {"sortByName(n.*, true)", "xx1yx9x09x10y"},
        {"sortByName(n.*, natural=true, reverse=true)", "yx10x09x9x1yx"}};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        add(r, "n", names[i], DAY0, 1);
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        char target[96], got[64] = "";
        const struct series_list *list;

        (void)snprintf(target, sizeof target, "aliasByMetric(%s)",
                       orders[i][0]);
        (void)render(r, target, DAY0 - 60, DAY0, 0);
        list = r->render.targets->target.root->result;
        for (size_t n = 0; n < list->count; n++)
            strncat(got, list->items[n]->name.at, list->items[n]->name.size);
        assert_string_equal(got, orders[i][1]);
    }
}

CASE(a_summary_is_of_whole_steps, r)
{
    add_some(r);
    /* With three points 120 s would be the step, which does not divide 180. */
    assert_string_equal(
        show(r, "summarize(web.a, '3min')", DAY0 - 60, DAY0 + 240, 3),
        "summarize(web.a, \"3min\", \"sum\") +60/180: 6 9");
    /* A shorter interval than the step is the step. */
    assert_string_equal(show(r, "summarize(web.a, '10s')", SOME),
                        "summarize(web.a, \"10s\", \"sum\") +60/60: 1 2 3 4 5");
}

CASE(answers_are_exact_integers, r)
{
    add(r, "big", "x", DAY0, INT64_MAX);
    add(r, "big", "y", DAY0, INT64_MAX);
    add(r, "big", "n", DAY0, INT64_MIN);
    assert_string_equal(
        render(r, "big.x", DAY0 - 1, DAY0, 0),
        "[{\"target\":\"big.x\",\"tags\":{\"name\":\"big.x\"},\"datapoints\":[["
        "9223372036854775807,1795219200]]}]");
    assert_non_null(strstr(render(r, "sum(big.x,big.y)", DAY0 - 1, DAY0, 0),
                           "[18446744073709551614,1795219200]"));
    assert_non_null(strstr(render(r, "scale(big.x,10)", DAY0 - 1, DAY0, 0),
                           "[92233720368547758070,1795219200]"));
    assert_non_null(strstr(render(r, "big.n", DAY0 - 1, DAY0, 0),
                           "[-9223372036854775808,1795219200]"));
    assert_non_null(strstr(render(r, "scale(big.x,0.1)", DAY0 - 1, DAY0, 0),
                           "[9.2233720368547763e+17,1795219200]"));
    assert_non_null(
        strstr(render(r, "perSecond(big.x)", DAY0 - 1, DAY0 + 60, 0),
               "[[null,1795219200],[null,1795219260]]"));
}

CASE(wrong_calls_are_refused_before_anything_is_read, r)
{
    static const char *const rows[][2] = {
        {"nosuch(web.a)", "unknown function: nosuch"},
        {"seriesByTag('a=b')", "countd has no tags"},
        {"scale(web.a)", "scale: 2 arguments, not 1"},
        {"scale(web.a, 1, 2)", "scale: 2 arguments, not 3"},
        {"absolute()", "absolute: 1 argument, not 0"},
        {"summarize(web.a)", "summarize: 2 to 4 arguments, not 1"},
        {"aliasByNode(web.a)", "aliasByNode: 2 or more arguments, not 1"},
        {"scale(web.a, 'x')", "scale: factor is a number"},
        {"scale(1, 2)", "scale: seriesList is a path or a call of a function"},
        {"alias(web.a, web.b)", "alias: newName is a string in quotes"},
        {"limit(web.a, -1)", "limit: n is an integer of at least 0"},
        {"aliasByNode(web.a, 1.5)",
         "aliasByNode: nodes is the number of a node"},
        {"summarize(web.a, '1 moon')",
         "summarize: intervalString is an interval"},
        {"summarize(web.a, '1h', 'mode')",
         "summarize: func is a value that /functions lists"},
        {"summarize(web.a, '1h', 'sum', 1)",
         "summarize: alignToFrom is true or false"},
        {"aliasSub(web.a, 'w(.*', 'x')",
         "aliasSub: the regular expression: a parenthesis that does not end"},
        {"aliasSub(web.a, 'w(.*)', '\\2')", "aliasSub: there is no group \\2"},
        {"grep(web.a, '*')", "grep: the regular expression: nothing before"},
        {"scale(web.a, by=2)", "scale: there is no parameter by"},
        {"scale(web.a, seriesList=web.b)", "scale: seriesList is there twice"},
        {"topKeys('web', 101)", "topKeys: n is 1 to 100"},
        {"topKeys('', 1)", "topKeys: the keyspace is empty"},
        {"topKeys('%2', 1)", "topKeys: the keyspace has 1 to 256 bytes"},
        {"web..a", "path web..a: an empty node"},
        {"web..\xe2\x80\xae", "path web..\\xe2\\x80\\xae: an empty node"},
        {"5", "a target is a path or a call of a function"},
        {"alias(web.a, '\xff')", "a target is not UTF-8"},
        {"divideSeries(web.a, web.*)",
         "divideSeries: one series to divide by, not 2: sum them first"},
        {"asPercent(web.a, 'x')", "asPercent: total is a number, a path or"},
        {"divideSeries(web.a, constantLine(1))",
         "divideSeries: series of different steps"},
        {"sum(web.a, constantLine(1))",
         "sumSeries: series of different steps"}};

    add_some(r);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *got = show(r, rows[i][0], SOME);

        if (strncmp(got, rows[i][1], strlen(rows[i][1])) != 0)
            fail_msg("%s: %s, not %s", rows[i][0], got, rows[i][1]);
        assert_int_equal(r->render.status, HTTP_BAD_REQUEST);
    }
}

CASE(more_than_the_limits_is_refused, r)
{
    add_some(r);
    r->render.limits = (struct render_limits){1, 100, 1 << 20};
    assert_non_null(strstr(show(r, "web.*", SOME), "more than 1 series"));
    r->render.limits = (struct render_limits){10, 9, 1 << 20};
    assert_string_equal(show(r, "web.*", SOME),
                        "10 points, and 9 are the limit: give a shorter time, "
                        "fewer series or maxDataPoints (graphite.max_points)");
    r->render.limits = (struct render_limits){10, 10, 100};
    assert_non_null(strstr(show(r, "web.*", SOME), "an answer of more than"));
    r->render.limits = (struct render_limits){2, 10, 1 << 20};
    begin(r, SOME);
    for (int i = 0; i < 3; i++)
        assert_int_equal(render_add_target(&r->render, "web.a", 5), i < 2);
    assert_non_null(strstr(r->render.why, "more than 2 targets"));
    r->scratch.max = 200000;
    r->render.limits = (struct render_limits){100, 1000000, 1 << 20};
    assert_non_null(strstr(show(r, "web.*", DAY0 - 6000000, DAY0, 0),
                           "of memory is needed"));
}

static int read_error;

static size_t
fail_reads(struct store *s, struct store_reads *r)
{
    (void)s;
    for (size_t i = 0; i < r->count; i++)
        r->queries[i].error = read_error;
    return r->count;
}

CASE(a_keyspace_that_cannot_be_read_is_an_error, r)
{
    static struct store_engine failing; /* closes the store, too */

    add_some(r);
    failing = *r->store->engine;
    failing.read = fail_reads;
    r->store->engine = &failing;
    read_error = -EBADMSG;
    assert_string_equal(show(r, "web.*", SOME), "keyspace web cannot be read");
    assert_int_equal(r->render.status, HTTP_INTERNAL_ERROR);
}

CASE(functions_are_described, r)
{
    static char text[FUNCTIONS_JSON_MAX];
    struct json_writer w;

    json_write_init(&w, text, sizeof text);
    w.is_compact = true;
    functions_describe(&w);
    assert_true(json_write_size(&w) > 0);
    assert_non_null(strstr(
        text, "\"scale\":{\"name\":\"scale\",\"function\":\"scale(seriesList, "
              "factor)\",\"description\":\"Multiplies by a number.\","
              "\"module\":\"graphite.render.functions\",\"group\":"
              "\"Transform\",\"params\":[{\"name\":\"seriesList\",\"type\":"
              "\"seriesList\",\"required\":true},{\"name\":\"factor\",\"type\":"
              "\"float\",\"required\":true}]}"));
    assert_non_null(strstr(text, "\"sum\":{\"name\":\"sum\""));
    assert_non_null(strstr(text, "\"multiple\":true"));
    assert_non_null(strstr(text, "{\"name\":\"func\",\"type\":\"aggFunc\","
                                 "\"default\":\"sum\",\"options\":[\"sum\","));
    assert_non_null(strstr(text, "{\"name\":\"alignToFrom\",\"type\":"
                                 "\"boolean\",\"default\":false}"));
}
