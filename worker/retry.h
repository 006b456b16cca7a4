/* worker/retry.h - when to try again what failed: each failure in a row doubles
 * the pause, from a shortest to a longest one.
 *
 * The pauses of a worker, each with a struct retry and limits of its own:
 *
 *     WATCH_RETRY_*  (watch.h)         the machine cannot merge: the disk is
 *                                      full, the database does not answer
 *     BATCH_RETRY_*  (batch.h)         logs that could not be claimed, read or
 *                                      merged
 *     PASS_RETRY_*   (waiting_pass.h)  a pass over log/waiting/ that merged
 *                                      nothing
 *
 * PATIENT_* (apply_batch.c), the wait for a keyspace that another process is
 * writing to, has no struct retry.  countd-worker(8) has the longest pauses.
 *
 * Pure: the caller brings the time.  All zeros: nothing failed.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WORKER_RETRY_H
#define COUNTD_WORKER_RETRY_H

#include <stdbool.h>
#include <stdint.h>

struct retry {
    uint64_t due_ms;  /* clock_ms() of the next try, or later */
    uint64_t wait_ms; /* the last pause; 0: nothing failed */
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
