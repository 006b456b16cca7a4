/* writer/limits.c - see limits.h. */
#include "writer/limits.h"

#include <assert.h>
#include <stdbool.h>
#include <sys/resource.h>

#include "common/base/diag.h"

static size_t
asks(const struct limit *l)
{
    return l->wanted > 0 ? l->wanted : LIMITS_LEAST;
}

static uint64_t
sum_of(const struct limit *limits, size_t count)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < count; i++)
        sum += asks(&limits[i]);
    return sum;
}

/* Those who want less than an equal share get that, and the others an equal
 * share of what they leave. */
static void
share(struct limit *limits, size_t count, uint64_t left)
{
    size_t rest = count; /* that have nothing yet */
    bool found = true;

    while (found && rest > 0) {
        const uint64_t equal = left / rest;

        found = false;
        for (size_t i = 0; i < count; i++) {
            if (limits[i].got > 0 || asks(&limits[i]) > equal)
                continue;
            limits[i].got = asks(&limits[i]);
            left -= limits[i].got;
            rest--;
            found = true;
        }
    }
    for (size_t i = 0; i < count; i++)
        if (limits[i].got == 0)
            limits[i].got = left > rest ? (size_t)(left / rest) : 1;
}

void
limits_divide(struct limit *limits, size_t count, uint64_t files)
{
    const uint64_t left = files > UINT64_C(2) * LIMITS_RESERVED
                              ? files - LIMITS_RESERVED
                              : files / 2;
    const uint64_t sum = sum_of(limits, count);
    uint64_t more;
    size_t open = 0;

    assert(count > 0);
    for (size_t i = 0; i < count; i++) {
        limits[i].got = 0;
        open += limits[i].wanted == 0;
    }
    share(limits, count, left);
    if (sum > left || open == 0)
        return;
    more = (left - sum) / open;
    if (more > LIMITS_MOST - LIMITS_LEAST)
        more = LIMITS_MOST - LIMITS_LEAST;
    for (size_t i = 0; i < count; i++)
        if (limits[i].wanted == 0)
            limits[i].got += (size_t)more;
}

/* Limits of open files beyond this are the same to us; and they may be
 * infinite. */
#define FILES_MAX (UINT64_C(1) << 31)

void
limits_take(struct limit *limits, size_t count)
{
    uint64_t most = LIMITS_RESERVED;
    struct rlimit limit;

    for (size_t i = 0; i < count; i++)
        most += limits[i].wanted > 0 ? limits[i].wanted : LIMITS_MOST;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0) {
        /* Accepting pauses when they run out all the same. */
        limits_divide(limits, count, LIMITS_RESERVED + sum_of(limits, count));
        return;
    }
    if (limit.rlim_cur < most) {
        limit.rlim_cur = limit.rlim_max < most ? limit.rlim_max : most;
        if (setrlimit(RLIMIT_NOFILE, &limit) < 0 &&
            getrlimit(RLIMIT_NOFILE, &limit) < 0)
            limit.rlim_cur = most; /* as above */
    }
    if (limit.rlim_cur > FILES_MAX)
        limit.rlim_cur = FILES_MAX;
    limits_divide(limits, count, limit.rlim_cur);
    for (size_t i = 0; i < count; i++)
        if (limits[i].got < asks(&limits[i]))
            diag(DIAG_WARNING,
                 "only %zu connections for %s=%zu: the limit of open files is "
                 "%llu; raise it (ulimit -n, LimitNOFILE=) to %llu",
                 limits[i].got, limits[i].key, limits[i].wanted,
                 (unsigned long long)limit.rlim_cur,
                 (unsigned long long)(LIMITS_RESERVED + sum_of(limits, count)));
}
