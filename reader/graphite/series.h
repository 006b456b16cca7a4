/* reader/graphite/series.h - a series of points: a name and a value for each
 * step, or none.
 *
 * Values are long doubles, in which every count is exact.
 *
 * Ownership: pieces of a scratch.  Pure.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_GRAPHITE_SERIES_H
#define COUNTD_READER_GRAPHITE_SERIES_H

#include <math.h>

#include "common/base/bytes.h"
#include "reader/graphite/target.h"
#include "reader/scratch.h"

#define SERIES_NONE      ((long double)NAN) /* no value */
#define SERIES_TEXT_SIZE 32

struct series {
    struct target_text name;
    struct target_text path; /* tags.name of the answer */
    int64_t start, step;     /* seconds */
    int64_t last;            /* time of the last point, if it is another than
                                the step makes it; else 0 */
    size_t count;
    long double *points;
    uint32_t *counts; /* values in each point, while it becomes an average */
    long double key;  /* by which series are chosen */
    size_t order;     /* its place before they are sorted */
};

struct series_list {
    struct series **items;
    size_t count;
};

enum series_aggregate {
    SERIES_SUM,
    SERIES_AVERAGE,
    SERIES_MAX,
    SERIES_MIN,
    SERIES_LAST
};

/* Returns a series of `count` points without values; NULL: no memory. */
struct series *series_new(struct scratch *scratch, size_t count);

static inline bool
series_has(const struct series *s, size_t i)
{
    return !isnan(s->points[i]);
}

static inline int64_t
series_time(const struct series *s, size_t i)
{
    return i + 1 == s->count && s->last != 0 ? s->last
                                             : s->start + (int64_t)i * s->step;
}

/* The sum of what is there. */
static inline long double
series_add(long double a, long double b)
{
    return isnan(a) ? b : isnan(b) ? a : a + b;
}

/* Writes a value: an integer with all its digits, a fraction with 17.  NULL:
 * there is none, or it is too large for a double. */
const char *series_text(long double value, char text[SERIES_TEXT_SIZE]);

/* Combines the points of `from` into those of `to`, which are at the same
 * times; an average is a sum at first. */
void series_combine(struct series *to, const struct series *from,
                    enum series_aggregate how);

/* Combines the points of each `interval` seconds into one; `from_start`: the
 * intervals begin with the series, else with multiples of the interval. */
void series_summarize(struct series *s, int64_t interval,
                      enum series_aggregate how, bool from_start);

/* The sum, the maximum, ... of all values; -INFINITY: there are none. */
long double series_total(const struct series *s, enum series_aggregate how);

#endif
