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

#define MINUTE INT64_C(60)
#define HOUR   INT64_C(3600)
#define DAY    INT64_C(86400)

/* ---- pieces of a text, which ends with a NUL ------------------------------ */

/* Reads the digits at *at.  Returns how many there are; 0: none, or the number
 * is too large. */
static size_t
take_digits(const char **at, int64_t *out)
{
    size_t n = 0;

    for (*out = 0; (*at)[n] >= '0' && (*at)[n] <= '9'; n++) {
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

    /* One that is cut is in no list. */
    (void)snprintf(unit, sizeof unit, " %.*s ", (int)size, text);
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

/* Takes a time of day, in seconds: midnight if there is none. */
static int64_t
take_clock(const char **at)
{
    static const char *const forms[] = {"%I:%M%p", "%I%p", "%H:%M"};

    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct tm clock = {.tm_hour = 0};
        const char *end = strptime(*at, forms[i], &clock);

        if (!end)
            continue;
        *at = end;
        return clock.tm_hour * HOUR + clock.tm_min * MINUTE;
    }
    if (take_word(at, "noon"))
        return 12 * HOUR;
    if (take_word(at, "teatime"))
        return 16 * HOUR;
    (void)take_word(at, "midnight"); /* as if it were not there */
    return 0;
}

/* Reads a day to the end of the text, as if in UTC; empty: today.  -1: there is
 * no such day. */
static int64_t
read_day(const char *at, int64_t local_now)
{
    static const char *const forms[] = {"%Y%m%d", "%m/%d/%y", "%m/%d/%Y",
                                        "%b%d"};
    const int64_t today = local_now - local_now % DAY;
    const time_t now = (time_t)local_now;
    struct tm day;
    const char *end;
    int wday;

    if (!gmtime_r(&now, &day))
        return -1;
    wday = day.tm_wday;
    if (*at == '\0' || strcasecmp(at, "today") == 0)
        return today;
    if (strcasecmp(at, "yesterday") == 0)
        return today - DAY;
    if (strcasecmp(at, "tomorrow") == 0)
        return today + DAY;
    end = strptime(at, "%a", &day);
    if (end && *end == '\0')
        return today - (wday - day.tm_wday + 7) % 7 * DAY;
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct tm same = {.tm_year = day.tm_year};
        int mday;

        end = strptime(at, forms[i], &same);
        if (!end || *end != '\0' || (i == 0 && strlen(at) != 8))
            continue;
        mday = same.tm_mday;
        /* The 31st of a month that has none would be the next one's first. */
        return same.tm_year >= 70 && timegm(&same) >= 0 && same.tm_mday == mday
                   ? (int64_t)timegm(&same)
                   : -1;
    }
    return -1;
}

static int
read_reference(const char *at, int64_t now, const struct zone *zone,
               int64_t *out)
{
    int64_t clock, day;

    *out = now;
    if (*at == '\0' || strcasecmp(at, "now") == 0)
        return 0;
    clock = take_clock(&at);
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
