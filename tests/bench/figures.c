/* tests/bench/figures.c - see figures.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/bench/figures.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- series ------------------------------------------------------------- */

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
value_at(const struct series *s, size_t at)
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
    return value_at(s, s->count / 2);
}

double
series_min(const struct series *s)
{
    return value_at(s, 0);
}

double
series_max(const struct series *s)
{
    return value_at(s, s->count > 0 ? s->count - 1 : 0);
}

double
series_ratio(const struct series *a, const struct series *b)
{
    struct series ratio = {.count = 0};

    for (size_t i = 0; i < a->count && i < b->count; i++)
        if (b->at[i] > 0)
            series_add(&ratio, a->at[i] / b->at[i]);
    return series_median(&ratio);
}

/* ---- times -------------------------------------------------------------- */

void
times_note(struct times *t, uint64_t ns)
{
    const unsigned shift =
        ns < 128 ? 0 : 63 - (unsigned)__builtin_clzll(ns) - 6;

    t->at[shift * 128 + (unsigned)((ns >> shift) & 127)]++;
    t->count++;
    if (ns > t->max)
        t->max = ns;
}

double
times_percentile_us(const struct times *t, unsigned percent)
{
    uint64_t seen = 0, want = t->count * percent / 100;

    for (unsigned i = 0; i < sizeof t->at / sizeof t->at[0]; i++) {
        seen += t->at[i];
        if (seen > want)
            return (double)((uint64_t)(i % 128) << (i / 128)) / 1e3;
    }
    return (double)t->max / 1e3;
}

/* ---- figures ------------------------------------------------------------ */

void
figures_add(struct figures *f, double value, const struct times *t)
{
    series_add(&f->value, value);
    if (t) {
        series_add(&f->p50, times_percentile_us(t, 50));
        series_add(&f->p99, times_percentile_us(t, 99));
        series_add(&f->max, (double)t->max / 1e3);
    }
}

void
figures_print(const char *title, const struct table *t, const struct figures *f)
{
    printf("%s\n", title);
    for (size_t i = 0; i < t->count; i++) {
        const struct series *s = &f[i].value;

        if (s->count == 0)
            continue;
        printf("  %-24s %10.3f %s  (%.3f..%.3f)", t->sides[i],
               series_median(s) * t->scale, t->unit, series_min(s) * t->scale,
               series_max(s) * t->scale);
        if (f[i].p50.count > 0)
            printf("  p50 %.1f  p99 %.1f  max %.0f us",
                   series_median(&f[i].p50), series_median(&f[i].p99),
                   series_median(&f[i].max));
        if (i > 0)
            printf("  %s/this %.3g", t->sides[0], series_ratio(&f[0].value, s));
        if (i > 0 && f[i].p99.count > 0)
            printf(", p99 %.2f", series_ratio(&f[0].p99, &f[i].p99));
        printf("\n");
    }
}

void
figures_report(const char *row, const struct table *t, const struct figures *f)
{
    const double countd = series_median(&f[0].value) * t->scale;

    figures_print(row, t, f);
    for (size_t i = 1; i < t->count; i++)
        if (f[i].value.count > 0)
            report_row(row, t->unit, countd, t->sides[i],
                       series_median(&f[i].value) * t->scale,
                       series_ratio(&f[0].value, &f[i].value));
}

/* ---- the table ---------------------------------------------------------- */

/* What the ratio of a row should be: at least, or at most where less is better.
 */
struct goal {
    const char *row, *beside;
    bool at_most;
    double ratio;
};

static const struct goal goals[] = {
    {"acknowledged, 50 x 16", "ceiling, group commit", false, 0.95},
    {"acknowledged, 4 x 512", "ceiling, group commit", false, 0.95},
    {"silent", "ceiling, slots", false, 0.95},
    {"silent", "ceiling, empty slots", false, 0.9},
    {"range first, 50 x 16", "ceiling", false, 0.9},
    {"range first, 1 x 16", "ceiling", false, 0.9},
    {"range first, 50 x 1", "ceiling", false, 0.9},
    {"pairs, 50 connections, depth 16, free", "ceiling", false, 0.97},
    {"pairs, 1 connection, depth 64, free", "ceiling", false, 0.95},
    {"pairs, 1 connection, depth 64, one CPU", "ceiling", false, 0.95},
    {"create names, free", "ceiling", false, 0.5},
    {"Dump of all, free", "ceiling", true, 1.2},
    {"durable /apply, 50 x 16", "fixed reply, synced", false, 0.9},
    {"durable /apply, 50 x 16, p99", "fixed reply, synced", true, 1.3},
    {"merge of 100 k keys", "plain LMDB entries", true, 0.2},
    {"file", "packed rows", true, 1.5},
    {"merge with history", "without", true, 1.1},
    {"top of the running day", "5 ms", true, 1},
    {"top of a prefix of 200 keys", "1 ms", true, 1},
    {"top of groups of 200k keys", "40 ms", true, 1},
    {"a range beside long questions, p99", "5 ms", true, 1},
    {"/v1/get beside long questions, p99", "5 ms", true, 1},
    {"ZSCORE beside long questions, p99", "5 ms", true, 1},
    {"file beside a long question", "short questions", true, 1.1},
    {"board, 2 processes, 1000 rows", "a lock and copies", false, 2},
    {"many keyspaces, created", "8 s for 9,000", true, 1},
    {"many keyspaces, again", "4 s for 9,000", true, 1},
    {"one beside many, created", "2 s", true, 1},
    {"one beside many, again", "2 s", true, 1},
    {"readable p50, one each 300 ms", "merge_share = 0", true, 0.05},
    {"readable p50, 50/s", "merge_share = 0", true, 0.1},
    {"readable p50, 1,000/s acked", "merge_share = 0", true, 0.1},
    {"readable p50, 100,000/s silent", "merge_share = 0", true, 0.4},
    {"readable p50, 20,000/s acked, 100 keyspaces", "merge_share = 0", true,
     0.4},
    {"readable p50, 3,000/s in 3,000 keyspaces", "merge_share = 0", true, 1.05},
    {"readable p50, 9,000/s in 9,000 keyspaces", "merge_share = 0", true, 1.05},
    {"readable p50, 700,000/s silent", "merge_share = 0", true, 1.05},
    {"load, by day", "without times", false, 0.5},
    {"load, by key", "without times", false, 0.5},
    {"load, in no order", "without times", false, 0.35},
    {"readable, by day", "1 s", true, 1},
    {"readable, by key", "1 s", true, 1},
    {"readable, in no order", "1 s", true, 1},
    {"ZINCRBY, 1 ahead", "redis, always", false, 1},
    {"ZINCRBY, 64 ahead", "redis, always", false, 1},
    {"ZINCRBY, 64 ahead", "redis, everysec", false, 0.8},
    {"ZREVRANGE 0 9, 16 ahead", "redis, everysec", false, 2},
    {"ZSCORE, 16 ahead", "redis, everysec", false, 2},
    {"HTTP, the 100 largest", "fixed reply", false, 0.75},
    {"HTTP, the same, not changed (304)", "fixed reply", false, 0.9},
    {"HTTP, the page, packed", "fixed reply", false, 0.9},
    {"HTTP count of 1, 50 x 1", "fixed reply, synced", false, 0.75},
    {"HTTP count of 1, 50 x 16", "durable /apply", false, 0.8},
    {"HTTP count with keys, 1000 lines, 8 connections", "without keys", false,
     0.95},
    {"HTTP count with keys, 1 line, 50 connections", "without keys", false,
     0.6},
};

static const struct goal *
goal_of(const char *row, const char *beside)
{
    for (size_t i = 0; i < sizeof goals / sizeof goals[0]; i++)
        if (strcmp(goals[i].row, row) == 0 &&
            strcmp(goals[i].beside, beside) == 0)
            return &goals[i];
    return NULL;
}

void
report_row(const char *row, const char *unit, double countd, const char *beside,
           double other, double ratio)
{
    const char *path = getenv("BENCH_TABLE");
    const struct goal *g = goal_of(row, beside);
    FILE *f;

    if (!path || !isfinite(ratio))
        return;
    f = fopen(path, "ae");
    if (!f) {
        perror(path);
        return;
    }
    (void)fprintf(f, "%s\t%.4g %s\t%s\t%.4g %s\t%.2f\t", row, countd, unit,
                  beside, other, unit, ratio);
    if (g)
        (void)fprintf(
            f, "%s %.2g\t%s", g->at_most ? "at most" : "at least", g->ratio,
            (g->at_most ? ratio <= g->ratio : ratio >= g->ratio) ? "yes"
                                                                 : "no");
    else
        (void)fprintf(f, "\t");
    (void)fprintf(f, "\n");
    if (fclose(f) != 0)
        perror(path);
}
