/* reader/graphite/functions_combine.c - functions that make one series of
 * several, or divide by one; see functions_internal.h.
 *
 * Entry points: functions_combine_each(), functions_group_each(),
 * functions_wildcards_each(), then functions_combine_again(); functions_divide(),
 * functions_percent_each(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/functions_internal.h"

#include <errno.h>
#include <string.h>

enum series_aggregate
functions_aggregate(const struct target_node *v, enum series_aggregate usual)
{
    static const char *const words[] = {[SERIES_SUM] = "sum",
                                        [SERIES_AVERAGE] = "av",
                                        [SERIES_MAX] = "max",
                                        [SERIES_MIN] = "min",
                                        [SERIES_LAST] = "last"};

    /* sum, or sumSeries: the options have been checked. */
    for (unsigned i = 0; v && i < sizeof words / sizeof words[0]; i++)
        if (bytes_begin(v->text.at, v->text.size, words[i], strlen(words[i])))
            return (enum series_aggregate)i;
    return usual;
}

/* Whether both have points at the same times: 0 or -EINVAL. */
static int
check_aligned(struct function_call *call, const struct series *a,
              const struct series *b)
{
    if (a->count == b->count && a->start == b->start && a->step == b->step &&
        a->last == b->last)
        return 0;
    return functions_refuse(call,
                            "series of different steps: summarize them first");
}

/* Counts the values of each point of a group: what an average is divided by. */
static int
count_values(struct function_call *call, struct series *group,
             const struct series *s)
{
    if (!group->counts)
        group->counts =
            scratch_take(call->scratch, s->count * sizeof *group->counts);
    if (!group->counts)
        return -ENOMEM;
    for (size_t i = 0; i < s->count; i++)
        group->counts[i] += series_has(s, i) ? 1 : 0;
    return 0;
}

/* The group with that name; NULL: there is none so far. */
static struct series *
find_group(const struct function_call *call, struct target_text name)
{
    for (size_t i = 0; i < call->made.count; i++)
        if (target_text_equals(call->made.items[i]->name, name))
            return call->made.items[i];
    return NULL;
}

/* How series are combined: as a word of an argument says, or always. */
static enum series_aggregate
combined_how(const struct function_call *call)
{
    const struct function *f = call->function;

    for (unsigned i = 0; f->params[i]; i++)
        if (f->params[i]->type == FUNCTION_AGGREGATE)
            return functions_aggregate(call->values[i], SERIES_AVERAGE);
    return f->how;
}

/* Combines a series with those of the same name. */
static int
add_to_group(struct function_call *call, struct series *s,
             struct target_text name)
{
    const enum series_aggregate how = combined_how(call);
    struct series *group = find_group(call, name);
    int rc = 0;

    if (!call->made.items)
        call->made.items = scratch_take(
            call->scratch, call->list.count * sizeof(struct series *));
    if (!call->made.items)
        return -ENOMEM;
    if (group)
        rc = check_aligned(call, group, s);
    if (how == SERIES_AVERAGE && rc == 0)
        rc = count_values(call, group ? group : s, s);
    if (rc < 0)
        return rc;
    if (group) {
        series_combine(group, s, how);
        return 0;
    }
    s->name = name;
    call->made.items[call->made.count++] = s;
    return 0;
}

/* A group is a series of the call. */
int
functions_combine_again(struct function_call *call, struct series *s)
{
    static const char *const names[] = {[SERIES_SUM] = "sumSeries",
                                        [SERIES_AVERAGE] = "averageSeries",
                                        [SERIES_MAX] = "maxSeries",
                                        [SERIES_MIN] = "minSeries"};
    const bool is_one = call->function->each == functions_combine_each;
    const bool has_paths = call->function->each == functions_wildcards_each;
    struct target_text *path = &call->made_path;
    int rc = 0;

    if (!path->at)
        rc = functions_name_combined(call, names[combined_how(call)], is_one,
                                     path);
    if (rc < 0)
        return rc;
    for (size_t i = 0; s->counts && i < s->count; i++)
        s->points[i] /= s->counts[i];
    s->counts = NULL;
    s->name = is_one ? *path : s->name;
    s->path = has_paths ? s->name : *path;
    return functions_show_name(call, s, s->name);
}

int
functions_combine_each(struct function_call *call, struct series *s)
{
    return add_to_group(call, s, (struct target_text){"", 0});
}

/* ---- groups by nodes ------------------------------------------------------ */

int
functions_group_each(struct function_call *call, struct series *s)
{
    const struct target_node *second = call->values[1];
    struct target_text name;
    const int rc = functions_join_nodes(
        call, functions_path(s),
        second->kind == TARGET_NUMBER ? second : call->values[2], &name);

    return rc < 0 ? rc : add_to_group(call, s, name);
}

/* Whether a node is one that arguments number. */
static bool
is_numbered(const struct target_node *first, int64_t number)
{
    const struct target_node *v = first;

    while (v && v->whole != number)
        v = v->next;
    return v != NULL;
}

/* Adds a series to those whose path is the same without some nodes. */
int
functions_wildcards_each(struct function_call *call, struct series *s)
{
    const struct target_text path = functions_path(s);
    struct function_text t = {.call = call};

    for (int64_t i = 0; functions_node(path, i).size > 0; i++) {
        const struct target_text node = functions_node(path, i);

        if (is_numbered(call->values[1], i))
            continue;
        functions_append(&t, ".", t.size > 0 ? 1 : 0);
        functions_append(&t, node.at, node.size);
    }
    return t.rc < 0
               ? t.rc
               : add_to_group(call, s,
                              (struct target_text){t.at ? t.at : "", t.size});
}

/* ---- dividing -------------------------------------------------------------- */

/* The one series to divide by, which is an argument's, and not among those of the
 * call.  NULL: there is none, or *rc is an error. */
static const struct series *
find_divisor(struct function_call *call, int *rc)
{
    const struct target_node *v = call->values[1];
    const struct series_list *divisors = v ? v->result : NULL;

    *rc = 0;
    if (!divisors)
        return call->total;
    if (divisors->count > 1)
        *rc = functions_refuse(
            call, "one series to divide by, not %zu: sum them first",
            divisors->count);
    return divisors->count == 1 ? divisors->items[0] : NULL;
}

/* Values times a factor, divided by those of the divisor: none where it has
 * none, or 0. */
static int
divide_points(struct function_call *call, struct series *s, long double factor)
{
    int rc;
    const struct series *by = find_divisor(call, &rc);

    if (rc == 0 && by)
        rc = check_aligned(call, s, by);
    if (rc < 0)
        return rc;
    for (size_t i = 0; i < s->count; i++)
        s->points[i] = by && by->points[i] != 0
                           ? s->points[i] * factor / by->points[i]
                           : SERIES_NONE;
    return functions_name_call(call, s, ",%.*s", by ? (int)by->name.size : 7,
                               by ? by->name.at : "MISSING");
}

int
functions_divide(struct function_call *call, struct series *s)
{
    return divide_points(call, s, 1);
}

/* Adds up what all others are a part of, if it is not given. */
int
functions_percent_each(struct function_call *call, struct series *s)
{
    int rc;

    if (call->values[1])
        return 0;
    if (!call->total) {
        call->total = series_new(call->scratch, s->count);
        if (!call->total)
            return -ENOMEM;
        call->total->start = s->start;
        call->total->step = s->step;
        call->total->last = s->last;
        rc = functions_name_combined(call, "sumSeries", false,
                                     &call->total->path);
        if (rc == 0)
            rc = functions_show_name(call, call->total, call->total->path);
        if (rc < 0)
            return rc;
    }
    rc = check_aligned(call, call->total, s);
    if (rc == 0)
        series_combine(call->total, s, SERIES_SUM);
    return rc;
}

int
functions_percent_again(struct function_call *call, struct series *s)
{
    const struct target_node *v = call->values[1];

    if (!v || v->kind != TARGET_NUMBER)
        return divide_points(call, s, 100);
    for (size_t i = 0; i < s->count; i++)
        s->points[i] =
            v->number == 0 ? SERIES_NONE : s->points[i] * 100 / v->number;
    return functions_name_call(call, s, ",%Lg", v->number);
}
