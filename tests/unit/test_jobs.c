/* tests/unit/test_jobs.c - who has a place, whose turn it is, and how a job
 * ends. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/answer_fixture.h"

#include "reader/jobs.h"
#include "tests/lib/turns.h"

#define WORK ((size_t)JOBS_MAX + 8)

struct work {
    struct job job;
    struct conn conn;
    unsigned left; /* steps */
    unsigned stops;
};

struct office {
    struct fixture *site;
    struct loop *loop;
    struct jobs jobs;
    struct work all[WORK];
    char order[1024]; /* a letter for each step: the number of its work */
    size_t steps;
};

static struct office office;

static bool
step(struct job *job, uint64_t until_ns)
{
    struct work *w = LOOP_OWNER(job, struct work, job);

    assert_true(until_ns > 0);
    office.order[office.steps++] = (char)('a' + (w - office.all));
    return --w->left == 0;
}

static void
stop(struct job *job)
{
    LOOP_OWNER(job, struct work, job)->stops++;
}

static bool
one_turn(void *ctx)
{
    struct office *o = ctx;
    const bool works = jobs_end_turn(&o->jobs);

    loop_stop(o->loop);
    return works;
}

static int
setup(void **state)
{
    struct office *o = &office;

    *o = (struct office){.site = fixture_make(NULL, NULL, 1)};
    o->loop = loop_new();
    assert_non_null(o->loop);
    jobs_init(&o->jobs, o->loop, o->site->store, &o->site->as_of, 10000);
    o->jobs.step_ns = 0; /* one step in each turn */
    loop_after_turn(o->loop, one_turn, o);
    *state = o;
    return 0;
}

static int
close_office(void **state)
{
    struct office *o = *state;
    void *site = o->site;

    fault_clear();
    jobs_fini(&o->jobs);
    loop_free(o->loop);
    return teardown(&site);
}

#define CASE(name) TEST_IN(name, struct office *o, setup, close_office)

/* Enters for a client; a job that has a place begins with `steps` of them. */
static struct job *
enter_job(struct office *o, size_t i, uint16_t client, unsigned steps)
{
    struct work *w = &o->all[i];

    w->job = (struct job){
        .jobs = &o->jobs, .conn = &w->conn, .step = step, .stop = stop};
    w->conn.client = client;
    w->left = steps;
    if (job_enter(&w->job))
        job_run(&w->job);
    return &w->job;
}

static void
run_turns(struct office *o, unsigned count)
{
    while (count-- > 0)
        turns_run(o->loop);
}

CASE(clients_take_turns_and_within_a_client_its_jobs)
{
    (void)enter_job(o, 0, 1, 9);
    (void)enter_job(o, 1, 1, 9);
    (void)enter_job(o, 2, 1, 9);
    (void)enter_job(o, 3, 2, 9);

    run_turns(o, 8);

    assert_string_equal(o->order, "adbdcdad");
}

CASE(a_new_job_is_the_next_of_its_client_and_does_not_wait_for_a_step_of_each)
{
    struct job *job;

    for (size_t i = 0; i < 20; i++)
        (void)enter_job(o, i, 1, 1000);
    run_turns(o, 23);
    job = enter_job(o, 20, 1, 2);
    run_turns(o, 1);
    assert_string_equal(o->order, "abcdefghijklmnopqrst"
                                  "abc"
                                  "u");
    run_turns(o, 20); /* then it is one of them */
    assert_string_equal(o->order + 24, "defghijklmnopqrstabc");
    run_turns(o, 1);
    assert_int_equal(job->state, JOB_DONE);
}

CASE(a_client_has_half_of_the_places_and_the_next_is_of_who_has_the_fewest)
{
    struct job *waits[2], *others;

    for (size_t i = 0; i < JOBS_MAX / 2; i++)
        assert_int_equal(enter_job(o, i, 1, 1)->state, JOB_RUNS);
    waits[0] = enter_job(o, JOBS_MAX, 1, 1);
    assert_int_equal(waits[0]->state, JOB_IN_LINE);
    for (size_t i = JOBS_MAX / 2; i < JOBS_MAX; i++)
        assert_int_equal(enter_job(o, i, (uint16_t)i, 1)->state, JOB_RUNS);
    waits[1] = enter_job(o, JOBS_MAX + 1, 1, 1);
    others = enter_job(o, JOBS_MAX + 2, 99, 1);
    assert_int_equal(others->state, JOB_IN_LINE);

    job_leave(&o->all[0].job);
    assert_int_equal(others->state, JOB_HAS_PLACE);
    assert_int_equal(waits[0]->state, JOB_IN_LINE);
    job_leave(&o->all[1].job);
    assert_int_equal(waits[0]->state, JOB_HAS_PLACE);
    assert_int_equal(waits[1]->state, JOB_IN_LINE);
}

CASE(what_stands_in_line_is_left_without_a_stop_and_what_works_with_one)
{
    for (size_t i = 0; i < JOBS_MAX / 2 + 1; i++)
        (void)enter_job(o, i, 1, 1);

    job_leave(&o->all[JOBS_MAX / 2].job);
    job_leave(&o->all[0].job);
    job_leave(&o->all[0].job);

    assert_int_equal(o->all[JOBS_MAX / 2].stops, 0);
    assert_int_equal(o->all[0].stops, 1);
    assert_int_equal(o->jobs.placed, JOBS_MAX / 2 - 1);
}

CASE(what_takes_longer_than_it_may_is_stopped_once_and_has_no_place)
{
    struct job *job = enter_job(o, 0, 1, 1000);

    fault_stop_clock();
    run_turns(o, 2);
    assert_int_equal(o->steps, 2);
    fault_pass_ns(UINT64_C(10001) * 1000000);
    run_turns(o, 2);

    assert_int_equal(job->state, JOB_LATE);
    assert_int_equal(o->jobs.placed, 0);
    job_leave(job);
    assert_int_equal(o->all[0].stops, 1);
    assert_int_equal(o->steps, 2);
}

CASE(a_place_that_nobody_uses_is_given_to_another)
{
    struct job *job;

    fault_stop_clock();
    for (size_t i = 0; i < JOBS_MAX / 2 + 2; i++)
        job = enter_job(o, i, 1, 1000);
    job_leave(&o->all[0].job);
    assert_int_equal(o->all[JOBS_MAX / 2].job.state, JOB_HAS_PLACE);
    assert_int_equal(job->state, JOB_IN_LINE);
    fault_pass_ns(UINT64_C(1500) * 1000000);
    run_turns(o, 2);

    assert_int_equal(o->all[JOBS_MAX / 2].job.state, JOB_NONE);
    assert_int_equal(job->state, JOB_HAS_PLACE);
    assert_int_equal(o->all[JOBS_MAX / 2].stops, 0);
    assert_int_equal(o->jobs.placed, JOBS_MAX / 2);
}

CASE(an_answer_that_nobody_takes_gives_its_place_to_another)
{
    struct job *job = enter_job(o, 0, 1, 1);

    fault_stop_clock();
    run_turns(o, 2);
    assert_int_equal(job->state, JOB_DONE);
    assert_int_equal(o->all[0].stops, 0);
    fault_pass_ns(UINT64_C(1500) * 1000000);
    run_turns(o, 2);

    assert_int_equal(job->state, JOB_NONE);
    assert_int_equal(o->all[0].stops, 1);
    assert_int_equal(o->jobs.placed, 0);
}

/* ---- snapshots ------------------------------------------------------------ */

static struct store_engine spied;
static const struct store_engine *engine;
static unsigned kept; /* reads since the last end */

static int
spy_read(struct store *s, struct store_query *q, size_t size_max)
{
    kept++;
    return engine->read(s, q, size_max);
}

static void
spy_read_end(struct store *s)
{
    kept = 0;
    engine->read_end(s);
}

static bool
snapshot_step(struct job *job, uint64_t until_ns)
{
    struct work *w = LOOP_OWNER(job, struct work, job);
    struct store_query q = {
        .op = STORE_TOTAL, .name = (const uint8_t *)"words", .name_size = 5};

    (void)until_ns;
    assert_int_equal(stored_add(office.site->store, "words", NULL, "the", 1),
                     0);
    assert_rc(store_read(job->jobs->store, &q, NULL, 0), 0);
    office.order[office.steps++] = (char)('0' + store_total(&q.totals));
    return --w->left == 0;
}

CASE(each_step_has_a_snapshot_of_its_own_and_none_is_left)
{
    struct work *w = &o->all[0];

    engine = o->site->store->engine;
    spied = *engine;
    spied.read = spy_read;
    spied.read_end = spy_read_end;
    o->site->store->engine = &spied;
    job_init(&w->job, &o->jobs, &w->conn, stop);
    w->job.step = snapshot_step;
    w->left = 3;
    assert_true(job_enter(&w->job));
    job_run(&w->job);
    for (unsigned i = 1; i <= 3; i++) {
        run_turns(o, 1);
        assert_int_equal(o->steps, i);
        assert_int_equal(kept, 0);
    }
    assert_string_equal(o->order, "123");
    o->site->store->engine = engine;
    job_leave(&w->job);
}

/* ---- waiting ------------------------------------------------------------- */

static bool
is_due(struct job *job, uint64_t until_ns)
{
    struct work *w = LOOP_OWNER(job, struct work, job);

    assert_int_equal(until_ns, 0);
    office.steps++;
    return w->left == 0;
}

CASE(what_waits_is_looked_at_again_and_again_and_has_no_place)
{
    struct job *job = enter_job(o, 0, 1, 1);

    run_turns(o, 1);
    assert_int_equal(o->jobs.placed, 1);
    job_wait(job, is_due);
    assert_int_equal(o->jobs.placed, 0);
    assert_int_equal(o->all[0].stops, 1);
    assert_int_equal(job->state, JOB_WAITS);
    o->steps = 0;
    while (o->steps < 3)
        run_turns(o, 1);
    assert_in_range(job_waited_ms(job), 2 * JOBS_LOOK_MS, 60000);

    assert_true(job_enter(job));
    assert_int_equal(o->jobs.waits, 0);
    run_turns(o, 3);
    assert_int_equal(o->steps, 3);
}

CASE(half_of_those_that_may_wait_are_of_one_client)
{
    for (size_t i = 0; i < 5; i++) {
        assert_int_equal(jobs_may_wait(&o->jobs, &o->all[0].conn, 8), i < 4);
        (void)enter_job(o, i, 0, 1);
        job_wait(&o->all[i].job, is_due);
    }
    o->all[9].conn.client = 1;
    assert_true(jobs_may_wait(&o->jobs, &o->all[9].conn, 8));
    assert_false(jobs_may_wait(&o->jobs, &o->all[9].conn, 5));
    for (size_t i = 0; i < 5; i++)
        job_leave(&o->all[i].job);
    assert_true(jobs_may_wait(&o->jobs, &o->all[0].conn, 8));
}

/* ---- a store that is not local -------------------------------------------- */

/* A question that does not end. */
static int
go_on(struct store *s, struct store_history_query *q, uint64_t until_ns)
{
    (void)s;
    (void)q;
    (void)until_ns;
    return -EAGAIN;
}

static void
close_nothing(struct store *s)
{
    (void)s;
}

static int
open_endless(void *ctx, unsigned thread, struct store **store)
{
    static const struct store_engine endless = {.close = close_nothing,
                                                .history = go_on};
    static struct store stores[REMOTE_THREADS];

    (void)ctx;
    stores[thread].engine = &endless;
    *store = &stores[thread];
    return 0;
}

static bool
ask_step(struct job *job, uint64_t until_ns)
{
    static struct store_history_query q = {.op = STORE_HISTORY_RANK,
                                           .name = (const uint8_t *)"k",
                                           .name_size = 1,
                                           .to = 1};

    office.order[office.steps++] = 'a';
    return store_history(remote_store(job->jobs->remote), &q, until_ns) !=
           -EAGAIN;
}

CASE(a_job_that_asks_is_not_stepped_and_has_its_time_nevertheless)
{
    static struct as_of as_of;
    struct job *job;

    assert_rc(remote_open(&o->jobs.remote, open_endless, NULL), 0);
    assert_rc(remote_start(o->jobs.remote, o->loop, &as_of), 0);
    job = &o->all[0].job;
    job_init(job, &o->jobs, &o->all[0].conn, stop);
    assert_true(job_enter(job));
    job->step = ask_step;
    job_run(job);
    run_turns(o, 1);
    assert_int_equal(job->state, JOB_RUNS);
    o->jobs.max_time_ms = 20;
    while (job->state == JOB_RUNS) /* turns come with each piece */
        run_turns(o, 1);
    assert_int_equal(job->state, JOB_LATE);
    assert_int_equal(o->steps, 1);
    assert_int_equal(o->all[0].stops, 1);
    job_leave(job);
    remote_stop(o->jobs.remote);
    store_close(remote_store(o->jobs.remote));
    o->jobs.remote = NULL;
}
