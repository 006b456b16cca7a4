/* common/net/http_answer.c - answers of HTTP, put where they are sent from; see
 * http.h.
 *
 * http_body() and http_end() for routes, http_refuse() and http_fail() for
 * errors, in text or, below /v1/, in JSON. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/http_internal.h"

#include <assert.h>
#include <string.h>
#include <time.h>

#include "common/wire/json_write.h"

/* Bytes of a problem: of its detail each may become six. */
#define PROBLEM_MAX (6 * HTTP_DETAIL_SIZE + 256)

#define VERSION_AT 7 /* of the digit in which 1.0 and 1.1 differ */

/* ---- answers ------------------------------------------------------------ */

/* The text of each status, and the code and the detail where a route gave none. */
static const struct status {
    enum http_status status;
    const char *text;
    struct http_problem usual; /* no code: that of BAD_REQUEST */
} statuses[] = {
    {HTTP_OK, "OK", {0}},
    {HTTP_BAD_REQUEST,
     "Bad Request",
     {"bad-request",
      "malformed HTTP, no Host, or a header twice that may be there once", 0}},
    {HTTP_CREATED, "Created", {0}},
    {HTTP_NO_CONTENT, "No Content", {0}},
    {HTTP_NOT_MODIFIED, "Not Modified", {0}},
    {HTTP_UNAUTHORIZED, "Unauthorized", {0}},
    {HTTP_FORBIDDEN,
     "Forbidden",
     {"foreign-page", "a web page asked for this: pages change nothing here",
      0}},
    {HTTP_NOT_FOUND, "Not Found", {"no-such-path", "no such path", 0}},
    {HTTP_METHOD_NOT_ALLOWED, "Method Not Allowed", {"method", NULL, 0}},
    {HTTP_NOT_ACCEPTABLE, "Not Acceptable", {0}},
    {HTTP_CONFLICT, "Conflict", {0}},
    {HTTP_LENGTH_REQUIRED, "Length Required", {0}},
    {HTTP_PRECONDITION_FAILED, "Precondition Failed", {0}},
    {HTTP_TOO_LARGE,
     "Content Too Large",
     {"too-large",
      "a body of more than 65536 bytes, or of 131072 with the lines of its "
      "chunks: send several requests",
      0}},
    {HTTP_MEDIA_TYPE, "Unsupported Media Type", {0}},
    {HTTP_EXPECTATION_FAILED,
     "Expectation Failed",
     {"expectation", "only 100-continue can be expected", 0}},
    {HTTP_UNPROCESSABLE, "Unprocessable Content", {0}},
    {HTTP_TOO_MANY, "Too Many Requests", {0}},
    {HTTP_HEAD_TOO_LARGE,
     "Request Header Fields Too Large",
     {"head-too-large", "more than 65536 bytes or 128 lines", 0}},
    {HTTP_INTERNAL_ERROR, "Internal Server Error", {0}},
    {HTTP_NOT_IMPLEMENTED,
     "Not Implemented",
     {"not-implemented",
      "an unknown method, or a transfer encoding other than chunked", 0}},
    {HTTP_UNAVAILABLE, "Service Unavailable", {0}},
    {HTTP_GATEWAY_TIMEOUT, "Gateway Timeout", {0}},
    {HTTP_VERSION,
     "HTTP Version Not Supported",
     {"version", "HTTP is 1.0 or 1.1 here", 0}},
    {HTTP_NO_SPACE, "Insufficient Storage", {0}},
};

static const struct status *
find_status(enum http_status status)
{
    const struct status *s = statuses;

    while (s->status != status)
        s++;
    return s;
}

static const char *
text_of(enum http_status status)
{
    return find_status(status)->text;
}

static inline uint8_t *
put_text(uint8_t *to, const char *text)
{
    return bytes_append(to, text, strlen(text));
}

/* `GET, POST` */
static uint8_t *
put_methods(uint8_t *to, unsigned methods)
{
    const char *between = "";

    for (unsigned i = 0; i < HTTP_METHODS; i++) {
        if ((methods & 1u << i) == 0)
            continue;
        to = bytes_append(put_text(to, between), http_method_names[i].at,
                          http_method_names[i].size);
        between = ", ";
    }
    return to;
}

/* `Date: Sun, 22 Nov 2026 15:34:03 GMT`, written once a second. */
static uint8_t *
put_date(uint8_t *to, const struct http_call *x)
{
    const uint64_t now_s = conn_unix_ms(x->conn) / 1000;
    struct http_site *site = conn_ctx(x->conn);
    struct tm tm;
    time_t t;

    if (now_s != site->date_s) {
        t = (time_t)now_s;
        (void)gmtime_r(&t, &tm); /* fails for years beyond an int */
        (void)strftime(site->date, sizeof site->date,
                       "Date: %a, %d %b %Y %H:%M:%S GMT\r\n", &tm);
        site->date_s = now_s;
    }
    return put_text(to, site->date);
}

/* `Keep-Alive: timeout=60`: a client that keeps a connection idle for less sends
 * no request into its end. */
static uint8_t *
put_keep_alive(uint8_t *to, const struct http_call *x)
{
    const uint32_t idle_s = x->conn->listener->row->idle_s;

    if (!x->request->keep || idle_s == 0)
        return to;
    to = decimal_put(put_text(to, "Keep-Alive: timeout="), idle_s);
    return put_text(to, "\r\n");
}

static uint8_t *
put_cache(uint8_t *to, const struct http_call *x)
{
    if (!x->cache)
        return put_text(to, "Cache-Control: no-store\r\n");
    to = put_text(put_text(to, "Cache-Control: "), x->cache);
    return put_text(to, "\r\n");
}

/* What an answer with a Content-Type has beside it. */
static uint8_t *
put_type(uint8_t *to, const struct http_call *x)
{
    to = put_text(put_text(put_text(to, "Content-Type: "), x->type), "\r\n");
    return put_text(put_cache(to, x), "X-Content-Type-Options: nosniff\r\n");
}

/* What lets a page of another site read the answer, if it is listed.  Caches
 * must know that answers to others lack it. */
static uint8_t *
put_origin(uint8_t *to, const struct http_call *x, bool is_preflight)
{
    static const char *const lines[2][2] = {
        /* A site that takes changes; one that only reads. */
        {"", "Access-Control-Allow-Methods: POST\r\n"
             "Access-Control-Allow-Headers: Content-Type, Idempotency-Key\r\n"
             "Access-Control-Max-Age: 7200\r\n"},
        {"Access-Control-Expose-Headers: ETag, Link, X-Countd-As-Of\r\n",
         "Access-Control-Allow-Methods: GET, HEAD\r\n"
         "Access-Control-Allow-Headers: Authorization, If-None-Match\r\n"
         "Access-Control-Max-Age: 600\r\n"}};
    const struct http_site *site = conn_ctx(x->conn);
    const struct http_text origin = x->request->origin;

    if (!site->origins || site->origins[0] == '\0')
        return to;
    to = put_text(to, "Vary: Origin\r\n");
    if (!http_serves_page(site, x->request, x->flags))
        return to;
    to = put_text(to, "Access-Control-Allow-Origin: ");
    to = put_text(bytes_append(to, origin.at, origin.size), "\r\n");
    return put_text(to, lines[site->only_reads][is_preflight]);
}

/* The head of an answer that is `length` bytes long.  `allow`: methods, or 0. */
static uint8_t *
put_head(uint8_t *to, const struct http_call *x, enum http_status status,
         unsigned allow, size_t length)
{
    struct http_site *site = conn_ctx(x->conn);
    uint8_t *at = decimal_put(put_text(to, "HTTP/1.1 "), (size_t)status);

    to[VERSION_AT] = (uint8_t)('0' + x->request->minor);
    at = put_text(put_text(put_text(at, " "), text_of(status)), "\r\n");
    if (x->request->keep)
        at = put_text(at, "Connection: keep-alive\r\n");
    else if (x->conn->listener->stopping)
        at = put_text(at, "Connection: close\r\n");
    if (x->type || site->only_reads) /* not at the paths of coconut */
        at = put_date(put_keep_alive(at, x), x);
    if (x->type)
        at = put_type(at, x);
    else if (status == HTTP_NOT_MODIFIED)
        at = put_cache(at, x);
    /* No page of another site shows an answer as its image or script. */
    if (site->only_reads)
        at = put_text(at, "Cross-Origin-Resource-Policy: same-origin\r\n");
    if (allow != 0)
        at = put_text(put_methods(put_text(at, "Allow: "), allow), "\r\n");
    at = put_origin(at, x, status == HTTP_NO_CONTENT && allow != 0);
    if (x->headers)
        at = put_text(at, x->headers);
    if (status != HTTP_NO_CONTENT && status != HTTP_NOT_MODIFIED)
        at = put_text(decimal_put(put_text(at, "Content-length: "), length),
                      "\r\n");
    return put_text(at, "\r\n");
}

uint8_t *
http_body(struct http_call *x, size_t max)
{
    assert(!x->headers || strlen(x->headers) < HTTP_HEADERS_MAX);
    x->body_at = HTTP_ANSWER_HEAD + (x->headers ? strlen(x->headers) : 0);
    x->out = conn_space(x->conn, x->body_at + max);
    return x->out ? x->out + x->body_at : NULL;
}

/* Puts an answer, of whose body `size` bytes are there, and which is `length`
 * bytes long, and counts it. */
static void
put_answer(struct http_call *x, enum http_status status, unsigned allow,
           size_t size, size_t length)
{
    uint8_t *const end = put_head(x->out, x, status, allow, length);
    struct http_site *site = conn_ctx(x->conn);

    if ((x->flags & HTTP_IS_OPEN) == 0)
        site->stats.by_class[(unsigned)status / 100 - 2]++;
    assert((size_t)(end - x->out) <= x->body_at);
    memmove(end, x->out + x->body_at, size);
    conn_put(x->conn, (size_t)(end - x->out) + size);
    x->out = NULL;
}

static enum conn_next
end_answer(struct http_call *x, enum http_status status, unsigned allow,
           size_t size)
{
    /* The length is that of the body of a GET. */
    put_answer(x, status, allow, x->request->method == HTTP_HEAD ? 0 : size,
               size);
    return CONN_ANSWERED;
}

enum conn_next
http_end(struct http_call *x, enum http_status status, size_t size)
{
    return end_answer(x, status, 0, size);
}

enum conn_next
http_answer_text(struct http_call *x, enum http_status status, const char *text)
{
    const size_t size = strlen(text);
    uint8_t *body;

    x->type = "text/plain; charset=utf-8";
    body = http_body(x, size);
    if (!body)
        return CONN_FULL;
    (void)put_text(body, text);
    return http_end(x, status, size);
}

enum conn_next
http_answer_health(struct http_call *x)
{
    return http_answer_text(x, HTTP_OK, "ok\n");
}

enum conn_next
http_begin_long(struct http_call *x, size_t size)
{
    if (!http_body(x, 0))
        return CONN_FULL;
    put_answer(x, HTTP_OK, 0, 0, size);
    return CONN_LONG;
}

/* ---- errors ------------------------------------------------------------- */

const struct http_problem *
http_usual_problem(const struct http_call *x, enum http_status status)
{
    static const struct http_problem long_body = {
        "too-large", "a body of more than 1048576 bytes, or 65536 in chunks",
        0};
    const struct status *s = find_status(status);

    if (status == HTTP_TOO_LARGE && (x->flags & HTTP_LONG_BODY) != 0)
        return &long_body;
    return s->usual.code ? &s->usual : &find_status(HTTP_BAD_REQUEST)->usual;
}

/* The text of the status, and behind a colon the detail, if there is one.
 * Coconut's answers have no type. */
static enum conn_next
refuse_in_text(struct http_call *x, enum http_status status, unsigned allow,
               const char *detail)
{
    const struct http_site *site = conn_ctx(x->conn);
    const char *text = text_of(status), *between = detail ? ": " : "";
    uint8_t *body, *end;

    if (!detail)
        detail = "";
    x->cache = NULL;
    x->type = site->only_reads || (x->flags & HTTP_IS_OPEN) != 0
                  ? "text/plain; charset=utf-8"
                  : NULL;
    body = http_body(x, strlen(text) + strlen(between) + strlen(detail));
    if (!body)
        return CONN_FULL;
    end = put_text(put_text(put_text(body, text), between), detail);
    return end_answer(x, status, allow, (size_t)(end - body));
}

static void
write_problem(struct json_writer *w, const struct http_call *x,
              enum http_status status, const struct http_problem *problem)
{
    json_member(w, "title");
    json_text(w, text_of(status));
    json_member(w, "status");
    json_integer(w, status);
    json_member(w, "code");
    json_text(w, problem->code);
    json_member(w, "detail");
    json_text(w, problem->detail);
    if (problem->line > 0) {
        json_member(w, "line");
        json_integer(w, problem->line);
    }
    if (x->as_of_ms > 0) {
        json_member(w, "as_of_ms");
        json_integer(w, x->as_of_ms);
    }
}

/* As a problem; `is_message`: {"message":"..."}, which Grafana shows. */
static enum conn_next
refuse_in_json(struct http_call *x, enum http_status status, unsigned allow,
               const struct http_problem *problem, bool is_message)
{
    const struct http_problem *usual = http_usual_problem(x, status);
    struct http_problem p = *problem;
    struct json_writer w;
    uint8_t *body;

    if (!p.code)
        p.code = usual->code;
    if (!p.detail)
        p.detail = usual->detail;
    x->type = is_message ? "application/json" : "application/problem+json";
    x->cache = NULL;
    body = http_body(x, PROBLEM_MAX);
    if (!body)
        return CONN_FULL;
    json_write_init(&w, body, PROBLEM_MAX);
    w.is_compact = is_message;
    json_begin(&w, '{');
    if (is_message) {
        json_member(&w, "message");
        json_text(&w, p.detail);
    } else {
        write_problem(&w, x, status, &p);
    }
    json_end(&w, '}');
    json_bytes(&w, "\n", is_message ? 0 : 1);
    assert(json_write_size(&w) > 0);
    return end_answer(x, status, allow, json_write_size(&w));
}

static enum conn_next
refuse_in_form(struct http_call *x, enum http_status status, unsigned allow,
               const struct http_problem *problem)
{
    const bool is_message = (x->flags & HTTP_MESSAGES) != 0 &&
                            status != HTTP_NOT_FOUND &&
                            status != HTTP_METHOD_NOT_ALLOWED;

    return is_message || http_is_versioned(x->request)
               ? refuse_in_json(x, status, allow, problem, is_message)
               : refuse_in_text(x, status, allow, problem->detail);
}

enum conn_next
http_refuse(struct http_call *x, enum http_status status,
            const struct http_problem *problem)
{
    return refuse_in_form(x, status, 0, problem);
}

enum conn_next
http_fail(struct http_call *x, enum http_status status)
{
    const struct http_problem none = {0};

    return refuse_in_form(x, status, 0, &none);
}

enum conn_next
http_not_allowed(struct http_call *x, unsigned methods, const char *detail)
{
    uint8_t named[64];
    struct http_problem problem = {.detail = detail};

    /* The older paths answer the status alone. */
    if (!detail && http_is_versioned(x->request)) {
        *put_methods(put_text(named, "this path has only "), methods) = '\0';
        problem.detail = (const char *)named;
    }
    return refuse_in_form(x, HTTP_METHOD_NOT_ALLOWED, methods, &problem);
}

enum conn_next
http_answer_options(struct http_call *x, unsigned methods)
{
    const bool is_preflight =
        http_serves_page(conn_ctx(x->conn), x->request, x->flags);

    if (!http_body(x, 0))
        return CONN_FULL;
    return end_answer(x, is_preflight ? HTTP_NO_CONTENT : HTTP_OK,
                      methods | HTTP_OPTIONS, 0);
}
