/* reader/graphite/moment.h - times of /render: `from`, `until` and intervals.
 *
 *     1795302451                      Unix seconds
 *     now  -6h  now-5min  +1h30min    s, min, h, d, w, mon (30 d), y (365 d)
 *     midnight  noon  teatime  14:30  2:30pm  5am        of today
 *     today  yesterday  tomorrow  monday  20261122  11/22/26  nov22
 *                                     at midnight, or with a time of day before
 *     noon_yesterday  14:30_20261122  midnight-1d
 *
 * Days and times of day are local.  A day of the week is the last one that has
 * begun.  Blanks, commas and _ may stand anywhere.  Units have their long forms,
 * too: seconds, minute, ...; a lone m is minutes, and M is refused.
 * Pure. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_GRAPHITE_MOMENT_H
#define COUNTD_READER_GRAPHITE_MOMENT_H

#include "reader/graphite/zone.h"

/* History has minutes in 32 bits. */
#define MOMENT_MAX      (INT64_C(60) * 4000000000 - 1)
#define MOMENT_TEXT_MAX 64 /* bytes */

/* Reads a time as Unix seconds, 0 to MOMENT_MAX.  0 or -EINVAL. */
int moment_parse(const char *text, size_t size, int64_t now,
                 const struct zone *zone, int64_t *out);

/* Reads an interval such as "1h" as seconds, at least 1.  0 or -EINVAL. */
int moment_interval(const char *text, size_t size, int64_t *out);

#endif
