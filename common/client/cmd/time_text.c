/* common/client/cmd/time_text.c - see time_text.h. */
#include "common/client/cmd/time_text.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define YEAR_MOST 9999

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
    if (cmd_parse_number(text, strlen(text), &seconds) == 0) {
        if (seconds < 0 || seconds > INT64_MAX / 1000)
            return -EINVAL;
        *ms = (uint64_t)seconds * 1000;
        return 0;
    }
    return parse_date(text, utc, ms);
}

int
time_text_option(const struct cmd_line *line, const char *option,
                 uint64_t now_ms, uint64_t def, uint64_t *ms)
{
    const char *text = cmd_value(line, option);

    *ms = def;
    if (text == NULL ||
        time_text_parse(text, now_ms, cmd_value(line, "utc") != NULL, ms) == 0)
        return 0;
    return cmd_misuse(line, text,
                      "give a time: 2026-11-20, 2026-11-20T14:30, -2h, now, or "
                      "Unix seconds");
}

void
time_text_format(uint64_t ms, bool utc, char text[TIME_TEXT_SIZE])
{
    const time_t t = (time_t)(ms / 1000);
    struct tm day;

    if ((utc ? gmtime_r(&t, &day) : localtime_r(&t, &day)) == NULL ||
        day.tm_year + 1900 > YEAR_MOST) {
        (void)snprintf(text, TIME_TEXT_SIZE, "%llu ms", (unsigned long long)ms);
        return;
    }
    /* Fits: the year has four digits. */
    (void)strftime(text, TIME_TEXT_SIZE,
                   utc ? "%Y-%m-%dT%H:%M:%SZ" : "%Y-%m-%dT%H:%M:%S", &day);
}
