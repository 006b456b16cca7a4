/* reader/read_job.c - see read_job.h: read_job_of(), read_job_enter(),
 * read_job_start(), read_job_pack(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/read_job.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "reader/read_commands.h"

/* ---- steps --------------------------------------------------------------- */

static bool
step_command(struct job *job, uint64_t until_ns)
{
    struct read_job *w = LOOP_OWNER(job, struct read_job, job);
    struct read_request *a = &w->request;
    struct query q;
    enum read_next next;

    do {
        if (w->has_query && !answer_long_step(&w->steps))
            return false;
        w->has_query = false;
        a->until_ns = until_ns;
        next = a->command->next(a, &q);
        w->has_query = next == READ_QUERY;
        if (w->has_query)
            answer_long_start(&w->steps, &q, loop_now_ms(job->jobs->loop));
    } while (next != READ_READY && clock_ns() < until_ns);
    return next == READ_READY;
}

static bool
step_packing(struct job *job, uint64_t until_ns)
{
    struct read_job *w = LOOP_OWNER(job, struct read_job, job);

    return read_pack_step(&w->pack, until_ns);
}

static void
stop_job(struct job *job)
{
    struct read_job *w = LOOP_OWNER(job, struct read_job, job);

    if (w->has_query)
        answer_long_stop(&w->steps);
    if (w->steps.store)
        answer_fini(&w->steps);
    w->steps.store = NULL;
    free(w->listed);
    w->listed = NULL;
    read_logs_free(&w->logs);
    read_pack_close(&w->pack);
    w->has_query = w->packs = false;
}

/* ---- life ---------------------------------------------------------------- */

static void
free_job(struct http_held *held)
{
    struct read_job *w = LOOP_OWNER(held, struct read_job, held);

    job_leave(&w->job);
    free(w);
}

struct read_job *
read_job_of(const struct http_call *x)
{
    return *x->held ? LOOP_OWNER(*x->held, struct read_job, held) : NULL;
}

struct read_job *
read_job_enter(struct http_call *x)
{
    struct read_http *h = x->ctx;
    struct read_job *w = read_job_of(x);

    if (!w) {
        w = malloc(sizeof *w); /* most of it is never touched in line */
        if (!w)
            return NULL;
        w->held.gone = free_job;
        w->job =
            (struct job){.jobs = h->jobs, .conn = x->conn, .stop = stop_job};
        w->steps.store = NULL;
        w->listed = NULL;
        w->logs = (struct read_logs){.rows = NULL};
        w->pack.text = NULL;
        w->has_query = w->packs = false;
        *x->held = &w->held;
    }
    (void)job_enter(&w->job); /* its state says it */
    return w;
}

int
read_job_start(struct read_job *w, const struct read_request *request)
{
    const struct answer *at_once = request->http->answer;
    int rc;

    w->request = *request;
    w->request.job = w;
    w->request.has_state = false; /* it will be of the past */
    w->listed = malloc(READ_LISTED_MAX * sizeof *w->listed);
    rc = w->listed ? answer_init(&w->steps, at_once->store, at_once->as_of)
                   : -ENOMEM;
    if (rc < 0) {
        w->steps.store = NULL;
        free(w->listed);
        w->listed = NULL;
        return rc;
    }
    w->job.step = step_command;
    job_run(&w->job);
    return 0;
}

int
read_job_pack(struct read_job *w, const struct read_request *request,
              const uint8_t *text, size_t size)
{
    const int rc = read_pack_open(&w->pack, size);

    if (rc < 0 || !w->pack.text)
        return -ENOMEM;
    if (request != &w->request)
        w->request = *request;
    read_pack_start(&w->pack, text, size);
    w->packs = true;
    w->job.step = step_packing;
    job_run(&w->job);
    return 0;
}
