/* tests/bench/figures.h - what several sides did in turn, round by round: their
 * medians, and what the first did in proportion to each of the others. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_BENCH_FIGURES_H
#define COUNTD_TESTS_BENCH_FIGURES_H

#include <stddef.h>
#include <stdint.h>

#define SERIES_MAX 128

/* One figure, measured in several rounds. */
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

/* How long each of many things took: times by size, 128 steps for each power
 * of two, 0.8 % apart. */
struct times {
    uint64_t count;
    uint64_t max;
    uint32_t at[64 * 128];
};

void times_note(struct times *t, uint64_t ns);
double times_percentile_us(const struct times *t, unsigned percent);

/* What one side did; none: it was not there. */
struct figures {
    struct series value, p50, p99, max; /* times in us */
};

/* `t` may be NULL. */
void figures_add(struct figures *f, double value, const struct times *t);

/* How figures are shown. */
struct table {
    const char *const *sides; /* their names, countd's first */
    size_t count;
    const char *unit;
    double scale; /* units of one of what was measured */
};

/* Prints a title, and a line for each side that was there: median, smallest and
 * largest, medians of times, and countd's to it. */
void figures_print(const char *title, const struct table *t,
                   const struct figures *f);

/* Does it, and adds a row for each side beside countd. */
void figures_report(const char *row, const struct table *t,
                    const struct figures *f);

/* Adds a row to the file that the environment's BENCH_TABLE names, if it names
 * one: what countd did, and what `beside` did in the same rounds, in `unit`,
 * and the ratio of the two as the program prints it.  The goals of rows are a
 * table in figures.c.  A ratio of nothing, which was not measured, makes no row.
 */
void report_row(const char *row, const char *unit, double countd,
                const char *beside, double other, double ratio);

#endif
