/* tests/bench/times.c - see times.h. */
#include "tests/bench/times.h"

void
times_note(struct times *t, uint64_t ns)
{
    const unsigned shift = ns < 32 ? 0 : 63 - (unsigned)__builtin_clzll(ns) - 4;

    t->at[shift * 32 + (unsigned)((ns >> shift) & 31)]++;
    t->count++;
    if (ns > t->max)
        t->max = ns;
}

double
times_percentile_us(const struct times *t, unsigned percent)
{
    uint64_t seen = 0, want = t->count * percent / 100;
    unsigned i;

    for (i = 0; i < 64 * 32; i++) {
        seen += t->at[i];
        if (seen > want)
            return (double)((uint64_t)(i % 32) << (i / 32)) / 1e3;
    }
    return (double)t->max / 1e3;
}
