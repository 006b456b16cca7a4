/* reader/range.c - see range.h: range_init(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/range.h"

#include <errno.h>

/* Requests are taken from the kernel a batch at a time, so that those which
 * wait for memory do not use it up. */
#define IN_SIZE (ANSWER_BATCH * QUERY_SIZE)

/* Bytes that the answers of one batch may take, if it is not one answer. */
#define BATCH_SIZE ((size_t)256 * 1024)

void
range_init(struct range *r, struct loop *loop, struct answer *answer)
{
    *r = (struct range){.loop = loop, .answer = answer};
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
    const struct query q = {.op = QUERY_RANGE,
                            .offset = range->offset,
                            .length = range->length,
                            .keyspace = range->keyspace,
                            .keyspace_size = range->keyspace_size};
    struct range *r = conn_ctx(c);
    struct answer *a = r->answer;
    const size_t bound = a->bound + answer_bound(&q);
    uint8_t *space;

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

/* The last answer of a connection: that this is no request. */
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
take(struct conn *c, struct input *in)
{
    struct range *r = conn_ctx(c);
    struct query_range q;
    uint8_t *out = NULL;

    begin_turn(r);
    in->need = QUERY_SIZE;
    while (in->size >= QUERY_SIZE) {
        const bool is_request = query_parse(in->at, &q) == 0;

        if (is_request && add_request(c, &q, &out))
            skip_input(in, QUERY_SIZE);
        else if (r->answer->count == 0)
            return is_request ? CONN_FULL : refuse(c);
        else if (!put_answers(c, out))
            return conn_last(c);
    }
    return put_answers(c, out) ? CONN_NEED_INPUT : conn_last(c);
}

const struct protocol range_protocol = {.flags = CONN_ANSWERS_EOF |
                                                 CONN_REFUSES_BROWSERS,
                                        .stop = STOP_ANSWER,
                                        .slice = IN_SIZE,
                                        .takes = "requests",
                                        .take = take,
                                        .turn = turn};
