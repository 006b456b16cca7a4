/* writer/quota/quota_routes.c - the HTTP requests of quotas; see
 * quota_service.h.
 *
 *     /query                      REMAINING
 *     /apply?amt=N                NUMBER REMAINING, 0, -1
 *     /cancel?jnlsno=N            NUMBER REMAINING, 0, -1
 *     /increase?amt=N             REMAINING, -1
 *     /decrease?amt=N             REMAINING, -1
 *     /empty                      0
 *     /quota/NAME/...             the same for a quota with a name
 *     POST /quota/NAME?limit=N    makes it: 201, N; 409; 507
 *     DELETE /quota/NAME          removes it: REMAINING
 *     /quota                      NAME TAB LIMIT TAB REMAINING, a line each
 *
 * 0 is a refusal, -1 an invalid number, or one that would be too large.
 *
 * Read from the end: answer_unnamed(), answer_list() and answer_named() are the
 * routes; those that change something call change_asked(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/quota/quota_service.h"

#include <assert.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/wire/name.h"

#define LINE_MAX_  (QUOTA_NAME_MAX + 2 * 20 + 3)
#define BODY_MAX   64u /* bytes of a body, except that of /quota */
#define NAME_PARTS ((QUOTA_NAME_MAX + 15) / 16)

static_assert(NAME_PARTS + 4 <= JOURNAL_CHANGE,
              "GROUP, KEY, REQUEST, names, it");

/* ---- answers ----------------------------------------------------- */

/* Sends an answer in the body that http_body() returned. */
static enum conn_next
send_answer(struct http_call *x, uint8_t *body, const struct key_answer *a)
{
    static const enum http_status statuses[] = {
        [ANSWER_PAIR] = HTTP_OK,
        [ANSWER_REMAINING] = HTTP_OK,
        [ANSWER_REFUSED] = HTTP_OK,
        [ANSWER_IMPOSSIBLE] = HTTP_OK,
        [ANSWER_CREATED] = HTTP_CREATED,
        [ANSWER_UNKNOWN] = HTTP_NOT_FOUND,
        [ANSWER_EXISTS] = HTTP_CONFLICT,
        [ANSWER_NO_MORE] = HTTP_NO_SPACE,
        [ANSWER_UNAVAILABLE] = HTTP_UNAVAILABLE,
        [ANSWER_OTHER] = HTTP_UNPROCESSABLE};
    struct quota_service *s = x->ctx;
    /* A checkpoint may have any number. */
    const uint32_t form =
        a->form > 0 && a->form <= ANSWER_OTHER ? a->form : ANSWER_UNAVAILABLE;
    size_t size = 0;

    s->stats.unavailable += form == ANSWER_UNAVAILABLE;
    if (form > ANSWER_CREATED)
        return http_fail(x, statuses[form]);
    if (form == ANSWER_PAIR) {
        size = put_decimal(body, a->number);
        body[size++] = ' ';
    }
    if (form == ANSWER_IMPOSSIBLE) {
        body[size++] = '-';
        body[size++] = '1';
    } else {
        size += put_decimal(body + size, (uint64_t)a->remaining);
    }
    body[size++] = '\n';
    return http_end(x, statuses[form], size);
}

/* Sends an answer that depends only on the request. */
static enum conn_next
send_form(struct http_call *x, enum answer_form form)
{
    const struct key_answer a = {.form = form};
    uint8_t *body = http_body(x, BODY_MAX);

    return body ? send_answer(x, body, &a) : CONN_FULL;
}

/* Whether the answer, which may depend on changes that are not durable yet, can
 * wait behind the gate. */
static bool
wait_until_durable(struct http_call *x, bool changes)
{
    struct quota_service *s = x->ctx;

    return (!changes && journal_is_durable(&s->journal)) ||
           conn_gate(x->conn, &s->commit.gate);
}

/* ---- keys -------------------------------------------------------- */

struct keyed {
    bool is;
    uint8_t hash[IDEMPOTENCY_HASH];
    uint64_t request;
};

/* The hash of a request's parameters, which distinguishes a reused key with
 * other parameters. */
static uint64_t
hash_request(const struct journal *j, const struct quota_request *r)
{
    const struct hash_key key = {get_le64(j->head.uuid),
                                 get_le64(j->head.uuid + 8)};
    uint8_t bytes[1 + 8 + QUOTA_NAME_MAX];

    bytes[0] = (uint8_t)r->type;
    put_le64s(bytes + 1, r->value);
    memcpy(bytes + 9, r->name, r->name_size);
    return hash_name(&key, 0, bytes, 9 + r->name_size);
}

static struct keyed
key_of(struct http_call *x, const struct quota_request *r)
{
    const struct journal *j = &((struct quota_service *)x->ctx)->journal;
    const struct http_text key = x->request->key;
    struct keyed k = {.is = key.at != NULL};

    if (k.is) {
        name_siphash128(j->head.uuid, key.at, key.size, k.hash);
        k.request = hash_request(j, r);
    }
    return k;
}

static void
put_bytes(struct journal *j, enum journal_record_type type,
          const uint8_t bytes[16])
{
    const struct journal_record r = {.type = (uint8_t)type,
                                     .part = true,
                                     .value = get_le64s(bytes),
                                     .after = get_le64s(bytes + 8)};

    journal_put(j, &r);
}

/* Puts the records of one change, which the last of them completes. */
static void
put_change(struct journal *j, const struct keyed *key,
           const struct journal_record *record, const struct quota_request *r)
{
    if (key->is) {
        uint8_t request[16] = {0};

        put_le64(request, key->request);
        put_bytes(j, JOURNAL_RECORD_KEY, key->hash);
        put_bytes(j, JOURNAL_RECORD_REQUEST, request);
    }
    if (record->type == JOURNAL_RECORD_CREATE)
        for (size_t at = 0; at < r->name_size; at += 16) {
            uint8_t part[16] = {0};
            const size_t left = r->name_size - at;

            memcpy(part, r->name + at, left < 16 ? left : 16);
            put_bytes(j, JOURNAL_RECORD_NAME, part);
        }
    journal_put(j, record);
}

/* ---- changes ----------------------------------------------------- */

static void
count_answer(struct quota_service *s, const struct quota_request *r,
             const struct key_answer *a)
{
    if (a->form == ANSWER_REFUSED)
        s->stats.refused++;
    else if (r->type == JOURNAL_RECORD_APPLY && a->form == ANSWER_PAIR)
        s->stats.applied++;
    else if (a->form == ANSWER_PAIR)
        s->stats.cancelled++;
    else
        s->stats.other++;
}

/* The quota without a name has run out: quota.export. */
static bool
runs_out(const struct journal_record *r)
{
    return r->quota == 0 && r->after == 0 &&
           (r->type == JOURNAL_RECORD_APPLY ||
            r->type == JOURNAL_RECORD_DECREASE ||
            r->type == JOURNAL_RECORD_EMPTY);
}

/* Makes the change, or stores a refusal that the key must repeat. */
static void
make_change(struct quota_service *s, const struct quota_request *r,
            const struct journal_record *record, const struct keyed *key,
            struct key_answer *a)
{
    int rc;

    if (record->type != JOURNAL_RECORD_REFUSED) {
        rc = quotas_make(&s->quotas, r, record, a);
        if (rc < 0) {
            diag_repeating(&s->numbers_warning, DIAG_WARNING,
                           "a change of a quota is refused: %s", diag_text(rc));
            *a = (struct key_answer){.form = ANSWER_UNAVAILABLE};
            return;
        }
    }
    put_change(&s->journal, key, record, r);
    if (key->is) {
        idempotency_forget(&s->quotas.keys, clock_steady_unix_ms());
        idempotency_add(&s->quotas.keys, key->hash, key->request, a,
                        clock_steady_unix_ms());
    }
    if (runs_out(record) && s->config->quota_export[0] != '\0')
        s->wants_export = true;
}

static enum conn_next
repeat_answer(struct http_call *x, uint8_t *body, const struct key_entry *e,
              const struct keyed *key)
{
    struct quota_service *s = x->ctx;
    struct key_answer a = {
        .form = e->form, .number = e->number, .remaining = e->remaining};

    if (e->request != key->request)
        a = (struct key_answer){.form = ANSWER_OTHER};
    if (!wait_until_durable(x, false))
        return CONN_FULL;
    s->stats.repeated++;
    return send_answer(x, body, &a);
}

/* Has the request wait for a moment, or answers 503. */
static enum conn_next
wait_for_room(struct quota_service *s, struct http_call *x)
{
    const struct journal *j = &s->journal;
    const struct journal_group *g = &j->groups[j->collecting];

    /* A full group is soon written. */
    if (g->count + JOURNAL_CHANGE <= JOURNAL_GROUP &&
        loop_now_ms(s->loop) < s->retry_ms) {
        s->stats.unavailable++;
        return http_fail(x, HTTP_UNAVAILABLE);
    }
    return http_hold(x, &s->line);
}

/* Answers a request to change something. */
static enum conn_next
change_asked(struct http_call *x, const struct quota_request *r)
{
    struct quota_service *s = x->ctx;
    struct quotas *q = &s->quotas;
    const struct keyed key = key_of(x, r);
    const struct key_entry *e;
    struct journal_record record;
    struct key_answer a = {0};
    uint8_t *body = http_body(x, BODY_MAX);
    bool changes, writes;

    if (!body)
        return CONN_FULL;
    if (key.is) {
        e = idempotency_find(&q->keys, key.hash, clock_steady_unix_ms());
        if (e)
            return repeat_answer(x, body, e, &key);
    }
    changes = quotas_decide(q, r, &record, &a);
    if (!changes)
        record =
            (struct journal_record){.type = JOURNAL_RECORD_REFUSED,
                                    .quota = record.quota,
                                    .after = a.form == ANSWER_REFUSED ? 0 : -1};
    if (a.form == ANSWER_NO_MORE)
        diag_repeating(&s->max_warning, DIAG_WARNING,
                       "quota.max=%zu quotas with a name exist: no more are "
                       "created; raise quota.max or remove one",
                       q->max);
    writes =
        changes ||
        (key.is && (a.form == ANSWER_REFUSED || a.form == ANSWER_IMPOSSIBLE));
    if (writes && journal_free(&s->journal) < JOURNAL_CHANGE)
        return wait_for_room(s, x);
    if (!wait_until_durable(x, writes))
        return CONN_FULL;
    if (writes)
        make_change(s, r, &record, &key, &a);
    count_answer(s, r, &a);
    return send_answer(x, body, &a);
}

/* ---- routes ------------------------------------------------------ */

/* The check of every route.  False: *next is the answer. */
static bool
may_serve(struct http_call *x, enum conn_next *next)
{
    const struct quota_service *s = x->ctx;
    const struct http_text key = x->request->key;

    if (s->paused)
        *next = http_hold(x, &((struct quota_service *)x->ctx)->line);
    else if (!s->is_open)
        *next = send_form(x, ANSWER_UNAVAILABLE);
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
    uint8_t *body = http_body(x, BODY_MAX);

    if (!body || !wait_until_durable(x, false))
        return CONN_FULL;
    if (quota)
        a = (struct key_answer){.form = ANSWER_REMAINING,
                                .remaining = quota->remaining};
    return send_answer(x, body, &a);
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

/* Applies a verb to the quota of this name. */
static enum conn_next
apply_verb(struct http_call *x, const struct quota_verb *verb,
           struct quota *quota, struct http_text name)
{
    struct quota_request r = {.type = verb->type,
                              .quota = quota,
                              .name = (const char *)name.at,
                              .name_size = name.size};
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
        return send_form(x, ANSWER_IMPOSSIBLE);
    return change_asked(x, &r);
}

static const struct quota_verb *
find_verb(struct http_text word)
{
    for (size_t i = 0; i < sizeof verbs / sizeof verbs[0]; i++)
        if (http_text_is(word, verbs[i].word))
            return &verbs[i];
    return NULL;
}

/* /apply and the like, for the quota without a name. */
static enum conn_next
answer_unnamed(struct http_call *x)
{
    const struct quota_service *s = x->ctx;
    const struct http_text path = x->request->path;
    const struct quota_verb *verb =
        find_verb((struct http_text){path.at + 1, path.size - 1});

    assert(verb);
    return apply_verb(x, verb, quotas_unnamed(&s->quotas),
                      (struct http_text)HTTP_TEXT(""));
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
    const struct quotas *q = &((struct quota_service *)x->ctx)->quotas;
    uint8_t *body = http_body(x, (q->count + 1) * LINE_MAX_), *at;

    if (!body || !wait_until_durable(x, false))
        return CONN_FULL;
    at = put_line(body, quotas_unnamed(q));
    for (size_t i = 0; i < q->count; i++)
        at = put_line(at, q->names[i]);
    return http_end(x, HTTP_OK, (size_t)(at - body));
}

/* Creates or removes a quota: /quota/NAME. */
static enum conn_next
manage_quota(struct http_call *x, struct http_text name)
{
    const struct quota_service *s = x->ctx;
    struct quota_request r = {.type = JOURNAL_RECORD_REMOVE,
                              .name = (const char *)name.at,
                              .name_size = name.size};
    const struct http_text query = x->request->query;
    enum conn_next next;

    if (!http_needs_right(x, TOKENS_ADMIN, &next))
        return next;
    if (x->request->method == HTTP_DELETE) {
        if (query.at)
            return http_fail(x, HTTP_NOT_FOUND);
        r.quota = quotas_find(&s->quotas, r.name, r.name_size);
        return change_asked(x, &r);
    }
    if (x->request->method != HTTP_POST)
        return http_not_allowed(x, HTTP_POST | HTTP_DELETE, NULL);
    r.type = JOURNAL_RECORD_CREATE;
    if (!quota_name_is_good(r.name, r.name_size) ||
        !http_parameter(x->request, "limit", &x->value) ||
        !http_number(x->value, &r.value))
        return http_fail(x, HTTP_BAD_REQUEST);
    return change_asked(x, &r);
}

/* Whether the query begins with the parameter of a verb, or is empty. */
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
act_named(struct http_call *x, struct http_text name, struct http_text word)
{
    const struct quota_service *s = x->ctx;
    struct quota *quota =
        quotas_find(&s->quotas, (const char *)name.at, name.size);
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
    struct http_text name = x->rest, word = {0};

    if (!slash)
        return name.size > QUOTA_NAME_MAX ? http_fail(x, HTTP_BAD_REQUEST)
                                          : manage_quota(x, name);
    name.size = (size_t)(slash - name.at);
    if (name.size > QUOTA_NAME_MAX)
        return http_fail(x, HTTP_NOT_FOUND);
    word.at = slash + 1;
    word.size = x->rest.size - name.size - 1;
    return act_named(x, name, word);
}

#define METHODS (HTTP_GET | HTTP_POST)
#define ASKS    (METHODS | HTTP_HEAD) /* changes nothing */

const struct http_route quota_routes[] = {
    {"/apply", "amt", METHODS, answer_unnamed, 0, may_serve},
    {"/query", NULL, ASKS, answer_unnamed, 0, may_serve},
    {"/cancel", "jnlsno", METHODS, answer_unnamed, 0, may_serve},
    {"/increase", "amt", METHODS, answer_unnamed, 0, may_serve},
    {"/decrease", "amt", METHODS, answer_unnamed, 0, may_serve},
    {"/empty", NULL, METHODS, answer_unnamed, 0, may_serve},
    {"/quota", NULL, HTTP_GET | HTTP_HEAD, answer_list, 0, may_serve},
    {"/quota/", "*", ASKS | HTTP_DELETE, answer_named, 0, may_serve},
};

const size_t quota_route_count = sizeof quota_routes / sizeof quota_routes[0];

size_t
quota_answer_max(const struct config *config)
{
    return HTTP_ANSWER_HEAD + (size_t)(config->quota_max + 1) * LINE_MAX_;
}
