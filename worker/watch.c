/* worker/watch.c - see watch.h: watch_start(), watch_stop(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/watch.h"

#include <errno.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"

#define SELF(type, member, pointer)                                            \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

/* A log becomes full for workers when its lock goes; claims, modes and new logs
 * are no work. */
#define CHANGES (IN_DELETE | IN_MOVED_TO)

#define READS_MAX 64 /* of the queue, in one turn */

/* ---- signals ----------------------------------------------------------- */

static void
on_signal(void *ctx, int signo, int value)
{
    struct watch *w = ctx;

    (void)value;

    if (signo == SIGUSR1)
        worker_status_print(&w->status);
    if (signo == SIGUSR1 || signo == SIGUSR2)
        return;
    w->stop_signal = signo;
    loop_stop(w->loop);
}

/* The loop does not run while a batch is merged, so the merge calls this. */
static bool
must_stop(void *ctx)
{
    struct watch *w = ctx;
    sigset_t pending;

    worker_status_tick(&w->status);
    if (w->stop_signal != 0)
        return true;
    if (sigpending(&pending) < 0)
        return false;
    return sigismember(&pending, SIGTERM) == 1 ||
           sigismember(&pending, SIGINT) == 1 ||
           sigismember(&pending, SIGHUP) == 1;
}

/* ---- looking ----------------------------------------------------------- */

static void
on_change(struct loop_source *source, uint32_t events)
{
    struct watch *w = SELF(struct watch, changes, source);
    char buffer[4096];
    unsigned i;

    (void)events; /* readable is all it can be */
    /* The directory is read anew, so the kind of change does not matter. */
    for (i = 0; i < READS_MAX; i++)
        if (read(source->fd, buffer, sizeof buffer) <= 0)
            break;
    w->next_poll_ms = 0;
}

static void
on_poll(struct loop_timer *timer)
{
    (void)timer; /* after_turn() knows what is due */
}

static uint64_t
earlier_ms(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Merges one batch and sets when to scan for the next. */
static void
merge(struct watch *w, uint64_t now)
{
    const uint64_t since_ns = clock_ns();
    const uint64_t held = w->merge->stats.held;
    const enum merge_outcome outcome = merge_run(w->merge);

    /* A scan that finds nothing but logs whose next try is later changes
     * nothing: the machine still cannot. */
    w->status.is_waiting =
        outcome == MERGE_WAIT || (outcome == MERGE_LATER && w->merge->waiting);
    if (outcome != MERGE_IDLE)
        w->status.merge_ns += clock_ns() - since_ns;
    if (w->merge->stats.held > held)
        w->waiting_ms = 0;
    if (outcome == MERGE_WAIT || outcome == MERGE_OLDER)
        retry_failed(&w->machine, now, WATCH_RETRY_FIRST_MS,
                     WATCH_RETRY_MOST_MS);
    else
        retry_succeeded(&w->machine);
    if (outcome == MERGE_REFUSED) {
        w->refused = true;
        loop_stop(w->loop);
    }
    w->next_poll_ms = now;
    if (outcome != MERGE_DONE)
        w->next_poll_ms =
            earlier_ms(now + WATCH_POLL_MS, w->merge->batch.retry_ms);
}

/* The time of the next scan for logs. */
static uint64_t
next_poll(const struct watch *w)
{
    return w->next_poll_ms > w->machine.due_ms ? w->next_poll_ms
                                               : w->machine.due_ms;
}

/* Merges one batch of what waits.  While logs wait, these have four times as long
 * before the next one. */
static void
merge_waiting_batch(struct watch *w, uint64_t now)
{
    const uint64_t since_ms = clock_ms();
    uint64_t ended_ms;

    w->waiting_ms = earlier_ms(merge_waiting(w->merge), now + WATCH_POLL_MS);
    ended_ms = clock_ms();
    w->share_ms = ended_ms + 4 * (ended_ms - since_ms);
}

/* Merges one batch if it is time, then one of what waits, then lets the store
 * maintain itself.  True: call again at once. */
static bool
after_turn(void *ctx)
{
    struct watch *w = ctx;
    const uint64_t now = loop_now_ms(w->loop);
    uint64_t next;

    if (must_stop(w))
        return true;
    if (w->merge->pass.placed_only)
        w->next_poll_ms = now + WATCH_POLL_MS;
    else if (now >= next_poll(w))
        merge(w, now);
    if (now >= w->waiting_ms && (next_poll(w) > now || now >= w->share_ms))
        merge_waiting_batch(w, now);
    if (now >= w->maintain_ms && !w->once) {
        const bool more =
            merge_maintain(w->merge, clock_ns() + WATCH_MAINTAIN_NS);

        w->maintain_ms = more ? now : now + WATCH_POLL_MS;
    }
    next = earlier_ms(next_poll(w), w->waiting_ms);
    if (w->once && next > clock_ms() + BATCH_BUSY_MS &&
        !waiting_pass_is_held_up(&w->merge->pass))
        loop_stop(w->loop);
    next = earlier_ms(next, w->maintain_ms);
    if (next <= now)
        return true;
    loop_arm(w->loop, &w->poll, next);
    return false;
}

/* Without inotify the worker finds full logs by polling, a little later. */
static void
watch_directory(struct watch *w, int log_fd)
{
    char path[64];
    int fd, rc;

    w->changes.ready = on_change;
    fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (fd < 0) {
        diag_errno(DIAG_WARNING, errno, "inotify, looking once a second");
        return;
    }
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", log_fd);
    rc = inotify_add_watch(fd, path, CHANGES | IN_ONLYDIR) < 0 ? -errno : 0;
    if (rc == 0)
        rc = loop_add(w->loop, &w->changes, fd, EPOLLIN);
    if (rc == 0)
        return;
    diag_errno(DIAG_WARNING, rc, "watch data/log, looking once a second");
    (void)close(fd); /* never used */
}

int
watch_start(struct watch *w, struct loop *loop, const sigset_t *signals,
            struct merge *merge, bool once)
{
    int rc;

    *w = (struct watch){.loop = loop, .merge = merge, .once = once};
    w->changes.fd = -1;
    w->poll = (struct loop_timer){.due = on_poll};
    worker_status_init(&w->status, merge->dir->path, merge);
    merge->stop = must_stop;
    merge->stop_ctx = w;
    rc = loop_signals(loop, signals, on_signal, w);
    if (rc < 0)
        return rc;
    watch_directory(w, merge->dir->log_fd);
    loop_after_turn(loop, after_turn, w);
    loop_arm(loop, &w->poll, loop_now_ms(loop));
    return 0;
}

void
watch_stop(struct watch *w)
{
    const int fd = w->changes.fd;

    loop_disarm(&w->poll);
    if (fd < 0)
        return;
    loop_remove(w->loop, &w->changes);
    (void)close(fd); /* holds no data */
}
