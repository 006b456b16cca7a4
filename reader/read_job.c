/* reader/read_job.c - see read_job.h: read_job_of(), read_job_hold(),
 * read_job_start(), read_job_pack(), read_job_wait(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/read_job.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/clock.h"
#include "reader/read_commands.h"

#define LOOK_MS 100 /* between looks at a keyspace's version */

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

struct read_job *
read_job_of(const struct http_call *x)
{
    return *x->held ? LOOP_OWNER(*x->held, struct read_job, job.held) : NULL;
}

struct read_job *
read_job_hold(struct http_call *x)
{
    struct read_http *h = x->ctx;

    /* Most of it is not touched by one that waits. */
    return (void *)job_hold(x, h->jobs, sizeof(struct read_job), stop_job);
}

static void
clear(struct read_job *w)
{
    w->steps.store = NULL;
    w->listed = NULL;
    w->logs = (struct read_logs){.rows = NULL};
    w->pack.text = NULL;
    w->has_query = w->packs = false;
}

int
read_job_start(struct read_job *w, const struct read_request *request)
{
    const struct answer *at_once = request->http->answer;
    int rc;

    clear(w);
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
    if (w->job.state == JOB_HAS_PLACE)
        clear(w);
    if (read_pack_open(&w->pack, size) < 0 || !w->pack.text)
        return -ENOMEM;
    if (request != &w->request)
        w->request = *request;
    read_pack_start(&w->pack, text, size);
    w->packs = true;
    w->job.step = step_packing;
    job_run(&w->job);
    return 0;
}

/* ---- waiting ------------------------------------------------------------- */

static bool
step_wait(struct job *job, uint64_t until_ns)
{
    const struct read_job *w = LOOP_OWNER(job, struct read_job, job);

    (void)until_ns; /* a look is short */
    if (w->http->is_stopping || job_waited_ms(job) >= w->wait_ms)
        return true;
    if (w->as_of_ms == 0)
        return loop_now_ms(job->jobs->loop) - job->since_ms >= LOOK_MS;
    return as_of_get(job->jobs->as_of, w->keyspace.bytes, w->keyspace.size) >=
           w->as_of_ms;
}

void
read_job_wait(struct read_job *w, const struct read_request *request,
              int64_t as_of_ms)
{
    const struct http_params *p = &request->params;

    w->as_of_ms = as_of_ms;
    w->http = request->http;
    w->keyspace = p->keyspace;
    w->wait_ms = (uint64_t)p->wait_s * 1000;
    job_wait(&w->job, step_wait);
}
