/* reader/graphite/moment.c - see moment.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/moment.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define DAY ((int64_t)86400)

static const struct {
    const char *names;
    int64_t seconds;
} units[] = {
    {" s sec secs second seconds ", 1}, {" m min mins minute minutes ", 60},
    {" h hour hours ", 3600},           {" d day days ", DAY},
    {" w week weeks ", 7 * DAY},        {" mon month months ", 30 * DAY},
    {" y year years ", 365 * DAY}};

/* Reads digits; returns how many there are, 0 if the number is too large. */
static size_t
read_digits(const char *text, size_t size, int64_t *out)
{
    size_t i = 0;

    for (*out = 0; i < size && text[i] >= '0' && text[i] <= '9'; i++) {
        if (*out > MOMENT_MAX)
            return 0;
        *out = 10 * *out + (text[i] - '0');
    }
    return i;
}

int
moment_interval(const char *text, size_t size, int64_t *out)
{
    const size_t digits = read_digits(text, size, out);
    char unit[16];

    if (digits == 0 || *out == 0 || size == digits ||
        strnlen(text, size) < size || memchr(text, ' ', size) != NULL)
        return -EINVAL;
    (void)snprintf(unit, sizeof unit, " %.*s ", (int)(size - digits),
                   text + digits); /* one that is cut is in no list */
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcasestr(units[i].names, unit)) {
            if (*out > MOMENT_MAX / units[i].seconds)
                return -EINVAL;
            *out *= units[i].seconds;
            return 0;
        }
    return -EINVAL;
}

/* Reads YYYYMMDD or HH:MM_YYYYMMDD. */
static int
read_date(const char *text, size_t size, int64_t *out)
{
    const char *form = size == 8 ? "%Y%m%d" : "%H:%M_%Y%m%d";
    char date[] = "HH:MM_YYYYMMDD";
    struct tm day = {0}, same;
    const char *end;

    if ((size != 8 && size != sizeof date - 1) || strnlen(text, size) < size ||
        memchr(text, ' ', size))
        return -EINVAL;
    memcpy(date, text, size);
    date[size] = '\0';
    end = strptime(date, form, &day);
    if (!end || *end != '\0' || day.tm_year < 70)
        return -EINVAL;
    same = day;
    *out = timegm(&same);
    /* The 31st of a month that has none is the first of the next. */
    return same.tm_mday == day.tm_mday ? 0 : -EINVAL;
}

int
moment_parse(const char *text, size_t size, int64_t now, int64_t *out)
{
    const bool is_now = size >= 3 && strncasecmp(text, "now", 3) == 0;
    int64_t number;

    if (is_now) {
        text += 3;
        size -= 3;
    }
    if (is_now && size == 0) {
        *out = now;
    } else if (size > 0 && (text[0] == '-' || text[0] == '+')) {
        if (moment_interval(text + 1, size - 1, &number) < 0)
            return -EINVAL;
        *out = text[0] == '-' ? now - number : now + number;
    } else {
        if (is_now || size == 0)
            return -EINVAL;
        if (read_date(text, size, out) == 0)
            return 0;
        if (read_digits(text, size, out) != size)
            return -EINVAL;
    }
    return *out < 0 || *out > MOMENT_MAX ? -EINVAL : 0;
}
