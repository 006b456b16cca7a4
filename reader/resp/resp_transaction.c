/* reader/resp/resp_transaction.c - MULTI, EXEC, DISCARD; and WAIT.
 *
 *     resp_queue() ..., resp_do_exec(), resp_replay() until all is done
 *     resp_do_wait(), step_wait() at each poll_waiting() of jobs.c */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/resp/resp_internal.h"

#include <errno.h>

#define EXPIRE_MS 5000 /* since MULTI, while memory is short */
#define SHARE     4    /* of the memory that is free: that part for one */

/* ---- what a connection has counted -------------------------------------- */

/* All that the connection wrote is merged. */
static bool
is_merged(const struct resp_service *r, const struct resp_state *s)
{
    return s->place.owed == 0 && r->jobs->as_of->as_of_ms >= s->place.acked_ms;
}

/* 1: all that the connection wrote is in a snapshot taken now; 0: *has_ms is how
 * far that reaches.  A store that is not local may lack what is merged, as a
 * standby does, and is asked:
 *   -EAGAIN  until it answers;  -EHOSTDOWN  it does not */
static int
is_readable(struct resp_call *call, uint64_t *has_ms)
{
    struct jobs *jobs = call->service->jobs;
    struct forward_place *place = &call->state->place;
    struct store_query any = {
        .op = STORE_TOTAL, .name = (const uint8_t *)"any", .name_size = 3};
    int rc = 0;

    *has_ms = jobs->as_of->as_of_ms;
    if (place->acked_ms > 0 && jobs->remote &&
        is_merged(call->service, call->state)) {
        rc = resp_query(call, &any, NULL, 0);
        *has_ms = as_of_merged(jobs->as_of);
    }
    if (rc == -EAGAIN || rc == -EHOSTDOWN)
        return rc;
    if (place->owed > 0 || *has_ms < place->acked_ms)
        return 0;
    place->acked_ms = 0; /* it need not be asked again */
    return 1;
}

static bool
is_over(const struct resp_job *j)
{
    return j->until_ms != 0 && loop_now_ms(j->job.jobs->loop) >= j->until_ms;
}

/* Whether to look again. */
static bool
step_wait(struct job *job, uint64_t until_ns)
{
    (void)until_ns; /* a look is short */
    return is_merged(conn_ctx(job->conn), conn_state(job->conn)) ||
           is_over(LOOP_OWNER(job, struct resp_job, job));
}

bool
resp_is_behind(struct resp_call *call)
{
    struct resp_service *r = call->service;
    struct resp_state *s = call->state;
    struct resp_job *j = s->job;
    const bool waits = j && j->job.state == JOB_WAITS;
    uint64_t has_ms;
    int rc;

    if (!waits && (r->config->resp_own_wait_ms == 0 || s->progress > 0 ||
                   conn_has_left(call->conn)))
        return false;
    rc = is_readable(call, &has_ms);
    if (rc == 0 &&
        (waits ? !is_over(j)
               : has_ms != r->stuck_ms && (j = resp_job_make(call)) != NULL)) {
        if (!waits)
            j->until_ms =
                loop_now_ms(r->jobs->loop) + r->config->resp_own_wait_ms;
        job_wait(&j->job, step_wait); /* and asks anew */
        return true;
    }
    if (rc == -EAGAIN)
        return true;
    if (!waits)
        return false;
    /* What it waits for stands still: no connection waits again until that
     * moves. */
    if (rc == 0)
        r->stuck_ms = has_ms;
    job_leave(&j->job);
    job_ask(&j->job); /* what the command reads is asked for by it again */
    return false;
}

/* ---- transactions -------------------------------------------------------- */

/* Frees what is queued. */
static void
drop_queued(struct resp_service *r, struct resp_state *s)
{
    chain_drop(&r->queued, &s->queued, s->queued.size);
    s->queued_count = 0;
    if (s->transaction.next)
        list_remove(&s->transaction);
}

void
resp_drop_transaction(struct resp_service *r, struct resp_state *s)
{
    drop_queued(r, s);
    s->progress = s->found = 0;
    s->is_queueing = s->is_replaying = s->is_aborted = s->is_expired = false;
    s->reads_all = false;
}

void
resp_abort_transaction(struct resp_service *r, struct resp_state *s)
{
    drop_queued(r, s);
    s->is_aborted = true;
}

/* The end of a transaction that is not done. */
static enum conn_next
end_transaction(struct resp_call *call, const char *text)
{
    const enum conn_next next = resp_answer(call, text);

    if (next == CONN_ANSWERED)
        resp_drop_transaction(call->service, call->state);
    return next;
}

enum conn_next
resp_do_multi(struct resp_call *call)
{
    enum conn_next next;

    if (call->state->is_queueing)
        return resp_error(call, "MULTI calls can not be nested");
    next = resp_answer(call, "+OK\r\n");
    call->state->is_queueing = next == CONN_ANSWERED;
    return next;
}

enum conn_next
resp_do_discard(struct resp_call *call)
{
    return call->state->is_queueing ? end_transaction(call, "+OK\r\n")
                                    : resp_error(call, "DISCARD without MULTI");
}

/* Aborts the oldest transaction, if it has queued requests for long.  False: it
 * has not. */
static bool
expire_transaction(struct resp_service *r)
{
    struct list_link *oldest = r->transactions.next;
    struct resp_state *s;

    if (oldest == &r->transactions)
        return false;
    s = LOOP_OWNER(oldest, struct resp_state, transaction);
    if (loop_now_ms(r->jobs->loop) - s->multi_ms < EXPIRE_MS)
        return false;
    resp_abort_transaction(r, s);
    s->is_expired = true;
    return true;
}

/* Whether a transaction may take the memory for another request.  It has a
 * quarter of what is free at most: so there always is some for one more. */
static bool
has_memory(struct resp_service *r, const struct resp_state *s, size_t size)
{
    const uint32_t lacks = chain_lacks(&s->queued, size);

    while (lacks > 0 &&
           chain_chunks(&s->queued) + lacks > r->queued.free_count / SHARE)
        if (!expire_transaction(r) || s->is_aborted)
            return false;
    return true;
}

static enum conn_next
queue_request(struct resp_call *call, const uint8_t *bytes, size_t size)
{
    struct resp_service *r = call->service;
    struct resp_state *s = call->state;
    const enum conn_next next = resp_answer(call, "+QUEUED\r\n");

    if (next != CONN_ANSWERED || s->is_aborted)
        return next;
    if (s->queued_count == 0) {
        list_init(&s->transaction);
        list_add(&r->transactions, &s->transaction);
        s->multi_ms = loop_now_ms(r->jobs->loop);
    }
    chain_push(&r->queued, &s->queued, bytes, size);
    s->queued_count++;
    s->reads_all |= (call->command->flags & RESP_OWN_WAIT) != 0;
    return next;
}

enum conn_next
resp_queue(struct resp_call *call, const uint8_t *bytes, size_t size)
{
    struct resp_service *r = call->service;
    struct resp_state *s = call->state;
    enum conn_next next;

    if (s->queued_count == RESP_QUEUED_MAX ||
        s->queued.size + size > RESP_QUEUED_BYTES)
        next = resp_error(call,
                          "transaction too long: more than %d commands "
                          "or %zu bytes",
                          RESP_QUEUED_MAX, RESP_QUEUED_BYTES);
    else if (!s->is_aborted && !has_memory(r, s, size))
        next = resp_error(call, "the transactions of all clients need too much "
                                "memory: send fewer commands in one, or this "
                                "one again later");
    else
        return queue_request(call, bytes, size);
    if (next == CONN_ANSWERED)
        resp_abort_transaction(r, s);
    return next;
}

#define ABORTED "-EXECABORT Transaction discarded because of"

enum conn_next
resp_do_exec(struct resp_call *call)
{
    struct resp_state *s = call->state;
    uint8_t head[RESP_NUMBER_SIZE];

    if (call->count > 1)
        return end_transaction(call, ABORTED ": wrong number of arguments for "
                                             "'exec' command\r\n");
    if (!s->is_queueing)
        return resp_error(call, "EXEC without MULTI");
    if (s->is_expired)
        return end_transaction(call, ABORTED
                               " its age: others needed its memory.\r\n");
    if (s->is_aborted)
        return end_transaction(call, ABORTED " previous errors.\r\n");
    if (s->reads_all && resp_is_behind(call))
        return CONN_PAUSE;
    if (resp_answer_bytes(call, head,
                          resp_put_number(head, '*', s->queued_count)) !=
        CONN_ANSWERED)
        return CONN_FULL;
    s->reads_all = false;
    if (s->transaction.next)
        list_remove(&s->transaction);
    s->is_queueing = false;
    s->is_replaying = true;
    return CONN_ANSWERED;
}

enum conn_next
resp_replay(struct resp_call *call)
{
    struct resp_service *r = call->service;
    struct resp_state *s = call->state;
    const size_t size = chain_copy(&r->queued, &s->queued, r->replay);
    enum conn_next next = CONN_ANSWERED;
    size_t at = 0;

    while (at < size && next == CONN_ANSWERED) {
        const enum resp_parsed parsed =
            resp_parse(r->replay + at, size - at, &r->request);

        assert(parsed == RESP_WHOLE);
        call->args = r->request.args;
        call->count = r->request.count;
        next = resp_run(call);
        if (next == CONN_FULL || next == CONN_YIELD || next == CONN_PAUSE)
            break;
        at += r->request.size;
        if (resp_is_late(call))
            break;
    }
    chain_drop(&r->queued, &s->queued, at);
    if (s->queued.size == 0) {
        s->queued_count = 0;
        s->is_replaying = false;
    }
    return next;
}

/* ---- WAIT ---------------------------------------------------------------- */

enum conn_next
resp_do_wait(struct resp_call *call)
{
    struct resp_job *j = call->state->job;
    const bool waits = j && j->job.state == JOB_WAITS,
               ends = waits && is_over(j);
    int64_t count, ms;
    uint64_t has_ms;
    int rc;

    if (!resp_integer(&call->args[1], &count) ||
        !resp_integer(&call->args[2], &ms))
        return resp_not_integer(call);
    if (ms < 0)
        return resp_error(call, "timeout is negative");
    rc = is_readable(call, &has_ms);
    if (rc == -EAGAIN && !ends)
        return CONN_PAUSE;
    /* Within a transaction an answer that waits would stop the others. */
    if (rc == 1 || ends || count <= 0 || call->state->is_replaying)
        return resp_answer_number(call, rc == 1);
    if (conn_has_left(call->conn))
        return conn_last(call->conn); /* no answer to this one, as in Redis */
    if (!waits) {
        j = resp_job_make(call);
        if (!j)
            return resp_job_no_memory(call);
        j->until_ms =
            ms == 0 ? 0 : loop_now_ms(j->job.jobs->loop) + (uint64_t)ms;
    }
    job_wait(&j->job, step_wait); /* and asks anew */
    return CONN_PAUSE;
}
