/* common/log/pending.h - how far the merge is behind: which commit logs hold
 * increments that no worker has merged, and since when.
 *
 * Errors: 0 or a negative errno.
 */
#ifndef COUNTD_COMMON_LOG_PENDING_H
#define COUNTD_COMMON_LOG_PENDING_H

#include <stdbool.h>
#include <stdint.h>

#include "common/log/logdir.h"

/* A time that no increment in a log and not merged yet was received before:
 * received_ms of the oldest one, or UINT64_MAX when there is none.  Holds for
 * all that was in a log when it was called.  Needs the uid of the owner;
 * quarantined logs do not count.  Costs one readdir, a stat per log and a few
 * reads per owned one: callers cache it for a turn.
 * An error says that a log could not be judged: what was found before still
 * holds, and nothing later does. */
int pending_oldest_ms(struct logdir *dir, uint64_t *oldest_ms);

/* The same, and the newest of what the logs with such increments begin with
 * (0 when there is none): is that in the future, the clock was set back, and
 * nobody can tell when by today's clock such a log was filled. */
int pending_span_ms(struct logdir *dir, uint64_t *oldest_ms,
                    uint64_t *newest_ms);

/* Calls `each` for every such log; stops on non-zero and returns that. */
struct pending_log {
    uint64_t index;
    uint64_t first_ms; /* received_ms of slot 0: tells one fill from another */
    uint64_t mtime_ms; /* of its file; stays while a full log is claimed */
    bool certain;      /* false: its file's time only, which may be another */
};
int pending_each(struct logdir *dir,
                 int (*each)(void *ctx, const struct pending_log *p),
                 void *ctx);

#endif
