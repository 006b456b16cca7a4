/* tests/unit/test_loop.c - descriptors, deadlines and signals of the loop. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/net/loop.h"
#include "tests/lib/fault.h"

#define PIPES 3

/* A loop with a few pipes; each handler notes that it ran. */
struct fixture {
    struct loop *loop;
    struct end {
        struct loop_source source;
        struct fixture *fixture;
        int write_fd;
        int read_fd;
        int calls;
        uint32_t events;
        struct end *removes; /* what its handler removes */
    } ends[PIPES];
    struct timer {
        struct loop_timer timer;
        struct fixture *fixture;
        int calls;
        uint64_t deadline_ms;  /* as it was armed last */
        uint64_t again_ms;     /* arms itself again this much later */
        struct timer *disarms; /* what its handler disarms */
    } timers[LOOP_TIMERS_MAX + 1];
    int turns;
    int stop_after; /* turns */
    bool again;
    int signo, value;
    int due; /* timers that came due */
};

static void
end_ready(struct loop_source *source, uint32_t events)
{
    struct end *e = LOOP_OWNER(source, struct end, source);
    char byte;

    e->calls++;
    e->events = events;
    if (events & EPOLLIN)
        assert_int_equal(read(e->read_fd, &byte, 1), 1);
    if (e->removes)
        loop_remove(e->fixture->loop, &e->removes->source);
}

static void
timer_due(struct loop_timer *timer)
{
    struct timer *t = LOOP_OWNER(timer, struct timer, timer);
    struct fixture *r = t->fixture;

    t->calls++;
    r->due++;
    assert_true(loop_now_ms(r->loop) >= t->deadline_ms);
    if (t->again_ms && t->calls < 3) {
        t->deadline_ms = loop_now_ms(r->loop) + t->again_ms;
        assert_rc(loop_arm(r->loop, timer, t->deadline_ms), 0);
    }
    if (t->disarms)
        loop_disarm(r->loop, &t->disarms->timer);
}

static bool
after_turn(void *ctx)
{
    struct fixture *r = ctx;

    if (++r->turns >= r->stop_after)
        loop_stop(r->loop);
    return r->again;
}

static int
set_up(void **state)
{
    struct fixture *r = calloc(1, sizeof *r);
    int i, fds[2];

    assert_non_null(r);
    r->loop = loop_new();
    assert_non_null(r->loop);
    for (i = 0; i < PIPES; i++) {
        assert_int_equal(pipe(fds), 0);
        r->ends[i] = (struct end){.fixture = r,
                                  .read_fd = fds[0],
                                  .write_fd = fds[1],
                                  .source = {.fd = -1, .ready = end_ready}};
    }
    for (i = 0; i <= LOOP_TIMERS_MAX; i++)
        r->timers[i] = (struct timer){.fixture = r,
                                      .timer = {.slot = -1, .due = timer_due}};
    r->stop_after = 1;
    loop_after_turn(r->loop, after_turn, r);
    *state = r;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *r = *state;
    int i;

    loop_free(r->loop);
    for (i = 0; i < PIPES; i++) {
        close(r->ends[i].read_fd);
        close(r->ends[i].write_fd);
    }
    free(r);
    return 0;
}

#define ON_FIXTURE(name, r) TEST_IN(name, struct fixture *r, set_up, tear_down)

static void
put_byte(struct end *e)
{
    assert_int_equal(write(e->write_fd, "x", 1), 1);
}

static void
watch(struct end *e)
{
    assert_rc(loop_add(e->fixture->loop, &e->source, e->read_fd, EPOLLIN), 0);
}

static void
run(struct fixture *r)
{
    assert_rc(loop_run(r->loop), 0);
}

static void
arm(struct fixture *r, int timer, uint64_t deadline_ms)
{
    r->timers[timer].deadline_ms = deadline_ms;
    assert_rc(loop_arm(r->loop, &r->timers[timer].timer, deadline_ms), 0);
}

ON_FIXTURE(a_readable_descriptor_calls_its_handler_once_per_turn, r)
{
    watch(&r->ends[0]);
    watch(&r->ends[1]);
    put_byte(&r->ends[0]);
    put_byte(&r->ends[0]);
    r->stop_after = 2;

    run(r);
    assert_int_equal(r->ends[0].calls, 2);
    assert_int_equal(r->ends[0].events, EPOLLIN);
    assert_int_equal(r->ends[1].calls, 0);
}

ON_FIXTURE(a_removed_source_gets_no_event_that_was_already_fetched, r)
{
    int i;

    for (i = 0; i < PIPES; i++) {
        watch(&r->ends[i]);
        put_byte(&r->ends[i]);
    }
    /* Whichever is delivered first removes another. */
    for (i = 0; i < PIPES; i++)
        r->ends[i].removes = &r->ends[(i + 1) % PIPES];

    run(r);
    assert_int_equal(r->ends[0].calls + r->ends[1].calls + r->ends[2].calls, 2);
}

ON_FIXTURE(a_handler_may_remove_its_own_source, r)
{
    watch(&r->ends[0]);
    put_byte(&r->ends[0]);
    put_byte(&r->ends[0]);
    r->ends[0].removes = &r->ends[0];
    r->again = true;
    r->stop_after = 3;

    run(r);
    assert_int_equal(r->ends[0].calls, 1);
    assert_int_equal(r->ends[0].source.fd, -1);
}

ON_FIXTURE(a_source_without_events_sleeps_until_it_is_changed, r)
{
    watch(&r->ends[0]);
    put_byte(&r->ends[0]);
    assert_rc(loop_change(r->loop, &r->ends[0].source, 0), 0);
    arm(r, 0, 1);
    r->again = true;
    r->stop_after = 2;
    run(r);
    assert_int_equal(r->ends[0].calls, 0);

    assert_rc(loop_change(r->loop, &r->ends[0].source, EPOLLIN), 0);
    r->stop_after++;
    run(r);
    assert_int_equal(r->ends[0].calls, 1);
}

ON_FIXTURE(a_turn_asked_for_comes_without_waiting, r)
{
    r->again = true;
    r->stop_after = 1000;

    /* After the first turn a loop that waited would never return. */
    arm(r, 0, 1);
    run(r);
    assert_int_equal(r->turns, 1000);
    assert_int_equal(r->timers[0].calls, 1);
}

ON_FIXTURE(timers_come_due_at_their_time_and_once, r)
{
    const uint64_t begin_ms = clock_ms();

    arm(r, 0, begin_ms + 30);
    arm(r, 1, begin_ms + 10);
    r->stop_after = INT32_MAX;
    r->timers[0].again_ms = 1;
    while (r->timers[0].calls < 3) {
        r->stop_after = r->turns + 1;

        run(r);
    }

    assert_in_range(clock_ms() - begin_ms, 32, 20000);
    assert_int_equal(r->timers[1].calls, 1);
    assert_int_equal(r->timers[1].timer.deadline_ms, 0);
}

ON_FIXTURE(arming_again_moves_the_deadline, r)
{
    arm(r, 0, clock_ms());
    arm(r, 0, clock_ms() + 60000);
    arm(r, 1, 1);
    run(r);
    assert_int_equal(r->timers[0].calls, 0);

    arm(r, 0, 1);
    r->stop_after++;
    run(r);
    assert_int_equal(r->timers[0].calls, 1);
}

ON_FIXTURE(a_disarmed_timer_is_silent_even_when_it_is_due, r)
{
    arm(r, 0, 1);
    arm(r, 1, 1);
    r->timers[0].disarms = &r->timers[1];

    run(r);
    assert_int_equal(r->timers[0].calls, 1);
    assert_int_equal(r->timers[1].calls, 0);
}

ON_FIXTURE(more_timers_than_the_limit_are_refused, r)
{
    int i;

    for (i = 0; i < LOOP_TIMERS_MAX; i++)
        arm(r, i, 1);
    assert_rc(loop_arm(r->loop, &r->timers[i].timer, 1), -ENOSPC);

    loop_disarm(r->loop, &r->timers[7].timer);
    arm(r, i, 1);
    run(r);
    assert_int_equal(r->due, LOOP_TIMERS_MAX);
    assert_int_equal(r->timers[7].calls, 0);
}

static void
take_signal(void *ctx, int signo, int value)
{
    ((struct fixture *)ctx)->signo = signo;
    ((struct fixture *)ctx)->value = value;
}

ON_FIXTURE(signals_arrive_as_events, r)
{
    sigset_t mask, before;

    assert_int_equal(pthread_sigmask(SIG_BLOCK, NULL, &before), 0);
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    sigaddset(&mask, SIGUSR2);
    assert_rc(loop_signals(r->loop, &mask, take_signal, r), 0);

    assert_int_equal(raise(SIGUSR2), 0);
    run(r);
    assert_int_equal(r->signo, SIGUSR2);
    assert_int_equal(r->value, 0);

    assert_int_equal(
        sigqueue(getpid(), SIGUSR2, (union sigval){.sival_int = 7}), 0);
    run(r);
    assert_int_equal(r->value, 7);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
}

ON_FIXTURE(both_clocks_are_read_once_per_turn, r)
{
    const uint64_t before_ms = clock_ms(), before_unix_ms = clock_unix_ms();

    r->again = true;
    arm(r, 0, 1);
    run(r);
    assert_in_range(loop_now_ms(r->loop), before_ms, clock_ms());
    assert_in_range(loop_unix_ms(r->loop), before_unix_ms, clock_unix_ms());
}

ON_FIXTURE(a_failing_call_leaves_nothing_behind, r)
{
    const unsigned fds = fault_open_fds();

    fault_inject("epoll_create1", 1, EMFILE);
    assert_null(loop_new());
    assert_int_equal(errno, EMFILE);
    assert_int_equal(fault_open_fds(), fds);

    fault_inject("epoll_ctl", 1, ENOSPC);
    assert_rc(
        loop_add(r->loop, &r->ends[0].source, r->ends[0].read_fd, EPOLLIN),
        -ENOSPC);
    assert_int_equal(r->ends[0].source.fd, -1);
    fault_inject("epoll_wait", 1, EBADF);
    assert_rc(loop_run(r->loop), -EBADF);
    fault_clear();
}
