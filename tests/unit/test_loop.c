/* tests/unit/test_loop.c - what the loop has fetched and must not deliver, and
 * which timers are due. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/net/loop.h"
#include "tests/lib/fault.h"

#define PIPES  3
#define TIMERS 65

/* A loop with a few pipes; each handler notes that it ran. */
struct fixture {
    struct loop *loop;
    struct end {
        struct loop_source source;
        struct fixture *fixture;
        int write_fd;
        int read_fd;
        int calls;
        struct end *removes; /* what its handler removes */
    } ends[PIPES];
    struct timer {
        struct loop_timer timer;
        struct fixture *fixture;
        int calls;
        struct timer *disarms; /* what its handler disarms */
        uint64_t arms_ms;      /* its next deadline; 0: none */
    } timers[TIMERS];
    int due; /* timers that came due */
};

static void
end_ready(struct loop_source *source, uint32_t events)
{
    struct end *e = LOOP_OWNER(source, struct end, source);
    char byte;

    e->calls++;
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
    if (t->disarms)
        loop_disarm(&t->disarms->timer);
    if (t->arms_ms > 0)
        loop_arm(r->loop, timer, t->arms_ms);
}

static bool
after_turn(void *ctx)
{
    loop_stop(((struct fixture *)ctx)->loop);
    return false;
}

static void
set_up(struct fixture *r)
{
    int i, fds[2];

    r->loop = loop_new();
    assert_non_null(r->loop);
    for (i = 0; i < PIPES; i++) {
        assert_int_equal(pipe(fds), 0);
        r->ends[i] = (struct end){.fixture = r,
                                  .read_fd = fds[0],
                                  .write_fd = fds[1],
                                  .source = {.fd = -1, .ready = end_ready}};
    }
    for (i = 0; i < TIMERS; i++)
        r->timers[i] =
            (struct timer){.fixture = r, .timer = {.due = timer_due}};
    loop_after_turn(r->loop, after_turn, r);
}

static void
tear_down(struct fixture *r)
{
    int i;

    loop_free(r->loop);
    for (i = 0; i < PIPES; i++) {
        close(r->ends[i].read_fd);
        close(r->ends[i].write_fd);
    }
}

#define ON_FIXTURE(name, r)                                                    \
    TEST_WITH(name, struct fixture, r, set_up, tear_down)

static void
put_byte(struct end *e)
{
    assert_int_equal(write(e->write_fd, "x", 1), 1);
}

static void
watch_source(struct end *e)
{
    assert_rc(loop_add(e->fixture->loop, &e->source, e->read_fd, EPOLLIN), 0);
}

static void
run_turn(struct fixture *r)
{
    assert_rc(loop_run(r->loop), 0);
}

static void
arm_timer(struct fixture *r, int timer, uint64_t deadline_ms)
{
    loop_arm(r->loop, &r->timers[timer].timer, deadline_ms);
}

ON_FIXTURE(a_removed_source_gets_no_event_that_was_already_fetched, r)
{
    int i;

    for (i = 0; i < PIPES; i++) {
        watch_source(&r->ends[i]);
        put_byte(&r->ends[i]);
    }
    /* Whichever is delivered first removes another. */
    for (i = 0; i < PIPES; i++)
        r->ends[i].removes = &r->ends[(i + 1) % PIPES];

    run_turn(r);
    assert_int_equal(r->ends[0].calls + r->ends[1].calls + r->ends[2].calls, 2);
}

ON_FIXTURE(a_disarmed_timer_is_silent_even_when_it_is_due, r)
{
    arm_timer(r, 0, 1);
    arm_timer(r, 1, 1);
    r->timers[0].disarms = &r->timers[1];
    r->timers[1].disarms = &r->timers[0];

    run_turn(r);
    assert_int_equal(r->timers[0].calls + r->timers[1].calls, 1);
}

ON_FIXTURE(each_timer_that_is_armed_is_due_once, r)
{
    int i;

    for (i = 0; i < TIMERS; i++)
        arm_timer(r, i, i % 3 == 0 ? UINT64_MAX : 1);
    loop_disarm(&r->timers[7].timer);
    arm_timer(r, 8, UINT64_MAX);
    arm_timer(r, 9, 1);
    run_turn(r);
    arm_timer(r, 0, 1);
    run_turn(r);
    for (i = 0; i < TIMERS; i++)
        assert_int_equal(r->timers[i].calls,
                         i == 0 || i == 9 || (i % 3 != 0 && i != 7 && i != 8));
}

/* It would else hold up the turn for ever. */
ON_FIXTURE(a_timer_that_is_armed_when_it_is_due_is_due_in_the_next_turn, r)
{
    arm_timer(r, 0, 1);
    arm_timer(r, 1, 1);
    r->timers[0].arms_ms = r->timers[1].arms_ms = 1;
    for (int turn = 1; turn <= 3; turn++) {
        run_turn(r);
        assert_int_equal(r->timers[0].calls, turn);
        assert_int_equal(r->timers[1].calls, turn);
    }
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
