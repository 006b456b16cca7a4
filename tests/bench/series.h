/* tests/bench/series.h - one figure, measured in several rounds. */
#ifndef COUNTD_TESTS_BENCH_SERIES_H
#define COUNTD_TESTS_BENCH_SERIES_H

#include <stddef.h>

#define SERIES_MAX 32

struct series {
    double at[SERIES_MAX]; /* in the order of the rounds */
    size_t count;
};

/* More than SERIES_MAX are dropped. */
void series_add(struct series *s, double value);

/* 0 of an empty one. */
double series_median(const struct series *s);
double series_min(const struct series *s);
double series_max(const struct series *s);

/* Median of a / b, round by round. */
double series_ratio(const struct series *a, const struct series *b);

#endif
