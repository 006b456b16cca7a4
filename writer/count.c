/* writer/count.c - see count.h.
 *
 * answer_count() is the route, whose head count_head.c looks at;
 * wait_for_log() answers or holds it while there is no log. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/count_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/wire/json_write.h"
#include "common/wire/name.h"
#include "writer/count_body.h"

#define ANSWER_MAX  96    /* bytes of an answer's body */
#define BEHIND_TIME "}\n" /* of readable_ms, its last member */

/* Times of COUNT_TIME_SIZE digits. */
#define TIME_MIN UINT64_C(1000000000000)
#define TIME_MAX UINT64_C(9999999999999)

/* The bytes of a request without its Content-Encoding. */
struct content {
    enum count_format format;
    struct count_query query;
    const uint8_t *at;
    size_t size;
};

/* ---- the body ----------------------------------------------------------- */

/* Inflates what is to be inflated.  False: *next is the answer. */
static bool
open_content(struct http_call *x, struct content *content, enum conn_next *next)
{
    struct count *s = x->ctx;
    int size;

    content->format = (enum count_format)(x->note >> NOTE_FORMAT);
    if (!count_read_query(x, &content->query, next))
        return false;
    content->at = x->body.at;
    content->size = x->body.size;
    if ((x->note & NOTE_PACKED) == 0)
        return true;
    size = gunzip_run(s->gunzip, x->body.at, x->body.size, s->inflated,
                      sizeof s->inflated);
    content->at = s->inflated;
    content->size = size > 0 ? (size_t)size : 0;
    if (size >= 0)
        return true;
    *next = size == -EFBIG
                ? count_refuse(x, HTTP_TOO_LARGE, "too-large",
                               "a body of more than 262144 bytes when inflated")
            : size == -ENODATA
                ? count_refuse(x, HTTP_BAD_REQUEST, "bad-gzip",
                               "the gzip of the body is cut short")
            : size == -E2BIG
                ? count_refuse(x, HTTP_BAD_REQUEST, "bad-gzip",
                               "something follows the gzip of the body: a body "
                               "is one gzip member")
                : count_refuse(x, HTTP_BAD_REQUEST, "bad-gzip",
                               "the body is no gzip");
    return false;
}

static void
begin_body(const struct count *s, const struct content *content,
           struct count_body *body)
{
    const struct layout *l = &s->ingest->logs->layout;
    const struct increment_form form = {
        .raw = name_form_is_raw(content->query.names,
                                content->format == COUNT_TSV),
        .keyspace_max = l->keyspace_size,
        .key_max = l->key_size,
        .at = content->query.at,
        .latest = content->query.latest};

    count_body_init(body, content->format, content->at, content->size, &form);
}

/* The largest number of increments of a request, which go into one log.  A key
 * takes a mark, too, and has half a log: what it leaves unused is less then. */
static uint32_t
increments_max(const struct http_call *x)
{
    const struct count *s = x->ctx;
    const bool has_key = x->request->key.at != NULL;
    const uint32_t slots = logs_slots(s->ingest->logs) / (has_key ? 2 : 1);

    return (slots < COUNT_INCREMENTS_MAX ? slots : COUNT_INCREMENTS_MAX) -
           has_key;
}

static enum conn_next
refuse_many(struct http_call *x, uint32_t most)
{
    char detail[HTTP_DETAIL_SIZE];

    (void)snprintf(detail, sizeof detail,
                   "more than %u increments%s%s: send several requests",
                   (unsigned)most,
                   most < COUNT_INCREMENTS_MAX - 1 ? " for a log of this size "
                                                     "(log.size)"
                                                   : "",
                   x->request->key.at ? " with an Idempotency-Key" : "");
    return count_refuse(x, HTTP_TOO_LARGE, "too-many", detail);
}

static struct message
message_of(const struct increment *i)
{
    return (struct message){.increment = i->count,
                            .keyspace = i->keyspace.bytes,
                            .key = i->key.bytes,
                            .keyspace_size = (uint16_t)i->keyspace.size,
                            .key_size = (uint16_t)i->key.size,
                            .minute = (uint32_t)(i->at / 60)};
}

/* Which site of count.cors its page is of. */
static int
origin_of(const struct http_call *x)
{
    return http_find_origin(conn_ctx(x->conn), x->request);
}

/* Whether a page may count this.  False: *next is the answer. */
static bool
check_page(struct http_call *x, const struct increment *i, enum conn_next *next)
{
    struct count *s = x->ctx;
    const char *why;

    if ((x->note & NOTE_PAGE) == 0)
        return true;
    why = count_pages_refuse(&s->pages, i);
    if (why) {
        *next = count_refuse(x, HTTP_FORBIDDEN, "not-for-pages", why);
        return false;
    }
    if (count_pages_have(&s->pages, origin_of(x), clock_ns()))
        return true;
    x->more = "Retry-After: 1\r\n";
    *next = count_refuse(x, HTTP_TOO_MANY, "too-often",
                         "the pages of this site count too often; "
                         "count.cors_rate has how often they may");
    return false;
}

/* Parses the body to its end; each increment makes a record.  False: *next is
 * the answer. */
static bool
count_all(struct http_call *x, const struct content *content, uint32_t *count,
          enum conn_next *next)
{
    struct count *s = x->ctx;
    const uint32_t most = increments_max(x);
    struct count_fault fault;
    struct count_body body;
    struct increment one;
    int rc;

    begin_body(s, content, &body);
    for (*count = 0; (rc = count_body_next(&body, &one, &fault)) > 0;
         ++*count) {
        const struct message m = message_of(&one);

        if (message_check(&s->ingest->logs->layout, &m) < 0) {
            *next = count_refuse(x, HTTP_BAD_REQUEST, "bad-name",
                                 "a name that no record can have");
            return false;
        }
        if (*count == most) {
            *next = refuse_many(x, most);
            return false;
        }
        if (!check_page(x, &one, next))
            return false;
    }
    if (rc == 0)
        return true;
    *next = http_refuse(
        x, HTTP_BAD_REQUEST,
        &(struct http_problem){fault.code, fault.detail, fault.line});
    s->stats.refused += *next == CONN_ANSWERED;
    return false;
}

/* ---- appending ---------------------------------------------------------- */

/* Appends the increments of a body that count_all() has read, for which there is
 * room. */
static void
append_all(struct count *s, const struct content *content)
{
    struct count_fault fault;
    struct count_body body;
    struct increment one;

    begin_body(s, content, &body);
    while (count_body_next(&body, &one, &fault) > 0) {
        const struct message m = message_of(&one);

        logs_put(s->ingest->logs, &m);
    }
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

/* The request waits in the line, then is answered 503. */
static enum conn_next
hold_request(struct http_call *x, const struct http_problem *problem)
{
    struct count *s = x->ctx;
    const uint64_t waited_ms = http_waited_ms(x);
    enum conn_next next;

    if (waited_ms < s->wait_ms) {
        begin_timer(s, s->wait_ms - waited_ms);
        return http_hold(x, &s->line);
    }
    x->more = "Retry-After: 1\r\n";
    next = http_refuse(x, HTTP_UNAVAILABLE, problem);
    s->stats.busy += next == CONN_ANSWERED;
    return next;
}

static enum conn_next
wait_for_log(struct http_call *x)
{
    static const struct http_problem problem = {
        "no-log", "there is no log to write to; nothing was counted", 0};
    struct count *s = x->ctx;

    if (s->no_log_ms == 0)
        s->no_log_ms = clock_ms();
    return hold_request(x, &problem);
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
write_answer(uint8_t *body, uint32_t count, uint64_t readable_ms)
{
    struct json_writer w;

    json_write_init(&w, body, ANSWER_MAX);
    json_object_begin(&w);
    json_member(&w, "counted");
    json_integer(&w, count);
    json_member(&w, "readable_ms");
    json_integer(&w, (int64_t)readable_ms);
    json_bytes(&w, BEHIND_TIME, sizeof BEHIND_TIME - 1);
    return json_write_size(&w);
}

/* `gated`: increments of this answer may be in no file yet, so its time is
 * filled in at the end of the turn.  Where that cannot be they are written now.
 */
static enum conn_next
put_answer(struct http_call *x, uint8_t *body, uint32_t count, bool gated)
{
    struct count *s = x->ctx;
    uint64_t now_ms = loop_unix_ms(s->loop);
    const bool later = gated && s->times.count < COUNT_TIMES_MAX &&
                       now_ms >= TIME_MIN && now_ms <= TIME_MAX;
    enum conn_next next;

    if (!later) {
        logs_file.flush(s->ingest->logs);
        now_ms = clock_unix_ms();
    }
    next = http_end(x, HTTP_OK, write_answer(body, count, now_ms));
    if (later)
        s->times.places[s->times.count++] = (struct count_place){
            x->conn, conn_gated_at(x->conn) - COUNT_TIME_SIZE -
                         (uint32_t)(sizeof BEHIND_TIME - 1)};
    return next;
}

void
count_turn(struct count *s)
{
    struct gate_cursor cursor = {0};
    char digits[COUNT_TIME_SIZE];
    uint64_t now_ms;

    if (s->times.count == 0)
        return;
    logs_file.flush(s->ingest->logs);
    now_ms = clock_unix_ms();
    /* A clock that was set to before 2001 just now gives leading blanks. */
    memset(digits, ' ', sizeof digits);
    for (size_t i = sizeof digits; i-- > 0 && now_ms > 0; now_ms /= 10)
        digits[i] = (char)('0' + now_ms % 10);
    for (size_t i = 0; i < s->times.count; i++)
        gate_overwrite(&cursor, s->times.places[i].conn, s->times.places[i].at,
                       digits, sizeof digits);
    s->times.count = 0;
}

static enum conn_next
end_request(struct http_call *x, uint8_t *body, uint32_t count)
{
    struct count *s = x->ctx;

    if ((x->note & NOTE_PAGE) != 0)
        count_pages_take(&s->pages, origin_of(x), count, clock_ns());
    s->ingest->messages += count;
    s->stats.increments += count;
    s->stats.requests++;
    return put_answer(x, body, count, count > 0);
}

/* ---- requests with a key ------------------------------------------------- */

/* A request that was answered, or will be. */
static enum conn_next
replay_answer(struct http_call *x, const struct key_entry *e,
              const struct request_mark *mark)
{
    static const struct http_problem in_flight = {
        "no-log",
        "the first request with this Idempotency-Key is not on disk yet", 0};
    struct count *s = x->ctx;
    struct logs *logs = s->ingest->logs;
    const bool durable = logs_is_durable(logs, (uint64_t)e->remaining);
    uint8_t *body;

    if (e->request != mark->body)
        return count_refuse(
            x, HTTP_UNPROCESSABLE, "key-reused",
            "another request came with this Idempotency-Key: each new request "
            "needs a new one");
    /* There is no log when it is in one that is about to be handed on. */
    if (!durable && !logs_want_sync(logs))
        return hold_request(x, &in_flight);
    x->type = "application/json";
    x->more = "Idempotency-Replayed: true\r\n";
    body = http_body(x, ANSWER_MAX);
    if (!body || (!durable && !conn_gate(x->conn, &s->ingest->commit->gate)))
        return CONN_FULL;
    s->stats.replayed++;
    return put_answer(x, body, (uint32_t)e->number, !durable);
}

/* Appends a request behind its mark.  Space for it is there. */
static enum conn_next
append_keyed(struct http_call *x, const struct content *content,
             const struct request_mark *mark)
{
    struct count *s = x->ctx;
    struct logs *logs = s->ingest->logs;
    uint8_t *body;

    x->type = "application/json";
    body = http_body(x, ANSWER_MAX);
    if (!body || !conn_gate(x->conn, &s->ingest->commit->gate))
        return CONN_FULL;
    logs_put_mark(logs, mark);
    append_all(s, content);
    idempotency_forget(&logs->keys.table, clock_steady_unix_ms());
    keys_add(&logs->keys, mark, logs_position(logs), clock_steady_unix_ms());
    return end_request(x, body, mark->count);
}

static enum conn_next
answer_keyed(struct http_call *x)
{
    static const struct http_problem
        loading = {"not-ready",
                   "logs that countd-write left are being recovered: which "
                   "Idempotency-Keys were counted is not known yet",
                   0},
        no_memory = {"no-memory",
                     "no memory for an Idempotency-Key; nothing was counted",
                     0};
    struct count *s = x->ctx;
    struct logs *logs = s->ingest->logs;
    const struct key_entry *e;
    struct content content;
    enum conn_next next;
    struct request_mark mark;

    if (logs->keys.state != KEYS_READY)
        return hold_request(x, &loading);
    if (!open_content(x, &content, &next))
        return next;
    mark = keys_mark(&logs->keys, x->request->key.at, x->request->key.size,
                     content.at, content.size);
    /* The same bytes may be other names then, or of another time. */
    mark.body ^= (uint64_t)content.query.names ^ (uint64_t)content.query.at
                                                     << 2;
    e = keys_find(&logs->keys, &mark, clock_steady_unix_ms());
    if (e)
        return replay_answer(x, e, &mark);
    if (!count_all(x, &content, &mark.count, &next))
        return next;
    if (!logs_have_run(logs, mark.count + 1))
        return wait_for_log(x);
    if (logs_reserve_mark(logs) < 0) {
        x->more = "Retry-After: 1\r\n";
        return http_refuse(x, HTTP_UNAVAILABLE, &no_memory);
    }
    return append_keyed(x, &content, &mark);
}

static enum conn_next
answer_count(struct http_call *x)
{
    struct count *s = x->ctx;
    struct content content;
    enum conn_next next;
    uint32_t count;
    uint8_t *body;

    if (x->request->key.at)
        return answer_keyed(x);
    if (logs_free_slots(s->ingest->logs) == 0)
        return wait_for_log(x);
    if (!open_content(x, &content, &next) ||
        !count_all(x, &content, &count, &next))
        return next;
    if (!logs_have_run(s->ingest->logs, count))
        return wait_for_log(x);
    x->type = "application/json";
    body = http_body(x, ANSWER_MAX);
    if (!body || (count > 0 && !conn_gate(x->conn, &s->ingest->commit->gate)))
        return CONN_FULL;
    if (count > 0)
        append_all(s, &content);
    return end_request(x, body, count);
}

const struct http_route count_routes[] = {
    {"/v1/count", "*", HTTP_POST, answer_count,
     HTTP_READS_BODY | HTTP_TAKES_PAGES, count_check_head},
};
const size_t count_route_count = sizeof count_routes / sizeof count_routes[0];

int
count_open(struct count *s, struct loop *loop, struct ingest *ingest,
           const struct config *config)
{
    s->loop = loop;
    s->ingest = ingest;
    s->wait_ms = config->count_wait_ms;
    count_pages_init(&s->pages, config);
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
