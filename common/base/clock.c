/* common/base/clock.c - see clock.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/base/clock.h"

#include <stdatomic.h>
#include <time.h>

uint64_t
clock_unix_ms(void)
{
    struct timespec t;

    /* Cannot fail: the clock id is valid and the address is ours. */
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static uint64_t
read_ns(clockid_t clock)
{
    struct timespec t;

    (void)clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t
clock_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

uint64_t
clock_thread_ns(void)
{
    return read_ns(CLOCK_THREAD_CPUTIME_ID);
}

uint64_t
clock_ms(void)
{
    return clock_ns() / 1000000;
}

uint64_t
clock_steady_unix_ms(void)
{
    static _Atomic uint64_t began; /* Unix time when clock_ms() was 0 */
    const uint64_t ms = clock_ms();
    uint64_t none = 0;

    if (atomic_load(&began) == 0)
        (void)atomic_compare_exchange_strong(
            &began, &none, clock_unix_ms() - ms); /* or another thread did */
    return atomic_load(&began) + ms;
}
