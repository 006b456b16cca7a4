/* tests/bench/report.c - see report.h. */
#include "tests/bench/report.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
    {"durable /apply, 50 x 16", "ceiling", false, 0.9},
    {"durable /apply, 50 x 16, p99", "ceiling", true, 1.3},
    {"merge of 100 k keys", "plain LMDB entries", true, 0.2},
    {"file", "packed rows", true, 1.5},
    {"merge with history", "without", true, 1.1},
    {"top of the running day", "5 ms", true, 1},
    {"board, 2 processes, 1000 rows", "a lock and copies", false, 2},
    {"many keyspaces, created", "8 s for 9,000", true, 1},
    {"many keyspaces, again", "4 s for 9,000", true, 1},
    {"one beside many, created", "2 s", true, 1},
    {"one beside many, again", "2 s", true, 1},
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
