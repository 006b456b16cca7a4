/* reader/graphite/functions_combine.c - functions that make one series of
 * several; see functions_internal.h.
 *
 * Entry points: functions_combine_each(), functions_group_each(),
 * functions_wildcards_each(), and what finishes them. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/functions_internal.h"

#include <errno.h>
#include <stdio.h>
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

int
functions_check_aligned(struct function_call *call, const struct series *a,
                        const struct series *b)
{
    if (a->count == b->count && a->start == b->start && a->step == b->step &&
        a->last == b->last)
        return 0;
    return functions_refuse(call,
                            "series of different steps: summarize them first");
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
    const size_t group = find_group(call, name);
    int rc = 0;

    if (!call->made.items)
        call->made.items = scratch_take(
            call->scratch, call->list.count * sizeof(struct series *));
    if (!call->made.items)
        return -ENOMEM;
    if (group < call->made.count)
        rc = functions_check_aligned(call, call->made.items[group], s);
    if (how == SERIES_AVERAGE && rc == 0)
        rc = count_values(call, group, s);
    if (rc < 0)
        return rc;
    if (group < call->made.count) {
        series_combine(call->made.items[group], s, how);
        return 0;
    }
    s->name = name;
    call->made.items[call->made.count++] = s;
    return 0;
}

/* The groups are the series of the call. */
int
functions_combine_finish(struct function_call *call)
{
    static const char *const names[] = {[SERIES_SUM] = "sumSeries",
                                        [SERIES_AVERAGE] = "averageSeries",
                                        [SERIES_MAX] = "maxSeries",
                                        [SERIES_MIN] = "minSeries"};
    const enum series_aggregate how = combined_how(call);
    const bool is_one = call->function->each == functions_combine_each;
    const bool has_paths = call->function->each == functions_wildcards_each;
    struct target_text path;
    int rc = functions_name_combined(call, names[how], is_one, &path);

    call->list = call->made;
    for (size_t i = 0; i < call->made.count && rc == 0; i++) {
        struct series *s = call->made.items[i];

        for (size_t p = 0; how == SERIES_AVERAGE && p < s->count; p++)
            s->points[p] /= call->values_counts[i][p];
        s->name = is_one ? path : s->name;
        s->path = has_paths ? s->name : path;
        rc = functions_show_name(call, s, s->name);
    }
    return rc;
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
    return add_to_group(
        call, s, functions_node(functions_path(s), call->values[1]->whole));
}

int
functions_group_nodes(struct function_call *call, struct series *s)
{
    struct target_text name;
    const int rc =
        functions_join_nodes(call, functions_path(s), call->values[2], &name);

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
