/* worker/watch.h - when to scan for full logs and to merge what waits, and when
 * to stop.
 *
 * A lock that is removed in data/log, or a file that gets its name there, wakes
 * the worker (inotify); it also scans by itself once a second, since a kernel
 * queue may overflow and an owner may die without changing a thing.  While the
 * machine cannot proceed (full disk) it waits, longer each time.  What waits in
 * log/waiting/ is merged between batches of logs.
 *
 * With `once` it stops when nothing can be merged now: what other processes have
 * is theirs to merge, and what failed is left as it is.
 *
 * Signals stop it as common/setup/signals.h says: the current transaction ends,
 * the remaining logs are released.  SIGUSR1 prints the figures. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WORKER_WATCH_H
#define COUNTD_WORKER_WATCH_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/net/loop.h"
#include "worker/merge.h"
#include "worker/retry.h"
#include "worker/worker_status.h"

#define WATCH_POLL_MS 1000
#define WATCH_MAINTAIN_NS                                                      \
    10000000                    /* time the store may maintain itself at once */
#define WATCH_RETRY_FIRST_MS 50 /* while the machine cannot; see retry.h */
#define WATCH_RETRY_MOST_MS  5000

struct watch {
    struct loop *loop;
    struct merge *merge;
    struct loop_source changes; /* inotify */
    struct loop_timer poll;
    uint64_t next_poll_ms; /* when to scan for logs */
    struct retry machine;  /* failed (full disk): no scan before its due time */
    uint64_t waiting_ms;   /* when to merge what waits */
    uint64_t share_ms;     /* not before then while logs wait */
    uint64_t maintain_ms;  /* when to let the store maintain itself */
    struct worker_status status;
    int stop_signal; /* signal that stopped it; 0: none */
    bool refused;    /* stopped: the settings do not fit the logs */
    bool once;       /* the caller's: stop when nothing can be merged */
};

/* Starts watching the directory of the logs, with the signals of signals_take().
 * Borrows loop and merge. */
int watch_start(struct watch *w, struct loop *loop, const sigset_t *signals,
                struct merge *merge, bool once);
void watch_stop(struct watch *w);

#endif
