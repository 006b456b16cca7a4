/* reader/graphite/series.c - see series.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/series.h"

struct series *
series_new(struct scratch *scratch, size_t count)
{
    struct series *s = scratch_take(scratch, sizeof *s);

    if (!s)
        return NULL;
    s->count = count;
    s->points.whole =
        scratch_take(scratch, (count + 1) * sizeof *s->points.whole);
    if (!s->points.whole)
        return NULL;
    for (size_t i = 0; i < count; i++)
        s->points.whole[i] = SERIES_NONE;
    return s;
}

void
series_make_real(struct series *s)
{
    const int128 *whole = s->points.whole;

    if (s->is_real)
        return;
    /* In place, from the first on: a double is the smaller of the two. */
    for (size_t i = 0; i < s->count; i++) {
        const int128 value = whole[i];
        const double real = value == SERIES_NONE ? (double)NAN : (double)value;

        memcpy((uint8_t *)s->points.whole + i * sizeof real, &real,
               sizeof real);
    }
    s->is_real = true;
}

int128
series_add_whole(int128 a, int128 b)
{
    int128 sum;

    if (a == SERIES_NONE || b == SERIES_NONE)
        return a == SERIES_NONE ? b : a;
    if (!__builtin_add_overflow(a, b, &sum) && sum != SERIES_NONE)
        return sum;
    return a < 0 ? SERIES_NONE + 1 : -(SERIES_NONE + 1);
}

bool
series_is_aligned(const struct series *a, const struct series *b)
{
    return a->count == b->count && a->start == b->start && a->step == b->step &&
           a->last == b->last;
}

static int128
combine_whole(int128 a, int128 b, enum series_aggregate how)
{
    if (how == SERIES_SUM || how == SERIES_AVERAGE)
        return series_add_whole(a, b);
    if (a == SERIES_NONE || b == SERIES_NONE)
        return a == SERIES_NONE ? b : a;
    if (how == SERIES_LAST)
        return b;
    return (how == SERIES_MAX) == (a > b) ? a : b;
}

static double
combine_real(double a, double b, enum series_aggregate how)
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
series_combine(struct series *to, struct series *from,
               enum series_aggregate how)
{
    if (to->is_real || from->is_real) {
        series_make_real(to);
        series_make_real(from);
        for (size_t i = 0; i < to->count; i++)
            to->points.real[i] =
                combine_real(to->points.real[i], from->points.real[i], how);
        return;
    }
    for (size_t i = 0; i < to->count; i++)
        to->points.whole[i] =
            combine_whole(to->points.whole[i], from->points.whole[i], how);
}

/* Combines the points from `from` up to `to` into the one at `out`, which is
 * not after them. */
static void
combine_span(struct series *s, size_t from, size_t to, size_t out,
             enum series_aggregate how)
{
    size_t values = 0;

    if (s->is_real) {
        double sum = (double)NAN;

        for (size_t i = from; i < to; i++) {
            values += series_has(s, i);
            sum = combine_real(sum, s->points.real[i], how);
        }
        s->points.real[out] =
            how == SERIES_AVERAGE ? sum / (double)values : sum;
    } else {
        int128 sum = SERIES_NONE;

        for (size_t i = from; i < to; i++)
            sum = combine_whole(sum, s->points.whole[i], how);
        s->points.whole[out] = sum;
    }
}

void
series_summarize(struct series *s, int64_t interval, enum series_aggregate how,
                 bool from_start)
{
    const int64_t first =
        from_start ? s->start : s->start / interval * interval;
    size_t from = 0, out = 0;

    if (how == SERIES_AVERAGE)
        series_make_real(s);
    while (from < s->count) {
        const int64_t end = first + ((int64_t)out + 1) * interval;
        size_t to = from;

        while (to < s->count && series_time(s, to) < end)
            to++;
        combine_span(s, from, to, out++, how);
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
    long double total = -INFINITY;
    size_t values = 0;

    for (size_t i = 0; i < s->count; i++) {
        const long double value = series_has(s, i) ? series_value(s, i) : 0;

        if (!series_has(s, i))
            continue;
        if (values++ > 0 && (how == SERIES_SUM || how == SERIES_AVERAGE))
            total += value;
        else if (values == 1 || how == SERIES_LAST ||
                 (how == SERIES_MAX) == (value > total))
            total = value;
    }
    return how == SERIES_AVERAGE && values > 0 ? total / (long double)values
                                               : total;
}
