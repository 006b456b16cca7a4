/* common/wire/event_time.c - see event_time.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/wire/event_time.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

/* A number has no more: as milliseconds they reach to the year 33658. */
#define DIGITS_MAX 15
#define MS_FROM    INT64_C(100000000000) /* as seconds that is the year 5138 */

struct reader {
    const char *at, *end;
};

/* Takes one byte of `set`. */
static bool
take_any(struct reader *r, const char *set)
{
    if (r->at == r->end || *r->at == '\0' || !strchr(set, *r->at))
        return false;
    r->at++;
    return true;
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

/* Takes what has the form, in which each 0 is a digit, and its numbers, which are
 * 0 before. */
static bool
take_form(struct reader *r, const char *form, int *numbers)
{
    const size_t size = strlen(form);

    if ((size_t)(r->end - r->at) < size)
        return false;
    for (; *form != '\0'; form++, r->at++) {
        if (*form == '0' ? !isdigit((unsigned char)*r->at) : *r->at != *form)
            return false;
        if (*form == '0')
            *numbers = *numbers * 10 + (*r->at - '0');
        else
            numbers++;
    }
    return true;
}

/* A point and digits, which are below a second. */
static bool
skip_fraction(struct reader *r)
{
    const char *from;

    if (!take_any(r, "."))
        return true;
    for (from = r->at; r->at < r->end && isdigit((unsigned char)*r->at);)
        r->at++;
    return r->at > from;
}

/* 60 is a leap second; the 31st of a month that has none would be the next one's
 * first. */
static int
parse_date(struct reader r, int64_t *at)
{
    int date[3] = {0}, clock[3] = {0}, zone[2] = {0};
    bool behind = false;
    struct tm day;
    int64_t midnight;
    int minutes;

    if (!take_form(&r, "0000-00-00", date))
        return -EINVAL;
    if (take_any(&r, "Tt ") &&
        (!take_form(&r, "00:00", clock) ||
         (take_any(&r, ":") &&
          (!take_form(&r, "00", clock + 2) || !skip_fraction(&r)))))
        return -EINVAL;
    if (r.at < r.end && !take_any(&r, "Zz")) {
        behind = take_any(&r, "-");
        if ((!behind && !take_any(&r, "+")) || !take_form(&r, "00:00", zone))
            return -EINVAL;
    }
    day = (struct tm){
        .tm_year = date[0] - 1900, .tm_mon = date[1] - 1, .tm_mday = date[2]};
    midnight = timegm(&day);
    if (r.at != r.end || day.tm_mon != date[1] - 1 || day.tm_mday != date[2] ||
        clock[0] > 23 || clock[1] > 59 || clock[2] > 60 || zone[0] > 23 ||
        zone[1] > 59)
        return -EINVAL;
    minutes =
        clock[0] * 60 + clock[1] - (zone[0] * 60 + zone[1]) * (behind ? -1 : 1);
    *at = midnight + INT64_C(60) * minutes + clock[2];
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
