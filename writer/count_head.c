/* writer/count_head.c - see count_internal.h: count_check_head(),
 * count_pages_refuse(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/count_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "common/net/http_query.h"
#include "common/wire/event_time.h"

#define SECOND_NS UINT64_C(1000000000)

static_assert(COUNT_ORIGINS_MAX >= CONFIG_NAMES_SIZE / sizeof "a://b",
              "all that fit into the setting");

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

/* False: none that is known.  A page of count.cors may send plain text, as
 * sendBeacon() does and for which a browser asks nothing first: it is JSON. */
static bool
find_format(struct http_text type, struct count_head *head)
{
    static const struct {
        struct http_text type;
        enum count_format format;
    } types[] = {{HTTP_TEXT("application/json"), COUNT_JSON},
                 {HTTP_TEXT("application/x-ndjson"), COUNT_NDJSON},
                 {HTTP_TEXT("application/jsonl"), COUNT_NDJSON},
                 {HTTP_TEXT("text/tab-separated-values"), COUNT_TSV}};

    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (http_text_is_same(type, types[i].type)) {
            head->format = types[i].format;
            return true;
        }
    head->format = COUNT_JSON;
    return head->origin >= 0 && http_text_is_like(type, "text/plain");
}

/* ---- the query ---------------------------------------------------------- */

/* A value that `rc` says is whole.  NULL, or what is wrong with it. */
static const struct increment_fault *
read_names(struct count_head *head, const uint8_t *value, size_t size, int rc)
{
    static const struct increment_fault bad = {"bad-names",
                                               "names: raw or text"};

    return rc < 0 || !name_form_read(value, size, &head->names) ? &bad : NULL;
}

static const struct increment_fault *
read_at(struct count_head *head, const uint8_t *value, size_t size, int rc)
{
    if (rc > 0 && size == 3 && memcmp(value, "now", 3) == 0)
        return NULL;
    return increment_time_read(&head->form, (const char *)value,
                               rc > 0 ? size : 0, &head->form.at);
}

/* False: *next is the answer. */
static bool
read_query(struct http_call *x, struct count_head *head, enum conn_next *next)
{
    struct http_text query = x->request->query, rest = query;
    char name[HTTP_QUERY_NAME_SIZE], shown[HTTP_QUERY_SHOWN];
    char detail[HTTP_DETAIL_SIZE];
    const struct increment_fault unknown = {"unknown-parameter", detail},
                                 twice = {"twice", detail}, *fault = NULL;
    bool has[2] = {false};
    uint8_t value[40];
    size_t size = 0;
    int rc;

    while (!fault && (rc = http_query_next(&query, name, value, sizeof value,
                                           &size)) != 0) {
        const bool is_at = strcmp(name, "at") == 0;

        if (!is_at && strcmp(name, "names") != 0) {
            (void)http_query_shows(rest, shown);
            (void)snprintf(detail, sizeof detail, "unknown parameter: %s",
                           shown);
            fault = &unknown;
        } else if (has[is_at]) {
            (void)snprintf(detail, sizeof detail, "%s is there twice", name);
            fault = &twice;
        } else {
            fault = is_at ? read_at(head, value, size, rc)
                          : read_names(head, value, size, rc);
        }
        has[is_at] = true;
        rest = query;
    }
    if (fault)
        *next = count_refuse(x, HTTP_BAD_REQUEST, fault->code, fault->text);
    return !fault;
}

/* ---- the head ----------------------------------------------------------- */

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
    struct count *s = x->ctx;
    const struct layout *l = &s->ingest->logs->layout;
    const struct http_request *r = x->request;
    const bool is_plain =
        r->encoding.size == 0 || http_text_is_like(r->encoding, "identity");
    struct count_head *head = &s->head;

    *head = (struct count_head){
        .is_packed = !is_plain,
        .origin = http_find_origin(conn_ctx(x->conn), r),
        .names = NAMES_USUAL,
        .form = {.keyspace_max = l->keyspace_size,
                 .key_max = l->key_size,
                 .latest = (int64_t)(loop_unix_ms(s->loop) / 1000) +
                           EVENT_TIME_AHEAD}};
    if (!find_format(http_media_type(r->type), head))
        *next =
            count_refuse(x, HTTP_MEDIA_TYPE, "media-type",
                         "Content-Type must be application/json, "
                         "application/x-ndjson or text/tab-separated-values; "
                         "with curl: --json, or -H 'Content-Type: ...'");
    else if (!is_plain && !http_text_is_like(r->encoding, "gzip"))
        *next = count_refuse(x, HTTP_MEDIA_TYPE, "encoding",
                             "Content-Encoding must be gzip, or none");
    else if (!r->has_length && !r->is_chunked)
        *next = count_refuse(x, HTTP_LENGTH_REQUIRED, "length",
                             "Content-Length, or a body in chunks, is needed");
    else if (read_query(x, head, next) && (!r->key.at || check_key(x, next))) {
        head->form.raw =
            name_form_is_raw(head->names, head->format == COUNT_TSV);
        return true;
    }
    return false;
}

/* ---- pages of other sites ------------------------------------------------- */

void
count_pages_init(struct count_pages *p, const struct config *config)
{
    const char *why;

    *p = (struct count_pages){.step_ns = SECOND_NS / config->count_cors_rate};
    /* It was checked when the settings were read. */
    (void)name_patterns_add_all(&p->keyspaces, config->count_cors_keyspaces,
                                &why);
}

const char *
count_pages_refuse(const struct count_pages *p, const struct increment *i)
{
    if (name_patterns_find(&p->keyspaces, i->keyspace.bytes, i->keyspace.size) <
        0)
        return "a page of another site may not count into this keyspace; "
               "count.cors_keyspaces has those into which it may";
    return i->count >= 1 && i->count <= COUNT_PAGE_MOST
               ? NULL
               : "a page of another site counts from 1 to 1000 at a time";
}

bool
count_pages_have(const struct count_pages *p, int origin, uint64_t now_ns)
{
    assert(origin >= 0 && origin < COUNT_ORIGINS_MAX);
    return p->due_ns[origin] < now_ns + SECOND_NS;
}

void
count_pages_take(struct count_pages *p, int origin, uint32_t count,
                 uint64_t now_ns)
{
    uint64_t *due;

    assert(origin >= 0 && origin < COUNT_ORIGINS_MAX);
    due = &p->due_ns[origin];
    *due = (*due > now_ns ? *due : now_ns) + count * p->step_ns;
}
