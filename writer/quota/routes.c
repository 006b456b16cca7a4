/* writer/quota/routes.c - what is asked of quotas over HTTP; see service.h.
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
 */
#include "writer/quota/service.h"

#include <assert.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/wire/name.h"

#define BODY_MAX   64u
#define LINE_MAX_  (QUOTA_NAME_MAX + 2 * 20 + 3)
#define NAME_PARTS ((QUOTA_NAME_MAX + 15) / 16)

static_assert(NAME_PARTS + 4 <= JOURNAL_CHANGE,
              "GROUP, KEY, REQUEST, names, it");

/* ---- answers --------------------------------------------------------------
 */

static size_t
put_number(uint8_t *to, int64_t n)
{
    uint8_t digits[20], *at = digits + sizeof digits;
    size_t size;

    assert(n >= 0);
    do {
        *--at = (uint8_t)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    size = (size_t)(digits + sizeof digits - at);
    memcpy(to, at, size);
    return size;
}

static enum conn_next
say(struct http_call *x, enum http_status status, uint8_t *body,
    const struct answer *a)
{
    size_t size = 0;

    if (a->form == ANSWER_PAIR) {
        size = put_number(body, (int64_t)a->number);
        body[size++] = ' ';
    }
    if (a->form == ANSWER_IMPOSSIBLE) {
        memcpy(body, "-1", 2);
        size = 2;
    } else {
        size += put_number(body + size, a->remaining);
    }
    body[size++] = '\n';
    return http_end(x, status, size);
}

static enum conn_next
tell(struct http_call *x, uint8_t *body, const struct answer *a)
{
    struct quota_service *s = x->ctx;

    switch (a->form) {
    case ANSWER_PAIR:
    case ANSWER_REMAINING:
    case ANSWER_REFUSED:
    case ANSWER_IMPOSSIBLE:
        return say(x, HTTP_OK, body, a);
    case ANSWER_CREATED:
        return say(x, HTTP_CREATED, body, a);
    case ANSWER_UNKNOWN:
        return http_fail(x, HTTP_NOT_FOUND);
    case ANSWER_EXISTS:
        return http_fail(x, HTTP_CONFLICT);
    case ANSWER_NO_MORE:
        return http_fail(x, HTTP_NO_SPACE);
    case ANSWER_OTHER:
        return http_fail(x, HTTP_UNPROCESSABLE);
    case ANSWER_UNAVAILABLE:
        break;
    }
    s->figures.unavailable++;
    return http_fail(x, HTTP_UNAVAILABLE);
}

/* An answer that tells of nothing but the request. */
static enum conn_next
send_form(struct http_call *x, enum answer_form form)
{
    const struct answer a = {.form = form};
    uint8_t *body = http_body(x, BODY_MAX);

    return body ? tell(x, body, &a) : CONN_FULL;
}

/* What is answered now may tell of what is not durable yet. */
static bool
may_tell(struct http_call *x, bool changes)
{
    struct quota_service *s = x->ctx;

    return (!changes && journal_is_durable(&s->store->journal)) ||
           conn_gate(x->conn, &s->commit.gate);
}

/* ---- keys -----------------------------------------------------------------
 */

struct keyed {
    bool is;
    uint8_t hash[KEYS_HASH];
    uint64_t request;
};

/* The hash of what is asked, by which a key with other parameters is told. */
static uint64_t
hash_request(const struct journal *j, const struct quota_request *r,
             const struct quota_name *name)
{
    const struct hash_key key = {get_le64(j->uuid), get_le64(j->uuid + 8)};
    uint8_t bytes[1 + 8 + QUOTA_NAME_MAX];

    bytes[0] = (uint8_t)r->type;
    put_le64s(bytes + 1, r->value);
    memcpy(bytes + 9, name->at, name->size);
    return hash_name(&key, 0, bytes, 9 + name->size);
}

static struct keyed
key_of(struct http_call *x, const struct quota_request *r,
       const struct quota_name *name)
{
    const struct journal *j = &((struct quota_service *)x->ctx)->store->journal;
    const struct http_text key = x->request->key;
    struct keyed k = {.is = key.at != NULL};

    if (k.is) {
        siphash128(j->uuid, key.at, key.size, k.hash);
        k.request = hash_request(j, r, name);
    }
    return k;
}

static void
put_bytes(struct journal *j, enum record_type type, const uint8_t bytes[16])
{
    const struct record r = {.type = (uint8_t)type,
                             .part = true,
                             .value = get_le64s(bytes),
                             .after = get_le64s(bytes + 8)};

    journal_put(j, &r);
}

/* The records of one change, which the last one makes. */
static void
put_change(struct journal *j, const struct keyed *key,
           const struct record *record, const struct quota_request *r)
{
    if (key->is) {
        uint8_t request[16] = {0};

        put_le64(request, key->request);
        put_bytes(j, RECORD_KEY, key->hash);
        put_bytes(j, RECORD_REQUEST, request);
    }
    if (record->type == RECORD_CREATE)
        for (size_t at = 0; at < r->name_size; at += 16) {
            uint8_t part[16] = {0};
            const size_t left = r->name_size - at;

            memcpy(part, r->name + at, left < 16 ? left : 16);
            put_bytes(j, RECORD_NAME, part);
        }
    journal_put(j, record);
}

/* ---- changes --------------------------------------------------------------
 */

static void
count(struct quota_service *s, const struct quota_request *r,
      const struct answer *a)
{
    if (a->form == ANSWER_REFUSED)
        s->figures.refused++;
    else if (r->type == RECORD_APPLY && a->form == ANSWER_PAIR)
        s->figures.applied++;
    else if (a->form == ANSWER_PAIR)
        s->figures.cancelled++;
    else
        s->figures.other++;
    if (a->form == ANSWER_REFUSED && r->type == RECORD_APPLY)
        r->quota->told[TOLD_REFUSED] += (uint64_t)r->value;
}

/* The quota without a name has run out: quota.export. */
static bool
runs_out(const struct record *r)
{
    return r->quota == 0 && r->after == 0 &&
           (r->type == RECORD_APPLY || r->type == RECORD_DECREASE ||
            r->type == RECORD_EMPTY);
}

/* Makes what was decided, or notes a refusal that a key must repeat. */
static void
make(struct quota_service *s, const struct quota_request *r, bool changes,
     struct quota_change *c, const struct keyed *key, struct answer *a)
{
    struct record refusal = {.type = RECORD_REFUSED,
                             .quota = c->record.quota,
                             .after = a->form == ANSWER_REFUSED ? 0 : -1};
    int rc;

    if (changes) {
        rc = quotas_make(&s->store->quotas, c, a);
        if (rc < 0) {
            diag_repeating(&s->said_numbers, DIAG_WARNING,
                           "a change of a quota is refused: %s", diag_text(rc));
            *a = (struct answer){.form = ANSWER_UNAVAILABLE};
            return;
        }
    }
    put_change(&s->store->journal, key, changes ? &c->record : &refusal, r);
    if (key->is)
        keys_add(&s->store->quotas.keys, key->hash, key->request, a,
                 clock_unix_ms());
    if (changes && runs_out(&c->record))
        s->wants_export[0] = true;
}

static enum conn_next
repeat(struct http_call *x, uint8_t *body, const struct key_entry *e,
       const struct keyed *key)
{
    struct quota_service *s = x->ctx;
    struct answer a = {.form = (enum answer_form)e->form,
                       .number = e->number,
                       .remaining = e->remaining};

    if (e->request != key->request)
        a = (struct answer){.form = ANSWER_OTHER};
    if (!may_tell(x, false))
        return CONN_FULL;
    s->figures.repeated++;
    return tell(x, body, &a);
}

/* Answers a request to change something.  `name` is as it was asked. */
static enum conn_next
change(struct http_call *x, const struct quota_request *r,
       const struct quota_name *name)
{
    struct quota_service *s = x->ctx;
    struct quotas *q = &s->store->quotas;
    const struct keyed key = key_of(x, r, name);
    const struct key_entry *e;
    struct quota_change c;
    struct answer a;
    uint8_t *body = http_body(x, BODY_MAX);
    bool changes, writes;

    if (!body)
        return CONN_FULL;
    if (key.is) {
        e = keys_find(&q->keys, key.hash, clock_unix_ms());
        if (e)
            return repeat(x, body, e, &key);
    }
    changes = quotas_decide(q, r, &c, &a);
    writes =
        changes ||
        (key.is && (a.form == ANSWER_REFUSED || a.form == ANSWER_IMPOSSIBLE));
    if (writes && !quota_has_room(s))
        return quota_wait(s, x);
    if (!may_tell(x, writes))
        return CONN_FULL;
    if (writes)
        make(s, r, changes, &c, &key, &a);
    count(s, r, &a);
    return tell(x, body, &a);
}

/* ---- routes ----------------------------------------------------------------
 */

/* What every request needs first.  False: *next is its answer. */
static bool
may_serve(struct http_call *x, enum conn_next *next)
{
    const struct quota_service *s = x->ctx;
    const struct http_text key = x->request->key;

    if (s->state != QUOTA_READY)
        *next = send_form(x, ANSWER_UNAVAILABLE);
    else if (key.at && (key.size == 0 || key.size > QUOTA_KEY_SIZE))
        *next = http_fail(x, HTTP_BAD_REQUEST);
    else
        return true;
    return false;
}

static enum conn_next
query(struct http_call *x, const struct quota *quota)
{
    struct answer a = {.form = ANSWER_UNKNOWN};
    uint8_t *body = http_body(x, BODY_MAX);

    if (!body || !may_tell(x, false))
        return CONN_FULL;
    if (quota)
        a = (struct answer){.form = ANSWER_REMAINING,
                            .remaining = quota->remaining};
    return tell(x, body, &a);
}

static const struct quota_verb {
    const char *word;
    const char *parameter; /* NULL: none */
    enum record_type type;
} verbs[] = {
    {"apply", "amt", RECORD_APPLY},       {"cancel", "jnlsno", RECORD_CANCEL},
    {"increase", "amt", RECORD_INCREASE}, {"decrease", "amt", RECORD_DECREASE},
    {"empty", NULL, RECORD_EMPTY},
};

#define VERBS (sizeof verbs / sizeof verbs[0])

/* What a verb does to a quota. */
static enum conn_next
act(struct http_call *x, const struct quota_verb *verb, struct quota *quota,
    const struct quota_name *name)
{
    struct quota_request r = {.type = verb->type, .quota = quota};

    if (verb->parameter && (!http_number(x->value, &r.value) ||
                            (verb->type == RECORD_CANCEL && r.value == 0)))
        return send_form(x, ANSWER_IMPOSSIBLE);
    return change(x, &r, name);
}

static enum conn_next
act_unnamed(struct http_call *x, size_t verb)
{
    static const struct quota_name none = {.at = ""};
    const struct quota_service *s = x->ctx;
    enum conn_next next;

    if (!may_serve(x, &next))
        return next;
    return act(x, &verbs[verb], quotas_unnamed(&s->store->quotas), &none);
}

static enum conn_next
answer_apply(struct http_call *x)
{
    return act_unnamed(x, 0);
}

static enum conn_next
answer_cancel(struct http_call *x)
{
    return act_unnamed(x, 1);
}

static enum conn_next
answer_increase(struct http_call *x)
{
    return act_unnamed(x, 2);
}

static enum conn_next
answer_decrease(struct http_call *x)
{
    return act_unnamed(x, 3);
}

static enum conn_next
answer_empty(struct http_call *x)
{
    return act_unnamed(x, 4);
}

static enum conn_next
answer_query(struct http_call *x)
{
    const struct quota_service *s = x->ctx;
    enum conn_next next;

    if (!may_serve(x, &next))
        return next;
    return query(x, quotas_unnamed(&s->store->quotas));
}

static uint8_t *
put_line(uint8_t *to, const struct quota *quota)
{
    const bool named = quota->name_size > 0;
    const size_t size = named ? quota->name_size : 1;

    memcpy(to, named ? quota->name : QUOTA_UNNAMED_NAME, size);
    to += size;
    *to++ = '\t';
    to += put_number(to, quota->limit);
    *to++ = '\t';
    to += put_number(to, quota->remaining);
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
    if (!body || !may_tell(x, false))
        return CONN_FULL;
    at = put_line(body, quotas_unnamed(q));
    for (size_t i = 0; i < q->count; i++)
        at = put_line(at, q->names[i]);
    return http_end(x, HTTP_OK, (size_t)(at - body));
}

/* /quota/NAME: made and removed. */
static enum conn_next
manage(struct http_call *x, const struct quota_name *name)
{
    const struct quota_service *s = x->ctx;
    struct quota_request r = {.type = RECORD_REMOVE};
    const struct http_text query = x->request->query;

    if (x->request->method == HTTP_DELETE) {
        if (query.at)
            return http_fail(x, HTTP_NOT_FOUND);
        r.quota = quotas_find(&s->store->quotas, name->at, name->size);
        return change(x, &r, name);
    }
    if (x->request->method != HTTP_POST)
        return http_not_allowed(x, HTTP_POST | HTTP_DELETE);
    r = (struct quota_request){
        .type = RECORD_CREATE, .name = name->at, .name_size = name->size};
    if (!quota_name_is_good(name->at, name->size) ||
        !http_parameter(x->request, "limit", &x->value) ||
        !http_number(x->value, &r.value))
        return http_fail(x, HTTP_BAD_REQUEST);
    return change(x, &r, name);
}

/* /quota/NAME/VERB */
static enum conn_next
act_named(struct http_call *x, const struct quota_name *name,
          struct http_text word)
{
    const struct quota_service *s = x->ctx;
    struct quota *quota = quotas_find(&s->store->quotas, name->at, name->size);
    const struct http_text asked = x->request->query;

    if (x->request->method == HTTP_DELETE)
        return http_not_allowed(x, HTTP_GET | HTTP_POST);
    if (http_text_is(word, "query") && !asked.at)
        return query(x, quota);
    for (size_t i = 0; i < VERBS; i++) {
        const char *parameter = verbs[i].parameter;

        if (!http_text_is(word, verbs[i].word))
            continue;
        if (parameter ? !http_parameter(x->request, parameter, &x->value)
                      : asked.at != NULL)
            break;
        return act(x, &verbs[i], quota, name);
    }
    return http_fail(x, HTTP_NOT_FOUND);
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
                                          : manage(x, &name);
    if (name.size > QUOTA_NAME_MAX)
        return http_fail(x, HTTP_NOT_FOUND);
    word.at = slash + 1;
    word.size = x->rest.size - name.size - 1;
    return act_named(x, &name, word);
}

#define METHODS (HTTP_GET | HTTP_POST)

const struct http_route quota_routes[] = {
    {"/apply", "amt", METHODS, answer_apply},
    {"/query", NULL, METHODS, answer_query},
    {"/cancel", "jnlsno", METHODS, answer_cancel},
    {"/increase", "amt", METHODS, answer_increase},
    {"/decrease", "amt", METHODS, answer_decrease},
    {"/empty", NULL, METHODS, answer_empty},
    {"/quota", NULL, HTTP_GET, answer_list},
    {"/quota/", "*", METHODS | HTTP_DELETE, answer_named},
};

const size_t quota_route_count = sizeof quota_routes / sizeof quota_routes[0];

size_t
quota_answer_max(const struct config *config)
{
    return HTTP_ANSWER_HEAD + (size_t)(config->quota_max + 1) * LINE_MAX_;
}
