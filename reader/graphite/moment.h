/* reader/graphite/moment.h - times of /render: `from`, `until` and intervals.
 *
 *     1795302451          Unix seconds
 *     now  -6h  now-5min  now+1d      s, min, h, d, w, mon (30 d), y (365 d)
 *     14:30_20261122  20261122        of UTC
 *
 * Units have their long forms, too: seconds, minute, ...; a lone m is minutes.
 * Pure. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_GRAPHITE_MOMENT_H
#define COUNTD_READER_GRAPHITE_MOMENT_H

#include <stddef.h>
#include <stdint.h>

#define MOMENT_MAX                                                             \
    (INT64_C(60) * 4000000000 - 1) /* history has minutes in 32 bits */

/* Reads a time as Unix seconds, 0 to MOMENT_MAX.  0 or -EINVAL. */
int moment_parse(const char *text, size_t size, int64_t now, int64_t *out);

/* Reads an interval such as "1h" as seconds, at least 1.  0 or -EINVAL. */
int moment_interval(const char *text, size_t size, int64_t *out);

#endif
