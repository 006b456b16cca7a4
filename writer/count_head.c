/* writer/count_head.c - the head of POST /v1/count: count_check_head(), and
 * what it notes for the route. */
#include "writer/count_internal.h"

#include <stdio.h>
#include <string.h>

#include "common/net/http_query.h"

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

/* Whether `names=raw` is all of the query, or there is none.  False: *next is
 * the answer. */
static bool
read_query(struct http_call *x, bool *is_raw, enum conn_next *next)
{
    struct http_text query = x->request->query;
    char name[HTTP_QUERY_NAME_SIZE], shown[HTTP_QUERY_SHOWN];
    char detail[HTTP_DETAIL_SIZE];
    uint8_t value[3];
    size_t size = 0;
    int rc;

    *is_raw = false;
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
        if (rc < 0 || *is_raw || size != 3 || memcmp(value, "raw", 3) != 0) {
            *next = count_refuse(
                x, HTTP_BAD_REQUEST, *is_raw ? "twice" : "bad-names",
                *is_raw ? "names is there twice" : "names: raw");
            return false;
        }
        *is_raw = true;
    }
}

/* What check_head() notes for the route: the format, whether names are bytes,
 * and whether the body is packed. */
static unsigned
make_note(enum count_format format, bool is_raw, bool is_packed)
{
    return (unsigned)format << 2 | (unsigned)is_raw << 1 | is_packed;
}

enum count_format
count_noted_format(unsigned note)
{
    return (enum count_format)(note >> 2);
}

bool
count_noted_raw(unsigned note)
{
    return (note & 2) != 0;
}

bool
count_noted_packed(unsigned note)
{
    return (note & 1) != 0;
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
    bool is_raw;

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
    else if (read_query(x, &is_raw, next)) {
        x->note = make_note(format, is_raw, !is_plain(r));
        return !r->key.at || check_key(x, next);
    }
    return false;
}
