/* common/client/cmd/chart.c - see cmd_terminal.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd_terminal.h"

#include <assert.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define USUAL_WIDTH 80 /* of a terminal that does not say */
#define LEVELS      8

unsigned
chart_width(const struct output *o)
{
    struct winsize size;

    if (o->format != OUTPUT_PEOPLE || isatty(STDOUT_FILENO) != 1)
        return 0;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
        return USUAL_WIDTH;
    return size.ws_col < CHART_WIDTH_MAX ? size.ws_col : CHART_WIDTH_MAX;
}

/* Asks the installed locale: the name of a locale that is not installed does
 * not determine its character set. */
bool
chart_is_utf8(void)
{
    const locale_t l = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    bool utf8;

    if (l == (locale_t)0)
        return false;
    utf8 = strcmp(nl_langinfo_l(CODESET, l), "UTF-8") == 0;
    freelocale(l);
    return utf8;
}

void
chart_bar(double value, double most, unsigned width,
          char bar[CHART_BAR_MAX + 1])
{
    const double size = isnan(value) ? 0 : fabs(value);
    size_t length = most > 0 ? (size_t)(size / most * width + 0.5) : 0;

    assert(width <= CHART_BAR_MAX && size <= most);
    if (length == 0 && size > 0)
        length = 1;
    memset(bar, value < 0 ? '-' : '#', length);
    bar[length] = '\0';
}

/* ---- sparklines -------------------------------------------------------- */

/* The mean of sums, of which those that are not there count as 0; NAN: none is
 * there. */
static double
mean_of(const double *sums, size_t count)
{
    double mean = 0;
    bool any = false;

    for (size_t i = 0; i < count; i++) {
        any = any || !isnan(sums[i]);
        mean += isnan(sums[i]) ? 0 : sums[i] / (double)count;
    }
    return any ? mean : NAN;
}

static char *
put_level(char *at, unsigned level, bool utf8)
{
    if (!utf8) {
        *at++ = "_.:-=+*#"[level];
        return at;
    }
    *at++ = '\xe2'; /* U+2581 to U+2588 */
    *at++ = '\x96';
    *at++ = (char)(0x81 + level);
    return at;
}

void
chart_spark(const double *sums, size_t count, unsigned width, bool utf8,
            char line[CHART_LINE_SIZE])
{
    double means[CHART_WIDTH_MAX];
    const size_t each = width > 0 ? (count + width - 1) / width : 1;
    double least = 0, most = 0;
    size_t n = 0;

    assert(width >= 1 && width <= CHART_WIDTH_MAX);
    for (size_t i = 0; i < count; i += each) {
        means[n] = mean_of(&sums[i], count - i < each ? count - i : each);
        least = means[n] < least ? means[n] : least; /* false of a NAN */
        most = means[n] > most ? means[n] : most;
        n++;
    }
    for (size_t i = 0; i < n; i++) {
        const double part =
            most > least ? (means[i] - least) / (most - least) : 0;

        if (isnan(means[i]))
            *line++ = ' ';
        else
            line = put_level(line, (unsigned)(part * (LEVELS - 1) + 0.5), utf8);
    }
    *line = '\0';
}
