/* reader/range.c - see range.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/range.h"

#include <assert.h>
#include <errno.h>

/* Requests are taken from the kernel a batch at a time, so that those which
 * wait for memory do not use it up. */
#define IN_SIZE (64 * QUERY_SIZE)

/* ---- requests ---------------------------------------------------------- */

/* Puts the head of an answer, whose rows stand behind it. */
static void
put_reply(struct conn *c, uint8_t *out, int64_t rows, size_t size,
          int64_t as_of_ms)
{
    put_le64s(out, rows);
    put_le64s(out + 8, (int64_t)size);
    put_le64s(out + 16, as_of_ms);
    conn_put(c, QUERY_REPLY_SIZE + size);
}

/* An answer that is an error is the last one. */
static enum conn_next
put_error(struct conn *c, uint8_t *out, int error)
{
    put_reply(c, out, query_error(error), 0, 0);
    return conn_last(c);
}

/* Answers that this is not a request, and ends the connection. */
static enum conn_next
refuse_input(struct conn *c)
{
    uint8_t *out = conn_space(c, QUERY_REPLY_SIZE);

    if (!out)
        return CONN_FULL;
    (void)conn_refuse(c, "no request of the range protocol");
    return put_error(c, out, -EINVAL);
}

static enum conn_next
answer_request(struct conn *c, const uint8_t *request)
{
    struct range *r = conn_ctx(c);
    struct query_range range;
    struct store_query q;
    int64_t as_of_ms;
    uint8_t *out;
    size_t max;
    int rc;

    if (query_parse(request, &range) < 0)
        return refuse_input(c);
    max = (size_t)range.length * ANSWER_ROW_MAX;
    out = conn_space(c, QUERY_REPLY_SIZE + max);
    if (!out)
        return CONN_FULL;
    q = (struct store_query){.op = STORE_RANGE,
                             .name = range.keyspace,
                             .name_size = range.keyspace_size,
                             .offset = range.offset,
                             .length = (uint64_t)range.length};
    as_of_ms = as_of_get(r->jobs->as_of, q.name, q.name_size);
    rc = answer_query(r->jobs->store, &q, out + QUERY_REPLY_SIZE, max);
    if (rc == -EAGAIN)
        return CONN_PAUSE;
    r->requests++;
    if (rc < 0 && rc != -ENOENT) {
        r->unreadable++;
        return put_error(c, out, rc);
    }
    assert(q.size == 0 || q.bytes == out + QUERY_REPLY_SIZE);
    put_reply(c, out, (int64_t)q.rows, q.size, as_of_ms);
    return CONN_ANSWERED;
}

static enum conn_next
take_requests(struct conn *c, struct input *in)
{
    struct range *r = conn_ctx(c);

    as_of_refresh(r->jobs->as_of, loop_now_ms(r->jobs->loop));
    while (in->size >= QUERY_SIZE) {
        const enum conn_next next = answer_request(c, in->at);

        if (next != CONN_ANSWERED)
            return next;
        in->at += QUERY_SIZE;
        in->size -= QUERY_SIZE;
    }
    in->need = QUERY_SIZE;
    return CONN_NEED_INPUT;
}

/* ---- a store that is not local -------------------------------------------- */

/* Zero at first. */
struct range_state {
    struct job job; /* never runs: it asks, and the connection waits */
};

static bool
ended(struct conn *c)
{
    struct range_state *s = conn_state(c);

    if (s->job.jobs)
        job_leave(&s->job);
    return true;
}

static enum conn_next
take(struct conn *c, struct input *in)
{
    struct range_state *s = conn_state(c);
    struct jobs *jobs = ((struct range *)conn_ctx(c))->jobs;
    enum conn_next next;

    if (!s->job.jobs)
        job_init(&s->job, jobs, c, NULL);
    job_ask(&s->job);
    next = take_requests(c, in);
    if (!job_asked(&s->job))
        job_leave(&s->job); /* all that was asked is answered */
    return next;
}

const struct protocol range_protocol = {.state_size =
                                            sizeof(struct range_state),
                                        .stop = STOP_ANSWER,
                                        .slice = IN_SIZE,
                                        .takes = "requests",
                                        .take = take,
                                        .ended = ended};
