/* writer/quota/checkpoint.c - see checkpoint.h.
 *
 * Entry points: checkpoint_write(), checkpoint_begin().  An error is stored in
 * the struct that is written to or read from, and each step after it does
 * nothing: it is checked once at the end.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/quota/checkpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/array.h"
#include "common/base/bytes.h"

#define KEY_SIZE 48u

/* ---- writing ----------------------------------------------------- */

/* Not a stream of open_memstream(): ferror() does not say that it had no memory
 * for some of the bytes, and the others would be a checkpoint with a gap. */
struct writing {
    uint8_t *bytes;
    size_t size, capacity;
    int rc;
};

static void
put_bytes(struct writing *o, const void *bytes, size_t size)
{
    if (o->rc == 0)
        o->rc = array_grow(&o->bytes, &o->capacity, o->size + size, 1);
    if (o->rc < 0)
        return;
    memcpy(o->bytes + o->size, bytes, size);
    o->size += size;
}

static void
put_varint(struct writing *o, uint64_t n)
{
    uint8_t bytes[10];

    put_bytes(o, bytes, (size_t)(varint_put(bytes, n) - bytes));
}

static void
put_number(struct writing *o, uint64_t number, const struct quota_number *n)
{
    if (n->amount == NUMBER_IS_CANCEL) {
        put_varint(o, 0);
        put_varint(o, number - n->other);
    } else if (n->other != 0) {
        put_varint(o, 1);
        put_varint(o, (uint64_t)n->amount);
        put_varint(o, n->other - number);
    } else {
        put_varint(o, (uint64_t)n->amount + 2);
    }
}

static void
put_quota(struct writing *o, const struct quota *quota)
{
    put_varint(o, quota->id);
    put_varint(o, quota->name_size);
    put_bytes(o, quota->name, quota->name_size);
    put_varint(o, (uint64_t)quota->limit);
    put_varint(o, (uint64_t)quota->remaining);
    put_varint(o, quota->count);
    for (size_t i = 0; i < quota->count; i++)
        put_number(o, i + 1, &quota->numbers[i]);
}

static void
put_keys(struct writing *o, const struct idempotency *k)
{
    put_varint(o, idempotency_count(k));
    for (uint64_t i = k->first; i < k->next; i++) {
        const struct key_entry *e = &k->ring[i % k->max];
        uint8_t bytes[KEY_SIZE];

        memcpy(bytes, e->hash, IDEMPOTENCY_HASH);
        put_le64(bytes + 16, e->request);
        put_le64(bytes + 24, e->number);
        put_le64s(bytes + 32, e->remaining);
        put_le32(bytes + 40, e->at_s);
        put_le32(bytes + 44, e->form);
        put_bytes(o, bytes, sizeof bytes);
    }
}

int
checkpoint_write(const struct quotas *q, uint8_t **bytes, size_t *size)
{
    struct writing o = {.size = 0};

    put_varint(&o, q->count + 1);
    put_quota(&o, quotas_unnamed(q));
    for (size_t i = 0; i < q->count; i++)
        put_quota(&o, q->names[i]);
    put_keys(&o, &q->keys);
    if (o.rc < 0)
        free(o.bytes);
    *bytes = o.rc < 0 ? NULL : o.bytes;
    *size = o.size;
    return o.rc;
}

/* ---- reading ----------------------------------------------------- */

struct reading {
    const uint8_t *at, *end;
    int rc;
};

/* The next `size` bytes; NULL: there are fewer. */
static const uint8_t *
get_bytes(struct reading *in, size_t size)
{
    const uint8_t *at = in->at;

    if (in->rc < 0 || (size_t)(in->end - at) < size) {
        in->rc = in->rc < 0 ? in->rc : -EBADMSG;
        return NULL;
    }
    in->at += size;
    return at;
}

static uint64_t
get_varint(struct reading *in)
{
    uint64_t n = 0;

    if (in->rc == 0 && !varint_get(&in->at, in->end, &n))
        in->rc = -EBADMSG;
    return in->rc == 0 ? n : 0;
}

/* An amount: 63 bits. */
static int64_t
get_amount(struct reading *in)
{
    const uint64_t n = get_varint(in);

    if (n > INT64_MAX)
        in->rc = -EBADMSG;
    return (int64_t)(n & INT64_MAX);
}

static void
get_number(struct reading *in, struct quota *quota)
{
    const uint64_t kind = get_varint(in), number = quota->count + 1;
    struct quota_number what = {.amount = (int64_t)((kind - 2) & INT64_MAX)};

    if (kind == 0) {
        what.amount = NUMBER_IS_CANCEL;
        what.other = number - get_varint(in);
    } else if (kind == 1) {
        what.amount = get_amount(in);
        what.other = number + get_varint(in);
    }
    if (in->rc == 0)
        in->rc = quota_add_number(quota, what);
}

static void
get_quota(struct reading *in, struct quotas *q, bool named)
{
    const uint64_t id = get_varint(in), size = get_varint(in);
    const uint8_t *name = get_bytes(in, (size_t)size);
    const int64_t limit = get_amount(in);
    struct quota *quota;
    uint64_t count;

    if (size > QUOTA_NAME_MAX || id > QUOTA_MAX || (id > 0) != named ||
        (size > 0) != named)
        in->rc = -EBADMSG;
    if (in->rc == 0 && named)
        in->rc = quotas_add(q, (uint16_t)id, (const char *)name, (size_t)size,
                            limit);
    if (in->rc < 0)
        return;
    quota = q->ids[id];
    quota->limit = limit;
    quota->remaining = get_amount(in);
    count = get_varint(in);
    for (uint64_t i = 0; in->rc == 0 && i < count; i++)
        get_number(in, quota);
}

static void
get_keys(struct reading *in, struct idempotency *k)
{
    const uint64_t count = get_varint(in);

    if (count > IDEMPOTENCY_MAX)
        in->rc = -EBADMSG;
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *bytes = get_bytes(in, KEY_SIZE);
        struct key_answer a;

        if (!bytes)
            return;
        a = (struct key_answer){.form = get_le32(bytes + 44),
                                .number = get_le64(bytes + 24),
                                .remaining = get_le64s(bytes + 32)};
        idempotency_add(k, bytes, get_le64(bytes + 16), &a,
                        (uint64_t)get_le32(bytes + 40) * 1000);
    }
}

static int
read_all(struct quotas *q, const uint8_t *bytes, size_t size)
{
    struct reading in = {.at = bytes, .end = bytes + size};
    const uint64_t count = get_varint(&in);

    if (count == 0 || count > QUOTA_MAX + 1)
        in.rc = -EBADMSG;
    for (uint64_t i = 0; in.rc == 0 && i < count; i++)
        get_quota(&in, q, i > 0);
    get_keys(&in, &q->keys);
    return in.rc == 0 && in.at < in.end ? -EBADMSG : in.rc;
}

int
checkpoint_begin(void *ctx, int64_t limit, const uint8_t *bytes, size_t size)
{
    const int rc = quotas_init(ctx, limit);

    return rc < 0 || size == 0 ? rc : read_all(ctx, bytes, size);
}
