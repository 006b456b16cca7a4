/* tests/unit/test_graphite_functions.c - what functions compute of points. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/unit/graphite_fixture.h"

#define CASE(name, r) TEST_IN(name, struct fixture *r, set_up, tear_down)

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
        {"sumSeries(nosuch.*)", ""},
        {"averageSeries(web.*)",
         "averageSeries(web.*) +60/60: 5.5 11 16.5 22 27.5"},
        {"avg(avg(web.*), web.c.d)", "averageSeries(avg(web.*),web.c.d) "
                                     "+60/60: 2.75 5.5 11.75 11 13.75"},
        {"maxSeries(web.*, scale(web.b,-1))",
         "maxSeries(web.*,scale(web.b,-1)) +60/60: 10 20 30 40 50"},
        {"minSeries(web.*, web.c.d)",
         "minSeries(web.*,web.c.d) +60/60: 0 0 3 0 0"},
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
        {"timeShift(web.a, '2min')",
         "timeShift(web.a, \"-2min\") +60/60: 0 0 1 2 3"},
        {"timeShift(web.a, '+1min', true, false)",
         "timeShift(web.a, \"+1min\") +60/60: 2 3 4 5 0"},
        {"timeShift(timeShift(web.a, '-1min'), '1min')",
         "timeShift(timeShift(web.a, \"-1min\"), \"-1min\") +60/60: 0 0 1 2 3"},
        {"timeShift(web.a, '90s')",
         "timeShift(web.a, \"-90s\") +60/60: 0 0 1 2 3"},
        {"timeShift(web.a, '100y')",
         "timeShift(web.a, \"-100y\") +60/60: - - - - -"},
        {"timeShift(web.a, '+5y')",
         "timeShift(web.a, \"+5y\") +60/60: - - - - -"},
        {"divideSeries(web.a, timeShift(web.a, '1min'))",
         "divideSeries(web.a,timeShift(web.a, \"-1min\")) +60/60: - 2 1.5 "
         "1.33333 1.25"},
        {"timeShift(topKeys('web', 1), '2min')",
         "timeShift(web.b, \"-2min\") +60/60: 0 0 10 20 30"},
        {"timeShift(topKeys('web', 1), '100y')", ""},
        {"timeShift(topKeys('web', 1), '+7000y')", ""},
        {"timeShift(summarize(web.a, '2min'), '2min')",
         "timeShift(summarize(web.a, \"2min\", \"sum\"), \"-2min\") +60/120: "
         "0 3 3"},
        {"movingAverage(web.a, 2)",
         "movingAverage(web.a,2) +60/60: 0 0.5 1.5 2.5 3.5"},
        {"movingAverage(scale(web.a, 0.5), '2min')",
         "movingAverage(scale(web.a,0.5),\"2min\") +60/60: 0 0.25 0.75 1.25 "
         "1.75"},
        {"movingAverage(movingAverage(web.a, 2), 2)",
         "movingAverage(movingAverage(web.a,2),2) +60/60: 0 0 0.25 1 2"},
        {"movingAverage(summarize(web.a, '2min'), 1)",
         "movingAverage(summarize(web.a, \"2min\", \"sum\"),1) +60/120: 0 3 7"},
        {"movingAverage(timeShift(web.a, '1min'), 1)",
         "movingAverage(timeShift(web.a, \"-1min\"),1) +60/60: 0 0 1 2 3"},
        {"movingAverage(divideSeries(web.a, web.c.d), 2)",
         "movingAverage(divideSeries(web.a,web.c.d),2) +60/60: - - - 0.428571 "
         "0.428571"},
        {"movingAverage(web.*, 1)",
         "movingAverage(web.a,1) +60/60: 0 1 2 3 4 | movingAverage(web.b,1) "
         "+60/60: 0 10 20 30 40"},
        {"movingAverage(constantLine(1), 3)",
         "movingAverage(1,3) +0/150: 1 1 1"},
        {"sortByName(web.{b,a})",
         "web.a +60/60: 1 2 3 4 5 | web.b +60/60: 10 20 30 40 50"},
        {"sortByName(web.*, reverse=true)",
         "web.b +60/60: 10 20 30 40 50 | web.a +60/60: 1 2 3 4 5"},
        {"removeEmptySeries(divideSeries(web.*, scale(web.a,0)))", ""},
        {"removeEmptySeries(web.*.d)", "web.c.d +60/60: 0 0 7 0 0"},
        {"scale(web.a, -0.5)",
         "scale(web.a,-0.5) +60/60: -0.5 -1 -1.5 -2 -2.5"},
        {"absolute(scale(web.a, -1))",
         "absolute(scale(web.a,-1)) +60/60: 1 2 3 4 5"},
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
        {"consolidateBy(web.a, 'median')", "web.a +60/60: 1 2 3 4 5"},
        {"constantLine(2.5)", "2.5 +0/150: 2.5 2.5 2.5"},
        {"topKeys('web', 2)",
         "web.b +60/60: 10 20 30 40 50 | web.a +60/60: 1 2 3 4 5"},
        {"scale(topKeys('web', 1), 2)",
         "scale(web.b,2) +60/60: 20 40 60 80 100"},
        {"topKeys('nosuch', 1)", ""}};

    add_some(r);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *got = show_target(r, rows[i][0], SOME);

        if (strcmp(got, rows[i][1]) != 0)
            fail_msg("%s:\n  %s, not\n  %s", rows[i][0], got, rows[i][1]);
    }
}

CASE(a_constant_line_has_its_points_at_from_the_middle_and_until, r)
{
    const struct series *s;

    for (int64_t seconds = 2; seconds <= 3; seconds++) {
        (void)render_target(r, "constantLine(5)", DAY0, DAY0 + seconds, 0);
        s = first_result(r)->items[0];
        assert_int_equal(s->count, 3);
        assert_int_equal(series_time(s, 0), DAY0);
        assert_int_equal(series_time(s, 1), DAY0 + (seconds + 1) / 2);
        assert_int_equal(series_time(s, 2), DAY0 + seconds);
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
        add_sum(r, "n", names[i], DAY0, 1);
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        char target[96], got[64] = "";
        const struct series_list *list;

        (void)snprintf(target, sizeof target, "aliasByMetric(%s)",
                       orders[i][0]);
        (void)render_target(r, target, DAY0 - 60, DAY0, 0);
        list = first_result(r);
        for (size_t n = 0; n < list->count; n++)
            strncat(got, list->items[n]->name.at, list->items[n]->name.size);
        assert_string_equal(got, orders[i][1]);
    }
}

CASE(wrong_calls_are_refused_before_anything_is_read, r)
{
    static const char *const rows[][2] = {
        {"nosuch(web.a)", "unknown function: nosuch"},
        {"seriesByTag('a=b')", "countd has no tags: seriesByTag"},
        {"scale(web.a)", "scale: factor is missing"},
        {"scale(web.a, 1, 2)", "scale: at most 2 arguments"},
        {"absolute()", "absolute: seriesList is missing"},
        {"summarize(web.a)", "summarize: intervalString is missing"},
        {"aliasByNode(web.a)", "aliasByNode: nodes is missing"},
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
         "aliasSub: the regular expression: missing closing parenthesis, at "
         "byte 4"},
        {"aliasSub(web.a, 'w(.*)', '\\2')", "aliasSub: there is no group \\2"},
        {"grep(web.a, '*')", "grep: the regular expression: quantifier "},
        {"scale(web.a, by=2)", "scale: there is no parameter by"},
        {"scale(web.a, seriesList=web.b)", "scale: seriesList is there twice"},
        {"topKeys('web', 101)", "topKeys: n is 1 to 100"},
        {"timeShift(web.a, '1M')", "timeShift: timeShift is an interval"},
        {"movingAverage(web.a, 0)", "movingAverage: windowSize is a number"},
        {"movingAverage(web.a, 100000)",
         "100005 points, and 100000 are the limit"},
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
        const char *got = show_target(r, rows[i][0], SOME);

        if (strncmp(got, rows[i][1], strlen(rows[i][1])) != 0)
            fail_msg("%s: %s, not %s", rows[i][0], got, rows[i][1]);
        assert_int_equal(r->render.status, HTTP_BAD_REQUEST);
    }
}

/* As Python's re.sub() has them: names are UTF-8, all matches are replaced, and an
 * empty one behind another, too. */
CASE(regular_expressions_are_those_of_python, r)
{
    static const char *const rows[][4] = {
        {"b", "abc", "<\\0>", "a<b>c"},
        {"^b", "abc", "<\\0>", "abc"},
        {"^(.)", "\xc3\xa9t", "<\\0|\\1>", "<\xc3\xa9|\xc3\xa9>t"},
        {"[\xc3\xa0-\xc3\xbf]", "a\xc3\xa9", "<\\0>", "a<\xc3\xa9>"},
        {"[\\d.]+", "v1.2.3-x", "<\\0>", "v<1.2.3>-x"},
        {"\\w+$", "web.hits_1", "<\\0>", "web.<hits_1>"},
        {"(a|ab)(c|bcd)", "abcd", "<\\0|\\1|\\2>", "<abcd|a|bcd>"},
        {"a*", "baa", "<\\0>", "<>b<aa><>"},
        {"<.*?>", "<a><b>", "<\\0>", "<<a>><<b>>"},
        {"(a)|(b)", "b", "<\\0|\\1|\\2>", "<b||b>"},
        {"(?:a)(b)", "ab", "<\\0|\\1>", "<ab|b>"},
        {"a{0,2}?b", "aab", "<\\0>", "<aab>"},
        {"\\bit\\b", "with it", "<\\0>", "with <it>"},
        {"(?i)WEB", "aweb", "<\\0>", "a<web>"},
        {"(.)\\1", "abbc", "<\\0>", "a<bb>c"},
        {"(?<=b)a(?=c)", "acbac", "<\\0>", "acb<a>c"},
        {"x*", "\xc3\xa9", "<\\0>", "<>\xc3\xa9<>"}};

    add_some(r);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char target[256], want[64];

        (void)snprintf(target, sizeof target,
                       "aliasSub(alias(web.a, \"%s\"), \"%s\", \"%s\")",
                       rows[i][1], rows[i][0], rows[i][2]);
        (void)snprintf(want, sizeof want, "%s +60/60: 1 2 3 4 5", rows[i][3]);
        assert_string_equal(show_target(r, target, SOME), want);
    }
}

CASE(what_is_no_expression_or_takes_too_long_is_refused, r)
{
    static const char *const rows[] = {"(",
                                       "*",
                                       "[b-a]",
                                       "\\C",
                                       "((a{2000}){2000}){2000}",
                                       "(a|aa)*(a|aa)*[bc]"};

    add_some(r);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char target[512], name[240] = "";

        memset(name, 'a', sizeof name - 1);
        (void)snprintf(target, sizeof target, "grep(alias(web.a, '%s'), '%s')",
                       name, rows[i]);
        if (!strstr(show_target(r, target, SOME),
                    "grep: the regular expression"))
            fail_msg("%s: %s", rows[i], show_target(r, target, SOME));
        assert_int_equal(r->render.status, HTTP_BAD_REQUEST);
    }
}

CASE(functions_are_described, r)
{
    static char text[FUNCTIONS_JSON_MAX];
    struct json_writer w;

    json_write_init(&w, text, sizeof text);
    w.is_compact = true;
    functions_describe(&w);
    assert_true(json_write_size(&w) > 0);
    assert_has(
        text, "\"scale\":{\"name\":\"scale\",\"function\":\"scale(seriesList, "
              "factor)\",\"description\":\"Multiplies by a number.\","
              "\"module\":\"graphite.render.functions\",\"group\":"
              "\"Transform\",\"params\":[{\"name\":\"seriesList\",\"type\":"
              "\"seriesList\",\"required\":true},{\"name\":\"factor\",\"type\":"
              "\"float\",\"required\":true}]}");
    assert_has(text, "\"sum\":{\"name\":\"sum\"");
    assert_has(text, "\"multiple\":true");
    assert_has(text, "{\"name\":\"func\",\"type\":\"aggFunc\","
                     "\"default\":\"sum\",\"options\":[\"sum\",");
    assert_has(text, "{\"name\":\"consolidationFunc\",\"type\":\"string\","
                     "\"required\":true,\"options\":[\"sum\",\"average\",");
    assert_has(text, "{\"name\":\"alignToFrom\",\"type\":"
                     "\"boolean\",\"default\":false}");
}

/* The man page has each function of the table, with a blank behind it. */
CASE(the_man_page_has_each_function, r)
{
    static char page[65536];
    FILE *f = fopen("reader/countd-graphite.7", "re");
    size_t size;

    (void)r; /* nothing is rendered */
    assert_non_null(f);
    size = fread(page, 1, sizeof page - 1, f);
    assert_int_equal(fclose(f), 0);
    assert_in_range(size, 1, sizeof page - 2);
    page[size] = '\0';
    for (size_t i = 0; i < functions_count; i++) {
        char words[64];

        (void)snprintf(words, sizeof words, "Fn %s ", functions_table[i].name);
        if (!strstr(page, words))
            fail_msg("%s is missing", functions_table[i].name);
    }
}
