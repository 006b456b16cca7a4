/* common/wire/event_time.h - the time of an event, as an increment gives it.
 *
 *     1709287200  1709287200.25       Unix seconds
 *     1709287200250                   milliseconds: numbers from 10^11 on
 *     2024-03-01                      its first minute
 *     2024-03-01T10:00  ...:05.25     `T`, `t` or a blank before the hour
 *     2024-03-01T10:00Z  ...+02:00    of a zone; all others are of UTC
 *
 * Pure. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_WIRE_EVENT_TIME_H
#define COUNTD_COMMON_WIRE_EVENT_TIME_H

#include <stddef.h>
#include <stdint.h>

#define EVENT_TIME_MIN 60 /* Unix seconds: minute 0 means none is given */
/* Seconds that a time may be ahead of the clock. */
#define EVENT_TIME_AHEAD 86400

/* Unix seconds, rounded down.  0, or -EINVAL: it is not a time. */
int event_time_parse(const char *text, size_t size, int64_t *at);

#endif
