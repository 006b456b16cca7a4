/* reader/read_request.c - see read_request.h. */
#include "reader/read_request.h"

#include <assert.h>

#include "common/base/clock.h"
#include "reader/read_commands.h"

#define DAY_MS ((uint64_t)86400000)

enum conn_next
read_refuse(struct http_call *x, enum http_status status, const char *code,
            const char *detail)
{
    const struct http_problem problem = {.code = code, .detail = detail};

    x->more = status == HTTP_GATEWAY_TIMEOUT || status == HTTP_UNAVAILABLE
                  ? "Retry-After: 1\r\n"
                  : NULL;
    return http_refuse(x, status, &problem);
}

static const struct read_command *
find_command(const struct http_request *r)
{
    for (size_t i = 0; i < read_command_count; i++)
        if (http_text_is(r->path, read_commands[i].path))
            return &read_commands[i];
    return NULL;
}

bool
read_is_in_steps(const struct read_request *a)
{
    const struct read_command *q = a->command;

    return q->next && (!q->is_long || q->is_long(a));
}

/* Reads the query into h->now.  False: *next is the answer. */
static bool
read_query_into(struct http_call *x, const struct read_command *command,
                uint64_t now_ms, enum conn_next *next)
{
    struct read_http *h = x->ctx;
    struct http_params *p = &h->now.params;
    struct http_params_fault fault;

    p->given = 0;
    p->key_count = 0;
    p->keyspace.size = p->after.size = p->prefix.size = 0;
    p->n = command->n;
    p->length = command->length;
    p->from_ms = now_ms - DAY_MS;
    p->to_ms = now_ms;
    p->step_ms = 0;
    p->as_of_ms = p->wait_s = 0;
    p->are_numbers_texts = false;
    p->sort = SORT_NAME;
    if (!http_params_read(p, &command->spec, x->request->query, now_ms,
                          &fault)) {
        *next = read_refuse(x, HTTP_BAD_REQUEST, fault.code, fault.detail);
        return false;
    }
    if (http_params_has(p, PARAM_FORMAT) ||
        http_params_choose_format(x->request, &p->format))
        return true;
    *next =
        read_refuse(x, HTTP_NOT_ACCEPTABLE, "not-acceptable",
                    "application/json, text/tab-separated-values and text/csv "
                    "are there");
    return false;
}

/* Notes which reading that was. */
bool
read_request_check(struct http_call *x, enum conn_next *next)
{
    struct read_http *h = x->ctx;
    const struct read_command *command = find_command(x->request);

    assert(command); /* of the path of a route */
    h->now.http = h;
    h->now.command = command;
    h->read_ms = clock_unix_ms();
    x->note = ++h->readings;
    return read_query_into(x, command, h->read_ms, next);
}

/* It still is there if the same came before. */
bool
read_request(struct http_call *x, enum conn_next *next)
{
    struct read_http *h = x->ctx;
    struct read_request *a = &h->now;

    a->as_of_ms = 0;
    a->phase = 0;
    a->next_page.is_there = a->has_state = false;
    if (x->note != h->readings)
        return read_request_check(x, next);
    /* A span of time may end now. */
    return !read_is_in_steps(a) || h->read_ms == clock_unix_ms() ||
           read_request_check(x, next);
}
