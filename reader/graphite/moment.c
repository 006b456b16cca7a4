/* reader/graphite/moment.c - see moment.h: moment_parse() splits a text into a
 * reference, which is a time of day and a day, and an offset. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/moment.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define HOUR ((int64_t)60) /* minutes */
#define DAY  ((int64_t)86400)

/* ---- pieces of a text, which ends with a NUL ------------------------------ */

static bool
is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads the digits at *at.  Returns how many there are; 0: none, or the number
 * is too large. */
static size_t
take_digits(const char **at, int64_t *out)
{
    size_t n = 0;

    for (*out = 0; is_digit((*at)[n]); n++) {
        if (*out > MOMENT_MAX)
            return 0;
        *out = 10 * *out + ((*at)[n] - '0');
    }
    *at += n;
    return n;
}

static bool
take_word(const char **at, const char *word)
{
    const size_t size = strlen(word);

    if (strncasecmp(*at, word, size) != 0)
        return false;
    *at += size;
    return true;
}

static size_t
count_letters(const char *at)
{
    size_t n = 0;

    while ((at[n] >= 'a' && at[n] <= 'z') || (at[n] >= 'A' && at[n] <= 'Z'))
        n++;
    return n;
}

/* Takes a word that begins with the three letters of one of many; returns which
 * it is, or -1. */
static int
take_one(const char **at, const char *letters)
{
    const size_t count = strlen(letters) / 3;

    for (size_t i = 0; i < count; i++)
        if (strncasecmp(*at, letters + 3 * i, 3) == 0) {
            *at += count_letters(*at);
            return (int)i;
        }
    return -1;
}

/* ---- intervals ------------------------------------------------------------ */

static const struct {
    const char *names;
    int64_t seconds;
} units[] = {
    {" s sec secs second seconds ", 1},  {" m min mins minute minutes ", 60},
    {" h hr hrs hour hours ", 3600},     {" d day days ", DAY},
    {" w week weeks ", 7 * DAY},         {" mon mons month months ", 30 * DAY},
    {" y yr yrs year years ", 365 * DAY}};

/* Seconds of the unit of `size` letters, in any case; 0: there is none.  M may
 * be meant as month: it is none. */
static int64_t
find_unit(const char *text, size_t size)
{
    char unit[16];

    (void)snprintf(unit, sizeof unit, " %.*s ", (int)size,
                   text); /* one that is cut is in no list */
    if (size == 0 || strcmp(unit, " M ") == 0)
        return 0;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcasestr(units[i].names, unit))
            return units[i].seconds;
    return 0;
}

/* Adds up intervals to the end of the text: 1h30min. */
static int
read_intervals(const char *at, int64_t *out)
{
    int64_t number, seconds;

    *out = 0;
    do {
        if (take_digits(&at, &number) == 0)
            return -EINVAL;
        seconds = find_unit(at, count_letters(at));
        at += count_letters(at);
        if (seconds == 0 || number > MOMENT_MAX / seconds)
            return -EINVAL;
        *out += number * seconds;
    } while (*at != '\0' && *out <= MOMENT_MAX);
    return *out > MOMENT_MAX ? -EINVAL : 0;
}

/* Copies a text without the bytes of `without`.  False: it is too long, or has a
 * NUL. */
static bool
copy_text(const char *text, size_t size, const char *without,
          char out[MOMENT_TEXT_MAX + 1])
{
    size_t n = 0;

    if (size > MOMENT_TEXT_MAX || memchr(text, '\0', size))
        return false;
    for (size_t i = 0; i < size; i++)
        if (!strchr(without, text[i]))
            out[n++] = text[i];
    out[n] = '\0';
    return true;
}

int
moment_interval(const char *text, size_t size, int64_t *out)
{
    char copy[MOMENT_TEXT_MAX + 1];

    if (!copy_text(text, size, "", copy) || read_intervals(copy, out) < 0)
        return -EINVAL;
    return *out > 0 ? 0 : -EINVAL;
}

/* ---- references ----------------------------------------------------------- */

/* Takes HH:MM, HH:MMam or HHpm, in minutes.  0: there is none of these; -1: such
 * a time does not exist. */
static int
take_digital_clock(const char **at, int64_t *out)
{
    const char *p = *at;
    int64_t hour, minute = 0;
    const size_t digits = take_digits(&p, &hour);
    const bool has_minute = digits > 0 && digits <= 2 && take_word(&p, ":");
    bool is_pm;

    if (has_minute) {
        if (!is_digit(p[0]) || !is_digit(p[1]))
            return -1;
        minute = 10 * (p[0] - '0') + (p[1] - '0');
        p += 2;
    }
    is_pm = take_word(&p, "pm");
    if (is_pm || take_word(&p, "am")) {
        if (hour < 1 || hour > 12)
            return -1;
        hour = hour % 12 + (is_pm ? 12 : 0);
    } else if (!has_minute)
        return 0; /* digits of a day, or none */
    *at = p;
    *out = hour * HOUR + minute;
    return hour <= 23 && minute <= 59 ? 1 : -1;
}

/* Takes a time of day, in seconds: midnight if there is none.  False: it is
 * none that there is. */
static bool
take_clock(const char **at, int64_t *out)
{
    int64_t minutes = 0;
    const int rc = take_digital_clock(at, &minutes);

    if (rc == 0 && take_word(at, "noon"))
        minutes = 12 * HOUR;
    else if (rc == 0 && take_word(at, "teatime"))
        minutes = 16 * HOUR;
    else if (rc == 0)
        (void)take_word(at, "midnight"); /* as if it were not there */
    *out = minutes * 60;
    return rc >= 0;
}

/* Seconds until the begin of a day, as if in UTC; -1: there is no such day. */
static int64_t
day_begin(int64_t year, int64_t month, int64_t mday)
{
    struct tm day = {.tm_year = (int)year - 1900,
                     .tm_mon = (int)month - 1,
                     .tm_mday = (int)mday};
    int64_t begin;

    if (year < 1970 || year > 9999 || month < 1 || month > 12 || mday < 1)
        return -1;
    begin = timegm(&day);
    return day.tm_mday == mday ? begin : -1;
}

/* Reads MM/DD/YY or MM/DD/YYYY behind the month. */
static int64_t
read_slashes(const char *at, int64_t month)
{
    int64_t mday, year;
    size_t digits;

    if (!take_word(&at, "/") || take_digits(&at, &mday) == 0 ||
        !take_word(&at, "/"))
        return -1;
    digits = take_digits(&at, &year);
    if (digits == 2)
        year += year < 70 ? 2000 : 1900;
    return *at == '\0' && (digits == 2 || digits == 4)
               ? day_begin(year, month, mday)
               : -1;
}

/* Reads a day to the end of the text; empty: today. */
static int64_t
read_day(const char *at, int64_t local_now)
{
    const int64_t today = local_now - local_now % DAY;
    const time_t now = (time_t)local_now;
    int64_t number, mday;
    struct tm day;
    int which;

    if (!gmtime_r(&now, &day))
        return -1;
    if (*at == '\0' || strcasecmp(at, "today") == 0)
        return today;
    if (strcasecmp(at, "yesterday") == 0)
        return today - DAY;
    if (strcasecmp(at, "tomorrow") == 0)
        return today + DAY;
    which = take_one(&at, "janfebmaraprmayjunjulaugsepoctnovdec");
    if (which >= 0)
        return take_digits(&at, &mday) > 0 && *at == '\0'
                   ? day_begin(day.tm_year + 1900, which + 1, mday)
                   : -1;
    which = take_one(&at, "sunmontuewedthufrisat");
    if (which >= 0)
        return *at == '\0' ? today - (day.tm_wday - which + 7) % 7 * DAY : -1;
    switch (take_digits(&at, &number)) {
    case 8:
        return *at == '\0'
                   ? day_begin(number / 10000, number / 100 % 100, number % 100)
                   : -1;
    case 1:
    case 2:
        return read_slashes(at, number);
    default:
        return -1;
    }
}

static int
read_reference(const char *at, int64_t now, const struct zone *zone,
               int64_t *out)
{
    int64_t clock, day;

    *out = now;
    if (*at == '\0' || strcasecmp(at, "now") == 0)
        return 0;
    if (!take_clock(&at, &clock))
        return -EINVAL;
    day = read_day(at, now + zone_ahead(zone, now));
    *out = zone_to_unix(zone, day + clock);
    return day < 0 ? -EINVAL : 0;
}

/* Whether eight digits are a day and not Unix seconds of 1970. */
static bool
looks_like_day(size_t digits, int64_t n)
{
    return digits == 8 && n / 10000 > 1900 && n / 100 % 100 <= 12 &&
           n % 100 <= 31;
}

int
moment_parse(const char *text, size_t size, int64_t now,
             const struct zone *zone, int64_t *out)
{
    char copy[MOMENT_TEXT_MAX + 1];
    const char *at = copy;
    int64_t offset = 0;
    size_t digits;
    char *sign;
    bool is_ago;

    if (!copy_text(text, size, " _,", copy) || copy[0] == '\0')
        return -EINVAL;
    digits = take_digits(&at, out);
    if (digits > 0 && *at == '\0' && !looks_like_day(digits, *out))
        return *out > MOMENT_MAX ? -EINVAL : 0;
    sign = strpbrk(copy, "+-");
    is_ago = sign && *sign == '-';
    if (sign)
        *sign = '\0';
    if ((sign && read_intervals(sign + 1, &offset) < 0) ||
        read_reference(copy, now, zone, out) < 0)
        return -EINVAL;
    *out += is_ago ? -offset : offset;
    return *out < 0 || *out > MOMENT_MAX ? -EINVAL : 0;
}
