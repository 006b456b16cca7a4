/* common/base/clock.c - see clock.h. */
#include "common/base/clock.h"

#include <time.h>

uint64_t
clock_unix_ms(void)
{
    struct timespec t;

    /* Cannot fail: the clock id is valid and the address is ours. */
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t
clock_ns(void)
{
    struct timespec t;

    /* As above. */
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t
clock_ms(void)
{
    return clock_ns() / 1000000;
}
