/* tests/unit/test_chart.c - bars and sparklines, as they are drawn. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <string.h>

#include "common/client/cmd/cmd_terminal.h"
#include "tests/lib/random.h"

#define MANY 5000

/* Buckets of small sums; NONE: no increments came. */
#define NONE INT64_MIN

static struct countd_bucket
bucket(int64_t sum)
{
    const bool any = sum != NONE;

    return (struct countd_bucket){.sum = {.value = any ? sum : 0,
                                          .high = any && sum < 0 ? -1 : 0,
                                          .low = any ? (uint64_t)sum : 0,
                                          .any = any}};
}

static void
assert_spark(const int64_t *sums, size_t count, unsigned width, bool utf8,
             const char *want)
{
    struct countd_bucket buckets[32];
    char line[CHART_LINE_SIZE];

    for (size_t i = 0; i < count; i++)
        buckets[i] = bucket(sums[i]);
    chart_spark(buckets, count, width, utf8, line);
    assert_string_equal(line, want);
}

TEST(a_sparkline_is_as_high_as_the_sums)
{
    const int64_t rising[] = {0, 1, 2, 3, 4, 5, 6, 7};
    const int64_t holes[] = {NONE, 70, NONE, 0, 10};
    const int64_t below[] = {-7, 0, 7};
    const int64_t same[] = {5, 5};
    const int64_t zeros[] = {0, NONE, 0};

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
    const int64_t pairs[] = {0, 0, 0, 14, 14, NONE, 14, 14, NONE, NONE, 7};

    /* A last one of fewer steps is as high as its steps are. */
    assert_spark(pairs, 11, 6, false, "_==# =");
    assert_spark(pairs, 11, 1, false, "#");
}

TEST(a_line_fits_into_the_columns)
{
    static struct countd_bucket buckets[MANY];
    struct random r = {random_seed("chart")};
    char line[CHART_LINE_SIZE];

    for (size_t i = 0; i < MANY; i++)
        buckets[i] = bucket((int64_t)random_below(&r, 1000) - 500);
    for (unsigned i = 0; i < 500; i++) {
        const size_t count = random_below(&r, MANY);
        const unsigned width = 1 + (unsigned)random_below(&r, CHART_WIDTH_MAX);

        chart_spark(buckets, count, width, true, line);
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
}

TEST(a_sum_beyond_64_bits_has_its_size)
{
    const struct countd_sum sum = {
        .value = INT64_MAX, .high = 3, .low = 0, .any = true};

    assert_true(chart_value(&sum) > 5.5e19 && chart_value(&sum) < 5.6e19);
}
