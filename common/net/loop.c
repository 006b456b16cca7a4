/* common/net/loop.c - see loop.h: loop_add(), loop_arm(), loop_signals(), and
 * at the end loop_run().  epoll is level-triggered unless a source asks
 * otherwise. Timers are few, so they are in a list, which is searched when one of
 * them may be due. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/loop.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/base/clock.h"

/* Taken from the kernel in one turn: so many that those who wait for an answer
 * are among them beside thousands of senders. */
#define LOOP_EVENTS_MAX 2048

struct loop {
    int epoll_fd;
    bool stopped;
    uint64_t now_ms;
    uint64_t unix_ms; /* 0: not read in this turn */

    struct epoll_event events[LOOP_EVENTS_MAX];
    int event_count; /* fetched in this turn */
    int event_at;    /* being delivered */

    struct list_link timers; /* those that are armed, in no order */
    uint64_t first_ms;       /* no timer is due before */

    struct loop_source signals;
    void (*signal)(void *ctx, int signo, int value);
    void *signal_ctx;

    bool (*after)(void *ctx);
    void *after_ctx;
};

struct loop *
loop_new(void)
{
    const int fd = epoll_create1(EPOLL_CLOEXEC);
    struct loop *loop = fd < 0 ? NULL : calloc(1, sizeof *loop);

    if (!loop) {
        if (fd >= 0)
            (void)close(fd); /* errno stays ENOMEM */
        return NULL;
    }
    loop->epoll_fd = fd;
    loop->signals.fd = -1;
    loop->now_ms = clock_ms();
    loop->first_ms = UINT64_MAX;
    list_init(&loop->timers);
    return loop;
}

void
loop_free(struct loop *loop)
{
    if (!loop)
        return;
    if (loop->signals.fd >= 0)
        (void)close(loop->signals.fd);
    (void)close(loop->epoll_fd);
    free(loop);
}

int
loop_add(struct loop *loop, struct loop_source *source, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};

    assert(fd >= 0);
    assert(source->ready);
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        return -errno;
    source->fd = fd;
    source->events = events;
    return 0;
}

int
loop_change(struct loop *loop, struct loop_source *source, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = source};

    assert(source->fd >= 0);
    if (source->events == events)
        return 0;
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, source->fd, &event) < 0)
        return -errno;
    source->events = events;
    return 0;
}

void
loop_remove(struct loop *loop, struct loop_source *source)
{
    int i;

    if (source->fd < 0)
        return;
    /* Cannot fail for a registered descriptor that is still open. */
    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, source->fd, NULL);
    source->fd = -1;
    source->events = 0;

    /* What this turn fetched for it must not reach a freed source. */
    for (i = loop->event_at + 1; i < loop->event_count; i++)
        if (loop->events[i].data.ptr == source)
            loop->events[i].data.ptr = NULL;
}

void
loop_arm(struct loop *loop, struct loop_timer *timer, uint64_t deadline_ms)
{
    assert(timer->due);
    assert(deadline_ms > 0);
    loop_disarm(timer);
    timer->deadline_ms = deadline_ms;
    list_add(&loop->timers, &timer->link);
    if (deadline_ms < loop->first_ms)
        loop->first_ms = deadline_ms;
}

void
loop_disarm(struct loop_timer *timer)
{
    if (timer->deadline_ms > 0)
        list_remove(&timer->link);
    timer->deadline_ms = 0;
}

static void
deliver_signals(struct loop_source *source, uint32_t events)
{
    struct loop *loop = LOOP_OWNER(source, struct loop, signals);
    struct signalfd_siginfo info;

    (void)events; /* readable is all it can be */
    while (read(source->fd, &info, sizeof info) == (ssize_t)sizeof info)
        loop->signal(loop->signal_ctx, (int)info.ssi_signo, info.ssi_int);
}

int
loop_signals(struct loop *loop, const sigset_t *mask,
             void (*signal)(void *ctx, int signo, int value), void *ctx)
{
    int fd, rc;

    assert(loop->signals.fd < 0);
    rc = pthread_sigmask(SIG_BLOCK, mask, NULL);
    if (rc != 0)
        return -rc;
    fd = signalfd(-1, mask, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd < 0)
        return -errno;
    loop->signal = signal;
    loop->signal_ctx = ctx;
    loop->signals.ready = deliver_signals;
    rc = loop_add(loop, &loop->signals, fd, EPOLLIN);
    if (rc < 0)
        (void)close(fd);
    return rc;
}

void
loop_after_turn(struct loop *loop, bool (*after)(void *ctx), void *ctx)
{
    loop->after = after;
    loop->after_ctx = ctx;
}

uint64_t
loop_now_ms(const struct loop *loop)
{
    return loop->now_ms;
}

uint64_t
loop_unix_ms(struct loop *loop)
{
    if (loop->unix_ms == 0)
        loop->unix_ms = clock_unix_ms();
    return loop->unix_ms;
}

void
loop_stop(struct loop *loop)
{
    loop->stopped = true;
}

/* Milliseconds until a timer may be due, for epoll_wait. */
static int
wait_ms(const struct loop *loop)
{
    uint64_t now;

    if (loop->first_ms == UINT64_MAX)
        return -1;
    now = clock_ms();
    if (loop->first_ms <= now)
        return 0;
    return loop->first_ms - now > INT_MAX ? INT_MAX
                                          : (int)(loop->first_ms - now);
}

static void
run_sources(struct loop *loop)
{
    struct loop_source *source;

    for (loop->event_at = 0; loop->event_at < loop->event_count;
         loop->event_at++) {
        source = loop->events[loop->event_at].data.ptr;
        if (source)
            source->ready(source, loop->events[loop->event_at].events);
    }
    loop->event_count = 0;
}

/* All are taken out first, and those that are not due armed again: so what a
 * timer's function arms is not due before the next turn. */
static void
run_timers(struct loop *loop)
{
    struct list_link armed;
    struct loop_timer *timer;

    if (loop->now_ms < loop->first_ms)
        return;
    loop->first_ms = UINT64_MAX;
    list_init(&armed);
    while (!list_alone(&loop->timers))
        list_add(&armed, list_pop(&loop->timers));
    while (!list_alone(&armed)) {
        timer = LOOP_OWNER(list_pop(&armed), struct loop_timer, link);
        if (timer->deadline_ms > loop->now_ms) {
            loop_arm(loop, timer, timer->deadline_ms);
            continue;
        }
        timer->deadline_ms = 0;
        timer->due(timer);
    }
}

int
loop_run(struct loop *loop)
{
    bool again = false;
    int n;

    while (!loop->stopped) {
        n = epoll_wait(loop->epoll_fd, loop->events, LOOP_EVENTS_MAX,
                       again ? 0 : wait_ms(loop));
        if (n < 0 && errno != EINTR)
            return -errno;
        loop->event_count = n < 0 ? 0 : n;
        loop->now_ms = clock_ms();
        loop->unix_ms = 0;

        run_sources(loop);
        run_timers(loop);
        again = loop->after && loop->after(loop->after_ctx);
    }
    loop->stopped = false;
    return 0;
}
