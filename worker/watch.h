/* worker/watch.h - when to look for full logs, and when to stop.
 *
 * Any change of data/log wakes the worker (inotify); it also looks by itself
 * once a second, since a kernel queue may overflow and an owner may die
 * without changing a thing.  While the machine cannot (full disk) it waits,
 * longer each time.  Held records are tried at start and once a minute, and
 * sooner when another worker had them.
 *
 * SIGTERM and SIGINT stop it: the transaction under way is finished, the rest
 * is given back.  SIGUSR1 prints figures.
 */
#ifndef COUNTD_WORKER_WATCH_H
#define COUNTD_WORKER_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/net/loop.h"
#include "worker/merge.h"

#define WATCH_LOOK_MS     1000
#define WATCH_HELD_MS     60000
#define WATCH_BUSY_MS     250 /* another worker has what is held; then doubled */
#define WATCH_BACKOFF_MS  50  /* after the first failure; then doubled */
#define WATCH_BACKOFF_MAX 5000

struct watch {
    struct loop *loop;
    struct merge *merge;
    struct loop_source changes; /* inotify */
    struct loop_timer look;
    struct loop_timer held;
    bool due;               /* look at the end of this turn */
    uint64_t backoff_ms;    /* 0: nothing failed lately */
    uint64_t busy_ms;       /* 0: nobody had what is held */
    uint64_t not_before_ms; /* do not look earlier */
    bool refused;           /* stopped: the settings do not fit the logs */
};

/* Starts watching `log_fd`'s directory.  Borrows loop and merge. */
int watch_start(struct watch *w, struct loop *loop, struct merge *merge,
                int log_fd);
void watch_stop(struct watch *w);

#endif
