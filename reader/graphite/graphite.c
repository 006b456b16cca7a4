/* reader/graphite/graphite.c - see graphite.h: graphite_open(),
 * graphite_end_turn(), graphite_close().
 *
 * answer_job() serves the routes that need the store: the request waits in
 * line, then its parameters are read and its job begins; graphite_end_turn()
 * runs the job in steps; then answer_job() is called again, and answers. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/graphite/graphite.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/wire/utf8.h"
#include "reader/answer.h"
#include "reader/request_hash.h"

#define STEP_NS      1000000 /* of a job, in a turn */
#define DONE_MS      1000    /* an answer that is not taken is freed after */
#define DAY          86400
#define PACKED_LEAST 4096 /* bytes of an answer that is packed */
#define WHY_MAX      (6 * TARGET_WHY_SIZE + 64)

#define VERSION "1.1.8" /* of Graphite: the functions of the editor */

/* ---- answers ------------------------------------------------------------ */

static enum conn_next
answer_text(struct http_call *x, const char *type, const char *text)
{
    const size_t size = strlen(text);
    uint8_t *body;

    x->type = type;
    body = http_body(x, size);
    if (!body)
        return CONN_FULL;
    (void)bytes_append(body, text, size);
    return http_end(x, HTTP_OK, size);
}

/* {"message":"..."}: Grafana shows it.  A text that was cut within a character
 * ends before that. */
static enum conn_next
answer_failure(struct http_call *x, enum http_status status, const char *why)
{
    struct json_writer w;
    size_t size = strlen(why);
    uint8_t *body;

    while (!utf8_is_valid((const uint8_t *)why, size))
        size--;

    x->type = "application/json";
    x->more = status == HTTP_UNAVAILABLE ? "Retry-After: 1\r\n" : NULL;
    body = http_body(x, WHY_MAX);
    if (!body)
        return CONN_FULL;
    json_write_init(&w, body, WHY_MAX);
    w.is_compact = true;
    json_object_begin(&w);
    json_member(&w, "message");
    json_string(&w, why, size);
    json_object_end(&w);
    return http_end(x, status, json_write_size(&w));
}

/* ---- long answers ------------------------------------------------------- */

static struct graphite_stream *
find_stream(struct graphite *g, const struct conn *c)
{
    for (size_t i = 0; i < GRAPHITE_STREAMS; i++)
        if (g->streams[i].conn == c)
            return &g->streams[i];
    return NULL;
}

static void
end_stream(void *ctx, struct conn *c)
{
    struct graphite_stream *s = find_stream(ctx, c);

    assert(s);
    scratch_free(&s->scratch);
    s->conn = NULL;
}

/* Puts the next piece. */
static enum conn_next
continue_stream(void *ctx, struct conn *c)
{
    struct graphite_stream *s = find_stream(ctx, c);
    size_t size;
    uint8_t *to;

    assert(s);
    size = s->at->size - s->done;
    size = size < CONN_SLICE ? size : CONN_SLICE;
    to = conn_space(c, size);
    if (!to)
        return CONN_FULL;
    memcpy(to, s->at->bytes + s->done, size);
    conn_put(c, size);
    s->done += size;
    if (s->done == s->at->size) {
        s->at = s->at->next;
        s->done = 0;
    }
    if (s->at)
        return CONN_LONG;
    end_stream(ctx, c);
    return CONN_MORE;
}

static const struct http_stream stream = {continue_stream, end_stream};

/* From now on the answer is sent in pieces, and the stream owns its memory. */
static enum conn_next
begin_stream(struct http_call *x, struct graphite_stream *s,
             const struct chunks *answer)
{
    struct graphite *g = x->ctx;
    const enum conn_next next = http_begin_long(x, answer->size, &stream);

    if (next != CONN_LONG)
        return next;
    s->conn = x->conn;
    s->scratch = g->answers;
    s->at = answer->first;
    s->done = 0;
    scratch_init(&g->answers, GRAPHITE_MEMORY_MAX);
    return next;
}

/* Sends the answer of the job, which ends unless memory was short (CONN_FULL).
 */
static enum conn_next
answer_done(struct http_call *x)
{
    struct graphite *g = x->ctx;
    const struct chunks *c = g->is_packed ? &g->packed : &g->answer;
    struct graphite_stream *s = NULL;
    uint8_t *body;
    int n;

    if (g->status != HTTP_OK)
        return answer_failure(x, g->status, g->why);
    x->type = g->kind == GRAPHITE_RENDER ? render_type(&g->render)
                                         : "application/json";
    x->cache = "no-cache";
    n = snprintf(g->more, sizeof g->more, "Vary: Accept-Encoding\r\n%s",
                 g->is_packed ? "Content-Encoding: gzip\r\n" : "");
    if (g->as_of_ms != INT64_MAX)
        (void)snprintf(g->more + n, sizeof g->more - (size_t)n,
                       "X-Countd-As-Of: %" PRId64 "\r\n", g->as_of_ms);
    x->more = g->more;
    if (c->size >= GRAPHITE_STREAM_MIN)
        s = find_stream(g, NULL);
    if (s)
        return begin_stream(x, s, c);
    body = http_body(x, c->size);
    if (!body)
        return CONN_FULL;
    chunks_copy(c, body);
    return http_end(x, HTTP_OK, c->size);
}

/* ---- the job ------------------------------------------------------------ */

static void
end_job(struct graphite *g)
{
    if (g->state == GRAPHITE_RUNS)
        path_search_stop(&g->search);
    scratch_free(&g->scratch);
    scratch_free(&g->answers);
    g->state = GRAPHITE_NONE;
    http_wake(&g->line);
}

static void
fail_job(struct graphite *g, enum http_status status, const char *why)
{
    g->status = status;
    g->why = why;
}

/* ---- packing ------------------------------------------------------------ */

/* Whether the answer that is there is to be packed. */
static bool
wants_packing(const struct graphite *g)
{
    return g->status == HTTP_OK && g->takes_gzip && g->can_deflate &&
           g->answer.size >= PACKED_LEAST;
}

static void
start_packing(struct graphite *g)
{
    (void)deflateReset(&g->deflate);
    chunks_init(&g->packed, &g->answers, g->limits.max_bytes);
    g->pack_at = g->answer.first;
}

/* Packs one chunk.  False: there is no memory. */
static bool
pack_chunk(struct graphite *g, struct chunk *chunk)
{
    struct json_writer *to = &g->packed.json;
    z_stream *z = &g->deflate;
    int rc;

    z->next_in = chunk->bytes;
    z->avail_in = (uInt)chunk->size;
    do {
        if (chunks_reserve(&g->packed, 1) < 0)
            return false;
        z->next_out = to->at;
        z->avail_out = (uInt)(to->end - to->at);
        rc = deflate(z, chunk->next ? Z_NO_FLUSH : Z_FINISH);
        to->at = z->next_out;
    } while (z->avail_out == 0 && rc != Z_STREAM_END);
    return true;
}

/* Returns whether it is over: then is_packed, or there was no memory for it. */
static bool
pack_some(struct graphite *g, uint64_t until_ns)
{
    while (g->pack_at && clock_ns() < until_ns) {
        if (!pack_chunk(g, g->pack_at))
            return true; /* it goes as it is */
        g->pack_at = g->pack_at->next;
    }
    if (g->pack_at)
        return false;
    chunks_end(&g->packed);
    g->is_packed = true;
    return true;
}

/* ---- steps -------------------------------------------------------------- */

static void
finish_job(struct graphite *g)
{
    g->state = GRAPHITE_DONE;
    g->done_ms = loop_now_ms(g->loop);
    http_wake(&g->owner);
}

/* Ends the snapshots of this turn first: they are older than the time that
 * as_of_get() returns after a refresh. */
static void
step_job(struct graphite *g)
{
    const uint64_t until_ns = clock_ns() + STEP_NS;
    int rc;

    if (loop_now_ms(g->loop) - g->began_ms >= g->max_time_ms) {
        path_search_stop(&g->search);
        fail_job(g, HTTP_UNAVAILABLE, ANSWER_TOO_LONG);
        finish_job(g);
        return;
    }
    store_read_end(g->store);
    as_of_refresh(g->as_of, loop_now_ms(g->loop));
    rc = g->kind == GRAPHITE_RENDER ? render_step(&g->render, until_ns)
                                    : graphite_lookup_step(g, until_ns);
    store_read_end(g->store);
    if (rc == 0)
        return;
    if (rc < 0)
        fail_job(g, g->render.status, g->render.why);
    if (wants_packing(g)) {
        start_packing(g);
        g->state = GRAPHITE_PACKS;
    } else
        finish_job(g);
}

static bool
is_working(const struct graphite *g)
{
    return g->state == GRAPHITE_RUNS || g->state == GRAPHITE_PACKS;
}

bool
graphite_end_turn(struct graphite *g)
{
    const bool is_alone = list_alone(&g->owner.link);
    const bool is_old = g->state == GRAPHITE_DONE &&
                        loop_now_ms(g->loop) - g->done_ms > DONE_MS;

    if (is_alone && (is_working(g) || is_old))
        end_job(g); /* the client that asked has gone */
    else if (g->state == GRAPHITE_RUNS)
        step_job(g);
    else if (g->state == GRAPHITE_PACKS && pack_some(g, clock_ns() + STEP_NS))
        finish_job(g);
    return is_working(g);
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
    struct graphite *g = ctx;
    const int64_t as_of_ms = as_of_get(g->as_of, keyspace, size);

    if (as_of_ms < g->as_of_ms)
        g->as_of_ms = as_of_ms;
}

static void
init_render(struct graphite *g)
{
    struct render *r = &g->render;

    r->store = g->store;
    r->entered = note_keyspace;
    r->ctx = g;
    r->scratch = &g->scratch;
    r->search = &g->search;
    r->limits = g->limits;
    r->now = (int64_t)(clock_unix_ms() / 1000);
    r->times.from = r->now - DAY;
    r->times.until = r->now;
    r->max_data_points = 0;
    r->format = RENDER_JSON;
    r->zone = &g->zone;
    r->answer = &g->answer;
    chunks_init(&g->answer, &g->answers, g->limits.max_bytes);
    render_start(r);
}

/* Begins the job for a request.  False: `status` and `why` say why not. */
static bool
start_job(struct graphite *g, const struct http_call *x,
          enum graphite_kind kind)
{
    int rc;

    g->kind = kind;
    g->began_ms = loop_now_ms(g->loop);
    g->status = HTTP_OK;
    g->as_of_ms = INT64_MAX;
    g->from = g->until = g->tz = g->query = (struct target_text){NULL, 0};
    g->is_completer = g->only_leaves = g->is_packed = false;
    init_render(g);
    if (x->body.size > 0 && !is_form(x->request))
        rc = render_fail(&g->render, HTTP_BAD_REQUEST,
                         "a body is application/x-www-form-urlencoded, without "
                         "Content-Encoding");
    else
        rc = graphite_read_parameters(g, x->request->query);
    if (rc == 0)
        rc = graphite_read_parameters(g, x->body);
    if (rc == 0)
        rc = graphite_check_parameters(g);
    if (rc < 0) {
        fail_job(g, g->render.status, g->render.why);
        return false;
    }
    if (kind != GRAPHITE_RENDER)
        graphite_lookup_start(g);
    g->state = GRAPHITE_RUNS;
    return true;
}

static enum conn_next
answer_job(struct http_call *x, enum graphite_kind kind)
{
    struct graphite *g = x->ctx;
    const bool takes_gzip = http_takes_gzip(x->request);
    const uint64_t request = request_hash(&g->hash_key, x, takes_gzip);
    enum conn_next next;

    if (x->rest.size > 0)
        return http_fail(x, HTTP_NOT_FOUND);
    if (g->state != GRAPHITE_NONE &&
        (g->state != GRAPHITE_DONE || g->request != request))
        return http_hold(x, g->request == request ? &g->owner : &g->line);
    if (g->state == GRAPHITE_NONE) {
        g->request = request;
        g->takes_gzip = takes_gzip;
        if (start_job(g, x, kind))
            return http_hold(x, &g->owner);
    }
    next = answer_done(x);
    if (next == CONN_MORE || next == CONN_LONG)
        end_job(g);
    return next;
}

/* ---- routes ------------------------------------------------------------- */

static enum conn_next
answer_render(struct http_call *x)
{
    return answer_job(x, GRAPHITE_RENDER);
}

static enum conn_next
answer_find(struct http_call *x)
{
    return answer_job(x, GRAPHITE_FIND);
}

static enum conn_next
answer_expand(struct http_call *x)
{
    return answer_job(x, GRAPHITE_EXPAND);
}

static enum conn_next
answer_functions(struct http_call *x)
{
    struct json_writer w;
    uint8_t *body;

    if (x->rest.size > 0)
        return http_fail(x, HTTP_NOT_FOUND);
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
    return x->rest.size > 0
               ? http_fail(x, HTTP_NOT_FOUND)
               : answer_text(x, "text/plain; charset=utf-8", VERSION);
}

/* There are no tags and no events. */
static enum conn_next
answer_nothing(struct http_call *x)
{
    return x->rest.size > 0 ? http_fail(x, HTTP_NOT_FOUND)
                            : answer_text(x, "application/json", "[]");
}

#define FLAGS (HTTP_READS_BODY | HTTP_LONG_BODY | HTTP_MESSAGES)

/* With and without a slash at the end. */
#define ROUTE(path, answer)                                                    \
    {path, "*", HTTP_GET | HTTP_POST, answer, FLAGS, NULL},                    \
    {                                                                          \
        path "/", "*", HTTP_GET | HTTP_POST, answer, FLAGS, NULL               \
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

/* ---- open and close ----------------------------------------------------- */

int
graphite_open(struct graphite *g, struct http_site *site, struct loop *loop,
              struct store *store, struct as_of *as_of,
              const struct config *config)
{
    g->loop = loop;
    g->store = store;
    g->as_of = as_of;
    if (getrandom(&g->hash_key, sizeof g->hash_key, 0) !=
        (ssize_t)sizeof g->hash_key)
        return -errno;
    g->max_time_ms = config->read_max_time_ms;
    g->max_nodes = config->graphite_max_nodes;
    g->limits = (struct render_limits){
        .max_series = config->graphite_max_series,
        .max_points = config->graphite_max_points,
        .max_bytes = GRAPHITE_ANSWER_MAX - HTTP_ANSWER_HEAD - HTTP_MORE_MAX};
    http_line_init(&g->line);
    http_line_init(&g->owner);
    g->can_deflate = deflateInit2(&g->deflate, 1, Z_DEFLATED, 15 + 16, 8,
                                  Z_DEFAULT_STRATEGY) == Z_OK;
    scratch_init(&g->scratch, GRAPHITE_MEMORY_MAX);
    scratch_init(&g->answers, GRAPHITE_MEMORY_MAX);
    g->search.store = store;
    g->search.scratch = &g->scratch;
    http_site_add(site, routes, sizeof routes / sizeof routes[0], g,
                  TOKENS_READ);
    return store_listing_open(store, &g->search.listing);
}

void
graphite_close(struct graphite *g)
{
    if (g->state == GRAPHITE_RUNS)
        path_search_stop(&g->search);
    scratch_free(&g->scratch);
    scratch_free(&g->answers);
    for (size_t i = 0; i < GRAPHITE_STREAMS; i++)
        scratch_free(&g->streams[i].scratch);
    if (g->can_deflate)
        (void)deflateEnd(&g->deflate);
    g->can_deflate = false;
    store_listing_close(g->search.listing);
    g->search.listing = NULL;
}
