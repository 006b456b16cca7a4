/* reader/read_http.c - see read_http.h.
 *
 * Read from the end: read_http_open() has the routes, answer_command() answers
 * a command at once, or has its job make the answer. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/read_http.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "reader/read_commands.h"
#include "reader/text_put.h"

#define ROWS_SMALL    100 /* answers of more come after those of others */
#define PACKED_BESIDE 16  /* fewer jobs: each may take 13 MB to pack */
#define DAY_MS        ((uint64_t)86400000)

static_assert(READ_HTTP_ANSWER_MAX >= ANSWER_SIZE_MAX, "answer_max is of all");
static_assert(READ_HTTP_LONGEST > 2 * READ_HTTP_TEXT_MAX, "gzip may add bytes");
static_assert(HTTP_HEADERS_MAX > 1024 + READ_LINK_MAX, "a link has room");
static_assert(HTTP_HOSTS_SIZE >= CONFIG_NAMES_SIZE, "all names fit");

/* ---- requests ----------------------------------------------------------- */

static bool
is_in_steps(const struct read_request *a)
{
    const struct read_command *q = a->command;

    return q->step && (!q->is_long || q->is_long(a));
}

/* Has the request in h->now.  False: *next is the answer. */
static bool
read_request(struct http_call *x, enum conn_next *next)
{
    struct read_http *h = x->ctx;
    struct read_request *a = &h->now;
    struct http_params *p = &a->params;
    const uint64_t now_ms = clock_unix_ms();
    struct http_params_fault fault;

    a->http = h;
    a->command = read_commands;
    while (!http_text_is(x->request->path, a->command->path))
        a->command++; /* there is a route for each */
    a->type = NULL;
    a->as_of_ms = 0;
    a->phase = 0;
    a->next_page.is_there = a->has_state = false;
    memset(p, 0, offsetof(struct http_params, keys));
    p->n = a->command->n;
    p->length = a->command->length;
    p->from_ms = now_ms - DAY_MS;
    p->to_ms = now_ms;
    if (!http_params_read(p, &a->command->spec, x->request->query, now_ms,
                          &fault)) {
        *next = answer_refuse(x, HTTP_BAD_REQUEST, fault.code, fault.detail);
        return false;
    }
    if ((a->command->spec.allowed & PARAM_BIT(PARAM_FORMAT)) == 0) {
        p->format = TABLE_TSV; /* text, of its own form */
        a->wants_open_metrics =
            http_weight(x->request, "application/openmetrics-text") > 0;
        return true;
    }
    if (http_params_has(p, PARAM_FORMAT) ||
        http_params_choose_format(x->request, &p->format))
        return true;
    *next = answer_refuse(
        x, HTTP_NOT_ACCEPTABLE, "not-acceptable",
        "application/json, text/tab-separated-values and text/csv "
        "are there");
    return false;
}

/* Whether the request waits for the answer of a store that is not local: it is
 * then served again. */
static bool
is_asking(const struct http_call *x)
{
    const struct read_job *w = read_job_of(x);

    return w && remote_is_asking(&w->job.asker);
}

/* ---- waiting ------------------------------------------------------------ */

static enum conn_next
refuse_memory(struct http_call *x)
{
    return answer_refuse(x, HTTP_UNAVAILABLE, "no-memory",
                         "there is no memory for the answer: ask again");
}

/* Whether the request may go on waiting until as_of_ms is reached (0: until the
 * version changes); *next is then to wait or, if too many wait already, the
 * answer that reports that. */
static bool
wait_longer(struct http_call *x, int64_t as_of_ms, enum conn_next *next)
{
    struct read_http *h = x->ctx;
    struct read_job *w = read_job_of(x);
    const uint64_t waited_ms = w ? job_waited_ms(&w->job) : 0;

    if (h->is_stopping || conn_has_left(x->conn) ||
        waited_ms >= (uint64_t)h->now.params.wait_s * 1000)
        return false;
    if (waited_ms == 0 && !jobs_may_wait(h->jobs, x->conn, READ_HTTP_WAITERS)) {
        *next = answer_refuse(x, HTTP_UNAVAILABLE, "too-many-waiting",
                              "1024 requests wait already, or 512 of your "
                              "host; ask without wait");
        return true;
    }
    w = read_job_hold(x);
    if (w)
        read_job_wait(w, &h->now, as_of_ms);
    *next = w ? CONN_PAUSE : refuse_memory(x);
    return true;
}

/* Whether the request names no as_of_ms, or one that is readable.  If not,
 * *next is set, and may be to wait. */
static bool
is_readable(struct http_call *x, enum conn_next *next)
{
    struct read_http *h = x->ctx;
    const struct http_params *p = &h->now.params;
    struct store_query any = {
        .op = STORE_TOTAL, .name = (const uint8_t *)"any", .name_size = 3};
    char detail[96];
    int64_t as_of_ms;

    if (p->as_of_ms == 0)
        return true;
    /* Only an answer shows what a store has that is not local; of a keyspace
     * the version is read, and then this is called again. */
    if (h->jobs->remote && p->keyspace.size == 0)
        (void)answer_query(h->jobs->store, &any, NULL, 0);
    *next = CONN_PAUSE;
    if (is_asking(x))
        return false;
    as_of_ms = as_of_own(h->jobs->as_of, p->keyspace.bytes, p->keyspace.size);
    if (as_of_ms >= p->as_of_ms)
        return true;
    if (wait_longer(x, p->as_of_ms, next))
        return false;
    if (h->is_stopping) {
        *next = answer_refuse(x, HTTP_UNAVAILABLE, "stopping",
                              "countd-read is stopping: ask again");
        return false;
    }
    (void)snprintf(detail, sizeof detail,
                   "as_of_ms is still %" PRId64
                   ": ask again, or wait longer (wait=1 to 60)",
                   as_of_ms);
    x->as_of_ms = as_of_ms;
    *next = answer_refuse(x, HTTP_GATEWAY_TIMEOUT, "not-readable-yet", detail);
    return false;
}

/* ---- answers ------------------------------------------------------------ */

static const char *const types[] = {
    [TABLE_JSON] = "application/json",
    [TABLE_TSV] = "text/tab-separated-values; charset=utf-8",
    [TABLE_CSV] = "text/csv; charset=utf-8; header=present"};

/* Sets the headers of an answer, except its type. */
static void
set_answer_headers(struct http_call *x, const struct read_request *a)
{
    struct read_http *h = x->ctx;
    char *at = h->headers;

    x->type = a->type ? a->type : types[a->params.format];
    x->cache = a->command->is_plain ? NULL : "no-cache";
    x->headers = h->headers;
    at = text_put(at, "Vary: Accept, Accept-Encoding, Authorization\r\n");
    if (a->command->is_plain)
        return;
    at = text_put(at, "X-Countd-As-Of: ");
    at = text_put_number(at, (uint64_t)a->as_of_ms, 10);
    at = text_put(at, "\r\n");
    if (a->version[0] != '\0')
        at = text_put(text_put(text_put(at, "ETag: "), a->version), "\r\n");
    if (a->next_page.is_there)
        read_link_put(a->command->path, &a->params, &a->next_page, at);
}

/* The version has the keyspace's state and, for a query of time, the minutes
 * that its period is widened to: the request determines the rest of an
 * answer. */
static void
set_version(struct read_request *a)
{
    const struct http_params *p = &a->params;
    char *at = a->version;

    a->version[0] = '\0';
    if ((a->command->spec.required & PARAM_BIT(PARAM_KEYSPACE)) == 0 ||
        !read_state(a))
        return;
    static_assert(READ_VERSION_SIZE > (size_t)4 * 21 + sizeof "W/\"\"",
                  "it fits");
    at = text_put_number(text_put(at, "W/\""), a->state.nonce, 16);
    at = text_put_number(text_put(at, "-"), a->state.change, 16);
    if (is_in_steps(a) && !read_is_of_all_time(a)) {
        at = text_put_number(text_put(at, "-"), p->from_ms / 60000, 10);
        at = text_put_number(text_put(at, "-"), (p->to_ms + 59999) / 60000, 10);
    }
    (void)text_put(at, "\"");
}

/* Whether the request asks for a version that the keyspace no longer has; *next
 * is then the answer. */
static bool
has_changed(struct http_call *x, struct read_request *a, enum conn_next *next)
{
    const struct http_params *p = &a->params;
    char detail[96];

    if (!http_params_has(p, PARAM_VERSION) || !a->has_state ||
        (p->version[0] == a->state.nonce && p->version[1] == a->state.change))
        return false;
    (void)snprintf(detail, sizeof detail,
                   "the keyspace has changed: its version is %" PRIx64
                   "-%" PRIx64,
                   a->state.nonce, a->state.change);
    x->as_of_ms = a->as_of_ms;
    *next = answer_refuse(x, HTTP_PRECONDITION_FAILED, "changed", detail);
    return true;
}

/* 304: the client has the answer. */
static enum conn_next
answer_known(struct http_call *x, const struct read_request *a)
{
    set_answer_headers(x, a);
    x->type = NULL;
    return http_body(x, 0) ? http_end(x, HTTP_NOT_MODIFIED, 0) : CONN_FULL;
}

/* Whether the client has the answer already: *next says so, or waits for
 * another one. */
static bool
is_known(struct http_call *x, enum conn_next *next)
{
    struct read_http *h = x->ctx;
    struct read_request *a = &h->now;

    set_version(a);
    *next = CONN_PAUSE;
    if (is_asking(x) || has_changed(x, a, next))
        return true;
    if (a->version[0] == '\0' || !http_has_version(x->request, a->version))
        return false;
    if (wait_longer(x, 0, next))
        return true;
    *next = answer_known(x, a);
    return true;
}

static enum conn_next
put_answer(struct http_call *x, const struct read_request *a,
           const uint8_t *text, size_t size)
{
    set_answer_headers(x, a);
    return answer_bytes(x, text, size);
}

/* Sends the answer that a job has packed, or had no memory to pack. */
static enum conn_next
put_chunks(struct http_call *x, const struct read_job *w)
{
    const bool is_packed = w->packer.is_packed;
    const struct chunks *c = is_packed ? &w->packer.packed : &w->answer;
    struct read_http *h = x->ctx;
    uint8_t *body;

    set_answer_headers(x, &w->request);
    if (is_packed)
        strcat(h->headers, "Content-Encoding: gzip\r\n");
    body = http_body(x, c->size);
    if (!body)
        return CONN_FULL;
    chunks_copy(c, body);
    return http_end(x, HTTP_OK, c->size);
}

/* Sends the answer in h->text.  A job packs it first, unless that would have to
 * wait for a place. */
static enum conn_next
put_packed(struct http_call *x, const struct read_request *a, size_t size)
{
    struct read_http *h = x->ctx;
    struct read_job *w =
        h->jobs->placed < PACKED_BESIDE ? read_job_hold(x) : NULL;

    if (w && job_enter(&w->job) && read_job_pack(w, a, h->text, size) == 0)
        return CONN_PAUSE;
    return put_answer(x, a, h->text, size);
}

static enum conn_next
refuse_problem(struct http_call *x, const struct read_request *a,
               const struct read_problem *problem)
{
    x->as_of_ms = a->as_of_ms;
    return answer_refuse(x, problem->status, problem->code, problem->detail);
}

static enum conn_next
answer_request(struct http_call *x, struct read_request *a)
{
    struct read_http *h = x->ctx;
    const struct read_problem *problem;
    size_t size;

    table_begin(&a->table, a->params.format, h->text, READ_HTTP_TEXT_MAX);
    a->table.has_numbers_as_texts = http_params_has(&a->params, PARAM_NUMBERS);
    a->table.names = a->params.names;
    problem = a->command->answer(a);
    if (is_asking(x))
        return CONN_PAUSE;
    if (problem)
        return refuse_problem(x, a, problem);
    /* `*` asks whether there is an answer at all, which is known only now. */
    if (a->version[0] != '\0' && http_has_any_version(x->request))
        return answer_known(x, a);
    size = table_size(&a->table);
    return size >= CHUNKS_PACKED && http_takes_gzip(x->request)
               ? put_packed(x, a, size)
               : put_answer(x, a, h->text, size);
}

/* ---- answers in steps --------------------------------------------------- */

static enum conn_next
answer_in_steps(struct http_call *x)
{
    struct read_http *h = x->ctx;
    struct read_job *w = read_job_hold(x);

    if (w && !job_enter(&w->job))
        return CONN_PAUSE;
    return w && read_job_start(w, &h->now) == 0 ? CONN_PAUSE : refuse_memory(x);
}

/* Sends the answer of a job that is done.  Its parts were read at several
 * moments: if the version is still the one asked for, it was so all the
 * time. */
static enum conn_next
answer_job(struct http_call *x, struct read_job *w)
{
    struct read_request *a = &w->request;
    const struct read_problem *problem = NULL;
    enum conn_next next;

    if (w->job.state == JOB_LATE)
        return answer_refuse(x, HTTP_UNAVAILABLE, "too-long", ANSWER_TOO_LONG);
    if (w->answer.size > 0)
        return put_chunks(x, w);
    if (http_params_has(&a->params, PARAM_VERSION))
        problem = read_need_keyspace(a);
    if (is_asking(x))
        return CONN_PAUSE;
    if (problem)
        return refuse_problem(x, a, problem);
    return has_changed(x, a, &next) ? next : answer_request(x, a);
}

/* ---- routes ------------------------------------------------------------- */

/* Whether the request asks for more rows than most do. */
static bool
is_large(const struct http_params *p)
{
    return p->n > ROWS_SMALL || p->length > ROWS_SMALL ||
           p->key_count > ROWS_SMALL;
}

static enum conn_next
answer_now(struct http_call *x, struct read_job *w)
{
    struct read_http *h = x->ctx;
    enum conn_next next;

    if (w && w->job.state == JOB_RUNS)
        return CONN_PAUSE;
    as_of_refresh(h->jobs->as_of, loop_now_ms(h->jobs->loop));
    if (w && (w->job.state == JOB_DONE || w->job.state == JOB_LATE))
        return answer_job(x, w);
    if (!read_request(x, &next) || !is_readable(x, &next) || is_known(x, &next))
        return next;
    if (is_in_steps(&h->now))
        return answer_in_steps(x);
    if (is_large(&h->now.params) && conn_goes_first(x->conn))
        return CONN_FULL;
    return answer_request(x, &h->now);
}

/* The request's job queries a store that is not local. */
static enum conn_next
answer_command(struct http_call *x)
{
    struct read_http *h = x->ctx;
    struct read_job *w = h->jobs->remote ? read_job_hold(x) : read_job_of(x);
    enum conn_next next;

    if (!h->jobs->remote)
        return answer_now(x, w);
    if (!w)
        return refuse_memory(x);
    job_ask(&w->job);
    next = answer_now(x, w);
    (void)job_asked(&w->job); /* answer_now() has seen to it */
    return next;
}

/* Nothing is served before the directory exists, so the daemon is ready. */
static enum conn_next
answer_ready(struct http_call *x)
{
    struct read_http *h = x->ctx;

    if (h->is_stopping)
        return http_answer_text(x, HTTP_UNAVAILABLE, "stopping\n");
    if (read_board(h) && !overview_writer_works(&h->overview))
        return http_answer_text(x, HTTP_UNAVAILABLE,
                                "countd-write is down, stopped or hangs\n");
    return http_answer_text(x, HTTP_OK, "ok\n");
}

/* Refuses to count: only countd-write does. */
static enum conn_next
answer_count(struct http_call *x)
{
    const char *detail = "this port changes nothing; counting is POST "
                         "/v1/count at http.listen of countd-write";

    if (x->request->method == HTTP_GET || x->request->method == HTTP_HEAD)
        return answer_refuse(x, HTTP_NOT_FOUND, "no-such-path",
                             "no such path; counting is POST /v1/count at "
                             "http.listen of countd-write");
    return http_not_allowed(x, HTTP_GET | HTTP_HEAD, detail);
}

static const struct http_route routes[] = {
    {"/v1/count", "*",
     HTTP_GET | HTTP_HEAD | HTTP_POST | HTTP_PUT | HTTP_DELETE, answer_count, 0,
     NULL},
    {"/healthz", NULL, HTTP_GET | HTTP_HEAD, http_answer_health, HTTP_IS_OPEN,
     NULL},
    {"/readyz", NULL, HTTP_GET | HTTP_HEAD, answer_ready, HTTP_IS_OPEN, NULL},
};

/* ---- open and close ----------------------------------------------------- */

int
read_http_open(struct read_http *h, struct jobs *jobs,
               const struct datadir *dir, const struct config *config)
{
    h->jobs = jobs;
    h->dir = dir;
    h->held_limits = (struct waiting_limits){config->keyspace_max,
                                             config->keyspace_max_keys, 0};
    overview_init(&h->overview, config->data_dir);
    memcpy(h->site.hosts, config->http_hosts, sizeof config->http_hosts);
    h->site.only_reads = true;
    h->site.origins = config->read_cors;
    for (size_t i = 0; i < READ_COMMANDS; i++)
        h->commands[i] = (struct http_route){.path = read_commands[i].path,
                                             .query = "*",
                                             .methods = HTTP_GET | HTTP_HEAD,
                                             .answer = answer_command};
    http_site_add(&h->site, h->commands, READ_COMMANDS, h, TOKENS_READ);
    http_site_add(&h->site, routes, sizeof routes / sizeof routes[0], h,
                  TOKENS_READ);
    page_init(&h->page);
    if (config->read_page)
        http_site_add(&h->site, &page_route, 1, &h->page, TOKENS_READ);
    graphite_open(&h->graphite, &h->site, jobs, config);
    h->binary = malloc(ANSWER_SIZE_MAX);
    h->text = malloc(READ_HTTP_TEXT_MAX);
    if (!h->binary || !h->text) {
        read_http_close(h);
        return -ENOMEM;
    }
    user_metrics_init(&h->users, config);
    return 0;
}

void
read_http_close(struct read_http *h)
{
    overview_close(&h->overview);
    free(h->binary);
    free(h->text);
    h->binary = h->text = NULL;
}
