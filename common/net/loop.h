/* common/net/loop.h - one thread's event loop: descriptors, deadlines, signals.
 *
 * A turn: wait, read the clock once, call the handler of each ready
 * descriptor, then the handlers of due timers, then the after-turn handler.
 * Handlers may add and remove anything, themselves included; an event already
 * fetched for a removed source is not delivered.
 *
 * Ownership: sources and timers are embedded in the caller's structs and must
 * outlive their registration.  Nothing allocates after loop_new().
 * Errors: 0 or a negative errno.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_NET_LOOP_H
#define COUNTD_COMMON_NET_LOOP_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/list.h"

/* The struct that a source or timer is embedded in. */
#define LOOP_OWNER(pointer, type, member)                                      \
    ((type *)(void *)((char *)(pointer)-offsetof(type, member)))

struct loop;

struct loop_source {
    int fd;          /* -1 when not registered */
    uint32_t events; /* EPOLLIN ...; as registered */
    void (*ready)(struct loop_source *source, uint32_t events);
};

struct loop_timer {
    uint64_t deadline_ms;  /* monotonic (clock_ms); 0 when not armed */
    struct list_link link; /* the loop's */
    void (*due)(struct loop_timer *timer);
};

struct loop *loop_new(void); /* NULL with errno */
void loop_free(struct loop *loop);

int loop_add(struct loop *loop, struct loop_source *source, int fd,
             uint32_t events);
int loop_change(struct loop *loop, struct loop_source *source, uint32_t events);
void loop_remove(struct loop *loop, struct loop_source *source);

/* Has the timer called in a turn at or after its deadline, once. */
void loop_arm(struct loop *loop, struct loop_timer *timer,
              uint64_t deadline_ms);
void loop_disarm(struct loop_timer *timer);

/* Blocks the signals of `mask` and delivers them as events; `value` is that of
 * sigqueue(3), and 0 after kill(2). */
int loop_signals(struct loop *loop, const sigset_t *mask,
                 void (*signal)(void *ctx, int signo, int value), void *ctx);

/* Called at the end of each turn; one per loop.  Return true to have the next
 * turn not wait. */
void loop_after_turn(struct loop *loop, bool (*after)(void *ctx), void *ctx);

/* The clocks as of this turn: the monotonic one as of its begin, the other as
 * of the first call in it. */
uint64_t loop_now_ms(const struct loop *loop);
uint64_t loop_unix_ms(struct loop *loop);

int loop_run(struct loop *loop); /* until loop_stop; 0 or -errno */
void loop_stop(struct loop *loop);

#endif
