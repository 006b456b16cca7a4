/* reader/jobs.c - see jobs.h: jobs_init(), jobs_end_turn(), job_enter(),
 * job_ask(), job_run(), job_wait(), job_leave(), job_hold(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/jobs.h"

#include <stdlib.h>

#include "common/base/clock.h"

static_assert(JOBS_MAX <= UINT8_MAX,
              "places of a client are counted in a byte");

static struct job *
job_of_link(struct list_link *link)
{
    return LOOP_OWNER(link, struct job, link);
}

static void
set_state(struct job *job, enum job_state state, struct list_link *list)
{
    assert(job->jobs && job->conn);
    if (job->link.next)
        list_remove(&job->link);
    else
        list_init(&job->link);
    if (list)
        list_add(list, &job->link);
    if (job->state == JOB_WAITS) {
        job->jobs->waits--;
        job->jobs->client_waits[job->conn->client]--;
    }
    job->state = state;
    job->since_ms = loop_now_ms(job->jobs->loop);
}

/* ---- places -------------------------------------------------------------- */

/* Of those that may have a place the one whose client has the fewest; of
 * several the first in line. */
static struct job *
next_in_line(struct jobs *j)
{
    unsigned least = JOBS_MAX / 2;
    struct job *next = NULL;

    for (struct list_link *l = j->line.next; l != &j->line && least > 0;
         l = l->next) {
        const unsigned places = j->client_places[job_of_link(l)->conn->client];

        if (places >= least)
            continue;
        least = places;
        next = job_of_link(l);
    }
    return next;
}

static void
give_places(struct jobs *j)
{
    struct job *job;

    while (j->placed < JOBS_MAX && (job = next_in_line(j)) != NULL) {
        set_state(job, JOB_HAS_PLACE, &j->untaken);
        j->client_places[job->conn->client]++;
        j->placed++;
        conn_wake(job->conn);
    }
}

/* Ends what the job does, and its place is another's. */
static void
give_up(struct job *job, enum job_state state)
{
    struct jobs *j = job->jobs;
    const enum job_state was = job->state;

    if (was >= JOB_RUNS)
        job->stop(job);
    if (j->remote)
        remote_forget(j->remote, &job->asker);
    set_state(job, state, NULL);
    if (was < JOB_HAS_PLACE)
        return;
    j->client_places[job->conn->client]--;
    j->placed--;
    give_places(j);
}

bool
job_enter(struct job *job)
{
    if (job->state < JOB_IN_LINE) {
        set_state(job, JOB_IN_LINE, &job->jobs->line);
        give_places(job->jobs);
    }
    return job->state >= JOB_HAS_PLACE;
}

void
job_run(struct job *job)
{
    assert(job->state >= JOB_HAS_PLACE);
    set_state(job, JOB_RUNS, &job->jobs->running);
}

void
job_leave(struct job *job)
{
    give_up(job, JOB_NONE);
}

/* ---- a store that is not local -------------------------------------------- */

/* All that the job has asked is answered. */
static void
wake_job(struct remote_asker *a)
{
    struct job *job = LOOP_OWNER(a, struct job, asker);

    if (job->state != JOB_RUNS) /* else the next step is at the turn's end */
        conn_wake(job->conn);
}

void
job_ask(struct job *job)
{
    if (job->jobs->remote)
        remote_begin(job->jobs->remote, &job->asker, true);
}

bool
job_asked(struct job *job)
{
    if (job->jobs->remote)
        remote_end(job->jobs->remote);
    return remote_is_asking(&job->asker);
}

/* ---- steps --------------------------------------------------------------- */

static void
step_job(struct job *job, uint64_t until_ns)
{
    struct jobs *j = job->jobs;
    bool is_done;

    job->turn = j->client_turns[job->conn->client] = ++j->turn;
    as_of_refresh(j->as_of, loop_now_ms(j->loop));
    if (j->remote)
        remote_begin(j->remote, &job->asker, false);
    is_done = job->step(job, until_ns);
    if (j->remote)
        remote_end(j->remote);
    if (is_done) {
        set_state(job, JOB_DONE, &j->untaken);
        conn_wake(job->conn);
    }
    store_read_end(j->store);
}

static bool
is_before(const struct jobs *j, const struct job *a, const struct job *b)
{
    const uint64_t a_client = j->client_turns[a->conn->client];
    const uint64_t b_client = j->client_turns[b->conn->client];

    return a_client != b_client ? a_client < b_client : a->turn < b->turn;
}

/* Whose client's last step is the longest ago; of a client's the same, so that a
 * short one that comes to long ones does not wait for a step of each.  One that
 * asks is not stepped.  NULL: there is none to step. */
static struct job *
next_to_run(struct jobs *j)
{
    struct job *next = NULL;

    for (struct list_link *l = j->running.next; l != &j->running; l = l->next) {
        struct job *job = job_of_link(l);

        if (!remote_is_asking(&job->asker) &&
            (!next || is_before(j, job, next)))
            next = job;
    }
    return next;
}

/* Gives up what has had its time, also while it asks. */
static void
give_up_late(struct jobs *j)
{
    struct list_link *next;

    for (struct list_link *l = j->running.next; l != &j->running; l = next) {
        struct job *job = job_of_link(l);

        next = l->next;
        if (loop_now_ms(j->loop) - job->since_ms < j->max_time_ms)
            continue;
        give_up(job, JOB_LATE);
        conn_wake(job->conn);
    }
}

static void
give_up_untaken(struct jobs *j)
{
    while (!list_alone(&j->untaken)) {
        struct job *oldest = job_of_link(j->untaken.next);

        if (loop_now_ms(j->loop) - oldest->since_ms <= JOBS_KEPT_MS)
            return;
        give_up(oldest, JOB_NONE);
    }
}

bool
jobs_end_turn(struct jobs *j)
{
    const uint64_t until_ns = clock_ns() + j->step_ns;
    struct job *job;

    store_read_end(j->store);
    give_up_untaken(j);
    give_up_late(j);
    while ((job = next_to_run(j)) != NULL) {
        step_job(job, until_ns);
        if (clock_ns() >= until_ns)
            break;
    }
    return next_to_run(j) != NULL;
}

/* ---- waiting ------------------------------------------------------------- */

static void
poll_waiting(struct loop_timer *timer)
{
    struct jobs *j = LOOP_OWNER(timer, struct jobs, timer);
    const uint64_t now_ms = loop_now_ms(j->loop);

    if (list_alone(&j->waiting))
        return;
    as_of_refresh(j->as_of, now_ms);
    for (struct list_link *l = j->waiting.next; l != &j->waiting; l = l->next)
        if (job_of_link(l)->step(job_of_link(l), 0))
            conn_wake(job_of_link(l)->conn);
    loop_arm(j->loop, timer, now_ms + JOBS_LOOK_MS);
}

void
job_wait(struct job *job, bool (*step)(struct job *, uint64_t))
{
    struct jobs *j = job->jobs;

    job_leave(job);
    job->step = step;
    set_state(job, JOB_WAITS, &j->waiting);
    j->waits++;
    j->client_waits[job->conn->client]++;
    if (job->waits_ms == 0)
        job->waits_ms = job->since_ms;
    if (j->timer.deadline_ms == 0)
        loop_arm(j->loop, &j->timer, job->since_ms + JOBS_LOOK_MS);
}

bool
jobs_may_wait(const struct jobs *j, const struct conn *c, unsigned max)
{
    return j->waits < max && j->client_waits[c->client] < max / 2;
}

uint64_t
job_waited_ms(const struct job *job)
{
    if (conn_has_left(job->conn))
        return UINT64_MAX;
    return job->waits_ms == 0
               ? 0
               : loop_now_ms(job->jobs->loop) - job->waits_ms + 1;
}

/* ---- life ---------------------------------------------------------------- */

void
jobs_init(struct jobs *j, struct loop *loop, struct store *store,
          struct as_of *as_of, uint64_t max_time_ms)
{
    *j = (struct jobs){.loop = loop,
                       .store = store,
                       .as_of = as_of,
                       .max_time_ms = max_time_ms,
                       .step_ns = JOBS_STEP_NS,
                       .timer = {.due = poll_waiting}};
    list_init(&j->line);
    list_init(&j->running);
    list_init(&j->untaken);
    list_init(&j->waiting);
}

void
jobs_fini(struct jobs *j)
{
    loop_disarm(&j->timer);
}

void
job_init(struct job *job, struct jobs *j, struct conn *c,
         void (*stop)(struct job *))
{
    *job = (struct job){.jobs = j, .conn = c, .stop = stop};
    remote_asker_init(&job->asker, wake_job);
}

static void
free_held(struct http_held *held)
{
    struct job *job = LOOP_OWNER(held, struct job, held);

    job_leave(job);
    free(job);
}

struct job *
job_hold(struct http_call *x, struct jobs *j, size_t size,
         void (*stop)(struct job *))
{
    struct job *job;

    if (*x->held)
        return LOOP_OWNER(*x->held, struct job, held);
    job = malloc(size);
    if (!job)
        return NULL;
    job_init(job, j, x->conn, stop);
    job->held.gone = free_held;
    *x->held = &job->held;
    return job;
}
