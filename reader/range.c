/* reader/range.c - see range.h: range_init(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/range.h"

#include <errno.h>

/* Requests are taken from the kernel a batch at a time, so that those which
 * wait for memory do not use it up. */
#define IN_SIZE (ANSWER_BATCH * QUERY_SIZE)

/* Bytes that the answers of one batch may take, if it is not one answer. */
#define BATCH_SIZE ((size_t)256 * 1024)

/* The state of a connection. */
static_assert(sizeof(struct waiting_line_place) % 8 == 0,
              "as protocols want it");

void
range_init(struct range *r, struct loop *loop, struct answer *answer)
{
    *r = (struct range){.loop = loop, .answer = answer};
    waiting_line_init(&r->line);
}

/* Bytes of the request that `in` begins with; 0: it is not whole, and in->need
 * says how much must be there. */
static size_t
whole_request(struct input *in)
{
    const size_t size = query_size(in->at, in->size);

    in->need = (uint32_t)(size > 0 ? size : QUERY_SIZE);
    return size <= in->size ? size : 0;
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

/* ---- long answers ------------------------------------------------------ */

/* Begins a long answer, or stands in line for it. */
static enum conn_next
begin_long(struct conn *c, struct input *in, const struct query *q)
{
    struct range *r = conn_ctx(c);

    if (!waiting_line_enter(&r->line, c, conn_state(c)))
        return CONN_PAUSE;
    /* A long answer must read a snapshot taken after it began, so end the
     * current turn first. */
    end_turn(r);
    answer_long_start(r->answer, q, loop_now_ms(r->loop));
    r->is_made = false;
    skip_input(in, query_size(in->at, in->size));
    return CONN_LONG;
}

/* A step of it. */
static enum conn_next
more(struct conn *c)
{
    struct range *r = conn_ctx(c);
    uint8_t *out;
    bool failed;

    assert(r->line.served == c);
    if (!r->is_made && !answer_long_step(r->answer))
        return CONN_LONG;
    r->is_made = true;
    out = conn_space(c, answer_long_size(r->answer));
    if (!out)
        return CONN_FULL;
    conn_put(c, answer_long_put(r->answer, out, &failed));
    r->requests++;
    r->listings += !r->answer->is_history;
    r->unreadable += failed;
    waiting_line_leave(&r->line, c, conn_state(c));
    return failed ? conn_last(c) : CONN_MORE;
}

static bool
ended(struct conn *c)
{
    struct range *r = conn_ctx(c);

    if (r->line.served == c)
        answer_long_stop(r->answer);
    waiting_line_leave(&r->line, c, conn_state(c));
    return true;
}

/* ---- requests ---------------------------------------------------------- */

/* Adds the request at `at` to those that are answered together, if it goes with
 * them and there is memory for it; *out is where their answers go. */
static bool
add_request(struct conn *c, const uint8_t *at, uint8_t **out)
{
    struct range *r = conn_ctx(c);
    struct answer *a = r->answer;
    struct query q;
    uint8_t *space;
    size_t bound;

    if (query_parse(at, &q) < 0 || answer_is_long(&q))
        return false;
    bound = a->bound + answer_bound(&q);
    if (a->count > 0 && bound > BATCH_SIZE)
        return false;
    space = conn_space(c, bound);
    if (!space || !answer_add(a, &q))
        return false;
    *out = space;
    r->requests++;
    return true;
}

/* Answers what was added.  False: a keyspace cannot be read. */
static bool
put_answers(struct conn *c, uint8_t *out)
{
    struct range *r = conn_ctx(c);
    bool failed = false;

    if (r->answer->count > 0)
        conn_put(c, answer_put(r->answer, out, &failed));
    r->unreadable += failed;
    return !failed;
}

/* The request that comes next is none that can be answered like others now. */
static enum conn_next
take_other(struct conn *c, struct input *in, bool has_put)
{
    struct query q;
    uint8_t *out;

    if (query_parse(in->at, &q) < 0) {
        out = conn_space(c, QUERY_REPLY_SIZE);
        if (!out)
            return CONN_FULL;
        conn_put(c, answer_error(-EINVAL, out));
        /* The error that was just put is its last answer. */
        (void)conn_refuse(c, "no request of the range protocol");
        return conn_last(c);
    }
    /* A long answer is begun when all before it has gone: a peer that does not
     * read must not keep it from others. */
    if (answer_is_long(&q) && !has_put)
        return begin_long(c, in, &q);
    return CONN_FULL;
}

static enum conn_next
take(struct conn *c, struct input *in)
{
    struct range *r = conn_ctx(c);
    const uint8_t *const begin = in->at;
    uint8_t *out = NULL;
    size_t size;

    begin_turn(r);
    while ((size = whole_request(in)) > 0) {
        if (add_request(c, in->at, &out))
            skip_input(in, size);
        else if (r->answer->count == 0)
            return take_other(c, in, in->at > begin);
        else if (!put_answers(c, out))
            return conn_last(c);
    }
    return put_answers(c, out) ? CONN_MORE : conn_last(c);
}

const struct protocol range_protocol = {
    .state_size = sizeof(struct waiting_line_place),
    .flags = CONN_ANSWERS_EOF | CONN_REFUSES_BROWSERS,
    .stop = STOP_ANSWER,
    .slice = IN_SIZE,
    .takes = "requests",
    .take = take,
    .more = more,
    .ended = ended,
    .turn = turn};
