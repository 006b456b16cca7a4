/* writer/quota/quotas.c - see quotas.h: quota_name_is_good(), quotas_find(),
 * quotas_decide(), quotas_add(), quotas_make(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/quota/quotas.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/bytes.h"

/* ---- names ------------------------------------------------------- */

bool
quota_name_is_good(const char *name, size_t size)
{
    if (size == 0 || size > QUOTA_NAME_MAX)
        return false;
    for (size_t i = 0; i < size; i++) {
        const bool plain = isalnum((unsigned char)name[i]) != 0;

        if (!plain && (i == 0 || name[i] == '\0' || !strchr("._-", name[i])))
            return false;
    }
    return true;
}

struct quota_name {
    const char *at;
    size_t size;
};

static int
compare_name(const void *name, const void *item)
{
    const struct quota *quota = *(struct quota *const *)item;
    const struct quota_name *n = name;

    return bytes_compare(n->at, n->size, quota->name, quota->name_size);
}

struct quota *
quotas_find(const struct quotas *q, const char *name, size_t size)
{
    const struct quota_name wanted = {name, size};
    struct quota **found = bsearch(&wanted, q->names, q->count,
                                   sizeof(struct quota *), compare_name);

    return found ? *found : NULL;
}

static uint16_t
free_id(const struct quotas *q)
{
    uint16_t id = 1;

    while (q->ids[id])
        id++;
    return id;
}

static void
free_quota(struct quota *quota)
{
    free(quota->numbers);
    free(quota);
}

int
quotas_init(struct quotas *q, int64_t limit)
{
    *q = (struct quotas){.max = QUOTA_MAX,
                         .unnamed = {.limit = limit, .remaining = limit}};
    q->ids[0] = &q->unnamed;
    return idempotency_init(&q->keys, IDEMPOTENCY_MAX);
}

void
quotas_fini(struct quotas *q)
{
    for (size_t i = 0; i < q->count; i++)
        free_quota(q->names[i]);
    free(q->unnamed.numbers);
    idempotency_fini(&q->keys);
    *q = (struct quotas){.count = 0};
}

/* ---- deciding ---------------------------------------------------- */

static bool
refuse_request(struct key_answer *a, enum answer_form form)
{
    *a = (struct key_answer){.form = form};
    return false;
}

static bool
decide_apply(const struct quota *quota, struct journal_record *record,
             struct key_answer *a)
{
    if (quota->remaining == 0 || record->value > quota->remaining)
        return refuse_request(a, ANSWER_REFUSED);
    record->after = quota->remaining - record->value;
    return true;
}

static bool
decide_cancel(const struct quota *quota, struct journal_record *record,
              struct key_answer *a)
{
    const uint64_t number = (uint64_t)record->value;
    const struct quota_number *n = number == 0 || number > quota->count
                                       ? NULL
                                       : &quota->numbers[number - 1];

    if (!n || n->amount == NUMBER_IS_CANCEL || n->other != 0)
        return refuse_request(a, ANSWER_REFUSED);
    if (n->amount > INT64_MAX - quota->remaining)
        return refuse_request(a, ANSWER_IMPOSSIBLE);
    record->after = quota->remaining + n->amount;
    return true;
}

static bool
decide_create(const struct quotas *q, const struct quota_request *r,
              struct journal_record *record, struct key_answer *a)
{
    if (quotas_find(q, r->name, r->name_size))
        return refuse_request(a, ANSWER_EXISTS);
    if (q->count >= q->max)
        return refuse_request(a, ANSWER_NO_MORE);
    record->quota = free_id(q);
    record->after = (int64_t)r->name_size;
    return true;
}

bool
quotas_decide(const struct quotas *q, const struct quota_request *r,
              struct journal_record *record, struct key_answer *a)
{
    const struct quota *quota = r->quota;

    *record =
        (struct journal_record){.type = (uint8_t)r->type, .value = r->value};
    if (r->type == JOURNAL_RECORD_CREATE)
        return decide_create(q, r, record, a);
    if (!quota)
        return refuse_request(a, ANSWER_UNKNOWN);
    record->quota = quota->id;
    switch (r->type) {
    case JOURNAL_RECORD_APPLY:
        return decide_apply(quota, record, a);
    case JOURNAL_RECORD_CANCEL:
        return decide_cancel(quota, record, a);
    case JOURNAL_RECORD_INCREASE:
        if (r->value > INT64_MAX - quota->remaining)
            return refuse_request(a, ANSWER_IMPOSSIBLE);
        record->after = quota->remaining + r->value;
        return true;
    case JOURNAL_RECORD_DECREASE:
        if (r->value > quota->remaining)
            record->value = quota->remaining;
        record->after = quota->remaining - record->value;
        return true;
    default:
        assert(r->type == JOURNAL_RECORD_EMPTY ||
               r->type == JOURNAL_RECORD_REMOVE);
        record->value = quota->remaining;
        return true;
    }
}

/* ---- making ------------------------------------------------------ */

int
quota_add_number(struct quota *quota, struct quota_number what)
{
    const int rc = array_grow(&quota->numbers, &quota->capacity,
                              quota->count + 1, sizeof *quota->numbers);

    if (rc == 0)
        quota->numbers[quota->count++] = what;
    return rc;
}

static int
make_number(struct quota *quota, const struct journal_record *record)
{
    const uint64_t value = (uint64_t)record->value;
    int rc;

    if (record->type == JOURNAL_RECORD_APPLY)
        return quota_add_number(quota,
                                (struct quota_number){.amount = record->value});
    rc = quota_add_number(
        quota,
        (struct quota_number){.amount = NUMBER_IS_CANCEL, .other = value});
    if (rc == 0)
        quota->numbers[value - 1].other = quota->count;
    return rc;
}

int
quotas_add(struct quotas *q, uint16_t id, const char *name, size_t size,
           int64_t limit)
{
    const struct quota_name wanted = {name, size};
    struct quota *quota;
    size_t place;

    if (quotas_find(q, name, size) || !quota_name_is_good(name, size) ||
        q->ids[id] || q->count >= QUOTA_MAX)
        return -EBADMSG;
    quota = calloc(1, sizeof *quota);
    if (!quota)
        return -ENOMEM;
    quota->id = id;
    quota->name_size = (uint8_t)size;
    memcpy(quota->name, name, size);
    quota->limit = quota->remaining = limit;
    for (place = q->count++; place > 0; place--) {
        if (compare_name(&wanted, &q->names[place - 1]) > 0)
            break;
        q->names[place] = q->names[place - 1];
    }
    q->names[place] = quota;
    q->ids[id] = quota;
    return 0;
}

static void
make_remove(struct quotas *q, struct quota *quota)
{
    size_t place = 0;

    assert(quota->id > 0);
    while (q->names[place] != quota)
        place++;
    q->count--;
    memmove(q->names + place, q->names + place + 1,
            (q->count - place) * sizeof(struct quota *));
    q->ids[quota->id] = NULL;
    free_quota(quota);
}

int
quotas_make(struct quotas *q, const struct quota_request *r,
            const struct journal_record *record, struct key_answer *a)
{
    struct quota *quota = r->quota;
    int rc;

    *a = (struct key_answer){.form = ANSWER_REMAINING,
                             .remaining = record->after};
    switch (r->type) {
    case JOURNAL_RECORD_CREATE:
        *a = (struct key_answer){.form = ANSWER_CREATED,
                                 .remaining = record->value};
        return quotas_add(q, record->quota, r->name, r->name_size,
                          record->value);
    case JOURNAL_RECORD_REMOVE:
        a->remaining = record->value;
        make_remove(q, quota);
        return 0;
    case JOURNAL_RECORD_APPLY:
    case JOURNAL_RECORD_CANCEL:
        rc = make_number(quota, record);
        if (rc < 0)
            return rc;
        a->form = ANSWER_PAIR;
        a->number = quota->count;
        break;
    default:
        break;
    }
    quota->remaining = record->after;
    return 0;
}

/* ---- replaying --------------------------------------------------- */

static int
take_part(struct quotas *q, const struct journal_record *r)
{
    uint8_t bytes[16];

    put_le64s(bytes, r->value);
    put_le64s(bytes + 8, r->after);
    switch (r->type) {
    case JOURNAL_RECORD_KEY:
        memcpy(q->key, bytes, sizeof q->key);
        q->has_key = true;
        return 0;
    case JOURNAL_RECORD_REQUEST:
        q->request = (uint64_t)r->value;
        q->has_request = true;
        return 0;
    case JOURNAL_RECORD_NAME:
        if (q->part_size + sizeof bytes > sizeof q->part)
            return -EBADMSG;
        memcpy(q->part + q->part_size, bytes, sizeof bytes);
        q->part_size += sizeof bytes;
        return 0;
    default:
        return -EBADMSG;
    }
}

static void
forget_parts(struct quotas *q)
{
    q->has_key = q->has_request = false;
    q->part_size = 0;
}

/* The request that made this record. */
static int
request_of(struct quotas *q, const struct journal_record *r,
           struct quota_request *out)
{
    *out = (struct quota_request){.type = (enum journal_record_type)r->type,
                                  .value = r->value};
    if (r->value < 0 || r->quota > QUOTA_MAX)
        return -EBADMSG;
    if (r->type == JOURNAL_RECORD_CREATE) {
        out->name = q->part;
        out->name_size = (size_t)r->after;
        return r->after > 0 && (uint64_t)r->after <= q->part_size &&
                       quota_name_is_good(q->part, out->name_size)
                   ? 0
                   : -EBADMSG;
    }
    out->quota = q->ids[r->quota];
    if (r->type == JOURNAL_RECORD_REMOVE && r->quota == 0)
        return -EBADMSG;
    return out->quota ? 0 : -EBADMSG;
}

static int
take_change(struct quotas *q, const struct journal_record *r,
            struct key_answer *a)
{
    struct journal_record again;
    struct quota_request request;
    int rc;

    if (r->type == JOURNAL_RECORD_REFUSED) {
        (void)refuse_request(a, r->after == 0 ? ANSWER_REFUSED
                                              : ANSWER_IMPOSSIBLE);
        return 0;
    }
    if (r->type < JOURNAL_RECORD_APPLY || r->type > JOURNAL_RECORD_REMOVE)
        return -EBADMSG;
    rc = request_of(q, r, &request);
    if (rc < 0)
        return rc;
    if (!quotas_decide(q, &request, &again, a) || again.quota != r->quota ||
        again.value != r->value || again.after != r->after)
        return -EBADMSG;
    return quotas_make(q, &request, &again, a);
}

int
quotas_take(void *ctx, const struct journal_record *r, uint64_t ms)
{
    struct quotas *q = ctx;
    struct key_answer a;
    int rc;

    if (r->part)
        return take_part(q, r);
    rc = take_change(q, r, &a);
    if (rc == 0 && q->has_key && q->has_request &&
        !idempotency_find(&q->keys, q->key, ms))
        idempotency_add(&q->keys, q->key, q->request, &a, ms);
    forget_parts(q);
    return rc;
}

void
quotas_taken(struct quotas *q, size_t max)
{
    forget_parts(q);
    q->max = max;
}
