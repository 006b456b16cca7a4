/* writer/quota/quota_change.c - what quota_routes.c answers, when it may, and
 * changes with their keys; see quota_service.h.
 *
 * Entry points: quota_send(), quota_send_form(),
 * quota_wait_until_durable(), quota_change_asked(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/quota/quota_service.h"

#include <assert.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/wire/name.h"

#define NAME_PARTS ((QUOTA_NAME_MAX + 15) / 16)

static_assert(NAME_PARTS + 4 <= JOURNAL_CHANGE,
              "GROUP, KEY, REQUEST, names, it");

/* ---- answers ----------------------------------------------------- */

enum conn_next
quota_send(struct http_call *x, uint8_t *body, const struct key_answer *a)
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
enum conn_next
quota_send_form(struct http_call *x, enum answer_form form)
{
    const struct key_answer a = {.form = form};
    uint8_t *body = http_body(x, QUOTA_BODY_MAX);

    return body ? quota_send(x, body, &a) : CONN_FULL;
}

/* Whether the answer, which may depend on changes that are not durable yet, can
 * wait behind the gate. */
bool
quota_wait_until_durable(struct http_call *x, bool changes)
{
    struct quota_service *s = x->ctx;

    return (!changes && journal_is_durable(&s->store->journal)) ||
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
hash_request(const struct journal *j, const struct quota_request *r,
             const struct quota_name *name)
{
    const struct hash_key key = {get_le64(j->head.uuid),
                                 get_le64(j->head.uuid + 8)};
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
        name_siphash128(j->head.uuid, key.at, key.size, k.hash);
        k.request = hash_request(j, r, name);
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

/* The records of one change, which the last one makes. */
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

/* Makes what was decided, or notes a refusal that a key must repeat. */
static void
make_change(struct quota_service *s, const struct quota_request *r,
            bool changes, const struct journal_record *record,
            const struct keyed *key, struct key_answer *a)
{
    struct journal_record refusal = {.type = JOURNAL_RECORD_REFUSED,
                                     .quota = record->quota,
                                     .after =
                                         a->form == ANSWER_REFUSED ? 0 : -1};
    int rc;

    if (changes) {
        rc = quotas_make(&s->store->quotas, r, record, a);
        if (rc < 0) {
            diag_repeating(&s->numbers_warning, DIAG_WARNING,
                           "a change of a quota is refused: %s", diag_text(rc));
            *a = (struct key_answer){.form = ANSWER_UNAVAILABLE};
            return;
        }
    }
    put_change(&s->store->journal, key, changes ? record : &refusal, r);
    if (key->is) {
        idempotency_forget(&s->store->quotas.keys, clock_steady_unix_ms());
        idempotency_add(&s->store->quotas.keys, key->hash, key->request, a,
                        clock_steady_unix_ms());
    }
    if (changes && runs_out(record) && s->config->quota_export[0] != '\0')
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
    if (!quota_wait_until_durable(x, false))
        return CONN_FULL;
    s->stats.repeated++;
    return quota_send(x, body, &a);
}

/* In a moment, or not now (503). */
static enum conn_next
wait_for_room(struct quota_service *s, struct http_call *x)
{
    const struct journal *j = &s->store->journal;
    const struct journal_group *g = &j->groups[j->collecting];

    /* A group that is full is soon on its way. */
    if (g->count + JOURNAL_CHANGE <= JOURNAL_GROUP &&
        loop_now_ms(s->loop) < s->retry_ms) {
        s->stats.unavailable++;
        return http_fail(x, HTTP_UNAVAILABLE);
    }
    return http_hold(x, &s->line);
}

enum conn_next
quota_change_asked(struct http_call *x, const struct quota_request *r,
                   const struct quota_name *name)
{
    struct quota_service *s = x->ctx;
    struct quotas *q = &s->store->quotas;
    const struct keyed key = key_of(x, r, name);
    const struct key_entry *e;
    struct journal_record record;
    struct key_answer a = {0};
    uint8_t *body = http_body(x, QUOTA_BODY_MAX);
    bool changes, writes;

    if (!body)
        return CONN_FULL;
    if (key.is) {
        e = idempotency_find(&q->keys, key.hash, clock_steady_unix_ms());
        if (e)
            return repeat_answer(x, body, e, &key);
    }
    changes = quotas_decide(q, r, &record, &a);
    if (a.form == ANSWER_NO_MORE)
        diag_repeating(&s->max_warning, DIAG_WARNING,
                       "quota.max=%zu quotas with a name exist: no more are "
                       "created; raise quota.max or remove one",
                       q->max);
    writes =
        changes ||
        (key.is && (a.form == ANSWER_REFUSED || a.form == ANSWER_IMPOSSIBLE));
    if (writes && journal_free(&s->store->journal) < JOURNAL_CHANGE)
        return wait_for_room(s, x);
    if (!quota_wait_until_durable(x, writes))
        return CONN_FULL;
    if (writes)
        make_change(s, r, changes, &record, &key, &a);
    count_answer(s, r, &a);
    return quota_send(x, body, &a);
}
