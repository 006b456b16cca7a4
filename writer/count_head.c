/* writer/count_head.c - see count_internal.h: count_check_head(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/count_internal.h"

#include <stdio.h>
#include <string.h>

#include "common/net/http_query.h"
#include "common/wire/name.h"
#include "writer/count_body.h"

enum conn_next
count_refuse(struct http_call *x, enum http_status status, const char *code,
             const char *detail)
{
    struct count *s = x->ctx;
    const struct http_problem problem = {code, detail, 0};
    const enum conn_next next = http_refuse(x, status, &problem);

    s->stats.refused += next == CONN_MORE;
    return next;
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
    const struct http_text type = http_media_type(r->type);

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

/* Reads `names`, of which all of the query is.  False: *next is the answer. */
static bool
read_query(struct http_call *x, enum name_form *names, enum conn_next *next)
{
    struct http_text query = x->request->query;
    char name[HTTP_QUERY_NAME_SIZE], shown[HTTP_QUERY_SHOWN];
    char detail[HTTP_DETAIL_SIZE];
    uint8_t value[4];
    size_t size = 0;
    int rc;

    *names = NAMES_USUAL;
    for (;;) {
        const struct http_text rest = query;

        rc = http_query_next(&query, name, value, sizeof value, &size);
        if (rc == 0)
            return true;
        if (strcmp(name, "names") != 0) {
            (void)http_query_shows(rest, shown);
            (void)snprintf(detail, sizeof detail, "unknown parameter: %s",
                           shown);
            *next =
                count_refuse(x, HTTP_BAD_REQUEST, "unknown-parameter", detail);
            return false;
        }
        if (*names != NAMES_USUAL) {
            *next = count_refuse(x, HTTP_BAD_REQUEST, "twice",
                                 "names is there twice");
            return false;
        }
        if (rc < 0 || !name_form_read(value, size, names)) {
            *next = count_refuse(x, HTTP_BAD_REQUEST, "bad-names",
                                 "names: raw or text");
            return false;
        }
    }
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
 * (Fetch, "CORS-safelisted request-header"). */
bool
count_check_head(struct http_call *x, enum conn_next *next)
{
    const struct http_request *r = x->request;
    enum count_format format;
    enum name_form names;

    if (!find_format(r, &format))
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
    else if (read_query(x, &names, next)) {
        x->note = (unsigned)format << NOTE_FORMAT |
                  (unsigned)names << NOTE_NAMES |
                  (is_plain(r) ? 0 : NOTE_PACKED);
        return !r->key.at || check_key(x, next);
    }
    return false;
}
