/* reader/graphite/graphite.c - see graphite.h: graphite_open().
 *
 * answer_with_job() serves the routes that need the store: when the job has a
 * place the parameters are read; when it is done answer_done() answers. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/graphite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/wire/utf8.h"
#include "reader/answer.h"

#define DAY 86400

#define VERSION "1.1.8" /* of Graphite: the functions of the editor */

/* ---- answers ------------------------------------------------------------ */

/* A text that was cut within a character ends before that. */
static enum conn_next
answer_why(struct http_call *x, struct render *r)
{
    size_t size = strlen(r->why);

    while (!utf8_is_valid((const uint8_t *)r->why, size))
        r->why[--size] = '\0';
    return answer_refuse(x, r->status, NULL, r->why);
}

/* ---- answers of jobs ---------------------------------------------------- */

/* Puts the next piece. */
static enum conn_next
put_piece(struct http_held *held, struct conn *c)
{
    struct graphite_job *g = LOOP_OWNER(held, struct graphite_job, job.held);
    size_t size = g->send_at->size - g->sent;
    uint8_t *to;

    size = size < CONN_SLICE ? size : CONN_SLICE;
    to = conn_space(c, size);
    if (!to)
        return CONN_FULL;
    memcpy(to, g->send_at->bytes + g->sent, size);
    conn_put(c, size);
    g->sent += size;
    if (g->sent == g->send_at->size) {
        g->send_at = g->send_at->next;
        g->sent = 0;
    }
    return g->send_at ? CONN_LONG : CONN_ANSWERED;
}

/* The answer has been sent in pieces, or its connection has ended before. */
static void
end_pieces(struct http_held *held)
{
    struct graphite_job *g = LOOP_OWNER(held, struct graphite_job, job.held);

    scratch_free(&g->answers);
    g->site->streams--;
    free(g);
}

/* From now on the answer is sent in pieces, and the job has no place. */
static enum conn_next
begin_pieces(struct http_call *x, struct graphite_job *g,
             const struct chunks *answer)
{
    const enum conn_next next = http_begin_long(x, answer->size);

    if (next != CONN_LONG)
        return next;
    g->send_at = answer->first;
    g->sent = 0;
    g->site->streams++;
    job_leave(&g->job);
    g->job.held = (struct http_held){.gone = end_pieces, .more = put_piece};
    return next;
}

static enum conn_next
answer_done(struct http_call *x, struct graphite_job *g)
{
    const bool is_packed = g->packer.is_packed;
    const struct chunks *c = is_packed ? &g->packer.packed : &g->answer;
    char *headers = g->site->headers;
    uint8_t *body;
    int n;

    if (g->job.state == JOB_LATE)
        return answer_refuse(x, HTTP_UNAVAILABLE, NULL, ANSWER_TOO_LONG);
    if (g->render.status != HTTP_OK)
        return answer_why(x, &g->render);
    x->type = g->kind == GRAPHITE_RENDER ? render_type(&g->render)
                                         : "application/json";
    x->cache = "no-cache";
    n = snprintf(headers, sizeof g->site->headers,
                 "Vary: Accept-Encoding\r\n%s",
                 is_packed ? "Content-Encoding: gzip\r\n" : "");
    if (g->as_of_ms != INT64_MAX)
        (void)snprintf(headers + n, sizeof g->site->headers - (size_t)n,
                       "X-Countd-As-Of: %" PRId64 "\r\n", g->as_of_ms);
    x->headers = headers;
    if (c->size >= GRAPHITE_STREAM_MIN && g->site->streams < GRAPHITE_STREAMS)
        return begin_pieces(x, g, c);
    body = http_body(x, c->size);
    if (!body)
        return CONN_FULL;
    chunks_copy(c, body);
    return http_end(x, HTTP_OK, c->size);
}

/* ---- the job ------------------------------------------------------------ */

static bool
step_packing(struct job *job, uint64_t until_ns)
{
    return chunks_pack_step(&LOOP_OWNER(job, struct graphite_job, job)->packer,
                            until_ns);
}

static bool
step_request(struct job *job, uint64_t until_ns)
{
    struct graphite_job *g = LOOP_OWNER(job, struct graphite_job, job);
    const int rc = g->kind == GRAPHITE_RENDER
                       ? render_step(&g->render, until_ns)
                       : graphite_lookup_step(g, until_ns);

    if (rc == 0)
        return false;
    if (g->as_of_ms != INT64_MAX)
        g->as_of_ms = as_of_bound(job->jobs->as_of, g->as_of_ms);
    if (g->render.status != HTTP_OK || !g->takes_gzip ||
        g->answer.size < CHUNKS_PACKED ||
        chunks_pack_start(&g->packer, &g->answer) < 0)
        return true;
    job->step = step_packing;
    return false;
}

/* All of its memory but that of an answer that is being sent. */
static void
stop_request(struct job *job)
{
    struct graphite_job *g = LOOP_OWNER(job, struct graphite_job, job);

    store_listing_close(g->search.listing);
    g->search.listing = NULL;
    scratch_free(&g->scratch);
    chunks_pack_stop(&g->packer);
    if (!g->send_at)
        scratch_free(&g->answers);
}

/* ---- requests ----------------------------------------------------------- */

/* Whether a body is a form that is not packed.  Some clients send parameters
 * beside the type. */
static bool
is_form(const struct http_request *r)
{
    const bool is_plain =
        r->encoding.size == 0 || http_text_is_like(r->encoding, "identity");

    return is_plain && (!r->type.at ||
                        http_text_is_like(http_media_type(r->type),
                                          "application/x-www-form-urlencoded"));
}

/* The time of a keyspace is read before its snapshot is taken. */
static void
note_keyspace(void *ctx, const uint8_t *keyspace, size_t size)
{
    struct graphite_job *g = ctx;
    const int64_t as_of_ms = as_of_get(g->job.jobs->as_of, keyspace, size);

    if (as_of_ms < g->as_of_ms)
        g->as_of_ms = as_of_ms;
}

static void
init_render(struct graphite_job *g)
{
    struct render *r = &g->render;

    r->store = g->job.jobs->store;
    r->scratch = &g->scratch;
    r->search = &g->search;
    r->limits = g->site->limits;
    r->now = (int64_t)(clock_unix_ms() / 1000);
    r->times.from = r->now - DAY;
    r->times.until = r->now;
    r->format = RENDER_JSON;
    r->zone = &g->zone;
    r->answer = &g->answer;
    chunks_init(&g->answer, &g->answers, g->site->limits.max_bytes);
    render_start(r);
}

static int
init_job(struct graphite_job *g, struct graphite *site, enum graphite_kind kind)
{
    const size_t at = offsetof(struct graphite_job, kind);

    memset((uint8_t *)g + at, 0,
           offsetof(struct graphite_job, render.buckets) - at);
    g->site = site;
    g->kind = kind;
    g->as_of_ms = INT64_MAX;
    scratch_init(&g->scratch, GRAPHITE_MEMORY_MAX);
    scratch_init(&g->answers, GRAPHITE_MEMORY_MAX);
    g->scratch.share = g->answers.share = &g->site->memory;
    g->search.store = g->job.jobs->store;
    g->search.scratch = &g->scratch;
    g->search.entered = note_keyspace;
    g->search.ctx = g;
    init_render(g);
    if (store_listing_open(g->search.store, &g->search.listing) < 0)
        return render_fail_memory(&g->render);
    return 0;
}

/* Begins the job for a request.  False: render.status and `why` say why not. */
static bool
start_job(struct graphite_job *g, const struct http_call *x,
          enum graphite_kind kind)
{
    int rc = init_job(g, x->ctx, kind);

    g->takes_gzip = http_takes_gzip(x->request);
    if (rc == 0 && x->body.size > 0 && !is_form(x->request))
        rc = render_fail(&g->render, HTTP_BAD_REQUEST,
                         "a body is application/x-www-form-urlencoded, without "
                         "Content-Encoding");
    if (rc == 0)
        rc = graphite_read_parameters(g, x->request->query);
    if (rc == 0)
        rc = graphite_read_parameters(g, x->body);
    if (rc == 0)
        rc = graphite_check_parameters(g);
    if (rc < 0) {
        stop_request(&g->job);
        return false;
    }
    if (kind != GRAPHITE_RENDER)
        path_search_start(&g->search, &g->pattern, g->wanted,
                          g->site->max_nodes);
    g->job.step = step_request;
    job_run(&g->job);
    return true;
}

static enum conn_next
answer_with_job(struct http_call *x, enum graphite_kind kind)
{
    struct graphite *site = x->ctx;
    struct graphite_job *g;

    /* Most of it is not touched in line. */
    g = (void *)job_hold(x, site->jobs, sizeof *g, stop_request);
    if (!g)
        return answer_refuse(x, HTTP_UNAVAILABLE, NULL, "no memory");
    if (g->job.state == JOB_DONE || g->job.state == JOB_LATE)
        return answer_done(x, g);
    if (g->job.state == JOB_RUNS || !job_enter(&g->job) ||
        start_job(g, x, kind))
        return CONN_PAUSE;
    return answer_why(x, &g->render);
}

/* ---- routes ------------------------------------------------------------- */

static enum conn_next
answer_render(struct http_call *x)
{
    return answer_with_job(x, GRAPHITE_RENDER);
}

static enum conn_next
answer_find(struct http_call *x)
{
    return answer_with_job(x, GRAPHITE_FIND);
}

static enum conn_next
answer_expand(struct http_call *x)
{
    return answer_with_job(x, GRAPHITE_EXPAND);
}

static enum conn_next
answer_functions(struct http_call *x)
{
    struct json_writer w;
    uint8_t *body;

    x->type = "application/json";
    body = http_body(x, FUNCTIONS_JSON_MAX);
    if (!body)
        return CONN_FULL;
    json_write_init(&w, body, FUNCTIONS_JSON_MAX);
    w.is_compact = true;
    functions_describe(&w);
    assert(json_write_size(&w) > 0);
    return http_end(x, HTTP_OK, json_write_size(&w));
}

static enum conn_next
answer_version(struct http_call *x)
{
    return http_answer_text(x, HTTP_OK, VERSION);
}

/* There are no tags and no events. */
static enum conn_next
answer_nothing(struct http_call *x)
{
    x->type = "application/json";
    return answer_bytes(x, "[]", 2);
}

#define FLAGS                                                                  \
    (HTTP_READS_BODY | HTTP_LONG_BODY | HTTP_MESSAGES | HTTP_TAKES_SLASH)
#define ROUTE(path, answer)                                                    \
    {                                                                          \
        path, "*", HTTP_GET | HTTP_POST, answer, FLAGS, NULL                   \
    }

static const struct http_route routes[] = {
    ROUTE("/render", answer_render),
    ROUTE("/metrics/find", answer_find),
    ROUTE("/metrics/expand", answer_expand),
    ROUTE("/functions", answer_functions),
    ROUTE("/version", answer_version),
    ROUTE("/events/get_data", answer_nothing),
    ROUTE("/tags/autoComplete/tags", answer_nothing),
    ROUTE("/tags/autoComplete/values", answer_nothing),
    ROUTE("/tags", answer_nothing),
};

void
graphite_open(struct graphite *g, struct http_site *site, struct jobs *jobs,
              const struct config *config)
{
    g->jobs = jobs;
    g->max_nodes = config->graphite_max_nodes;
    g->limits = (struct render_limits){
        .max_series = config->graphite_max_series,
        .max_points = config->graphite_max_points,
        .max_bytes = GRAPHITE_ANSWER_MAX - HTTP_ANSWER_HEAD - HTTP_HEADERS_MAX};
    g->memory.max = GRAPHITE_MEMORY_ALL;
    http_site_add(site, routes, sizeof routes / sizeof routes[0], g,
                  TOKENS_READ);
}
