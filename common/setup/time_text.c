/* common/setup/time_text.c - see time_text.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/setup/time_text.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "common/setup/config.h"
#include "common/wire/increment_line.h"

#define HOUR 3600

/* "2026-11-20", "2026-11-20T14:30", "2026-11-20T14:30:05". */
static int
parse_date(const char *text, bool utc, uint64_t *ms)
{
    static const char *const forms[] = {"%Y-%m-%d", "%Y-%m-%dT%H:%M",
                                        "%Y-%m-%dT%H:%M:%S"};

    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct tm day = {.tm_isdst = -1}, same;
        const char *end = strptime(text, forms[i], &day);
        time_t t;

        if (end == NULL || *end != '\0')
            continue;
        day.tm_isdst = -1;
        same = day;
        t = utc ? timegm(&same) : mktime(&same);
        /* The 31st of a month that has none would be the next one's first. */
        if (t < 0 || same.tm_mday != day.tm_mday)
            return -EINVAL;
        *ms = (uint64_t)t * 1000;
        return 0;
    }
    return -EINVAL;
}

int
time_text_parse(const char *text, uint64_t now_ms, bool utc, uint64_t *ms)
{
    int64_t seconds;
    uint64_t ago;

    if (strcmp(text, "now") == 0) {
        *ms = now_ms;
        return 0;
    }
    if (text[0] == '-') {
        if (config_duration(text + 1, &ago) < 0 || ago > now_ms)
            return -EINVAL;
        *ms = now_ms - ago;
        return 0;
    }
    if (increment_number_parse(text, strlen(text), &seconds) == 0) {
        if (seconds < 0 || seconds > INT64_MAX / 1000)
            return -EINVAL;
        *ms = (uint64_t)seconds * 1000;
        return 0;
    }
    return parse_date(text, utc, ms);
}

/* Seconds that local time is ahead of UTC. */
static int64_t
ahead_of_utc(int64_t seconds)
{
    const time_t t = (time_t)seconds;
    struct tm day;

    return localtime_r(&t, &day) == NULL ? 0 : day.tm_gmtoff;
}

struct time_range
time_range_widen(const struct time_range *s, int64_t step, bool utc)
{
    const int64_t ahead = utc || step <= HOUR ? 0 : ahead_of_utc(s->from);
    const int64_t from = (s->from + ahead) / step * step - ahead;
    const int64_t steps = (s->to - from + step - 1) / step;

    if (from < 0) /* local time of 1970 */
        return (struct time_range){0, (s->to + step - 1) / step * step};
    return (struct time_range){from, from + steps * step};
}
