/* common/client/cmd/cmd_time.c - see cmd.h. */
#include "common/client/cmd/cmd.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define YEAR_MOST 9999

uint64_t
cmd_time_option(const struct cmd_line *line, const char *option,
                uint64_t now_ms, uint64_t def)
{
    const char *text = cmd_value(line, option);
    uint64_t ms = def;

    if (text != NULL && *line->status == 0 &&
        time_text_parse(text, now_ms, cmd_value(line, "utc") != NULL, &ms) < 0)
        *line->status = cmd_misuse(
            line, text,
            "give a time: 2026-11-20, 2026-11-20T14:30, -2h, now, or Unix "
            "seconds");
    return ms;
}

void
cmd_time_format(uint64_t ms, bool utc, char text[TIME_TEXT_SIZE])
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
