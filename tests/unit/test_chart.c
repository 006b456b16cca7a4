/* tests/unit/test_chart.c - bars and sparklines, as they are drawn. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <math.h>
#include <string.h>

#include "common/client/cmd/cmd_terminal.h"
#include "tests/lib/random.h"

#define MANY 5000

#define NONE NAN /* no increments came */

static void
assert_spark(const double *sums, size_t count, unsigned width, bool utf8,
             const char *want)
{
    char line[CHART_LINE_SIZE];

    chart_spark(sums, count, width, utf8, line);
    assert_string_equal(line, want);
}

TEST(a_sparkline_is_as_high_as_the_sums)
{
    const double rising[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const double holes[] = {NONE, 70, NONE, 0, 10};
    const double below[] = {-7, 0, 7};
    const double same[] = {5, 5};
    const double zeros[] = {0, NONE, 0};

    assert_spark(rising, 8, 80, true,
                 "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588");
    assert_spark(rising, 8, 80, false, "_.:-=+*#");
    assert_spark(holes, 5, 80, false, " # _.");
    assert_spark(below, 3, 80, false, "_=#"); /* from the least on */
    assert_spark(same, 2, 80, false, "##");   /* from 0 on */
    assert_spark(zeros, 3, 80, false, "_ _");
    assert_spark(rising, 0, 80, false, "");
}

TEST(more_steps_than_columns_share_characters_by_their_mean)
{
    const double pairs[] = {0, 0, 0, 14, 14, NONE, 14, 14, NONE, NONE, 7};

    /* A last one of fewer steps is as high as its steps are. */
    assert_spark(pairs, 11, 6, false, "_==# =");
    assert_spark(pairs, 11, 1, false, "#");
}

TEST(a_line_fits_into_the_columns)
{
    static double sums[MANY];
    struct random r = {random_seed("chart")};
    char line[CHART_LINE_SIZE];

    for (size_t i = 0; i < MANY; i++)
        sums[i] = (double)random_below(&r, 1000) - 500;
    for (unsigned i = 0; i < 500; i++) {
        const size_t count = random_below(&r, MANY);
        const unsigned width = 1 + (unsigned)random_below(&r, CHART_WIDTH_MAX);

        chart_spark(sums, count, width, true, line);
        assert_true(strlen(line) <= (size_t)3 * width);
        assert_true(strlen(line) >= 3 * (count < width ? count : width / 2));
    }
}

TEST(a_bar_is_as_long_as_its_part_and_never_nothing)
{
    char bar[CHART_BAR_MAX + 1];

    chart_bar(10, 10, 8, bar);
    assert_string_equal(bar, "########");
    chart_bar(5, 10, 8, bar);
    assert_string_equal(bar, "####");
    chart_bar(-5, 10, 8, bar);
    assert_string_equal(bar, "----");
    chart_bar(1, 1e9, 8, bar);
    assert_string_equal(bar, "#");
    chart_bar(0, 10, 8, bar);
    assert_string_equal(bar, "");
    chart_bar(0, 0, 8, bar);
    assert_string_equal(bar, "");
    chart_bar(NONE, 8, 8, bar);
    assert_string_equal(bar, "");
}
