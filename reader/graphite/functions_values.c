/* reader/graphite/functions_values.c - functions that change values, or make
 * them; see functions_internal.h.
 *
 * Entry points: the slots of the table, functions_scale() to
 * functions_constant_line(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/functions_internal.h"

#include <errno.h>
#include <math.h>

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
    return functions_name_call(call, s, ",%g", by->number);
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
    for (size_t i = 0; i < s->count; i++) {
        if (s->is_real)
            s->points.real[i] = fabs(s->points.real[i]);
        else if (series_has(s, i) && s->points.whole[i] < 0)
            s->points.whole[i] = -s->points.whole[i];
    }
    return functions_wrap_name(call, s);
}

int
functions_integral(struct function_call *call, struct series *s)
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
    return functions_wrap_name(call, s);
}

/* What each point is more than the one before; with `only_more` none where it is
 * less. */
static int
derive_points(struct function_call *call, struct series *s, bool only_more)
{
    double before_real = (double)NAN;
    int128 before = SERIES_NONE;

    for (size_t i = 0; i < s->count; i++) {
        if (s->is_real) {
            const double value = s->points.real[i];

            s->points.real[i] = !only_more || value >= before_real
                                    ? value - before_real
                                    : (double)NAN;
            before_real = value;
        } else {
            const int128 value = s->points.whole[i];
            int128 more = SERIES_NONE;

            if (before != SERIES_NONE && value != SERIES_NONE &&
                (!only_more || value >= before))
                more = series_add_whole(value, -before);
            s->points.whole[i] = more;
            before = value;
        }
    }
    return functions_wrap_name(call, s);
}

int
functions_derivative(struct function_call *call, struct series *s)
{
    return derive_points(call, s, false);
}

int
functions_derive(struct function_call *call, struct series *s)
{
    return derive_points(call, s, true);
}

int
functions_transform_null(struct function_call *call, struct series *s)
{
    const struct target_node *v = call->values[1];
    const double number = v ? v->number : 0;

    if (v && !v->is_whole)
        series_make_real(s);
    for (size_t i = 0; i < s->count; i++) {
        if (series_has(s, i))
            continue;
        if (s->is_real)
            s->points.real[i] = number;
        else
            s->points.whole[i] = v ? v->whole : 0;
    }
    return functions_name_call(call, s, ",%g", number);
}

static void
copy_point(struct series *s, size_t to, size_t from)
{
    if (s->is_real)
        s->points.real[to] = s->points.real[from];
    else
        s->points.whole[to] = s->points.whole[from];
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
            copy_point(s, n, i - gap - 1);
        gap = 0;
    }
    return functions_wrap_name(call, s);
}

int
functions_per_second(struct function_call *call, struct series *s)
{
    const int rc = functions_derive(call, s);

    series_make_real(s);
    for (size_t i = 0; i < s->count; i++)
        s->points.real[i] /= (double)s->step;
    return rc;
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
