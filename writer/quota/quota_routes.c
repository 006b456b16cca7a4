/* writer/quota/quota_routes.c - what is asked of quotas over HTTP; see
 * quota_service.h.
 *
 *     /query                      REMAINING
 *     /apply?amt=N                NUMBER REMAINING, 0, -1
 *     /cancel?jnlsno=N            NUMBER REMAINING, 0, -1
 *     /increase?amt=N             REMAINING, -1
 *     /decrease?amt=N             REMAINING, -1
 *     /empty                      0
 *     /quota/NAME/...             the same of a quota with a name
 *     POST /quota/NAME?limit=N    makes it: 201, N; 409; 507
 *     DELETE /quota/NAME          removes it: REMAINING
 *     /quota                      NAME TAB LIMIT TAB REMAINING, a line each
 *
 * 0 is a refusal, -1 a number that is none, or one that would not fit.
 *
 * Entry points: quota_answer_max(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/quota/quota_service.h"

#include <assert.h>
#include <string.h>

#include "common/base/bytes.h"

#define LINE_MAX_ (QUOTA_NAME_MAX + 2 * 20 + 3)

/* ---- routes ------------------------------------------------------ */

/* What every request needs first.  False: *next is its answer. */
static bool
may_serve(struct http_call *x, enum conn_next *next)
{
    const struct quota_service *s = x->ctx;
    const struct http_text key = x->request->key;

    if (s->paused)
        *next = http_hold(x, &((struct quota_service *)x->ctx)->line);
    else if (!s->store)
        *next = quota_send_form(x, ANSWER_UNAVAILABLE);
    else if (key.at && (key.size == 0 || key.size > QUOTA_KEY_SIZE))
        *next = http_fail(x, HTTP_BAD_REQUEST);
    else
        return true;
    return false;
}

static enum conn_next
answer_remaining(struct http_call *x, const struct quota *quota)
{
    struct key_answer a = {.form = ANSWER_UNKNOWN};
    uint8_t *body = http_body(x, QUOTA_BODY_MAX);

    if (!body || !quota_wait_until_durable(x, false))
        return CONN_FULL;
    if (quota)
        a = (struct key_answer){.form = ANSWER_REMAINING,
                                .remaining = quota->remaining};
    return quota_send(x, body, &a);
}

static const struct quota_verb {
    const char *word;
    const char *parameter; /* NULL: none */
    enum journal_record_type type;
} verbs[] = {
    {"query", NULL, 0}, /* changes nothing */
    {"apply", "amt", JOURNAL_RECORD_APPLY},
    {"cancel", "jnlsno", JOURNAL_RECORD_CANCEL},
    {"increase", "amt", JOURNAL_RECORD_INCREASE},
    {"decrease", "amt", JOURNAL_RECORD_DECREASE},
    {"empty", NULL, JOURNAL_RECORD_EMPTY},
};

#define VERBS (sizeof verbs / sizeof verbs[0])

/* Applies a verb to a quota. */
static enum conn_next
apply_verb(struct http_call *x, const struct quota_verb *verb,
           struct quota *quota, const struct quota_name *name)
{
    struct quota_request r = {.type = verb->type, .quota = quota};
    const bool is_limit = verb->type == JOURNAL_RECORD_INCREASE ||
                          verb->type == JOURNAL_RECORD_DECREASE ||
                          verb->type == JOURNAL_RECORD_EMPTY;
    enum conn_next next;

    if (verb->type == 0)
        return answer_remaining(x, quota);
    if ((is_limit && !http_needs_right(x, TOKENS_ADMIN, &next)) ||
        !http_may_change(x, &next))
        return next;
    if (verb->parameter &&
        (!http_number(x->value, &r.value) ||
         (verb->type == JOURNAL_RECORD_CANCEL && r.value == 0)))
        return quota_send_form(x, ANSWER_IMPOSSIBLE);
    return quota_change_asked(x, &r, name);
}

static const struct quota_verb *
find_verb(struct http_text word)
{
    for (size_t i = 0; i < VERBS; i++)
        if (http_text_is(word, verbs[i].word))
            return &verbs[i];
    return NULL;
}

/* /apply ...: of the quota without a name. */
static enum conn_next
answer_unnamed(struct http_call *x)
{
    static const struct quota_name none = {.at = ""};
    const struct quota_service *s = x->ctx;
    const struct http_text path = x->request->path;
    const struct quota_verb *verb =
        find_verb((struct http_text){path.at + 1, path.size - 1});
    enum conn_next next;

    assert(verb);
    if (!may_serve(x, &next))
        return next;
    return apply_verb(x, verb, quotas_unnamed(&s->store->quotas), &none);
}

static uint8_t *
put_line(uint8_t *to, const struct quota *quota)
{
    const bool named = quota->name_size > 0;
    const size_t size = named ? quota->name_size : 1;

    memcpy(to, named ? quota->name : QUOTA_UNNAMED_NAME, size);
    to += size;
    *to++ = '\t';
    to += put_decimal(to, (uint64_t)quota->limit);
    *to++ = '\t';
    to += put_decimal(to, (uint64_t)quota->remaining);
    *to++ = '\n';
    return to;
}

static enum conn_next
answer_list(struct http_call *x)
{
    const struct quota_service *s = x->ctx;
    const struct quotas *q;
    enum conn_next next;
    uint8_t *body, *at;

    if (!may_serve(x, &next))
        return next;
    q = &s->store->quotas;
    body = http_body(x, (q->count + 1) * LINE_MAX_);
    if (!body || !quota_wait_until_durable(x, false))
        return CONN_FULL;
    at = put_line(body, quotas_unnamed(q));
    for (size_t i = 0; i < q->count; i++)
        at = put_line(at, q->names[i]);
    return http_end(x, HTTP_OK, (size_t)(at - body));
}

/* Creates or removes a quota: /quota/NAME. */
static enum conn_next
manage_quota(struct http_call *x, const struct quota_name *name)
{
    const struct quota_service *s = x->ctx;
    struct quota_request r = {.type = JOURNAL_RECORD_REMOVE};
    const struct http_text query = x->request->query;
    enum conn_next next;

    if (!http_needs_right(x, TOKENS_ADMIN, &next))
        return next;
    if (x->request->method == HTTP_DELETE) {
        if (query.at)
            return http_fail(x, HTTP_NOT_FOUND);
        r.quota = quotas_find(&s->store->quotas, name->at, name->size);
        return quota_change_asked(x, &r, name);
    }
    if (x->request->method != HTTP_POST)
        return http_not_allowed(x, HTTP_POST | HTTP_DELETE, NULL);
    r = (struct quota_request){.type = JOURNAL_RECORD_CREATE,
                               .name = name->at,
                               .name_size = name->size};
    if (!quota_name_is_good(name->at, name->size) ||
        !http_parameter(x->request, "limit", &x->value) ||
        !http_number(x->value, &r.value))
        return http_fail(x, HTTP_BAD_REQUEST);
    return quota_change_asked(x, &r, name);
}

/* Whether the query begins with the parameter of a verb, or is none. */
static bool
has_parameter(struct http_call *x, const char *name)
{
    const struct http_text query = x->request->query;

    if (!name)
        return query.at == NULL;
    return http_parameter(x->request, name, &x->value) &&
           x->value.at == query.at + strlen(name) + 1;
}

/* /quota/NAME/VERB */
static enum conn_next
act_named(struct http_call *x, const struct quota_name *name,
          struct http_text word)
{
    const struct quota_service *s = x->ctx;
    struct quota *quota = quotas_find(&s->store->quotas, name->at, name->size);
    const struct quota_verb *verb = find_verb(word);

    if (x->request->method == HTTP_DELETE ||
        (x->request->method == HTTP_HEAD && (!verb || verb->type != 0)))
        return http_not_allowed(x, HTTP_GET | HTTP_POST, NULL);
    if (!verb || !has_parameter(x, verb->parameter))
        return http_fail(x, HTTP_NOT_FOUND);
    return apply_verb(x, verb, quota, name);
}

static enum conn_next
answer_named(struct http_call *x)
{
    const uint8_t *slash = memchr(x->rest.at, '/', x->rest.size);
    struct quota_name name = {.at = (const char *)x->rest.at,
                              .size = slash ? (size_t)(slash - x->rest.at)
                                            : x->rest.size};
    struct http_text word = {0};
    enum conn_next next;

    if (!may_serve(x, &next))
        return next;
    if (!slash)
        return name.size > QUOTA_NAME_MAX ? http_fail(x, HTTP_BAD_REQUEST)
                                          : manage_quota(x, &name);
    if (name.size > QUOTA_NAME_MAX)
        return http_fail(x, HTTP_NOT_FOUND);
    word.at = slash + 1;
    word.size = x->rest.size - name.size - 1;
    return act_named(x, &name, word);
}

#define METHODS (HTTP_GET | HTTP_POST)
#define ASKS    (METHODS | HTTP_HEAD) /* changes nothing */

const struct http_route quota_routes[] = {
    {"/apply", "amt", METHODS, answer_unnamed, 0, NULL},
    {"/query", NULL, ASKS, answer_unnamed, 0, NULL},
    {"/cancel", "jnlsno", METHODS, answer_unnamed, 0, NULL},
    {"/increase", "amt", METHODS, answer_unnamed, 0, NULL},
    {"/decrease", "amt", METHODS, answer_unnamed, 0, NULL},
    {"/empty", NULL, METHODS, answer_unnamed, 0, NULL},
    {"/quota", NULL, HTTP_GET | HTTP_HEAD, answer_list, 0, NULL},
    {"/quota/", "*", ASKS | HTTP_DELETE, answer_named, 0, NULL},
};

const size_t quota_route_count = sizeof quota_routes / sizeof quota_routes[0];

size_t
quota_answer_max(const struct config *config)
{
    return HTTP_ANSWER_HEAD + (size_t)(config->quota_max + 1) * LINE_MAX_;
}
