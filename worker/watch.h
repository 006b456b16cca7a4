/* worker/watch.h - when to look for full logs and at what is held, and when to
 * stop.
 *
 * Any change of data/log wakes the worker (inotify); it also looks by itself
 * once a second, since a kernel queue may overflow and an owner may die without
 * changing a thing.  While the machine cannot (full disk) it waits, longer each
 * time.  What is held is applied between batches, and in turns of its own when
 * no log waits.
 *
 * Signals stop it as common/setup/signals.h says: the transaction under way is
 * finished, the rest is given back.  SIGUSR1 prints figures.
 */
#ifndef COUNTD_WORKER_WATCH_H
#define COUNTD_WORKER_WATCH_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/net/loop.h"
#include "worker/drain.h"
#include "worker/merge.h"
#include "worker/retry.h"

#define WATCH_LOOK_MS        1000
#define WATCH_TEND_NS        10000000 /* that long the store may tend at once */
#define WATCH_RETRY_FIRST_MS 50
#define WATCH_RETRY_MOST_MS  5000

struct watch {
    struct loop *loop;
    struct merge *merge;
    struct drain *drain;
    struct loop_source changes; /* inotify */
    struct loop_timer look;
    uint64_t look_ms;     /* look for logs then */
    struct retry machine; /* that could not: not before that */
    uint64_t drain_ms;    /* look at what is held then */
    uint64_t tend_ms;     /* let the store tend then */
    int stop_signal;      /* told to stop by it; 0: not */
    bool refused;         /* stopped: the settings do not fit the logs */
};

/* Starts watching `log_fd`'s directory, with the signals of signals_take().
 * Borrows loop, merge and drain. */
int watch_start(struct watch *w, struct loop *loop, const sigset_t *signals,
                struct merge *merge, struct drain *drain, int log_fd);
void watch_stop(struct watch *w);

/* One line of figures. */
void watch_report(const struct watch *w);

#endif
