/* reader/graphite/functions_ratio.c - asPercent and divideSeries, which divide
 * by a series; see functions_internal.h.
 *
 * The series to divide by is an argument's, and among those of the call. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/functions_internal.h"

#include <errno.h>

/* The series of the second argument; NULL: there is none. */
static const struct series_list *
divisors_of(const struct function_call *call)
{
    const struct target_node *v = call->values[1];

    return v && v->kind != TARGET_NUMBER ? v->result : NULL;
}

static bool
is_divisor(const struct function_call *call, const struct series *s)
{
    const struct series_list *divisors = divisors_of(call);

    return divisors && divisors->count > 0 && divisors->items[0] == s;
}

/* The one series to divide by.  NULL: there is none, or *rc is an error. */
static struct series *
find_divisor(struct function_call *call, int *rc)
{
    const struct series_list *divisors = divisors_of(call);

    *rc = 0;
    if (!divisors || divisors->count == 1)
        return divisors ? divisors->items[0] : call->total;
    if (divisors->count == 0)
        return NULL;
    *rc = functions_refuse(call,
                           "one series to divide by, not %zu: sum them first",
                           divisors->count);
    return NULL;
}

/* Values times a factor, divided by those of the divisor: none where it has
 * none, or 0. */
static int
divide_points(struct function_call *call, struct series *s, long double factor)
{
    int rc;
    const struct series *by = find_divisor(call, &rc);

    if (rc == 0 && by)
        rc = functions_check_aligned(call, s, by);
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
    return is_divisor(call, s) ? 0 : divide_points(call, s, 1);
}

/* The answer does not contain the divisor. */
int
functions_divide_finish(struct function_call *call)
{
    struct series_list *list = &call->list;
    size_t kept = 0;

    for (size_t i = 0; i < list->count; i++)
        if (!is_divisor(call, list->items[i]))
            list->items[kept++] = list->items[i];
    list->count = kept;
    return 0;
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
    rc = functions_check_aligned(call, call->total, s);
    if (rc == 0)
        series_combine(call->total, s, SERIES_SUM);
    return rc;
}

int
functions_percent_again(struct function_call *call, struct series *s)
{
    const struct target_node *v = call->values[1];

    if (is_divisor(call, s))
        return 0;
    if (!v || v->kind != TARGET_NUMBER)
        return divide_points(call, s, 100);
    for (size_t i = 0; i < s->count; i++)
        s->points[i] =
            v->number == 0 ? SERIES_NONE : s->points[i] * 100 / v->number;
    return functions_name_call(call, s, ",%Lg", v->number);
}
