/* worker/retry.h - when to try a thing again that failed: each failure in a row
 * doubles the wait, from a first one to a most.
 *
 * One is kept for the whole worker (the machine cannot now), one for logs that
 * failed, and one for passes over what waits.
 *
 * Pure: the caller brings the time.  All zeros: nothing failed.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WORKER_RETRY_H
#define COUNTD_WORKER_RETRY_H

#include <stdbool.h>
#include <stdint.h>

struct retry {
    uint64_t due_ms;  /* not before then */
    uint64_t wait_ms; /* 0: nothing failed */
};

/* It failed at now_ms. */
static inline void
retry_failed(struct retry *r, uint64_t now_ms, uint64_t first_ms,
             uint64_t most_ms)
{
    r->wait_ms = r->wait_ms ? 2 * r->wait_ms : first_ms;
    if (r->wait_ms > most_ms)
        r->wait_ms = most_ms;
    r->due_ms = now_ms + r->wait_ms;
}

/* It went well. */
static inline void
retry_succeeded(struct retry *r)
{
    *r = (struct retry){0};
}

/* Whether it may be tried. */
static inline bool
retry_is_due(const struct retry *r, uint64_t now_ms)
{
    return r->wait_ms == 0 || now_ms >= r->due_ms;
}

#endif
