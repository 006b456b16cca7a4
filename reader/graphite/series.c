/* reader/graphite/series.c - see series.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/series.h"

#include <stdio.h>

struct series *
series_new(struct scratch *scratch, size_t count)
{
    struct series *s = scratch_take(scratch, sizeof *s);

    if (!s)
        return NULL;
    s->count = count;
    s->points = scratch_take(scratch, (count + 1) * sizeof *s->points);
    if (!s->points)
        return NULL;
    for (size_t i = 0; i < count; i++)
        s->points[i] = SERIES_NONE;
    return s;
}

const char *
series_text(long double value, char text[SERIES_TEXT_SIZE])
{
    const long double beyond = 9223372036854775808.0L; /* 64 bits */

    if (!isfinite((double)value))
        return NULL;
    if (value >= -beyond && value < beyond &&
        value == (long double)(int64_t)value)
        *decimal_put_signed((uint8_t *)text, (int64_t)value) = '\0';
    else
        (void)snprintf(text, SERIES_TEXT_SIZE, "%.17g",
                       (double)value); /* 24 bytes fit */
    return text;
}

static long double
combine_values(long double a, long double b, enum series_aggregate how)
{
    if (isnan(a) || isnan(b))
        return isnan(a) ? b : a;
    if (how == SERIES_SUM || how == SERIES_AVERAGE)
        return a + b;
    if (how == SERIES_LAST)
        return b;
    return (how == SERIES_MAX) == (a > b) ? a : b;
}

void
series_combine(struct series *to, const struct series *from,
               enum series_aggregate how)
{
    for (size_t i = 0; i < to->count; i++)
        to->points[i] = combine_values(to->points[i], from->points[i], how);
}

/* Combines the points from `from` up to `to` into one. */
static long double
combine_span(const struct series *s, size_t from, size_t to,
             enum series_aggregate how)
{
    long double all = SERIES_NONE;
    size_t values = 0;

    for (size_t i = from; i < to; i++) {
        values += series_has(s, i);
        all = combine_values(all, s->points[i], how);
    }
    return how == SERIES_AVERAGE ? all / (long double)values : all;
}

void
series_summarize(struct series *s, int64_t interval, enum series_aggregate how,
                 bool from_start)
{
    const int64_t first =
        from_start ? s->start : s->start / interval * interval;
    size_t from = 0, out = 0;

    while (from < s->count) {
        const int64_t end = first + ((int64_t)out + 1) * interval;
        size_t to = from;

        while (to < s->count && series_time(s, to) < end)
            to++;
        s->points[out++] = combine_span(s, from, to, how);
        from = to;
    }
    s->start = first;
    s->step = interval;
    s->last = 0;
    s->count = out;
}

long double
series_total(const struct series *s, enum series_aggregate how)
{
    const long double total = combine_span(s, 0, s->count, how);

    return isnan(total) ? (long double)-INFINITY : total;
}
