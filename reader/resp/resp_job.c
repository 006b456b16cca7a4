/* reader/resp/resp_job.c - commands whose answers are jobs (reader/jobs.h):
 * resp_job_enter(), resp_job_run(), resp_job_answer(), resp_job_free(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/resp/resp_internal.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "reader/answer.h"

static void
stop_job(struct job *job)
{
    struct resp_job *j = LOOP_OWNER(job, struct resp_job, job);

    store_listing_close(j->listing);
    free(j->rows);
}

struct resp_job *
resp_job_make(struct resp_call *call)
{
    struct resp_job *j = call->state->job;

    if (j)
        return j;
    call->state->job = j = malloc(sizeof *j);
    if (j) {
        job_init(&j->job, call->service->jobs, call->conn, stop_job);
        j->answer = NULL;
    }
    return j;
}

enum conn_next
resp_job_no_memory(struct resp_call *call)
{
    if (call->state->job)
        stop_job(&call->state->job->job);
    resp_job_free(call->state);
    return resp_error(call, "no memory for this command: try again");
}

struct resp_job *
resp_job_enter(struct resp_call *call, size_t size)
{
    const size_t zero = offsetof(struct resp_job, error);
    struct resp_job *j = resp_job_make(call);

    if (j && !job_enter(&j->job)) {
        call->next = CONN_PAUSE;
        return NULL;
    }
    if (j)
        memset((uint8_t *)j + zero, 0,
               offsetof(struct resp_job, pattern) - zero);
    if (j && size > 0)
        j->rows = malloc(size);
    if (j && (size == 0 || j->rows))
        return j;
    call->next = resp_job_no_memory(call);
    return NULL;
}

enum conn_next
resp_job_run(struct resp_job *j, bool (*step)(struct job *, uint64_t),
             enum conn_next (*answer)(struct resp_call *, struct resp_job *))
{
    j->job.step = step;
    j->answer = answer;
    job_run(&j->job);
    return CONN_PAUSE;
}

enum conn_next
resp_job_answer(struct resp_call *call)
{
    struct resp_job *j = call->state->job;
    enum conn_next next;

    if (j->job.state == JOB_RUNS)
        return CONN_PAUSE;
    if (j->job.state == JOB_DONE)
        next = j->answer(call, j);
    else if (j->job.state == JOB_LATE)
        next = resp_error(call, "%s", ANSWER_TOO_LONG);
    else /* it was not taken: there was no memory to send it */
        next = resp_error(call, "no memory for this answer: try again");
    if (next == CONN_ANSWERED) {
        resp_job_free(call->state);
        /* Another command begins in the next service, with a job of its own. */
        call->service->until_ns = 0;
    }
    return next;
}

void
resp_job_free(struct resp_state *s)
{
    if (s->job)
        job_leave(&s->job->job);
    free(s->job);
    s->job = NULL;
}
