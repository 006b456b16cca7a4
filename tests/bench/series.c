/* tests/bench/series.c - see series.h. */
#include "tests/bench/series.h"

#include <stdlib.h>

void
series_add(struct series *s, double value)
{
    if (s->count < SERIES_MAX)
        s->at[s->count++] = value;
}

static int
by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double
rank(const struct series *s, size_t at)
{
    struct series sorted = *s;

    if (s->count == 0)
        return 0;
    qsort(sorted.at, sorted.count, sizeof sorted.at[0], by_size);
    return sorted.at[at];
}

double
series_median(const struct series *s)
{
    return rank(s, s->count / 2);
}

double
series_min(const struct series *s)
{
    return rank(s, 0);
}

double
series_max(const struct series *s)
{
    return rank(s, s->count > 0 ? s->count - 1 : 0);
}

double
series_ratio(const struct series *a, const struct series *b)
{
    struct series ratio = {.count = 0};
    size_t i;

    for (i = 0; i < a->count && i < b->count; i++)
        if (b->at[i] > 0)
            series_add(&ratio, a->at[i] / b->at[i]);
    return series_median(&ratio);
}
