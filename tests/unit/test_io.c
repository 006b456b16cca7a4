/* tests/unit/test_io.c - jobs go to the thread and come back. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include "common/net/io.h"
#include "tests/lib/fault.h"

#define JOBS 100

struct fixture {
    struct loop *loop;
    struct io io;
    pthread_t loop_thread;
    struct job {
        struct io_job job;
        struct fixture *fixture;
        int again; /* times to push itself again */
        int runs;
        bool ran_elsewhere;
    } jobs[JOBS];
    int ran[2 * JOBS]; /* in the thread, in order */
    int ran_count;
    int done[2 * JOBS]; /* in the loop, in order */
    int done_count;
    int stop_at;
};

static void
run_job(struct io_job *job)
{
    struct job *j = LOOP_OWNER(job, struct job, job);
    struct fixture *r = j->fixture;

    j->runs++;
    j->ran_elsewhere = !pthread_equal(pthread_self(), r->loop_thread);
    r->ran[r->ran_count++] = (int)(j - r->jobs);
}

static void
job_done(struct io_job *job)
{
    struct job *j = LOOP_OWNER(job, struct job, job);
    struct fixture *r = j->fixture;

    assert_true(pthread_equal(pthread_self(), r->loop_thread));
    r->done[r->done_count++] = (int)(j - r->jobs);
    if (j->again > 0) {
        j->again--;
        io_push(&r->io, job);
    }
    if (r->done_count == r->stop_at)
        loop_stop(r->loop);
}

static int
set_up(void **state)
{
    struct fixture *r = calloc(1, sizeof *r);
    int i;

    assert_non_null(r);
    r->loop_thread = pthread_self();
    r->loop = loop_new();
    assert_non_null(r->loop);
    assert_rc(io_start(&r->io, r->loop), 0);
    for (i = 0; i < JOBS; i++)
        r->jobs[i] =
            (struct job){.job = {run_job, job_done, NULL}, .fixture = r};
    *state = r;
    return 0;
}

static int
tear_down(void **state)
{
    struct fixture *r = *state;

    loop_free(r->loop);
    free(r);
    return 0;
}

#define ON_FIXTURE(name, r) TEST_IN(name, struct fixture *r, set_up, tear_down)

ON_FIXTURE(jobs_run_in_the_thread_and_end_in_the_loop_in_order, r)
{
    int i;

    for (i = 0; i < JOBS; i++)
        io_push(&r->io, &r->jobs[i].job);
    r->stop_at = JOBS;
    assert_rc(loop_run(r->loop), 0);
    io_stop(&r->io);

    for (i = 0; i < JOBS; i++) {
        assert_int_equal(r->ran[i], i);
        assert_int_equal(r->done[i], i);
        assert_int_equal(r->jobs[i].runs, 1);
        assert_true(r->jobs[i].ran_elsewhere);
    }
}

ON_FIXTURE(a_job_may_push_itself_again, r)
{
    r->jobs[0].again = 20;
    io_push(&r->io, &r->jobs[0].job);
    r->stop_at = 21;
    assert_rc(loop_run(r->loop), 0);
    io_stop(&r->io);

    assert_int_equal(r->jobs[0].runs, 21);
}

ON_FIXTURE(a_stop_runs_what_is_queued, r)
{
    int i;

    for (i = 0; i < JOBS; i++)
        io_push(&r->io, &r->jobs[i].job);
    io_stop(&r->io);

    assert_int_equal(r->ran_count, JOBS);
    assert_int_equal(r->done_count, 0);
}

ON_FIXTURE(a_start_that_fails_leaves_nothing_behind, r)
{
    const unsigned fds = fault_open_fds();
    struct io io;

    fault_inject("epoll_ctl", 1, ENOMEM);
    assert_rc(io_start(&io, r->loop), -ENOMEM);
    fault_clear();

    assert_int_equal(fault_open_fds(), fds);
    io_stop(&r->io);
}
