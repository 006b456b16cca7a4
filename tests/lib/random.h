/* tests/lib/random.h - repeatable random numbers (splitmix64), and the seed of
 * a test. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_RANDOM_H
#define COUNTD_TESTS_LIB_RANDOM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/clock.h"

struct random {
    uint64_t state;
};

static inline uint64_t
random_next(struct random *r)
{
    uint64_t z = (r->state += 0x9e3779b97f4a7c15u);

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* 0 to n - 1; n above 0. */
static inline uint64_t
random_below(struct random *r, uint64_t n)
{
    return random_next(r) % n;
}

static inline bool
random_chance(struct random *r, unsigned percent)
{
    return random_below(r, 100) < percent;
}

/* A fresh seed, or $TEST_SEED; printed, so that a failure can be repeated. */
static inline uint64_t
random_seed(const char *test)
{
    const char *given = getenv("TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : clock_ns() % 1000000007;

    printf("%s: TEST_SEED=%llu\n", test, (unsigned long long)seed);
    (void)fflush(stdout); /* a crash must not take it along */
    return seed;
}

/* $NAME of the environment, or as many as are usual. */
static inline unsigned
random_times(const char *name, unsigned usual)
{
    const char *given = getenv(name);

    return given ? (unsigned)strtoul(given, NULL, 0) : usual;
}

#endif
