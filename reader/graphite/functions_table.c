/* reader/graphite/functions_table.c - what the functions compute, and the table
 * of them; see functions.h.
 *
 * A function names its series, combines several, chooses some of many or
 * changes values; functions_table[] at the end has the slots. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/functions.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- names -------------------------------------------------------------- */

/* Sets *name as printf does.  -ENOMEM. */
__attribute__((format(printf, 3, 4))) static int
set_name(struct function_call *call, struct target_text *name,
         const char *format, ...)
{
    va_list args;
    char *text;
    int size;

    va_start(args, format);
    size = vsnprintf(NULL, 0, format, args);
    va_end(args);
    text = scratch_take(call->scratch, (size_t)size + 1);
    if (!text)
        return -ENOMEM;
    va_start(args, format);
    (void)vsnprintf(text, (size_t)size + 1, format, args);
    va_end(args);
    *name = (struct target_text){text, (size_t)size};
    return 0;
}

/* FUNCTION(NAME) */
static int
wrap_name(struct function_call *call, struct series *s)
{
    return set_name(call, &s->name, "%s(%.*s)", call->function->name,
                    (int)s->name.size, s->name.at);
}

/* FUNCTION(ARGUMENTS AS WRITTEN) of the series of a parameter. */
static int
name_combined(struct function_call *call, const char *function, bool all,
              struct target_text *name)
{
    const struct target_node *first = call->values[0];
    char *text;
    size_t size = strlen(function) + 2;

    for (const struct target_node *v = first; v; v = all ? v->next : NULL)
        size += v->source.size + 1;
    text = scratch_take(call->scratch, size + 1);
    if (!text)
        return -ENOMEM;
    name->at = text;
    text = stpcpy(stpcpy(text, function), "(");
    for (const struct target_node *v = first; v; v = all ? v->next : NULL) {
        if (v != first)
            *text++ = ',';
        memcpy(text, v->source.at, v->source.size);
        text += v->source.size;
    }
    *text++ = ')';
    name->size = (size_t)(text - name->at);
    return 0;
}

/* The path within the name of what was computed: the first argument of its
 * innermost function. */
static struct target_text
path_of(const struct series *s)
{
    struct target_text path = s->path;
    size_t n = 0;

    while (n < path.size && path.at[n] != ',' && path.at[n] != ')') {
        if (path.at[n] == '(') {
            path.at += n + 1;
            path.size -= n + 1;
            n = 0;
        } else
            n++;
    }
    path.size = n;
    return path;
}

/* A node of a path, from its end for one below 0; empty if there is none. */
static struct target_text
node_of(struct target_text path, int64_t number)
{
    int64_t count = 1;
    const char *end = path.at + path.size, *dot;

    for (size_t i = 0; i < path.size; i++)
        count += path.at[i] == '.' ? 1 : 0;
    if (number < 0)
        number += count;
    if (number < 0 || number >= count)
        return (struct target_text){path.at, 0};
    for (; number > 0; number--)
        path.at =
            (const char *)memchr(path.at, '.', (size_t)(end - path.at)) + 1;
    dot = memchr(path.at, '.', (size_t)(end - path.at));
    path.size = (size_t)((dot ? dot : end) - path.at);
    return path;
}

static int
alias(struct function_call *call, struct series *s)
{
    s->name = call->values[1]->text;
    return 0;
}

static int
alias_by_node(struct function_call *call, struct series *s)
{
    const struct target_text path = path_of(s);
    const struct target_node *v;
    char *text;
    size_t size = 0;

    for (v = call->values[1]; v; v = v->next)
        size += node_of(path, v->whole).size + 1;
    text = scratch_take(call->scratch, size + 1);
    if (!text)
        return -ENOMEM;
    s->name.at = text;
    for (v = call->values[1]; v; v = v->next) {
        const struct target_text node = node_of(path, v->whole);

        if (v != call->values[1])
            *text++ = '.';
        memcpy(text, node.at, node.size);
        text += node.size;
    }
    s->name.size = (size_t)(text - s->name.at);
    return 0;
}

static int
alias_by_metric(struct function_call *call, struct series *s)
{
    (void)call;
    s->name = node_of(path_of(s), -1);
    return 0;
}

#define ALIAS_SUB_SEARCH "(^.*$)"

static const char *
check_alias_sub(const struct function_call *call)
{
    return target_text_is(call->values[1]->text, ALIAS_SUB_SEARCH)
               ? NULL
               : "only the search \"" ALIAS_SUB_SEARCH "\" is there";
}

/* Puts the name where the replacement has \1. */
static int
alias_sub(struct function_call *call, struct series *s)
{
    const struct target_text by = call->values[2]->text;
    size_t size = by.size;
    char *text;

    for (size_t i = 0; i + 1 < by.size; i++)
        size += by.at[i] == '\\' && by.at[i + 1] == '1' ? s->name.size : 0;
    text = scratch_take(call->scratch, size + 1);
    if (!text)
        return -ENOMEM;
    size = 0;
    for (size_t i = 0; i < by.size; i++) {
        if (by.at[i] == '\\' && i + 1 < by.size && by.at[i + 1] == '1') {
            memcpy(text + size, s->name.at, s->name.size);
            size += s->name.size;
            i++;
        } else
            text[size++] = by.at[i];
    }
    s->name = (struct target_text){text, size};
    return 0;
}

/* ---- combining ---------------------------------------------------------- */

static enum series_aggregate
aggregate_of(const struct target_node *v, enum series_aggregate usual)
{
    if (!v)
        return usual;
    switch (v->text.at[0] == 'm' ? v->text.at[1] : v->text.at[0]) {
    case 's':
        return SERIES_SUM;
    case 'l':
        return SERIES_LAST;
    case 'i':
        return SERIES_MIN;
    default:
        return v->text.at[0] == 'm' ? SERIES_MAX : SERIES_AVERAGE;
    }
}

static int
combine_into(struct function_call *call, struct series *to, struct series *from,
             enum series_aggregate how)
{
    if (!series_is_aligned(to, from)) {
        (void)snprintf(call->why, TARGET_WHY_SIZE,
                       "%s: series of different steps: summarize them first",
                       call->function->name);
        return -EINVAL;
    }
    series_combine(to, from, how);
    return 0;
}

static int
sum_each(struct function_call *call, struct series *s)
{
    return call->at == 0
               ? 0
               : combine_into(call, call->list.items[0], s, SERIES_SUM);
}

static int
sum_finish(struct function_call *call)
{
    struct series *s;
    int rc;

    if (call->list.count == 0)
        return 0;
    call->list.count = 1;
    s = call->list.items[0];
    rc = name_combined(call, "sumSeries", true, &s->name);
    s->path = s->name;
    return rc;
}

/* Counts the values of each point: what an average is divided by. */
static int
count_values(struct function_call *call, size_t group, const struct series *s)
{
    uint32_t *counts;

    if (!call->values_counts)
        call->values_counts =
            scratch_take(call->scratch, call->list.count * sizeof(uint32_t *));
    if (!call->values_counts)
        return -ENOMEM;
    if (!call->values_counts[group])
        call->values_counts[group] =
            scratch_take(call->scratch, s->count * sizeof *counts + 1);
    counts = call->values_counts[group];
    if (!counts)
        return -ENOMEM;
    for (size_t i = 0; i < s->count; i++)
        counts[i] += series_has(s, i) ? 1 : 0;
    return 0;
}

/* The index of the group with that name; a new one is empty. */
static size_t
find_group(const struct function_call *call, struct target_text name)
{
    size_t i = 0;

    while (i < call->made.count &&
           !target_text_equals(call->made.items[i]->name, name))
        i++;
    return i;
}

static int
group_each(struct function_call *call, struct series *s)
{
    const enum series_aggregate how =
        aggregate_of(call->values[2], SERIES_AVERAGE);
    const struct target_text name = node_of(path_of(s), call->values[1]->whole);
    const size_t group = find_group(call, name);
    int rc = 0;

    if (!call->made.items)
        call->made.items = scratch_take(
            call->scratch, call->list.count * sizeof(struct series *));
    if (!call->made.items)
        return -ENOMEM;
    if (group < call->made.count)
        rc = series_is_aligned(call->made.items[group], s) ? 0 : -EINVAL;
    if (how == SERIES_AVERAGE && rc == 0)
        rc = count_values(call, group, s);
    if (rc == -ENOMEM)
        return rc;
    if (group < call->made.count)
        return combine_into(call, call->made.items[group], s, how);
    s->name = name;
    call->made.items[call->made.count++] = s;
    return 0;
}

static int
group_finish(struct function_call *call)
{
    static const char *const names[] = {[SERIES_SUM] = "sumSeries",
                                        [SERIES_AVERAGE] = "averageSeries",
                                        [SERIES_MAX] = "maxSeries",
                                        [SERIES_MIN] = "minSeries"};
    const enum series_aggregate how =
        aggregate_of(call->values[2], SERIES_AVERAGE);
    struct target_text path;

    if (name_combined(call, names[how], false, &path) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < call->made.count; i++) {
        struct series *s = call->made.items[i];

        s->path = path;
        if (how != SERIES_AVERAGE)
            continue;
        series_make_real(s);
        for (size_t p = 0; p < s->count; p++)
            s->points.real[p] /= (double)call->values_counts[i][p];
    }
    call->list = call->made;
    return 0;
}

/* ---- choosing ----------------------------------------------------------- */

static int
keep_first(struct function_call *call, int64_t count)
{
    if (call->list.count > (size_t)count)
        call->list.count = (size_t)count;
    return 0;
}

static int
limit(struct function_call *call)
{
    return keep_first(call, call->values[1]->whole);
}

static int
rate(struct function_call *call, struct series *s)
{
    s->key = series_total(s, call->function->rated_by);
    return 0;
}

/* Sorts by key descending, equal ones in their order; the first n stay. */
static int
choose(struct function_call *call)
{
    const struct target_node *n = call->values[1];
    struct series **items = call->list.items;

    for (size_t i = 1; i < call->list.count; i++) {
        struct series *s = items[i];
        size_t from = 0, to = i;

        while (from < to) {
            const size_t middle = from + (to - from) / 2;

            if (items[middle]->key >= s->key)
                from = middle + 1;
            else
                to = middle;
        }
        memmove(items + from + 1, items + from, (i - from) * sizeof(void *));
        items[from] = s;
    }
    return call->function->params[1] ? keep_first(call, n ? n->whole : 1) : 0;
}

static const char *
check_top(const struct function_call *call)
{
    const int64_t n = call->values[1]->whole;

    if (call->values[0]->text.size == 0)
        return "the keyspace is empty";
    return n >= 1 && n <= FUNCTIONS_TOP_MAX ? NULL : "n is 1 to 100";
}

/* ---- values ------------------------------------------------------------- */

/* Multiplies, and divides by `seconds`: exactly, unless a value overflows
 * or is not divisible. */
static int
scale_by(struct function_call *call, struct series *s, int64_t seconds)
{
    const struct target_node *by = call->values[1];
    bool is_whole = by->is_whole && !s->is_real;
    int128 value;

    for (size_t i = 0; i < s->count && is_whole; i++)
        is_whole = !series_has(s, i) ||
                   (!__builtin_mul_overflow(s->points.whole[i],
                                            (int128)by->whole, &value) &&
                    value % seconds == 0 && value != SERIES_NONE);
    if (!is_whole)
        series_make_real(s);
    for (size_t i = 0; i < s->count; i++) {
        if (s->is_real)
            s->points.real[i] =
                s->points.real[i] * by->number / (double)seconds;
        else if (series_has(s, i))
            s->points.whole[i] = s->points.whole[i] * by->whole / seconds;
    }
    return set_name(call, &s->name, "%s(%.*s,%g)", call->function->name,
                    (int)s->name.size, s->name.at, by->number);
}

static int
scale(struct function_call *call, struct series *s)
{
    return scale_by(call, s, 1);
}

/* What points of one second each would have had. */
static int
scale_to_seconds(struct function_call *call, struct series *s)
{
    return scale_by(call, s, s->step);
}

static int
absolute(struct function_call *call, struct series *s)
{
    for (size_t i = 0; i < s->count; i++) {
        if (s->is_real)
            s->points.real[i] = fabs(s->points.real[i]);
        else if (series_has(s, i) && s->points.whole[i] < 0)
            s->points.whole[i] = -s->points.whole[i];
    }
    return wrap_name(call, s);
}

static int
integral(struct function_call *call, struct series *s)
{
    int128 whole = 0;
    double real = 0;

    for (size_t i = 0; i < s->count; i++) {
        if (!series_has(s, i))
            continue;
        if (s->is_real)
            s->points.real[i] = real += s->points.real[i];
        else
            s->points.whole[i] = whole =
                series_add_whole(whole, s->points.whole[i]);
    }
    return wrap_name(call, s);
}

/* What each point is more than the one before; none where it is less. */
static int
derive(struct function_call *call, struct series *s)
{
    double before_real = (double)NAN;
    int128 before = SERIES_NONE;

    for (size_t i = 0; i < s->count; i++) {
        if (s->is_real) {
            const double value = s->points.real[i];

            s->points.real[i] =
                value >= before_real ? value - before_real : (double)NAN;
            before_real = value;
        } else {
            const int128 value = s->points.whole[i];
            int128 more = SERIES_NONE;

            if (before != SERIES_NONE && value != SERIES_NONE &&
                value >= before && __builtin_sub_overflow(value, before, &more))
                more = -(SERIES_NONE + 1);
            s->points.whole[i] = more;
            before = value;
        }
    }
    return wrap_name(call, s);
}

static int
per_second(struct function_call *call, struct series *s)
{
    const int rc = derive(call, s);

    series_make_real(s);
    for (size_t i = 0; i < s->count; i++)
        s->points.real[i] /= (double)s->step;
    return rc;
}

static int
summarize(struct function_call *call, struct series *s)
{
    const enum series_aggregate how = aggregate_of(call->values[2], SERIES_SUM);
    const struct target_text interval = call->values[1]->text;
    const struct target_node *from_start = call->values[3];
    const bool is_from_start = from_start && from_start->truth;
    const struct target_text word = call->values[2]
                                        ? call->values[2]->text
                                        : (struct target_text){"sum", 3};

    series_summarize(s, call->interval > s->step ? call->interval : s->step,
                     how, is_from_start);
    return set_name(call, &s->name, "summarize(%.*s, \"%.*s\", \"%.*s\"%s)",
                    (int)s->name.size, s->name.at, (int)interval.size,
                    interval.at, (int)word.size, word.at,
                    is_from_start ? ", true" : "");
}

static int
constant_line(struct function_call *call)
{
    const struct target_node *v = call->values[0];
    const struct function_times *t = &call->times;
    struct series *s = series_new(call->scratch, 3);

    call->list.items = scratch_take(call->scratch, sizeof(struct series *));
    if (!s || !call->list.items)
        return -ENOMEM;
    s->start = t->from;
    s->step = (t->until - t->from + 1) / 2;
    s->last = t->until;
    s->name = s->path = v->source;
    for (size_t i = 0; i < s->count; i++)
        s->points.whole[i] = v->is_whole ? v->whole : 0;
    if (!v->is_whole) {
        series_make_real(s);
        for (size_t i = 0; i < s->count; i++)
            s->points.real[i] = v->number;
    }
    call->list.items[0] = s;
    call->list.count = 1;
    return 0;
}

/* ---- the table ---------------------------------------------------------- */

static const char *const group_options[] = {
    "average", "avg",       "averageSeries", "sum",       "sumSeries",
    "max",     "maxSeries", "min",           "minSeries", NULL};
static const char *const summarize_options[] = {"sum", "avg",  "average", "max",
                                                "min", "last", NULL};
static const char *const consolidate_options[] = {
    "sum", "avg", "average", "max", "min", "first", "last", NULL};

static const struct function_param
    series = {"seriesList", FUNCTION_SERIES, false, false, NULL},
    many_series = {"seriesLists", FUNCTION_SERIES, false, true, NULL},
    new_name = {"newName", FUNCTION_STRING, false, false, NULL},
    nodes = {"nodes", FUNCTION_NODE, false, true, NULL},
    search = {"search", FUNCTION_STRING, false, false, NULL},
    replace = {"replace", FUNCTION_STRING, false, false, NULL},
    node = {"nodeNum", FUNCTION_NODE, false, false, NULL},
    callback = {"callback", FUNCTION_AGGREGATE, true, false, group_options},
    factor = {"factor", FUNCTION_NUMBER, false, false, NULL},
    seconds = {"seconds", FUNCTION_NUMBER, false, false, NULL},
    interval = {"intervalString", FUNCTION_INTERVAL, false, false, NULL},
    func = {"func", FUNCTION_AGGREGATE, true, false, summarize_options},
    align = {"alignToFrom", FUNCTION_BOOL, true, false, NULL},
    n_or_1 = {"n", FUNCTION_COUNT, true, false, NULL},
    n = {"n", FUNCTION_COUNT, false, false, NULL},
    consolidation = {"consolidationFunc", FUNCTION_AGGREGATE, false, false,
                     consolidate_options},
    value = {"value", FUNCTION_NUMBER, false, false, NULL},
    keyspace = {"keyspace", FUNCTION_STRING, false, false, NULL};

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
PARAMS(of_top, &keyspace, &n);

const struct function functions_table[] = {
    {"alias", "Alias", "Names a series.", of_name, alias, NULL, NULL, 0},
    {"aliasByNode", "Alias",
     "Names series by nodes of their paths, from 0, or from -1 at the end.",
     of_nodes, alias_by_node, NULL, NULL, 0},
    {"aliasByMetric", "Alias", "Names series by the last node of their paths.",
     of_series, alias_by_metric, NULL, NULL, 0},
    {"aliasSub", "Alias",
     "Replaces a name; the search is \"(^.*$)\", and \\1 is the name.",
     of_search, alias_sub, NULL, check_alias_sub, 0},
    {"sumSeries", "Combine", "The sum of all series.", of_many, sum_each,
     sum_finish, NULL, 0},
    {"groupByNode", "Combine",
     "Combines series of which a node of the path is the same.", of_group,
     group_each, group_finish, NULL, 0},
    {"scale", "Transform", "Multiplies by a number.", of_factor, scale, NULL,
     NULL, 0},
    {"absolute", "Transform", "Values without their sign.", of_series, absolute,
     NULL, NULL, 0},
    {"scaleToSeconds", "Transform",
     "Increments per so many seconds: the rate of a series of countd.",
     of_seconds, scale_to_seconds, NULL, NULL, 0},
    {"integral", "Transform", "The running sum from the first point on.",
     of_series, integral, NULL, NULL, 0},
    {"perSecond", "Transform",
     "How much a running total grows in a second: for integral().", of_series,
     per_second, NULL, NULL, 0},
    {"nonNegativeDerivative", "Transform",
     "How much a running total grows in a step: for integral().", of_series,
     derive, NULL, NULL, 0},
    {"summarize", "Transform", "Combines the points of each interval into one.",
     of_interval, summarize, NULL, NULL, 0},
    {"highestMax", "Filter Series", "The n series with the largest maximum.",
     of_some, rate, choose, NULL, SERIES_MAX},
    {"highestCurrent", "Filter Series",
     "The n series with the largest last value.", of_some, rate, choose, NULL,
     SERIES_LAST},
    {"highestAverage", "Filter Series",
     "The n series with the largest average.", of_some, rate, choose, NULL,
     SERIES_AVERAGE},
    {"sortByTotal", "Sorting", "Series by their sums, the largest first.",
     of_series, rate, choose, NULL, SERIES_SUM},
    {"limit", "Filter Series", "The first n series.", of_first, NULL, limit,
     NULL, 0},
    {"consolidateBy", "Special",
     "Changes nothing: points are sums of their steps, whatever the step.",
     of_word, NULL, NULL, NULL, 0},
    {"constantLine", "Special", "A line at a value.", of_value, NULL,
     constant_line, NULL, 0},
    {"topKeys", "Filter Series",
     "The n keys of a keyspace with most increments in the time shown.", of_top,
     NULL, NULL, check_top, 0}};

const size_t functions_count =
    sizeof functions_table / sizeof functions_table[0];
