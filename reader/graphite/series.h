/* reader/graphite/series.h - a series of points: a name and a value for each
 * step, or none.
 *
 * Values are exact integers of 128 bits until something makes fractions of one
 * of them; then all of the series are doubles.  Sums beyond 128 bits saturate.
 *
 * Ownership: pieces of a scratch.  Pure.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_GRAPHITE_SERIES_H
#define COUNTD_READER_GRAPHITE_SERIES_H

#include <math.h>

#include "common/base/bytes.h"
#include "reader/graphite/scratch.h"
#include "reader/graphite/target.h"

/* The integer that stands for no value; no sum is as low. */
#define SERIES_NONE ((int128)((uint128)1 << 127))

struct series {
    struct target_text name;
    struct target_text path; /* tags.name of the answer */
    int64_t start, step;     /* seconds */
    int64_t last;            /* time of the last point, if it is another than
                                the step makes it; else 0 */
    size_t count;
    bool is_real;
    union {
        int128 *whole;
        double *real; /* NAN: none */
    } points;
    long double key; /* by which series are chosen */
    size_t order;    /* its place before they are sorted */
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

/* Makes fractions of its values possible. */
void series_make_real(struct series *s);

static inline bool
series_has(const struct series *s, size_t i)
{
    return s->is_real ? !isnan(s->points.real[i])
                      : s->points.whole[i] != SERIES_NONE;
}

/* A value that is there. */
static inline long double
series_value(const struct series *s, size_t i)
{
    return s->is_real ? (long double)s->points.real[i]
                      : (long double)s->points.whole[i];
}

static inline int64_t
series_time(const struct series *s, size_t i)
{
    return i + 1 == s->count && s->last != 0 ? s->last
                                             : s->start + (int64_t)i * s->step;
}

/* Adds, where both have none there is none; saturates. */
int128 series_add_whole(int128 a, int128 b);

/* Whether both have points at the same times. */
bool series_is_aligned(const struct series *a, const struct series *b);

/* Combines the points of `from` into those of `to`, which are at the same
 * times; an average is a sum at first. */
void series_combine(struct series *to, struct series *from,
                    enum series_aggregate how);

/* Combines the points of each `interval` seconds into one; `from_start`: the
 * intervals begin with the series, else with multiples of the interval. */
void series_summarize(struct series *s, int64_t interval,
                      enum series_aggregate how, bool from_start);

/* The sum, the maximum, ... of all values; -INFINITY: there are none. */
long double series_total(const struct series *s, enum series_aggregate how);

#endif
