/* common/client/cmd/chart.h - sums drawn for people: a bar beside each row, a
 * sparkline of all in one line.
 *
 * Only on a terminal: what goes into a pipe or a file has no picture in it.
 * Sparklines are of the block characters of Unicode where the locale says
 * UTF-8, else of ASCII.  Pure but for the two functions that look at the
 * terminal and the locale. */
#ifndef COUNTD_COMMON_CLIENT_CMD_CHART_H
#define COUNTD_COMMON_CLIENT_CMD_CHART_H

#include "common/client/cmd/output.h"
#include "common/client/lib/countd.h"

#define CHART_BAR_MAX   40 /* columns */
#define CHART_WIDTH_MAX 400
#define CHART_LINE_SIZE (3 * CHART_WIDTH_MAX + 1)

/* Returns the columns of the terminal, at most CHART_WIDTH_MAX; 0: the output
 * format is for programs, or stdout is not a terminal. */
unsigned chart_width(const struct output *o);

/* Whether the user's locale has UTF-8. */
bool chart_is_utf8(void);

/* A sum, as near as a double comes. */
double chart_value(const struct countd_sum *s);

/* `width` columns (CHART_BAR_MAX at most) for `most`, less in proportion; what
 * is not 0 is seen, and what is below 0 is of another character. */
void chart_bar(double value, double most, unsigned width,
               char bar[CHART_BAR_MAX + 1]);

/* A character for each bucket, as high as its sum between the least (or 0) and
 * the largest; a blank where there were no increments.  Of more than `width`
 * buckets some neighbours share a character, by their mean. */
void chart_spark(const struct countd_bucket *buckets, size_t count,
                 unsigned width, bool utf8, char line[CHART_LINE_SIZE]);

#endif
