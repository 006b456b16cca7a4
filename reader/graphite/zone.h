/* reader/graphite/zone.h - local time of a place that the tz database names.
 *
 * libc has one time zone for the whole process and all of its threads, so a
 * request's is read here: a file of tzfile(5), version 2 or later, has the
 * transitions so far, and behind them a rule for all later years such as
 * "CET-1CEST,M3.5.0,M10.5.0/3".  Files with leap seconds ("right/...") and rules
 * by the day of the year, which no place has, are refused.
 *
 * Ownership: the caller's; it points into itself and is not copied.  One thread.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_GRAPHITE_ZONE_H
#define COUNTD_READER_GRAPHITE_ZONE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ZONE_DIRECTORY "/usr/share/zoneinfo"
#define ZONE_NAME_MAX  64
#define ZONE_FILE_MAX  16384 /* bytes; the longest one has 4 KB */

/* When the clock is changed each year: at `time` seconds of a day, which is the
 * `week`th (5: the last) day of the week `day` of a month. */
struct zone_rule {
    int month, week, day;
    int64_t time;
};

struct zone {
    const uint8_t *times; /* transitions, Unix seconds, 8 bytes each */
    const uint8_t *types; /* which of `infos` holds from each one on */
    const uint8_t *infos; /* 6 bytes each: seconds ahead of UTC first */
    size_t time_count, info_count;
    bool has_rule;   /* for times after the last transition */
    bool has_summer; /* and it has two */
    int64_t standard_seconds, summer_seconds; /* ahead of UTC */
    struct zone_rule summer, winter;          /* when each begins */
    uint8_t bytes[ZONE_FILE_MAX];
};

/* Makes it UTC, which needs no file. */
void zone_set_utc(struct zone *z);

/* Reads a place, such as "Europe/Berlin"; "UTC" and "" are UTC.
 *   -ENOENT   there is none of that name
 *   -EBADMSG  its file cannot be read, or is not understood */
int zone_open(struct zone *z, const char *name, size_t size);

/* Understands the `size` bytes of a file in z->bytes.  -EBADMSG. */
int zone_parse(struct zone *z, size_t size);

/* Seconds that local time is ahead of UTC at a Unix time. */
int64_t zone_ahead(const struct zone *z, int64_t time);

/* The Unix time of a local one, both in seconds.  A local time that comes twice
 * gives one of the two; one that is left out is moved by an hour. */
int64_t zone_to_unix(const struct zone *z, int64_t local);

#endif
