/* common/client/cmd/chart.c - see cmd_terminal.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/cmd/cmd_terminal.h"

#include <assert.h>
#include <langinfo.h>
#include <locale.h>
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

/* Where int64 has the sum it is taken: of -1 the halves lose all there is. */
double
chart_value(const struct countd_sum *s)
{
    if (s->value != INT64_MIN && s->value != INT64_MAX)
        return (double)s->value;
    return (double)s->high * 18446744073709551616.0 + (double)s->low;
}

void
chart_bar(double value, double most, unsigned width,
          char bar[CHART_BAR_MAX + 1])
{
    const double size = value < 0 ? -value : value;
    size_t length = most > 0 ? (size_t)(size / most * width + 0.5) : 0;

    assert(width <= CHART_BAR_MAX && size <= most);
    if (length == 0 && size > 0)
        length = 1;
    memset(bar, value < 0 ? '-' : '#', length);
    bar[length] = '\0';
}

/* ---- sparklines -------------------------------------------------------- */

struct point {
    double value;
    bool any;
};

/* Returns the mean of `count` buckets; any = false if all are empty. */
static struct point
mean_of_buckets(const struct countd_bucket *buckets, size_t count)
{
    struct point p = {.any = false};

    for (size_t i = 0; i < count; i++) {
        p.any = p.any || buckets[i].sum.any;
        p.value += chart_value(&buckets[i].sum) / (double)count;
    }
    return p;
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
chart_spark(const struct countd_bucket *buckets, size_t count, unsigned width,
            bool utf8, char line[CHART_LINE_SIZE])
{
    struct point points[CHART_WIDTH_MAX];
    const size_t each = width > 0 ? (count + width - 1) / width : 1;
    double least = 0, most = 0;
    size_t n = 0;

    assert(width >= 1 && width <= CHART_WIDTH_MAX);
    for (size_t i = 0; i < count; i += each) {
        const struct point p =
            mean_of_buckets(&buckets[i], count - i < each ? count - i : each);

        least = p.value < least ? p.value : least;
        most = p.value > most ? p.value : most;
        points[n++] = p;
    }
    for (size_t i = 0; i < n; i++) {
        const double part =
            most > least ? (points[i].value - least) / (most - least) : 0;

        if (points[i].any)
            line = put_level(line, (unsigned)(part * (LEVELS - 1) + 0.5), utf8);
        else
            *line++ = ' ';
    }
    *line = '\0';
}
