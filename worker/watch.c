/* worker/watch.c - see watch.h. */
#include "worker/watch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "common/base/diag.h"

#define SELF(type, member, pointer)                                            \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

#define CHANGES                                                                \
    (IN_ATTRIB | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO)

#define READS_MAX 64 /* of the queue, in one turn */

/* ---- signals ----------------------------------------------------------- */

static void
on_signal(void *ctx, int signo)
{
    struct watch *w = ctx;

    if (signo == SIGUSR1)
        merge_report(w->merge);
    else if (signo == SIGTERM || signo == SIGINT || signo == SIGHUP)
        loop_stop(w->loop);
}

/* The loop does not run while a batch is merged, so that looks for itself. */
static bool
stop_is_pending(void *ctx)
{
    sigset_t pending;

    (void)ctx; /* signals are the process's */
    if (sigpending(&pending) < 0)
        return false;
    return sigismember(&pending, SIGTERM) == 1 ||
           sigismember(&pending, SIGINT) == 1 ||
           sigismember(&pending, SIGHUP) == 1;
}

static int
take_signals(struct watch *w)
{
    sigset_t mask;

    /* These cannot fail: the set and the numbers are valid. */
    (void)sigemptyset(&mask);
    (void)sigaddset(&mask, SIGTERM);
    (void)sigaddset(&mask, SIGINT);
    (void)sigaddset(&mask, SIGUSR1);
    (void)sigaddset(&mask, SIGUSR2); /* the writer's; harmless here */
    (void)sigaddset(&mask, SIGHUP);
    return loop_signals(w->loop, &mask, on_signal, w);
}

/* ---- looking ----------------------------------------------------------- */

static void
look_at(struct watch *w, uint64_t when_ms)
{
    int rc;

    rc = loop_arm(w->loop, &w->look, when_ms);
    if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "arm a timer");
}

static void
on_change(struct loop_source *source, uint32_t events)
{
    struct watch *w = SELF(struct watch, changes, source);
    char buffer[4096];
    unsigned i;

    (void)events; /* readable is all it can be */
    /* What changed does not matter: the directory is read afresh. */
    for (i = 0; i < READS_MAX; i++)
        if (read(source->fd, buffer, sizeof buffer) <= 0)
            break;
    w->due = true;
}

static void
on_look(struct loop_timer *timer)
{
    struct watch *w = SELF(struct watch, look, timer);

    w->due = true;
}

static void
look_at_held(struct watch *w, uint64_t wait_ms)
{
    int rc;

    rc = loop_arm(w->loop, &w->held, loop_now_ms(w->loop) + wait_ms);
    if (rc < 0)
        diag_errno(DIAG_ERROR, rc, "arm a timer");
}

static void
on_held(struct loop_timer *timer)
{
    struct watch *w = SELF(struct watch, held, timer);

    merge_held(w->merge);
    if (!merge_held_is_busy(w->merge)) {
        w->busy_ms = 0;
        look_at_held(w, WATCH_HELD_MS);
        return;
    }
    w->busy_ms = w->busy_ms ? 2 * w->busy_ms : WATCH_BUSY_MS;
    if (w->busy_ms > WATCH_HELD_MS)
        w->busy_ms = WATCH_HELD_MS;
    look_at_held(w, w->busy_ms);
}

static void
back_off(struct watch *w)
{
    w->backoff_ms = w->backoff_ms ? 2 * w->backoff_ms : WATCH_BACKOFF_MS;
    if (w->backoff_ms > WATCH_BACKOFF_MAX)
        w->backoff_ms = WATCH_BACKOFF_MAX;
    w->not_before_ms = loop_now_ms(w->loop) + w->backoff_ms;
    look_at(w, w->not_before_ms);
}

/* Merges one batch when it is time.  True: look again at once. */
static bool
after_turn(void *ctx)
{
    struct watch *w = ctx;
    const uint64_t now = loop_now_ms(w->loop);
    enum merge_outcome outcome;
    uint64_t retry;

    if (!w->due || now < w->not_before_ms)
        return false;
    outcome = merge_run(w->merge);
    w->due = outcome == MERGE_DONE;
    /* Otherwise on_held() has a look planned already. */
    if (merge_held_is_busy(w->merge) && w->busy_ms == 0) {
        w->busy_ms = WATCH_BUSY_MS;
        look_at_held(w, w->busy_ms);
    }
    if (outcome == MERGE_WAIT) {
        back_off(w);
        return false;
    }
    if (outcome == MERGE_REFUSED) {
        w->refused = true;
        loop_stop(w->loop);
    }
    w->backoff_ms = 0;
    retry = outcome == MERGE_LATER ? merge_retry_ms(w->merge) : UINT64_MAX;
    look_at(w, retry < now + WATCH_LOOK_MS ? retry : now + WATCH_LOOK_MS);
    return outcome == MERGE_DONE;
}

/* Without inotify full logs are found by looking, a little later. */
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
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", log_fd); /* fits */
    rc = inotify_add_watch(fd, path, CHANGES | IN_ONLYDIR) < 0 ? -errno : 0;
    if (rc == 0)
        rc = loop_add(w->loop, &w->changes, fd, EPOLLIN);
    if (rc == 0)
        return;
    diag_errno(DIAG_WARNING, rc, "watch data/log, looking once a second");
    (void)close(fd); /* never used */
}

int
watch_start(struct watch *w, struct loop *loop, struct merge *merge, int log_fd)
{
    int rc;

    *w = (struct watch){.loop = loop, .merge = merge, .due = true};
    w->changes.fd = -1;
    w->look = (struct loop_timer){.slot = -1, .due = on_look};
    w->held = (struct loop_timer){.slot = -1, .due = on_held};
    merge->stop = stop_is_pending;
    rc = take_signals(w);
    if (rc < 0)
        return rc;
    watch_directory(w, log_fd);
    loop_after_turn(loop, after_turn, w);
    rc = loop_arm(loop, &w->look, loop_now_ms(loop));
    if (rc == 0)
        rc = loop_arm(loop, &w->held, loop_now_ms(loop));
    return rc;
}

void
watch_stop(struct watch *w)
{
    const int fd = w->changes.fd;

    loop_disarm(w->loop, &w->look);
    loop_disarm(w->loop, &w->held);
    if (fd < 0)
        return;
    loop_remove(w->loop, &w->changes);
    (void)close(fd); /* holds no data */
}
