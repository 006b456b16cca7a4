/* writer/count.c - see count.h.
 *
 * answer_count() is the route; count_head.c checks the request's head, and
 * hold_request() holds or answers the request while there is no log. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/count_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/decimal_put.h"

#define ANSWER_MAX  96    /* bytes of an answer's body */
#define BEHIND_TIME "}\n" /* after readable_ms, the last member */

/* The range of times that have COUNT_TIME_SIZE digits. */
#define TIME_MIN UINT64_C(1000000000000)
#define TIME_MAX UINT64_C(9999999999999)

/* ---- the body ----------------------------------------------------------- */

static enum conn_next
refuse_packed(struct http_call *x, int rc)
{
    if (rc == -EFBIG)
        return count_refuse(x, HTTP_TOO_LARGE, "too-large",
                            "a body of more than 262144 bytes when inflated");
    return count_refuse(x, HTTP_BAD_REQUEST, "bad-gzip",
                        rc == -ENODATA ? "the gzip of the body is cut short"
                        : rc == -E2BIG
                            ? "something follows the gzip of the body: a body "
                              "is one gzip member"
                            : "the body is no gzip");
}

/* Inflates the body if it is compressed.  False: *next is the answer. */
static bool
open_body(struct http_call *x, struct http_text *body, enum conn_next *next)
{
    struct count *s = x->ctx;
    int size;

    *body = x->body;
    if (!s->head.is_packed)
        return true;
    size = gunzip_run(&s->gunzip, body->at, body->size, s->inflated,
                      COUNT_INFLATED_MAX);
    if (size < 0) {
        *next = refuse_packed(x, size);
        return false;
    }
    *body = (struct http_text){s->inflated, (size_t)size};
    return true;
}

/* The largest number of increments of a request, which go into one log.  With a
 * key they need a mark, too, and have half a log at most, so that no more than
 * that is left unused. */
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

/* Stages the increments of a body, which is parsed to its end.  False: *next is
 * the answer. */
static bool
stage_body(struct http_call *x, struct http_text text, enum conn_next *next)
{
    struct count *s = x->ctx;
    const uint32_t most = increments_max(x);
    struct increment *staged = s->staged;
    const char *why;
    struct count_body b;
    int rc;

    count_body_init(&b, s->head.format, text.at, text.size, &s->head.form);
    for (; (rc = count_body_next(&b, staged)) > 0; staged++) {
        if (staged == s->staged + most) {
            *next = refuse_many(x, most);
            return false;
        }
        why =
            s->head.origin >= 0 ? count_pages_refuse(&s->pages, staged) : NULL;
        if (why) {
            *next = count_refuse(x, HTTP_FORBIDDEN, "not-for-pages", why);
            return false;
        }
    }
    s->staged_count = (uint32_t)(staged - s->staged);
    if (rc == 0)
        return true;
    *next = http_refuse(
        x, HTTP_BAD_REQUEST,
        &(struct http_problem){b.fault.code, b.fault.detail, b.fault.line});
    s->stats.refused += *next == CONN_ANSWERED;
    return false;
}

/* Appends what is staged, for which there is room. */
static void
append_staged(struct count *s)
{
    for (uint32_t n = 0; n < s->staged_count; n++) {
        const struct increment *i = &s->staged[n];

        logs_put(s->ingest->logs,
                 &(struct message){.increment = i->count,
                                   .keyspace = i->keyspace.bytes,
                                   .key = i->key.bytes,
                                   .keyspace_size = (uint16_t)i->keyspace.size,
                                   .key_size = (uint16_t)i->key.size,
                                   .minute = (uint32_t)(i->at / 60)});
    }
}

/* ---- pages of other sites ----------------------------------------------- */

/* Whether the pages of its site may count now; checked before the body, which
 * is the expensive part, is parsed.  False: *next is the answer. */
static bool
check_rate(struct http_call *x, enum conn_next *next)
{
    struct count *s = x->ctx;

    if (s->head.origin < 0 ||
        count_pages_have(&s->pages, s->head.origin, clock_ns()))
        return true;
    x->headers = "Retry-After: 1\r\n";
    *next = count_refuse(x, HTTP_TOO_MANY, "too-often",
                         "the pages of this site count too often; "
                         "count.cors_rate has how often they may");
    return false;
}

/* ---- waiting ------------------------------------------------------------ */

static void
begin_timer(struct count *s, uint64_t after_ms)
{
    if (s->timer.deadline_ms == 0)
        loop_arm(s->loop, &s->timer, loop_now_ms(s->loop) + after_ms);
}

static void
wait_is_over(struct loop_timer *timer)
{
    struct count *s = LOOP_OWNER(timer, struct count, timer);
    const uint64_t left_ms = http_wake_late(&s->line, s->wait_ms);

    if (left_ms > 0)
        begin_timer(s, left_ms);
}

/* Why a request has to wait; nothing of it was counted. */
static const struct http_problem
    no_log = {"no-log", "there is no log to write to; nothing was counted", 0},
    in_flight =
        {"no-log",
         "the first request with this Idempotency-Key is not on disk yet", 0},
    loading = {"not-ready",
               "logs that countd-write left are being recovered: which "
               "Idempotency-Keys were counted is not known yet",
               0},
    no_memory = {"no-memory",
                 "no memory for an Idempotency-Key; nothing was counted", 0};

static enum conn_next
refuse_busy(struct http_call *x, const struct http_problem *problem)
{
    struct count *s = x->ctx;
    enum conn_next next;

    x->headers = "Retry-After: 1\r\n";
    next = http_refuse(x, HTTP_UNAVAILABLE, problem);
    s->stats.busy += next == CONN_ANSWERED;
    return next;
}

/* Has the request wait in line, and in the end answers 503. */
static enum conn_next
hold_request(struct http_call *x, const struct http_problem *problem)
{
    struct count *s = x->ctx;
    const uint64_t waited_ms = http_waited_ms(x);

    if (waited_ms >= s->wait_ms)
        return refuse_busy(x, problem);
    begin_timer(s, s->wait_ms - waited_ms);
    return http_hold(x, &s->line);
}

void
count_ready(struct count *s)
{
    if (count_is_on(s))
        http_wake(&s->line);
}

/* ---- the answer --------------------------------------------------------- */

/* `readable_ms` 0: zeros, which count_turn() overwrites. */
static size_t
write_answer(uint8_t *body, uint32_t count, uint64_t readable_ms)
{
    static const char zeros[] = "0000000000000";
    static const char counted[] = "{\"counted\": ";
    static const char readable[] = ", \"readable_ms\": ";
    uint8_t *at = body;

    at = decimal_put(bytes_append(at, counted, sizeof counted - 1), count);
    at = bytes_append(at, readable, sizeof readable - 1);
    at = readable_ms > 0 ? decimal_put(at, readable_ms)
                         : bytes_append(at, zeros, COUNT_TIME_SIZE);
    at = bytes_append(at, BEHIND_TIME, sizeof BEHIND_TIME - 1);
    return (size_t)(at - body);
}

/* `gated`: increments of this answer may be in no file yet, so its time is
 * filled in at the end of the turn.  If that is impossible, they are written
 * now. */
static enum conn_next
put_answer(struct http_call *x, uint8_t *body, uint32_t count, bool gated)
{
    struct count *s = x->ctx;
    const uint64_t now_ms = loop_unix_ms(s->loop);
    const bool later = gated && s->times.count < COUNT_TIMES_MAX &&
                       now_ms >= TIME_MIN && now_ms <= TIME_MAX;
    enum conn_next next;

    if (!later)
        logs_flush(s->ingest->logs);
    next = http_end(x, HTTP_OK,
                    write_answer(body, count, later ? 0 : clock_unix_ms()));
    if (later)
        s->times.places[s->times.count++] = (struct count_place){
            x->conn, conn_gated_at(x->conn) - COUNT_TIME_SIZE -
                         (uint32_t)(sizeof BEHIND_TIME - 1)};
    return next;
}

void
count_turn(struct count *s)
{
    struct chain_cursor cursor = {0};
    uint8_t digits[COUNT_TIME_SIZE];
    uint64_t now_ms;

    if (s->times.count == 0)
        return;
    logs_flush(s->ingest->logs);
    now_ms = clock_unix_ms();
    /* The number of digits stays the same even if the clock was just set. */
    now_ms = now_ms < TIME_MIN ? TIME_MIN : now_ms;
    (void)decimal_put(digits, now_ms > TIME_MAX ? TIME_MAX : now_ms);
    for (size_t i = 0; i < s->times.count; i++)
        gate_overwrite(&cursor, s->times.places[i].conn, s->times.places[i].at,
                       digits, sizeof digits);
    s->times.count = 0;
}

/* ---- requests with a key ------------------------------------------------ */

static struct request_mark
mark_of(const struct http_call *x, struct http_text body)
{
    const struct count *s = x->ctx;
    const struct http_text key = x->request->key;
    struct request_mark mark =
        keys_mark(&s->ingest->logs->keys, key.at, key.size, body.at, body.size);

    /* With other parameters the same bytes may mean other names or times. */
    mark.body ^= (uint64_t)s->head.names ^ (uint64_t)s->head.form.at << 2;
    return mark;
}

/* Answers a request again that was answered, or will be. */
static enum conn_next
replay_answer(struct http_call *x, const struct key_entry *e,
              const struct request_mark *mark)
{
    struct count *s = x->ctx;
    struct logs *logs = s->ingest->logs;
    const bool durable = logs_is_durable(logs, (uint64_t)e->remaining);
    uint8_t *body;

    if (e->request != mark->body)
        return count_refuse(
            x, HTTP_UNPROCESSABLE, "key-reused",
            "another request came with this Idempotency-Key: each new request "
            "needs a new one");
    /* There is no current log when its log is about to be sealed. */
    if (!durable && !logs_want_sync(logs))
        return hold_request(x, &in_flight);
    x->type = "application/json";
    x->headers = "Idempotency-Replayed: true\r\n";
    body = http_body(x, ANSWER_MAX);
    if (!body || (!durable && !conn_gate(x->conn, &s->ingest->commit->gate)))
        return CONN_FULL;
    s->stats.replayed++;
    return put_answer(x, body, (uint32_t)e->number, !durable);
}

static void
append_mark(struct count *s, struct request_mark *mark)
{
    struct logs *logs = s->ingest->logs;
    const uint64_t now_ms = clock_steady_unix_ms();

    mark->count = s->staged_count;
    logs_put_mark(logs, mark);
    idempotency_forget(&logs->keys.table, now_ms);
    keys_add(&logs->keys, mark, logs_position(logs) + mark->count, now_ms);
}

/* ---- the route ---------------------------------------------------------- */

/* Appends what is staged, after a mark unless that is NULL.  The log has space
 * for all of it. */
static enum conn_next
append_request(struct http_call *x, struct request_mark *mark)
{
    struct count *s = x->ctx;
    const uint32_t count = s->staged_count;
    const bool gated = count > 0 || mark;
    uint8_t *body;

    x->type = "application/json";
    body = http_body(x, ANSWER_MAX);
    if (!body || (gated && !conn_gate(x->conn, &s->ingest->commit->gate)))
        return CONN_FULL;
    if (mark)
        append_mark(s, mark);
    append_staged(s);
    if (s->head.origin >= 0)
        count_pages_take(&s->pages, s->head.origin, count, clock_ns());
    s->ingest->messages += count;
    s->stats.increments += count;
    s->stats.requests++;
    return put_answer(x, body, count, gated);
}

static enum conn_next
answer_count(struct http_call *x)
{
    struct count *s = x->ctx;
    struct logs *logs = s->ingest->logs;
    const bool has_key = x->request->key.at != NULL;
    const struct key_entry *e = NULL;
    struct request_mark mark = {.count = 0};
    struct http_text body;
    enum conn_next next;

    if (has_key && logs->keys.state != KEYS_READY)
        return hold_request(x, &loading);
    if (!has_key && logs_free_slots(logs) == 0)
        return hold_request(x, &no_log);
    if (!check_rate(x, &next) || !open_body(x, &body, &next))
        return next;
    if (has_key) {
        mark = mark_of(x, body);
        e = idempotency_find(&logs->keys.table, mark.hash,
                             clock_steady_unix_ms());
    }
    if (e)
        return replay_answer(x, e, &mark);
    if (!stage_body(x, body, &next))
        return next;
    if (!logs_have_run(logs, s->staged_count + has_key))
        return hold_request(x, &no_log);
    if (has_key && logs_reserve_mark(logs) < 0)
        return refuse_busy(x, &no_memory);
    return append_request(x, has_key ? &mark : NULL);
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
    int rc;

    s->loop = loop;
    s->ingest = ingest;
    s->wait_ms = config->count_wait_ms;
    count_pages_init(&s->pages, config);
    s->timer = (struct loop_timer){.due = wait_is_over};
    list_init(&s->line);
    /* A map of its own: pages that no request needs are never touched. */
    s->staged = malloc((COUNT_INCREMENTS_MAX + 1) * sizeof *s->staged);
    if (!s->staged)
        return -ENOMEM;
    rc = gunzip_open(&s->gunzip);
    if (rc < 0)
        count_close(s);
    return rc;
}

void
count_close(struct count *s)
{
    loop_disarm(&s->timer);
    gunzip_close(&s->gunzip);
    free(s->staged);
    s->staged = NULL;
}
