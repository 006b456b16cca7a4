/* writer/count.c - see count.h.
 *
 * answer_count() is the route, check_head() looks at its head before the body
 * is awaited, wait_for_log() answers or holds it while there is no log. */
#include "writer/count.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/net/http_query.h"
#include "common/wire/json_write.h"
#include "common/wire/name.h"
#include "writer/count_body.h"

#define ANSWER_MAX 96 /* bytes of an answer's body */

/* The bytes of a request without its Content-Encoding. */
struct content {
    enum count_format format;
    const uint8_t *at;
    size_t size;
};

static enum conn_next
refuse_request(struct http_call *x, enum http_status status, const char *code,
               const char *detail)
{
    struct count *s = x->ctx;
    const struct http_problem problem = {code, detail, 0};
    const enum conn_next next = http_refuse(x, status, &problem);

    s->stats.refused += next == CONN_MORE;
    return next;
}

/* ---- the head ----------------------------------------------------------- */

/* A header's value up to its parameters, such as charset. */
static struct http_text
cut_parameters(struct http_text value)
{
    const uint8_t *end =
        value.size > 0 ? memchr(value.at, ';', value.size) : NULL;

    if (end)
        value.size = (size_t)(end - value.at);
    while (value.size > 0 && (value.at[value.size - 1] == ' ' ||
                              value.at[value.size - 1] == '\t'))
        value.size--;
    return value;
}

/* False: none that is known. */
static bool
find_format(const struct http_request *r, enum count_format *format)
{
    static const struct {
        const char *type;
        enum count_format format;
    } types[] = {{"application/json", COUNT_JSON},
                 {"application/x-ndjson", COUNT_NDJSON},
                 {"application/jsonl", COUNT_NDJSON},
                 {"text/tab-separated-values", COUNT_TSV}};
    const struct http_text type = cut_parameters(r->type);

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (http_text_is_like(type, types[i].type)) {
            *format = types[i].format;
            return true;
        }
    return false;
}

static bool
is_plain(const struct http_request *r)
{
    return r->encoding.size == 0 || http_text_is_like(r->encoding, "identity");
}

/* Whether there is a parameter, of which none is known here. */
static bool
find_parameter(const struct http_request *r, char detail[HTTP_DETAIL_SIZE])
{
    struct http_text query = r->query;
    char name[HTTP_QUERY_NAME_SIZE], shown[4 * HTTP_QUERY_NAME_SIZE];
    uint8_t none;
    size_t size;

    if (http_query_next(&query, name, &none, 0, &size) == 0)
        return false;
    (void)name_escape((const uint8_t *)name, strlen(name), shown);
    (void)snprintf(detail, HTTP_DETAIL_SIZE, "unknown parameter: %s", shown);
    return true;
}

/* What a browser sends for a page without asking first has none of these types
 * (Fetch, "CORS-safelisted request-header"). */
static bool
check_head(struct http_call *x, enum conn_next *next)
{
    const struct http_request *r = x->request;
    char detail[HTTP_DETAIL_SIZE];
    enum count_format format;

    if (!find_format(r, &format))
        *next =
            refuse_request(x, HTTP_MEDIA_TYPE, "media-type",
                           "Content-Type must be application/json, "
                           "application/x-ndjson or text/tab-separated-values; "
                           "with curl: --json, or -H 'Content-Type: ...'");
    else if (!is_plain(r) && !http_text_is_like(r->encoding, "gzip"))
        *next = refuse_request(x, HTTP_MEDIA_TYPE, "encoding",
                               "Content-Encoding must be gzip, or none");
    else if (!r->has_length && !r->is_chunked)
        *next =
            refuse_request(x, HTTP_LENGTH_REQUIRED, "length",
                           "Content-Length, or a body in chunks, is needed");
    else if (find_parameter(r, detail))
        *next =
            refuse_request(x, HTTP_BAD_REQUEST, "unknown-parameter", detail);
    else if (r->key.at)
        *next = refuse_request(
            x, HTTP_BAD_REQUEST, "no-keys",
            "this server keeps no Idempotency-Key; send the request "
            "without one");
    else
        return true;
    return false;
}

/* ---- the body ----------------------------------------------------------- */

/* Inflates what is to be inflated.  False: *next is the answer. */
static bool
open_content(struct http_call *x, struct content *content, enum conn_next *next)
{
    struct count *s = x->ctx;
    const bool known = find_format(x->request, &content->format);
    int size;

    assert(known);
    content->at = x->body.at;
    content->size = x->body.size;
    if (is_plain(x->request))
        return true;
    size = gunzip_run(s->gunzip, x->body.at, x->body.size, s->inflated,
                      sizeof s->inflated);
    content->at = s->inflated;
    content->size = size > 0 ? (size_t)size : 0;
    if (size >= 0)
        return true;
    *next =
        size == -EFBIG
            ? refuse_request(x, HTTP_TOO_LARGE, "too-large",
                             "a body of more than 262144 bytes when inflated")
        : size == -ENODATA ? refuse_request(x, HTTP_BAD_REQUEST, "bad-gzip",
                                            "the gzip of the body is cut short")
                           : refuse_request(x, HTTP_BAD_REQUEST, "bad-gzip",
                                            "the body is no gzip");
    return false;
}

static void
begin_body(const struct count *s, const struct content *content,
           struct count_body *body)
{
    const struct layout *l = &s->ingest->logs->layout;

    count_body_init(body, content->format, content->at, content->size,
                    l->keyspace_size, l->key_size);
}

/* The most that a request may have: what one log has room for, so that it is
 * enough that a log is ready behind the current one. */
static uint32_t
increments_max(const struct count *s)
{
    const uint32_t slots = logs_slots(s->ingest->logs);

    return slots < COUNT_INCREMENTS_MAX ? slots : COUNT_INCREMENTS_MAX;
}

/* Parses the body to its end.  False: *next is the answer. */
static bool
count_all(struct http_call *x, const struct content *content, uint32_t *count,
          enum conn_next *next)
{
    struct count *s = x->ctx;
    const uint32_t most = increments_max(s);
    struct count_fault fault;
    struct count_body body;
    struct increment i;
    int rc;

    begin_body(s, content, &body);
    for (*count = 0; (rc = count_body_next(&body, &i, &fault)) > 0; ++*count)
        if (*count == most) {
            *next =
                refuse_request(x, HTTP_TOO_LARGE, "too-many",
                               most < COUNT_INCREMENTS_MAX
                                   ? "more increments than a log has slots "
                                     "(log.size): send several requests"
                                   : "more than 4096 increments: send several "
                                     "requests");
            return false;
        }
    if (rc == 0)
        return true;
    *next = http_refuse(
        x, HTTP_BAD_REQUEST,
        &(struct http_problem){fault.code, fault.detail, fault.line});
    s->stats.refused += *next == CONN_MORE;
    return false;
}

/* ---- appending ---------------------------------------------------------- */

static void
append_one(struct logs *logs, const struct increment *i)
{
    uint8_t bytes[MESSAGE_SIZE_MAX + LOGS_WORD] = {0};
    const struct message m = {.increment = i->count,
                              .keyspace = i->keyspace.bytes,
                              .key = i->key.bytes,
                              .keyspace_size = (uint16_t)i->keyspace.size,
                              .key_size = (uint16_t)i->key.size};
    struct message parsed;
    int rc = message_put(&logs->layout, &m, bytes);

    if (rc == 0)
        rc = message_parse(&logs->layout, bytes, &parsed);
    /* The body's parser has kept names to their sizes and free of NUL. */
    assert(rc == 0);
    logs_put(logs, bytes, &parsed);
}

static void
append_all(struct count *s, const struct content *content)
{
    struct logs *logs = s->ingest->logs;
    struct count_fault fault;
    struct count_body body;
    struct increment i;
    uint32_t left = 0;

    begin_body(s, content, &body);
    while (count_body_next(&body, &i, &fault) > 0) {
        /* A full log: the next one.  0 only if the disk has failed, and then
         * no answer will leave. */
        if (left == 0 && (left = logs_free_slots(logs)) == 0)
            return;
        append_one(logs, &i);
        left--;
    }
    logs_file.flush(logs);
}

/* ---- waiting ------------------------------------------------------------ */

static void
begin_timer(struct count *s, uint64_t after_ms)
{
    /* One timer of few: there is a place for it. */
    if (s->timer.deadline_ms == 0)
        (void)loop_arm(s->loop, &s->timer, loop_now_ms(s->loop) + after_ms);
}

static void
wait_is_over(struct loop_timer *timer)
{
    struct count *s = LOOP_OWNER(timer, struct count, timer);
    const uint64_t left_ms = http_wake_late(&s->line, s->wait_ms);

    if (left_ms > 0)
        begin_timer(s, left_ms);
}

static enum conn_next
wait_for_log(struct http_call *x)
{
    struct count *s = x->ctx;
    const uint64_t waited_ms = http_waited_ms(x);
    const struct http_problem problem = {
        "no-log", "there is no log to write to; nothing was counted", 0};
    enum conn_next next;

    if (s->no_log_ms == 0)
        s->no_log_ms = clock_ms();
    if (waited_ms < s->wait_ms) {
        begin_timer(s, s->wait_ms - waited_ms);
        return http_hold(x, &s->line);
    }
    x->more = "Retry-After: 1\r\n";
    next = http_refuse(x, HTTP_UNAVAILABLE, &problem);
    s->stats.busy += next == CONN_MORE;
    return next;
}

void
count_ready(struct count *s)
{
    s->no_log_ms = 0;
    http_wake(&s->line);
}

bool
count_is_stuck(struct count *s, uint64_t for_ms)
{
    if (logs_free_slots(s->ingest->logs) > 0) {
        s->no_log_ms = 0;
        return false;
    }
    if (s->no_log_ms == 0)
        s->no_log_ms = clock_ms();
    return clock_ms() - s->no_log_ms >= for_ms;
}

/* ---- the route ---------------------------------------------------------- */

static size_t
write_answer(uint8_t *body, uint32_t count)
{
    struct json_writer w;

    json_write_init(&w, body, ANSWER_MAX);
    json_object_begin(&w);
    json_member(&w, "counted");
    json_integer(&w, count);
    json_member(&w, "readable_ms");
    json_integer(&w, (int64_t)clock_unix_ms());
    json_object_end(&w);
    json_bytes(&w, "\n", 1);
    return json_write_size(&w);
}

static enum conn_next
answer_count(struct http_call *x)
{
    struct count *s = x->ctx;
    struct content content;
    enum conn_next next;
    uint32_t count;
    uint8_t *body;

    if (logs_free_slots(s->ingest->logs) == 0)
        return wait_for_log(x);
    if (!open_content(x, &content, &next) ||
        !count_all(x, &content, &count, &next))
        return next;
    if (!logs_have_room(s->ingest->logs, count))
        return wait_for_log(x);
    x->type = "application/json";
    body = http_body(x, ANSWER_MAX);
    if (!body || (count > 0 && !conn_gate(x->conn, &s->ingest->commit->gate)))
        return CONN_FULL;
    if (count > 0)
        append_all(s, &content);
    s->ingest->messages += count;
    s->stats.increments += count;
    s->stats.requests++;
    return http_end(x, HTTP_OK, write_answer(body, count));
}

const struct http_route count_routes[] = {
    {"/v1/count", "*", HTTP_POST, answer_count, HTTP_READS_BODY, check_head},
};
const size_t count_route_count = sizeof count_routes / sizeof count_routes[0];

int
count_open(struct count *s, struct loop *loop, struct ingest *ingest,
           uint64_t wait_ms)
{
    s->loop = loop;
    s->ingest = ingest;
    s->wait_ms = wait_ms;
    s->timer = (struct loop_timer){.slot = -1, .due = wait_is_over};
    http_line_init(&s->line);
    return gunzip_open(&s->gunzip);
}

void
count_close(struct count *s)
{
    loop_disarm(s->loop, &s->timer);
    gunzip_close(s->gunzip);
    s->gunzip = NULL;
}
