/* writer/count_head.c - see count_internal.h: count_check_head(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/count_internal.h"

#include <stdio.h>
#include <string.h>

#include "common/net/http_query.h"
#include "common/wire/event_time.h"
#include "writer/count_body.h"

enum conn_next
count_refuse(struct http_call *x, enum http_status status, const char *code,
             const char *detail)
{
    struct count *s = x->ctx;
    const struct http_problem problem = {code, detail, 0};
    const enum conn_next next = http_refuse(x, status, &problem);

    s->stats.refused += next == CONN_ANSWERED;
    return next;
}

static bool
is_page(const struct http_call *x)
{
    return http_serves_page(conn_ctx(x->conn), x->request, x->flags);
}

/* False: none that is known.  A page of count.cors may send plain text, as
 * sendBeacon() does and for which a browser asks nothing first: it is JSON. */
static bool
find_format(const struct http_call *x, enum count_format *format)
{
    static const struct {
        const char *type;
        enum count_format format;
    } types[] = {{"application/json", COUNT_JSON},
                 {"application/x-ndjson", COUNT_NDJSON},
                 {"application/jsonl", COUNT_NDJSON},
                 {"text/tab-separated-values", COUNT_TSV}};
    const struct http_text type = http_media_type(x->request->type);

    *format = COUNT_JSON;
    if (is_page(x) && http_text_is_like(type, "text/plain"))
        return true;
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

/* A value that `rc` says is whole.  NULL, or what is wrong with it. */
static const struct increment_fault *
read_names(struct count_query *q, const uint8_t *value, size_t size, int rc)
{
    static const struct increment_fault bad = {"bad-names",
                                               "names: raw or text"};

    return rc < 0 || !name_form_read(value, size, &q->names) ? &bad : NULL;
}

static const struct increment_fault *
read_at(struct count_query *q, const uint8_t *value, size_t size, int rc)
{
    const struct increment_form form = {.latest = q->latest};

    if (rc > 0 && size == 3 && memcmp(value, "now", 3) == 0)
        return NULL;
    return increment_time_read(&form, (const char *)value, rc > 0 ? size : 0,
                               &q->at);
}

bool
count_read_query(struct http_call *x, struct count_query *q,
                 enum conn_next *next)
{
    static const struct {
        const char *name;
        const struct increment_fault *(*read)(struct count_query *q,
                                              const uint8_t *value, size_t size,
                                              int rc);
    } parameters[] = {{"names", read_names}, {"at", read_at}};
    const struct count *s = x->ctx;
    const size_t count = sizeof parameters / sizeof parameters[0];
    struct http_text query = x->request->query, rest = query;
    char name[HTTP_QUERY_NAME_SIZE], shown[HTTP_QUERY_SHOWN];
    char detail[HTTP_DETAIL_SIZE];
    const struct increment_fault *fault;
    uint8_t value[40];
    size_t size = 0, i;
    unsigned has = 0;
    int rc;

    *q = (struct count_query){
        .names = NAMES_USUAL,
        .latest = (int64_t)(loop_unix_ms(s->loop) / 1000) + EVENT_TIME_AHEAD};
    for (;
         (rc = http_query_next(&query, name, value, sizeof value, &size)) != 0;
         rest = query) {
        for (i = 0; i < count && strcmp(name, parameters[i].name) != 0;)
            i++;
        if (i == count) {
            (void)http_query_shows(rest, shown);
            (void)snprintf(detail, sizeof detail, "unknown parameter: %s",
                           shown);
            *next =
                count_refuse(x, HTTP_BAD_REQUEST, "unknown-parameter", detail);
            return false;
        }
        if ((has & 1u << i) != 0) {
            (void)snprintf(detail, sizeof detail, "%s is there twice", name);
            *next = count_refuse(x, HTTP_BAD_REQUEST, "twice", detail);
            return false;
        }
        has |= 1u << i;
        fault = parameters[i].read(q, value, size, rc);
        if (fault) {
            *next = count_refuse(x, HTTP_BAD_REQUEST, fault->code, fault->text);
            return false;
        }
    }
    return true;
}

/* An Idempotency-Key is never ignored. */
static bool
check_key(struct http_call *x, enum conn_next *next)
{
    const struct count *s = x->ctx;
    const size_t size = x->request->key.size;

    if (s->ingest->logs->keys.state == KEYS_OFF)
        *next = count_refuse(
            x, HTTP_BAD_REQUEST, "no-keys",
            mark_fits(&s->ingest->logs->layout)
                ? "this server keeps no Idempotency-Key (count.keys = 0): send "
                  "the request without one"
                : "this server keeps no Idempotency-Key (message.key_size is "
                  "below 48): send the request without one");
    else if (size == 0 || size > KEYS_KEY_MAX)
        *next = count_refuse(x, HTTP_BAD_REQUEST, "bad-key",
                             "Idempotency-Key must have 1 to 255 bytes");
    else
        return true;
    return false;
}

/* What a browser sends for a page without asking first has none of these types
 * (Fetch, "CORS-safelisted request-header"), but for pages that may count. */
bool
count_check_head(struct http_call *x, enum conn_next *next)
{
    const struct http_request *r = x->request;
    enum count_format format;
    struct count_query query;

    if (!find_format(x, &format))
        *next =
            count_refuse(x, HTTP_MEDIA_TYPE, "media-type",
                         "Content-Type must be application/json, "
                         "application/x-ndjson or text/tab-separated-values; "
                         "with curl: --json, or -H 'Content-Type: ...'");
    else if (!is_plain(r) && !http_text_is_like(r->encoding, "gzip"))
        *next = count_refuse(x, HTTP_MEDIA_TYPE, "encoding",
                             "Content-Encoding must be gzip, or none");
    else if (!r->has_length && !r->is_chunked)
        *next = count_refuse(x, HTTP_LENGTH_REQUIRED, "length",
                             "Content-Length, or a body in chunks, is needed");
    else if (count_read_query(x, &query, next)) {
        x->note = (unsigned)format << NOTE_FORMAT |
                  (is_plain(r) ? 0 : NOTE_PACKED) |
                  (is_page(x) ? NOTE_PAGE : 0);
        return !r->key.at || check_key(x, next);
    }
    return false;
}
