/* reader/resp/resp_service.c - see resp_service.h.
 *
 *     take() -> do_request() -> resp_run() -> a function of resp_commands[],
 *     or resp_job_answer() */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/resp/resp_internal.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/setup/status.h"
#include "common/wire/name.h"

#define QUEUED_POOL ((size_t)16 << 20)
#define ERROR_MAX   320

/* ---- answers ------------------------------------------------------------ */

enum conn_next
resp_answer_bytes(struct resp_call *call, const void *bytes, size_t size)
{
    uint8_t *out = conn_space(call->conn, size);

    if (!out)
        return CONN_FULL;
    (void)bytes_append(out, bytes, size);
    resp_put(call, size);
    return CONN_ANSWERED;
}

enum conn_next
resp_answer(struct resp_call *call, const char *text)
{
    return resp_answer_bytes(call, text, strlen(text));
}

enum conn_next
resp_error(struct resp_call *call, const char *format, ...)
{
    char text[ERROR_MAX] = "-ERR ";
    va_list args;
    int size;

    va_start(args, format);
    size = vsnprintf(text + 5, sizeof text - 8, format, args);
    va_end(args);
    assert(size >= 0);
    strcat(text, "\r\n");
    return resp_answer(call, text);
}

enum conn_next
resp_answer_number(struct resp_call *call, int64_t value)
{
    uint8_t out[RESP_NUMBER_SIZE];
    const size_t size = resp_put_number(out, ':', value);

    return resp_answer_bytes(call, out, size);
}

static const char *
nil_text(const struct resp_call *call)
{
    return resp_is_3(call) ? "_\r\n" : "$-1\r\n";
}

size_t
resp_put_nil(const struct resp_call *call, uint8_t *out)
{
    return (size_t)(stpcpy((char *)out, nil_text(call)) - (char *)out);
}

enum conn_next
resp_answer_nil(struct resp_call *call)
{
    return resp_answer(call, nil_text(call));
}

enum conn_next
resp_answer_bulk(struct resp_call *call, const void *bytes, size_t size)
{
    uint8_t *out = conn_space(call->conn, RESP_BULK_SIZE(size));

    if (!out)
        return CONN_FULL;
    resp_put(call, resp_put_bulk(out, bytes, size));
    return CONN_ANSWERED;
}

size_t
resp_put_map(const struct resp_call *call, uint8_t *out, size_t pairs)
{
    return resp_is_3(call) ? resp_put_number(out, '%', (int64_t)pairs)
                           : resp_put_number(out, '*', 2 * (int64_t)pairs);
}

size_t
resp_put_score(const struct resp_call *call, uint8_t *out, int64_t value)
{
    return resp_is_3(call) ? resp_put_number(out, ',', value)
                           : resp_put_number_bulk(out, value);
}

enum conn_next
resp_not_integer(struct resp_call *call)
{
    return resp_error(call, "value is not an integer or out of range");
}

enum conn_next
resp_syntax_error(struct resp_call *call)
{
    return resp_error(call, "syntax error");
}

enum conn_next
resp_wrong_arity(struct resp_call *call)
{
    return resp_error(call, "wrong number of arguments for '%s' command",
                      call->command->name);
}

enum conn_next
resp_too_many_rows(struct resp_call *call)
{
    return resp_error(call, "more than %d rows: ask for fewer at a time",
                      RESP_ROWS_MAX);
}

enum conn_next
resp_unreadable(struct resp_call *call)
{
    char text[ERROR_MAX];

    if (call->service->read_error == -EAGAIN)
        return CONN_PAUSE; /* the store is asked: the command is done again */
    call->service->unreadable++;
    if (call->service->read_error == -EHOSTDOWN) {
        (void)snprintf(text, sizeof text, "-TRYAGAIN %s\r\n",
                       store_trouble(call->service->jobs->store));
        return resp_answer(call, text);
    }
    return resp_error(call, "keyspace cannot be read");
}

/* ---- commands ----------------------------------------------------------- */

static enum conn_next
unknown_subcommand(struct resp_call *call)
{
    const struct resp_arg *sub = &call->args[1];
    char shown[NAME_SHOWN_SIZE], command[16] = "";

    for (size_t i = 0; call->command->name[i] != '\0'; i++)
        command[i] = (char)(call->command->name[i] - 'a' + 'A');
    return resp_error(call, "unknown subcommand '%s'. Try %s HELP.",
                      name_show(sub->at, sub->size, shown), command);
}

/* Sets call->command; false: it is unknown, or the client may not use it. */
static bool
find_command(struct resp_call *call)
{
    const struct resp_command *c = resp_command_find(call);
    const struct resp_arg *shown = &call->args[0];
    char name[NAME_SHOWN_SIZE];

    call->command = c;
    if (!c)
        return resp_stop(call,
                         resp_error(call, "unknown command '%s'",
                                    name_show(shown->at, shown->size, name)));
    if (c->arity < 0 ? call->count < (size_t)-c->arity
                     : call->count != (size_t)c->arity)
        return resp_stop(call, resp_wrong_arity(call));
    if (!c->run)
        return resp_stop(call, unknown_subcommand(call));
    /* A resumed command had the right when it began: an error would now be read
     * as an element of the array that it has begun. */
    return call->state->progress > 0 || resp_auth_allows(call);
}

enum conn_next
resp_run(struct resp_call *call)
{
    const unsigned data = TOKENS_READ | TOKENS_COUNT;
    unsigned flags;

    if (!find_command(call))
        return call->next;
    if (call->state->job && call->state->job->answer)
        return resp_job_answer(call);
    flags = call->command->flags;
    if ((flags & RESP_OWN_WAIT) != 0 && !call->state->is_replaying &&
        resp_is_behind(call))
        return CONN_PAUSE;
    call->state->last = call->command;
    /* A client that ignores the error must not count into another database. */
    if (call->state->has_no_database && (flags & RESP_SERVER) == 0 &&
        (flags & data) != 0 && (flags & data) != data)
        return resp_error(call, "SELECT was refused: countd has only database "
                                "0, which SELECT 0 or RESET selects");
    /* The names of a resumed command are checked already. */
    if (call->state->progress == 0 && !resp_check_names(call))
        return call->next;
    return call->command->run(call);
}

/* Does or queues the request that was parsed. */
static enum conn_next
do_request(struct resp_call *call, const uint8_t *bytes)
{
    struct resp_service *r = call->service;
    struct resp_state *s = call->state;

    call->args = r->request.args;
    call->count = r->request.count;
    if (call->count == 0)
        return CONN_ANSWERED;
    if (!s->is_queueing)
        return resp_run(call);
    if (!find_command(call)) {
        if (call->next == CONN_ANSWERED)
            resp_abort_transaction(r, s);
        return call->next;
    }
    if ((call->command->flags & RESP_IMMEDIATE) != 0)
        return call->command->run(call);
    return resp_queue(call, bytes, r->request.size);
}

static enum conn_next
refuse_frame(struct resp_call *call)
{
    const char *why = call->service->request.why;

    if (resp_error(call, "Protocol error: %s", why) != CONN_ANSWERED)
        return CONN_FULL;
    /* The protocol has no refusal of its own: this call counts and reports. */
    (void)conn_refuse(call->conn, why);
    return conn_last(call->conn);
}

static enum conn_next
await_rest(struct resp_call *call, struct input *in)
{
    struct resp_service *r = call->service;

    if (r->request.need > RESP_REQUEST_MAX) {
        (void)snprintf(r->request.why, sizeof r->request.why,
                       "request longer than %u bytes",
                       (unsigned)RESP_REQUEST_MAX);
        return refuse_frame(call);
    }
    in->need = (uint32_t)r->request.need;
    return CONN_NEED_INPUT;
}

/* ---- the protocol ------------------------------------------------------- */

/* The connection's job requests what the command reads. */
static bool
begin_asking(struct resp_call *call)
{
    struct resp_job *j =
        call->service->jobs->remote ? resp_job_make(call) : NULL;

    if (j)
        job_ask(&j->job);
    return j || !call->service->jobs->remote;
}

/* Called after each command, so that a service does only one. */
static enum conn_next
give_way(const struct resp_call *call, enum conn_next next)
{
    /* It may have a job with a place although it had no right. */
    if (next == CONN_ANSWERED)
        resp_job_free(call->state);
    return next == CONN_ANSWERED && resp_is_late(call) ? CONN_YIELD : next;
}

static enum conn_next
take_requests(struct resp_call *call, struct input *in)
{
    struct resp_service *r = call->service;
    enum conn_next next = CONN_ANSWERED;

    for (; next == CONN_ANSWERED; next = give_way(call, next)) {
        if (!begin_asking(call))
            return CONN_FULL; /* no memory */
        if (call->state->is_replaying) {
            next = resp_replay(call);
            continue;
        }
        if (call->state->place.owed >= RESP_OWED_MAX)
            return CONN_FULL; /* until the gate releases some of them */
        switch (resp_parse(in->at, in->size, &r->request)) {
        case RESP_PARTIAL:
            return await_rest(call, in);
        case RESP_BAD:
            return refuse_frame(call);
        case RESP_HTTP:
            return conn_refuse_browser(call->conn, "HTTP");
        default:
            break;
        }
        next = do_request(call, in->at);
        if (next == CONN_FULL || next == CONN_YIELD || next == CONN_PAUSE)
            return next;
        r->commands += r->request.count > 0;
        in->at += r->request.size;
        in->size -= r->request.size;
    }
    return next;
}

/* A connection that waits for nothing keeps no job. */
static enum conn_next
end_asking(struct resp_call *call, enum conn_next next)
{
    struct resp_job *j = call->state->job;

    if (j && next == CONN_ANSWERED)
        resp_job_free(call->state);
    else if (j)
        (void)job_asked(&j->job); /* it is served again in any case */
    return next;
}

static enum conn_next
take(struct conn *c, struct input *in)
{
    struct resp_service *r = conn_ctx(c);
    struct resp_call call = {.service = r, .conn = c, .state = conn_state(c)};

    as_of_refresh(r->jobs->as_of, loop_now_ms(r->jobs->loop));
    resp_auth_refresh(&call);
    r->until_ns = clock_ns() + r->step_ns;
    return end_asking(&call, take_requests(&call, in));
}

static void
began(struct conn *c)
{
    struct resp_service *r = conn_ctx(c);
    struct resp_state *s = conn_state(c);

    s->id = ++r->next_id;
    s->began_ms = loop_now_ms(r->jobs->loop);
    s->protocol = 2;
    resp_auth_begin(r, c);
}

static bool
ended(struct conn *c)
{
    struct resp_service *r = conn_ctx(c);
    struct resp_state *s = conn_state(c);

    resp_job_free(s);
    resp_drop_transaction(r, s);
    return true;
}

const struct protocol resp_protocol = {.state_size = sizeof(struct resp_state),
                                       .flags = CONN_EOF_WAKES,
                                       .stop = STOP_ANSWER,
                                       .take = take,
                                       .began = began,
                                       .ended = ended};

/* ---- life --------------------------------------------------------------- */

int
resp_service_init(struct resp_service *r, struct jobs *jobs,
                  const struct config *config, const struct layout *layout,
                  size_t connections)
{
    int rc;

    *r = (struct resp_service){
        .jobs = jobs,
        .config = config,
        .forward = {.answers = &r->answers},
        .strings = {.at = (const uint8_t *)config->resp_keyspace,
                    .size = (uint32_t)strlen(config->resp_keyspace)},
        .started_ms = loop_now_ms(jobs->loop),
        .step_ns = RESP_STEP_NS};
    list_init(&r->transactions);
    r->replay = malloc(RESP_QUEUED_BYTES);
    r->rows = malloc(RESP_ROWS_BYTES);
    rc = r->replay && r->rows ? last_answers_init(&r->answers) : -ENOMEM;
    if (rc == 0)
        rc = pool_init(&r->queued, QUEUED_POOL);
    if (rc == 0)
        rc = forward_init(&r->forward, jobs->loop, layout, config, connections);
    if (rc < 0)
        resp_service_fini(r);
    return rc;
}

void
resp_service_fini(struct resp_service *r)
{
    if (!r->jobs)
        return;
    forward_fini(&r->forward);
    pool_fini(&r->queued);
    last_answers_fini(&r->answers);
    free(r->rows);
    free(r->replay);
    r->jobs = NULL;
}

void
resp_service_fill(struct resp_service *r, int64_t *values)
{
    const struct forward *f = &r->forward;

    values[STATUS_R_UNREADABLE] += (int64_t)r->unreadable;
    values[STATUS_R_COMMANDS] = (int64_t)r->commands;
    values[STATUS_R_FORWARDED] = (int64_t)f->stats.forwarded;
    values[STATUS_R_ACKS_DUE] = (int64_t)(f->added - f->acked);
    values[STATUS_R_REFUSED] = (int64_t)f->stats.refused;
    values[STATUS_R_UNSURE] = (int64_t)f->stats.unsure;
    values[STATUS_R_LAST_ANSWERS] =
        (int64_t)last_answers_held(&r->answers, r->jobs->as_of->as_of_ms);
    values[STATUS_R_TRANSACTIONS] =
        (int64_t)(r->queued.count - r->queued.free_count) * POOL_CHUNK_SIZE;
}
