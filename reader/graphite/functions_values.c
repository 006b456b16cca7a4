/* reader/graphite/functions_values.c - functions that change values, or make
 * them; see functions_internal.h.
 *
 * Entry points: the slots of the table, functions_scale() to
 * functions_constant_line(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/functions_internal.h"

#include <errno.h>

static int
scale_by(struct function_call *call, struct series *s, int64_t seconds)
{
    const long double by = call->values[1]->number;

    for (size_t i = 0; i < s->count; i++)
        s->points[i] = s->points[i] * by / (long double)seconds;
    return functions_name_call(call, s, ",%Lg", by);
}

int
functions_scale(struct function_call *call, struct series *s)
{
    return scale_by(call, s, 1);
}

/* What points of one second each would have had. */
int
functions_scale_to_seconds(struct function_call *call, struct series *s)
{
    return scale_by(call, s, s->step);
}

int
functions_absolute(struct function_call *call, struct series *s)
{
    for (size_t i = 0; i < s->count; i++)
        s->points[i] = fabsl(s->points[i]);
    return functions_wrap_name(call, s);
}

int
functions_integral(struct function_call *call, struct series *s)
{
    long double sum = 0;

    for (size_t i = 0; i < s->count; i++)
        if (series_has(s, i))
            s->points[i] = sum += s->points[i];
    return functions_wrap_name(call, s);
}

/* What each point is more than the one before; with `only_more` none where it is
 * less. */
static int
derive_points(struct function_call *call, struct series *s, bool only_more)
{
    long double before = SERIES_NONE;

    for (size_t i = 0; i < s->count; i++) {
        const long double value = s->points[i];

        s->points[i] =
            !only_more || value >= before ? value - before : SERIES_NONE;
        before = value;
    }
    return functions_wrap_name(call, s);
}

int
functions_derivative(struct function_call *call, struct series *s)
{
    return derive_points(call, s, false);
}

int
functions_non_negative(struct function_call *call, struct series *s)
{
    return derive_points(call, s, true);
}

int
functions_per_second(struct function_call *call, struct series *s)
{
    const int rc = functions_non_negative(call, s);

    for (size_t i = 0; i < s->count; i++)
        s->points[i] /= (long double)s->step;
    return rc;
}

int
functions_transform_null(struct function_call *call, struct series *s)
{
    const struct target_node *v = call->values[1];
    const long double number = v ? v->number : 0;

    for (size_t i = 0; i < s->count; i++)
        if (!series_has(s, i))
            s->points[i] = number;
    return functions_name_call(call, s, ",%Lg", number);
}

/* Fills gaps of at most `limit` points behind a value, also the last one. */
int
functions_keep_last(struct function_call *call, struct series *s)
{
    const struct target_node *v = call->values[1];
    const uint64_t most = v ? (uint64_t)v->whole : UINT64_MAX;
    size_t gap = 0; /* points of it */

    for (size_t i = 0; i <= s->count; i++) {
        if (i < s->count && !series_has(s, i)) {
            gap++;
            continue;
        }
        for (size_t n = i - gap; gap <= most && i > gap && n < i; n++)
            s->points[n] = s->points[i - gap - 1];
        gap = 0;
    }
    return functions_wrap_name(call, s);
}

int
functions_constant_line(struct function_call *call)
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
        s->points[i] = v->number;
    call->list.items[0] = s;
    call->list.count = 1;
    return 0;
}
