/* worker/dead_fills.h - which fills of logs can never be merged again.
 *
 * An engine may remove an empty keyspace, and its marks with it, once no log
 * can bring back what a mark says is in (struct store_maintenance).  That is so
 * when the log is EMPTY after that fill, and its header is on the disk: it is
 * written without a sync, since a mark makes an older one harmless.  Or when
 * there is no such log any more.  What cannot be read counts as not spent.
 *
 * The headers of all logs are read when the first question comes, once until
 * dead_fills_forget().
 *
 * Ownership: the caller's between init and fini.  No output, one thread.
 */
#ifndef COUNTD_WORKER_DEAD_FILLS_H
#define COUNTD_WORKER_DEAD_FILLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/store/store.h"

/* A log, as its header says. */
struct dead_fills_log {
    uint8_t uuid[16];
    uint64_t index;
    uint64_t epoch;
    bool empty;
    bool durable; /* known to be on the disk as it is here */
};

struct dead_fills {
    int log_fd; /* borrowed */
    struct dead_fills_log *logs;
    size_t count, room;
    bool known; /* the logs were read */
    bool all;   /* every one of them */
};

void dead_fills_init(struct dead_fills *s, int log_fd);
void dead_fills_fini(struct dead_fills *s);

/* ctx: the struct dead_fills. */
bool dead_fills_contain(void *ctx, const struct store_mark *mark);

/* The next question reads the logs afresh. */
void dead_fills_forget(struct dead_fills *s);

#endif
