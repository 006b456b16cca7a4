/* common/wire/event_time.c - see event_time.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/wire/event_time.h"

#include <errno.h>
#include <stdbool.h>

#define DIGITS_MAX                                                             \
    15 /* of a number: its milliseconds are those of year 33658 */
#define MS_FROM INT64_C(100000000000) /* as seconds that is the year 5138 */

struct reader {
    const char *at, *end;
};

/* Takes one byte of `set`. */
static bool
take_any(struct reader *r, const char *set)
{
    if (r->at == r->end)
        return false;
    for (; *set != '\0'; set++)
        if (*r->at == *set) {
            r->at++;
            return true;
        }
    return false;
}

/* Takes as many digits as there are, at most `max`; returns how many. */
static size_t
take_digits(struct reader *r, size_t max, int64_t *number)
{
    size_t count = 0;

    for (*number = 0;
         count < max && r->at < r->end && *r->at >= '0' && *r->at <= '9';
         count++)
        *number = *number * 10 + (*r->at++ - '0');
    return count;
}

/* Two digits, as a number of at most `max`. */
static bool
take_pair(struct reader *r, int64_t max, int64_t *number)
{
    return take_digits(r, 2, number) == 2 && *number <= max;
}

/* A point and digits, which are below a second. */
static bool
skip_fraction(struct reader *r)
{
    const char *from;

    if (!take_any(r, "."))
        return true;
    for (from = r->at; r->at < r->end && *r->at >= '0' && *r->at <= '9';)
        r->at++;
    return r->at > from;
}

static int64_t
days_of_month(int64_t year, int64_t month)
{
    static const uint8_t days[] = {31, 28, 31, 30, 31, 30,
                                   31, 31, 30, 31, 30, 31};
    const bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);

    return days[month - 1] + (month == 2 && leap ? 1 : 0);
}

/* Days from 1970-01-01, of the Gregorian calendar.  Years are counted from
 * March on, so that a leap day is the last of its year. */
static int64_t
days_of_date(int64_t year, int64_t month, int64_t day)
{
    const int64_t y = year - (month <= 2 ? 1 : 0);
    const int64_t m = month <= 2 ? month + 9 : month - 3;

    return y * 365 + y / 4 - y / 100 + y / 400 + (153 * m + 2) / 5 + day - 1 -
           719468;
}

/* Z, or hours and minutes ahead of UTC.  False: it is not a zone. */
static bool
take_zone(struct reader *r, int64_t *seconds)
{
    int64_t hours, minutes;
    bool behind;

    *seconds = 0;
    if (r->at == r->end || take_any(r, "Zz"))
        return true;
    behind = take_any(r, "-");
    if ((!behind && !take_any(r, "+")) || !take_pair(r, 23, &hours) ||
        !take_any(r, ":") || !take_pair(r, 59, &minutes))
        return false;
    *seconds = (hours * 60 + minutes) * (behind ? -60 : 60);
    return true;
}

/* Hours, minutes and perhaps seconds; 60 is a leap second. */
static bool
take_clock(struct reader *r, int64_t *seconds)
{
    int64_t hour, minute, second = 0;

    if (!take_pair(r, 23, &hour) || !take_any(r, ":") ||
        !take_pair(r, 59, &minute))
        return false;
    if (take_any(r, ":") && (!take_pair(r, 60, &second) || !skip_fraction(r)))
        return false;
    *seconds = hour * 3600 + minute * 60 + second;
    return true;
}

static int
parse_date(struct reader r, int64_t *at)
{
    int64_t year, month, day, clock = 0, zone = 0;

    if (take_digits(&r, 4, &year) != 4 || !take_any(&r, "-") ||
        !take_pair(&r, 12, &month) || month == 0 || !take_any(&r, "-") ||
        !take_pair(&r, 31, &day) || day == 0 ||
        day > days_of_month(year, month))
        return -EINVAL;
    if (take_any(&r, "Tt ") && !take_clock(&r, &clock))
        return -EINVAL;
    if (!take_zone(&r, &zone) || r.at != r.end)
        return -EINVAL;
    *at = days_of_date(year, month, day) * 86400 + clock - zone;
    return 0;
}

int
event_time_parse(const char *text, size_t size, int64_t *at)
{
    struct reader r = {text, text + size};
    const bool negative = take_any(&r, "-");
    int64_t number;

    if (take_digits(&r, DIGITS_MAX, &number) == 0 || !skip_fraction(&r))
        return -EINVAL;
    if (r.at != r.end)
        return parse_date((struct reader){text, text + size}, at);
    if (number >= MS_FROM)
        number /= 1000;
    *at = negative ? -number : number;
    return 0;
}
