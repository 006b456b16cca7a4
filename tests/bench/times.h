/* tests/bench/times.h - how long each of many things took. */
#ifndef COUNTD_TESTS_BENCH_TIMES_H
#define COUNTD_TESTS_BENCH_TIMES_H

#include <stdint.h>

/* Times by size: 32 steps for each power of two, 3 % apart. */
struct times {
    uint64_t count;
    uint64_t max;
    uint32_t at[64 * 32];
};

void times_note(struct times *t, uint64_t ns);
double times_percentile_us(const struct times *t, unsigned percent);

#endif
