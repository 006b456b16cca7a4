/* reader/graphite/functions_ratio.c - asPercent and divideSeries, which divide
 * by a series; see functions_internal.h.
 *
 * The series to divide by is an argument's, and not among those of the call. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/functions_internal.h"

#include <errno.h>

/* The one series to divide by.  NULL: there is none, or *rc is an error. */
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
    rc = functions_check_aligned(call, call->total, s);
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
