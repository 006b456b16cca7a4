/* common/client/cmd/cmd_value.c - see cmd.h: names, numbers and durations of a
 * command line. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/client/cmd/cmd.h"
#include "common/wire/event_time.h"
#include "common/wire/increment_line.h"

#define YEAR_MOST  9999
#define SHOWN_SIZE 64 /* bytes of a bad argument that an error shows */
#define DAY_MS     ((uint64_t)24 * 3600 * 1000)

struct cmd_name
cmd_name(const struct cmd_line *line, const char *text, const char *what)
{
    const size_t length = strlen(text);
    struct cmd_name name = {.size = 0};
    int size;

    if (*line->status != 0)
        return name;
    if (!line->raw) {
        size = name_unescape(text, length, name.bytes, sizeof name.bytes);
    } else if (length > sizeof name.bytes) {
        size = -ENAMETOOLONG;
    } else {
        memcpy(name.bytes, text, length);
        size = (int)length;
    }

    if (size > 0)
        name.size = (size_t)size;
    else if (size == 0)
        *line->status = cmd_fail(CONFIG_EXIT_USAGE,
                                 "the %s is empty; names have 1 to %d bytes",
                                 what, NAME_MAX_SIZE);
    else if (size == -ENAMETOOLONG)
        *line->status =
            cmd_fail(CONFIG_EXIT_USAGE, "the %s is longer than %d bytes", what,
                     NAME_MAX_SIZE);
    else
        *line->status = cmd_fail(
            CONFIG_EXIT_USAGE,
            "the %s has a bad escape; write a backslash as \\\\, a byte as "
            "\\xHH (not 00)",
            what);
    return name;
}

int
cmd_run_verb(struct cmd_line *line, const struct cmd_verb *verbs, size_t count)
{
    const char *word = line->arg_count > 0 ? line->args[0] : "";

    for (const struct cmd_verb *v = verbs; v < verbs + count; v++)
        if (strcmp(word, v->word) == 0 && line->arg_count >= v->min &&
            (v->max < 0 || line->arg_count <= v->max))
            return v->run(line);
    return cmd_usage(line);
}

int64_t
cmd_number(const struct cmd_line *line, const char *text, const char *what,
           int64_t min, int64_t max)
{
    int64_t number = min;

    if (*line->status != 0 ||
        (increment_number_parse(text, strlen(text), &number) == 0 &&
         number >= min && number <= max))
        return number;
    *line->status =
        cmd_fail(CONFIG_EXIT_USAGE,
                 "%s: \"%s\" is wrong; give a number, %" PRId64 " to %" PRId64,
                 what, cmd_text(text, strnlen(text, SHOWN_SIZE)), min, max);
    return min;
}

int64_t
cmd_option_number(const struct cmd_line *line, const char *option, int64_t min,
                  int64_t max, int64_t def)
{
    const char *text = cmd_value(line, option);
    char what[32];

    (void)snprintf(what, sizeof what, "%s%s", option[1] == '\0' ? "-" : "--",
                   option);
    return text ? cmd_number(line, text, what, min, max) : def;
}

uint64_t
cmd_option_ms(const struct cmd_line *line, const char *option, uint64_t def)
{
    const char *text = cmd_value(line, option);
    uint64_t ms = def;

    if (text != NULL && *line->status == 0 &&
        (config_duration(text, &ms) < 0 || ms > DAY_MS))
        *line->status = cmd_misuse(line, text,
                                   "give a duration of at most 1d, such as 10 "
                                   "(seconds), 500ms or 2m");
    return ms;
}

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

int64_t
cmd_event_time(const struct cmd_line *line, const char *option)
{
    const uint64_t now_ms = clock_unix_ms();
    const int64_t at =
        (int64_t)(cmd_time_option(line, option, now_ms, 0) / 1000);

    if (cmd_value(line, option) == NULL || *line->status != 0)
        return 0;
    if (at < EVENT_TIME_MIN || at > (int64_t)(now_ms / 1000) + EVENT_TIME_AHEAD)
        *line->status =
            cmd_misuse(line, cmd_value(line, option),
                       "a time from 1970-01-01T00:01 to a day ahead "
                       "of now");
    return at;
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
