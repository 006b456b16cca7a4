/* common/setup/time_text.h - times as people give them, and the spans between
 * them: of command lines and of questions over HTTP.
 *
 * What history keeps is of whole steps, so a span is widened to some: -2h at
 * 10:07:12 by minutes begins at 08:07.  Nothing but the zone of
 * local time is read from outside. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_SETUP_TIME_TEXT_H
#define COUNTD_COMMON_SETUP_TIME_TEXT_H

#include <stdbool.h>
#include <stdint.h>

/* "2026-11-20", "2026-11-20T14:30", "2026-11-20T14:30:05", of UTC or local
 * time; "-2h", "now", Unix seconds.  0 or -EINVAL. */
int time_text_parse(const char *text, uint64_t now_ms, bool utc, uint64_t *ms);

/* Unix seconds; what came at `to` itself is not in. */
struct time_range {
    int64_t from, to;
};

/* Widened to multiples of `step` seconds, of UTC; those of more than an hour,
 * if not `utc`, of the local time at the beginning: days are local days. */
struct time_range time_range_widen(const struct time_range *s, int64_t step,
                                   bool utc);

#endif
