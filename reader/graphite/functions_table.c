/* reader/graphite/functions_table.c - the table of the functions; see
 * functions.h.
 *
 * First the parameters, {name, type, is_optional, is_multiple, options,
 * fallback}; then lists of them, PARAMS(), in the order of the arguments; then a
 * row for each function. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/functions_internal.h"

static const char *const group_options[] = {
    "average", "avg",       "averageSeries", "sum",       "sumSeries",
    "max",     "maxSeries", "min",           "minSeries", NULL};
static const char *const summarize_options[] = {"sum", "avg",  "average", "max",
                                                "min", "last", NULL};
static const char *const consolidate_options[] = {
    "sum", "avg", "average", "max", "min", "first", "last", NULL};

static const struct function_param
    series = {"seriesList", FUNCTION_SERIES, false, false, NULL, 0},
    many_series = {"seriesLists", FUNCTION_SERIES, false, true, NULL, 0},
    new_name = {"newName", FUNCTION_STRING, false, false, NULL, 0},
    nodes = {"nodes", FUNCTION_NODE, false, true, NULL, 0},
    search = {"search", FUNCTION_STRING, false, false, NULL, 0},
    replace = {"replace", FUNCTION_STRING, false, false, NULL, 0},
    node = {"nodeNum", FUNCTION_NODE, false, false, NULL, 0},
    callback = {"callback", FUNCTION_AGGREGATE, true, false, group_options, 0},
    factor = {"factor", FUNCTION_NUMBER, false, false, NULL, 0},
    seconds = {"seconds", FUNCTION_NUMBER, false, false, NULL, 0},
    interval = {"intervalString", FUNCTION_INTERVAL, false, false, NULL, 0},
    func = {"func", FUNCTION_AGGREGATE, true, false, summarize_options, 0},
    align = {"alignToFrom", FUNCTION_BOOL, true, false, NULL, 0},
    n_or_1 = {"n", FUNCTION_COUNT, true, false, NULL, 1},
    n = {"n", FUNCTION_COUNT, false, false, NULL, 0},
    consolidation = {"consolidationFunc",
                     FUNCTION_AGGREGATE,
                     false,
                     false,
                     consolidate_options,
                     0},
    value = {"value", FUNCTION_NUMBER, false, false, NULL, 0},
    total = {"total", FUNCTION_TOTAL, true, false, NULL, 0},
    dividends = {"dividendSeriesList", FUNCTION_SERIES, false, false, NULL, 0},
    divisor = {"divisorSeries", FUNCTION_DIVISOR, false, false, NULL, 0},
    null_value = {"default", FUNCTION_NUMBER, true, false, NULL, 0},
    gap = {"limit", FUNCTION_COUNT, true, false, NULL, INT32_MAX},
    callback_first = {"callback", FUNCTION_AGGREGATE, false,
                      false,      group_options,      0},
    positions = {"positions", FUNCTION_NODE, false, true, NULL, 0},
    natural = {"natural", FUNCTION_BOOL, true, false, NULL, 0},
    reverse = {"reverse", FUNCTION_BOOL, true, false, NULL, 0},
    align_interval = {"alignToInterval", FUNCTION_BOOL, true, false, NULL, 0},
    pattern = {"pattern", FUNCTION_STRING, false, false, NULL, 0},
    shift = {"timeShift", FUNCTION_SHIFT, false, false, NULL, 0},
    reset_end = {"resetEnd", FUNCTION_BOOL, true, false, NULL, 1},
    align_dst = {"alignDST", FUNCTION_BOOL, true, false, NULL, 0},
    window = {"windowSize", FUNCTION_WINDOW, false, false, NULL, 0},
    keyspace = {"keyspace", FUNCTION_STRING, false, false, NULL, 0};

#define PARAMS(name, ...)                                                      \
    static const struct function_param *const name[] = {__VA_ARGS__, NULL}

PARAMS(of_series, &series);
PARAMS(of_many, &many_series);
PARAMS(of_name, &series, &new_name);
PARAMS(of_nodes, &series, &nodes);
PARAMS(of_search, &series, &search, &replace);
PARAMS(of_group, &series, &node, &callback);
PARAMS(of_factor, &series, &factor);
PARAMS(of_seconds, &series, &seconds);
PARAMS(of_interval, &series, &interval, &func, &align);
PARAMS(of_some, &series, &n_or_1);
PARAMS(of_first, &series, &n);
PARAMS(of_word, &series, &consolidation);
PARAMS(of_value, &value);
PARAMS(of_total, &series, &total);
PARAMS(of_divisor, &dividends, &divisor);
PARAMS(of_null, &series, &null_value);
PARAMS(of_gap, &series, &gap);
PARAMS(of_group_nodes, &series, &callback_first, &nodes);
PARAMS(of_positions, &series, &positions);
PARAMS(of_names, &series, &natural, &reverse);
PARAMS(of_hits, &series, &interval, &align_interval);
PARAMS(of_pattern, &series, &pattern);
PARAMS(of_shift, &series, &shift, &reset_end, &align_dst);
PARAMS(of_window, &series, &window);
PARAMS(of_top, &keyspace, &n);

const struct function functions_table[] = {
    {"alias", "Alias", "Names a series.", of_name, .each = functions_alias},
    {"aliasByNode", "Alias",
     "Names series by nodes of their paths, from 0, or from -1 at the end.",
     of_nodes, .each = functions_alias_by_node},
    {"aliasByMetric", "Alias", "Names series by the last node of their paths.",
     of_series, .each = functions_alias_by_metric},
    {"aliasSub", "Alias",
     "Replaces what a regular expression finds in a name; \\1 is its group 1.",
     of_search, .each = functions_alias_sub,
     .check = functions_check_alias_sub},
    {"sumSeries", "Combine", "The sum of all series.", of_many,
     .each = functions_combine_each, .finish = functions_combine_finish,
     .how = SERIES_SUM},
    {"averageSeries", "Combine", "The average of the values of all series.",
     of_many, .each = functions_combine_each,
     .finish = functions_combine_finish, .how = SERIES_AVERAGE},
    {"maxSeries", "Combine", "The largest value of all series.", of_many,
     .each = functions_combine_each, .finish = functions_combine_finish,
     .how = SERIES_MAX},
    {"minSeries", "Combine", "The smallest value of all series.", of_many,
     .each = functions_combine_each, .finish = functions_combine_finish,
     .how = SERIES_MIN},
    {"groupByNode", "Combine",
     "Combines series of which a node of the path is the same.", of_group,
     .each = functions_group_each, .finish = functions_combine_finish},
    {"groupByNodes", "Combine",
     "Combines series of which some nodes of the path are the same.",
     of_group_nodes, .each = functions_group_nodes,
     .finish = functions_combine_finish},
    {"sumSeriesWithWildcards", "Combine",
     "Sums series whose paths are the same without some nodes.", of_positions,
     .each = functions_wildcards_each, .finish = functions_combine_finish,
     .how = SERIES_SUM},
    {"asPercent", "Combine",
     "Percent of a number, of a series or, if none is given, of the sum of "
     "all.",
     of_total, .each = functions_percent_each,
     .again = functions_percent_again},
    {"divideSeries", "Combine", "Values divided by those of one series.",
     of_divisor, .each = functions_divide},
    {"transformNull", "Transform", "A number where there is no value.", of_null,
     .each = functions_transform_null},
    {"keepLastValue", "Transform",
     "The value before, where there is none for at most so many points.",
     of_gap, .each = functions_keep_last},
    {"derivative", "Transform",
     "How much each value is more than the one before.", of_series,
     .each = functions_derivative},
    {"scale", "Transform", "Multiplies by a number.", of_factor,
     .each = functions_scale},
    {"absolute", "Transform", "Values without their sign.", of_series,
     .each = functions_absolute},
    {"scaleToSeconds", "Transform",
     "Increments per so many seconds: the rate of a series of countd.",
     of_seconds, .each = functions_scale_to_seconds},
    {"integral", "Transform", "The running sum from the first point on.",
     of_series, .each = functions_integral},
    {"perSecond", "Transform",
     "How much a running total grows in a second: for integral().", of_series,
     .each = functions_per_second},
    {"nonNegativeDerivative", "Transform",
     "How much a running total grows in a step: for integral().", of_series,
     .each = functions_derive},
    {"summarize", "Transform", "Combines the points of each interval into one.",
     of_interval, .each = functions_summarize, .scope = FUNCTION_SUMMARIZES},
    {"hitcount", "Transform",
     "What rates by second add up to in each interval, the last one whole.",
     of_hits, .each = functions_hitcount, .scope = FUNCTION_SUMMARIZES},
    {"timeShift", "Transform", "What was counted so long ago.", of_shift,
     .each = functions_time_shift, .scope = FUNCTION_SHIFTS},
    {"movingAverage", "Calculate",
     "The average of so many points, or so much time, before each point.",
     of_window, .each = functions_moving_average, .scope = FUNCTION_LOOKS_BACK},
    {"highestMax", "Filter Series", "The n series with the largest maximum.",
     of_some, .each = functions_rate, .finish = functions_choose,
     .how = SERIES_MAX},
    {"highestCurrent", "Filter Series",
     "The n series with the largest last value.", of_some,
     .each = functions_rate, .finish = functions_choose, .how = SERIES_LAST},
    {"highestAverage", "Filter Series",
     "The n series with the largest average.", of_some, .each = functions_rate,
     .finish = functions_choose, .how = SERIES_AVERAGE},
    {"sortByTotal", "Sorting", "Series by their sums, the largest first.",
     of_series, .each = functions_rate, .finish = functions_choose,
     .how = SERIES_SUM},
    {"sortByName", "Sorting", "Series by their names.", of_names,
     .finish = functions_sort_names},
    {"removeEmptySeries", "Filter Series", "Series that have a value.",
     of_series, .each = functions_rate_values, .finish = functions_keep_rated},
    {"grep", "Filter Series", "Series whose name a regular expression finds.",
     of_pattern, .each = functions_grep, .finish = functions_keep_rated,
     .check = functions_check_regular},
    {"exclude", "Filter Series",
     "Series whose name a regular expression does not find.", of_pattern,
     .each = functions_exclude, .finish = functions_keep_rated,
     .check = functions_check_regular},
    {"limit", "Filter Series", "The first n series.", of_first,
     .finish = functions_limit},
    {"consolidateBy", "Special",
     "Changes nothing: points are sums of their steps, whatever the step.",
     of_word, .each = NULL},
    {"constantLine", "Special", "A line at a value.", of_value,
     .finish = functions_constant_line},
    {"topKeys", "Filter Series",
     "The n keys of a keyspace with most increments in the time shown.", of_top,
     .check = functions_check_top}};

const size_t functions_count =
    sizeof functions_table / sizeof functions_table[0];
