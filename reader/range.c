/* reader/range.c - see range.h: range_init(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/range.h"

#include <errno.h>
#include <stdlib.h>

/* Requests are taken from the kernel a batch at a time, so that those which
 * wait for memory do not use it up. */
#define IN_SIZE (ANSWER_BATCH * QUERY_SIZE)

/* Bytes that the answers of one batch may take, if it is not one answer. */
#define BATCH_SIZE ((size_t)256 * 1024)

void
range_init(struct range *r, struct loop *loop, struct answer *answer,
           struct jobs *jobs)
{
    *r = (struct range){.loop = loop, .answer = answer, .jobs = jobs};
}

static void
skip_input(struct input *in, size_t size)
{
    in->at += size;
    in->size -= size;
}

/* Begins the turn whose snapshot the following answers show. */
static void
begin_turn(struct range *r)
{
    if (!r->in_turn)
        answer_start_turn(r->answer, loop_now_ms(r->loop));
    r->in_turn = true;
}

static void
end_turn(struct range *r)
{
    if (r->in_turn)
        answer_end_turn(r->answer);
    r->in_turn = false;
}

static void
turn(struct listener *d, bool begins)
{
    if (!begins)
        end_turn(d->row->ctx);
}

/* ---- requests ---------------------------------------------------------- */

/* Adds the request to those that are answered together, if there is memory for
 * it; *out is where their answers go. */
static bool
add_request(struct conn *c, const struct query_range *range, uint8_t **out)
{
    struct range *r = conn_ctx(c);
    struct answer *a = r->answer;
    const size_t bound = a->bound + answer_bound(range);
    uint8_t *space;

    if (a->count > 0 && bound > BATCH_SIZE)
        return false;
    space = conn_space(c, bound);
    if (!space || !answer_add(a, range))
        return false;
    *out = space;
    r->requests++;
    return true;
}

/* Answers what was added: NEED_INPUT, or why what is behind it has to wait. */
static enum conn_next
put_answers(struct conn *c, struct input *in, uint8_t *out)
{
    struct range *r = conn_ctx(c);
    bool failed = false;

    if (r->answer->count == 0)
        return CONN_NEED_INPUT;
    conn_put(c, answer_put(r->answer, out, &failed));
    r->unreadable += failed;
    if (failed)
        return conn_last(c);
    if (r->answer->unread == 0)
        return CONN_NEED_INPUT;
    r->requests -= r->answer->unread;
    in->at -= r->answer->unread * QUERY_SIZE;
    in->size += r->answer->unread * QUERY_SIZE;
    return CONN_PAUSE;
}

/* Answers that this is not a request, and ends the connection. */
static enum conn_next
refuse(struct conn *c)
{
    uint8_t *out = conn_space(c, QUERY_REPLY_SIZE);

    if (!out)
        return CONN_FULL;
    conn_put(c, answer_error(-EINVAL, out));
    (void)conn_refuse(c, "no request of the range protocol");
    return conn_last(c);
}

static enum conn_next
take_requests(struct conn *c, struct input *in)
{
    struct range *r = conn_ctx(c);
    enum conn_next next = CONN_NEED_INPUT;
    struct query_range q;
    uint8_t *out = NULL;

    begin_turn(r);
    in->need = QUERY_SIZE;
    while (next == CONN_NEED_INPUT && in->size >= QUERY_SIZE) {
        const bool is_request = query_parse(in->at, &q) == 0;

        if (is_request && add_request(c, &q, &out))
            skip_input(in, QUERY_SIZE);
        else if (r->answer->count == 0)
            return is_request ? CONN_FULL : refuse(c);
        else
            next = put_answers(c, in, out);
    }
    return next == CONN_NEED_INPUT ? put_answers(c, in, out) : next;
}

/* ---- a store that is not local -------------------------------------------- */

struct range_state {
    struct job *job; /* NULL: nothing is asked */
};

static void
stop_job(struct job *job)
{
    (void)job; /* it never runs */
}

static bool
ended(struct conn *c)
{
    struct range_state *s = conn_state(c);

    if (s->job)
        job_leave(s->job);
    free(s->job);
    s->job = NULL;
    return true;
}

static enum conn_next
take(struct conn *c, struct input *in)
{
    struct range_state *s = conn_state(c);
    struct jobs *jobs = ((struct range *)conn_ctx(c))->jobs;
    enum conn_next next;

    if (!jobs->remote)
        return take_requests(c, in);
    if (!s->job && (s->job = malloc(sizeof *s->job)) != NULL)
        job_init(s->job, jobs, c, stop_job);
    if (!s->job)
        return CONN_FULL;
    job_ask(s->job);
    next = take_requests(c, in);
    if (!job_asked(s->job))
        (void)ended(c); /* all that was asked is answered */
    return next;
}

const struct protocol range_protocol = {
    .state_size = sizeof(struct range_state),
    .flags = CONN_ANSWERS_EOF | CONN_REFUSES_BROWSERS,
    .stop = STOP_ANSWER,
    .slice = IN_SIZE,
    .takes = "requests",
    .take = take,
    .ended = ended,
    .turn = turn};
