/* common/base/clock.h - the clocks, behind functions so that tests can wrap
 * them. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_BASE_CLOCK_H
#define COUNTD_COMMON_BASE_CLOCK_H

#include <stdint.h>

/* Unix time in milliseconds; may step. */
uint64_t clock_unix_ms(void);

/* Unix time of the process's first call, and what has passed since: for ages,
 * which a step of the clock does not change. */
uint64_t clock_steady_unix_ms(void);

/* Monotonic nanoseconds and milliseconds; for deadlines and rates. */
uint64_t clock_ns(void);
uint64_t clock_ms(void);

/* Nanoseconds that this thread has computed; for bounds of what a request may
 * cost, which a busy machine does not change. */
uint64_t clock_thread_ns(void);

#endif
