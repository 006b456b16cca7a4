/* reader/graphite/zone.h - local time of a place that the tz database names.
 *
 * libc has one time zone for the whole process.  Nothing else in countd-read
 * uses local time, so the zone of the request that asks is made that one.  The
 * loop's thread alone does so: other threads may read the environment meanwhile,
 * as its string of TZ stays where zone_begin() has put it.
 *
 * Ownership: the caller's. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_GRAPHITE_ZONE_H
#define COUNTD_READER_GRAPHITE_ZONE_H

#include <stddef.h>
#include <stdint.h>

#define ZONE_DIRECTORY "/usr/share/zoneinfo"
#define ZONE_NAME_MAX  64

/* The value of TZ; zeros are UTC. */
struct zone {
    char value[sizeof ":" ZONE_DIRECTORY "/" + ZONE_NAME_MAX];
};

/* Takes over TZ, which is UTC from now on: before there are other threads. */
void zone_begin(void);

/* Finds a place, such as "Europe/Berlin"; "UTC" and "" are UTC.
 *   -ENOENT   there is none of that name
 *   -EBADMSG  its file cannot be read, or is another */
int zone_open(struct zone *z, const char *name, size_t size);

/* Seconds that local time is ahead of UTC at a Unix time. */
int64_t zone_ahead(const struct zone *z, int64_t time);

/* The Unix time of a local one, both in seconds.  A local time that comes twice
 * gives one of the two; one that is left out is moved by an hour. */
int64_t zone_to_unix(const struct zone *z, int64_t local);

#endif
