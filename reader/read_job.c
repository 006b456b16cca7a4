/* reader/read_job.c - see read_job.h: read_job_of(), read_job_hold(),
 * read_job_start(), read_job_pack(), read_job_wait(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/read_job.h"

#include <errno.h>
#include <stdlib.h>

#include "reader/read_commands.h"

#define LOOK_MS 100 /* between looks at a keyspace's version */

/* ---- steps --------------------------------------------------------------- */

static bool
step_command(struct job *job, uint64_t until_ns)
{
    struct read_request *a = &LOOP_OWNER(job, struct read_job, job)->request;

    return a->command->step(a, until_ns);
}

static bool
step_packing(struct job *job, uint64_t until_ns)
{
    return chunks_pack_step(&LOOP_OWNER(job, struct read_job, job)->packer,
                            until_ns);
}

static void
stop_job(struct job *job)
{
    struct read_job *w = LOOP_OWNER(job, struct read_job, job);

    store_listing_close(w->from);
    free(w->history.memory);
    logfile_list_free(&w->logs.list);
    chunks_pack_stop(&w->packer);
    scratch_free(&w->scratch);
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
clear_job(struct read_job *w)
{
    w->history.memory = NULL;
    w->from = NULL;
    w->logs = (struct read_logs){.rows = NULL};
    w->packer = (struct chunks_packer){.at = NULL};
    w->answer.size = 0;
    scratch_init(&w->scratch, SIZE_MAX);
}

/* What the command needs: a list is long, and so is what history has. */
static int
take_memory(struct read_job *w, struct store *store)
{
    if (w->request.command->answer == read_logs)
        return 0; /* as much as there are files, once they are listed */
    if (w->request.command->answer == read_metrics)
        return user_metrics_open(&w->request);
    if (w->request.command->answer != read_keyspaces) {
        w->history.store = store;
        w->history.memory = malloc(HISTORY_QUERY_MEMORY);
        return w->history.memory ? 0 : -ENOMEM;
    }
    w->listed = scratch_take(&w->scratch, READ_LISTED_MAX * sizeof *w->listed);
    w->names =
        scratch_take(&w->scratch, (size_t)READ_LISTED_MAX * QUERY_NAME_SIZE);
    return w->listed && w->names ? store_listing_open(store, &w->from)
                                 : -ENOMEM;
}

int
read_job_start(struct read_job *w, const struct read_request *request)
{
    struct store *store = request->http->jobs->store;

    clear_job(w);
    w->request = *request;
    w->request.job = w;
    w->request.has_state = false; /* it will be of the past */
    if (take_memory(w, store) < 0) {
        stop_job(&w->job);
        return -ENOMEM;
    }
    w->job.step = step_command;
    job_run(&w->job);
    return 0;
}

int
read_job_pack(struct read_job *w, const struct read_request *request,
              const uint8_t *text, size_t size)
{
    int rc;

    if (w->job.state == JOB_HAS_PLACE)
        clear_job(w);
    chunks_init(&w->answer, &w->scratch, READ_HTTP_LONGEST);
    rc = chunks_reserve(&w->answer, size);
    if (rc == 0) {
        json_bytes(&w->answer.json, text, size);
        chunks_end(&w->answer);
        rc = chunks_pack_start(&w->packer, &w->answer);
    }
    if (rc < 0) {
        w->answer.size = 0;
        if (w->job.state == JOB_HAS_PLACE) /* else its answer is there, too */
            scratch_free(&w->scratch);
        return -ENOMEM;
    }
    if (request != &w->request)
        w->request = *request;
    w->job.step = step_packing;
    job_run(&w->job);
    return 0;
}

/* ---- waiting ------------------------------------------------------------- */

static bool
step_wait(struct job *job, uint64_t until_ns)
{
    const struct read_job *w = LOOP_OWNER(job, struct read_job, job);
    const struct http_params *p = &w->request.params;

    (void)until_ns; /* a look is short */
    if (w->request.http->is_stopping ||
        job_waited_ms(job) >= (uint64_t)p->wait_s * 1000)
        return true;
    if (w->as_of_ms == 0)
        return loop_now_ms(job->jobs->loop) - job->since_ms >= LOOK_MS;
    return as_of_own(job->jobs->as_of, p->keyspace.bytes, p->keyspace.size) >=
           w->as_of_ms;
}

void
read_job_wait(struct read_job *w, const struct read_request *request,
              int64_t as_of_ms)
{
    w->as_of_ms = as_of_ms;
    /* All that it looks at. */
    w->request.http = request->http;
    w->request.params.keyspace = request->params.keyspace;
    w->request.params.wait_s = request->params.wait_s;
    job_wait(&w->job, step_wait);
}
