/* reader/jobs.c - see jobs.h: jobs_init(), jobs_end_turn(), job_enter(),
 * job_run(), job_leave(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/jobs.h"

#include "common/base/clock.h"

static_assert(JOBS_MAX <= UINT8_MAX,
              "places of a client are counted in a byte");

void
jobs_init(struct jobs *j, struct loop *loop, struct store *store,
          struct as_of *as_of, uint64_t max_time_ms)
{
    *j = (struct jobs){.loop = loop,
                       .store = store,
                       .as_of = as_of,
                       .max_time_ms = max_time_ms,
                       .step_ns = JOBS_STEP_NS};
    list_init(&j->line);
    list_init(&j->running);
    list_init(&j->done);
}

static struct job *
job_of_link(struct list_link *link)
{
    return LOOP_OWNER(link, struct job, link);
}

static void
set_state(struct job *job, enum job_state state, struct list_link *list)
{
    if (job->link.next)
        list_remove(&job->link);
    else
        list_init(&job->link);
    if (list)
        list_add(list, &job->link);
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
        set_state(job, JOB_HAS_PLACE, NULL);
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
    if (job->state != JOB_NONE)
        give_up(job, JOB_NONE);
}

/* ---- steps --------------------------------------------------------------- */

static void
step_job(struct job *job, uint64_t until_ns)
{
    struct jobs *j = job->jobs;
    const uint64_t now_ms = loop_now_ms(j->loop);

    job->turn = j->client_turns[job->conn->client] = ++j->turn;
    if (now_ms - job->since_ms >= j->max_time_ms) {
        give_up(job, JOB_LATE);
        conn_wake(job->conn);
        return;
    }
    as_of_refresh(j->as_of, now_ms);
    if (job->step(job, until_ns)) {
        set_state(job, JOB_DONE, &j->done);
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

/* Whose client's last step is the longest ago; of a client's the same. */
static struct job *
next_to_run(struct jobs *j)
{
    struct job *next = NULL;

    for (struct list_link *l = j->running.next; l != &j->running; l = l->next)
        if (!next || is_before(j, job_of_link(l), next))
            next = job_of_link(l);
    return next;
}

static void
give_up_untaken(struct jobs *j)
{
    while (!list_alone(&j->done)) {
        struct job *oldest = job_of_link(j->done.next);

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
    while ((job = next_to_run(j)) != NULL) {
        step_job(job, until_ns);
        if (clock_ns() >= until_ns)
            break;
    }
    return !list_alone(&j->running);
}
