/* common/store/held_record.c - see held_record.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/held_record.h"

#include <assert.h>
#include <string.h>

#include "common/base/bytes.h"

#define DELTA_SIZE 22 /* without the key */

struct head_wire {
    uint8_t held_ms[8];
    uint8_t marks[4];
    uint8_t deltas[4];
    uint8_t error[4];
    uint8_t name_size[2];
    uint8_t zero[2];
};

static_assert(sizeof(struct head_wire) == HELD_HEAD_SIZE, "size is fixed");
static_assert(_Alignof(struct head_wire) == 1, "may sit at any address");

/* Whether `b` comes after `a`. */
static bool
is_after(const struct store_delta *a, const struct store_delta *b)
{
    const int order = bytes_compare(a->key, a->key_size, b->key, b->key_size);

    return order != 0 ? order < 0 : a->minute < b->minute;
}

static bool
name_ok(const uint8_t *name, size_t size)
{
    return size >= 1 && size <= STORE_NAME_MAX && memchr(name, 0, size) == NULL;
}

/* Delta i has a key of a good size, and comes after the one before it. */
static bool
delta_ok(const struct store_delta *deltas, size_t i)
{
    return deltas[i].key_size >= 1 && deltas[i].key_size <= STORE_NAME_MAX &&
           (i == 0 || is_after(&deltas[i - 1], &deltas[i]));
}

bool
held_batch_ok(const struct store_batch *batch)
{
    if (!name_ok(batch->name, batch->name_size) || batch->mark_count == 0 ||
        batch->mark_count > UINT32_MAX || batch->delta_count > UINT32_MAX)
        return false;
    for (size_t i = 0; i < batch->delta_count; i++)
        if (!delta_ok(batch->deltas, i))
            return false;
    return true;
}

/* ---- writing ----------------------------------------------------------- */

uint64_t
held_batch_size(const struct store_batch *batch)
{
    uint64_t size = HELD_HEAD_SIZE + batch->name_size +
                    (uint64_t)batch->mark_count * HELD_MARK_SIZE;

    for (size_t i = 0; i < batch->delta_count; i++)
        size += (uint64_t)DELTA_SIZE + batch->deltas[i].key_size;
    return size;
}

void
held_mark_encode(const struct store_fill *mark, uint8_t *to)
{
    memcpy(to, mark->uuid, sizeof mark->uuid);
    put_le64(to + 16, mark->epoch);
    put_le64(to + 24, mark->first_ms);
}

static uint8_t *
put_delta(uint8_t *at, const struct store_delta *d)
{
    put_le32(at, d->minute);
    put_le16(at + 4, d->key_size);
    put_le64(at + 6, d->sum_low);
    put_le64s(at + 14, d->sum_high);
    memcpy(at + DELTA_SIZE, d->key, d->key_size);
    return at + DELTA_SIZE + d->key_size;
}

void
held_encode(const struct store_batch *batch, uint64_t held_ms, int error,
            uint8_t *value)
{
    struct head_wire *w = (struct head_wire *)value;
    uint8_t *at = value + sizeof *w;

    *w = (struct head_wire){.zero = {0}};
    put_le64(w->held_ms, held_ms);
    put_le32(w->marks, (uint32_t)batch->mark_count);
    put_le32(w->deltas, (uint32_t)batch->delta_count);
    put_le32(w->error, (uint32_t)(error < 0 ? -error : error));
    put_le16(w->name_size, (uint16_t)batch->name_size);
    memcpy(at, batch->name, batch->name_size);
    at += batch->name_size;
    for (size_t i = 0; i < batch->mark_count; i++, at += HELD_MARK_SIZE)
        held_mark_encode(&batch->marks[i], at);
    for (size_t i = 0; i < batch->delta_count; i++)
        at = put_delta(at, &batch->deltas[i]);
}

/* ---- reading ----------------------------------------------------------- */

/* Whether the numbers of a head fit one another. */
static bool
head_ok(const struct held_head *h)
{
    uint64_t rest = h->size - HELD_HEAD_SIZE;

    if (h->marks == 0 || h->error < 0 || h->name_size > rest ||
        !name_ok(h->name, h->name_size))
        return false;
    rest -= h->name_size;
    return rest / HELD_MARK_SIZE >= h->marks &&
           (rest - (uint64_t)h->marks * HELD_MARK_SIZE) / (DELTA_SIZE + 1) >=
               h->deltas;
}

bool
held_head_parse(const uint8_t *value, size_t size, struct held_head *out)
{
    const struct head_wire *w = (const struct head_wire *)value;
    struct held_head h;

    if (size < sizeof *w || get_le16(w->zero) != 0)
        return false;
    h = (struct held_head){
        .size = size,
        .held_ms = get_le64(w->held_ms),
        .marks = get_le32(w->marks),
        .deltas = get_le32(w->deltas),
        .error = (int)get_le32(w->error),
        .name = value + sizeof *w,
        .name_size = get_le16(w->name_size),
    };
    h.body = h.name + h.name_size;
    if (!head_ok(&h))
        return false;
    *out = h;
    return true;
}

void
held_marks_parse(const struct held_head *head, struct store_fill *marks)
{
    const uint8_t *at = head->body;

    for (uint32_t i = 0; i < head->marks; i++, at += HELD_MARK_SIZE) {
        memcpy(marks[i].uuid, at, sizeof marks[i].uuid);
        marks[i].epoch = get_le64(at + 16);
        marks[i].first_ms = get_le64(at + 24);
    }
}

bool
held_deltas_parse(const struct held_head *head, struct store_delta *deltas)
{
    const uint8_t *at = head->body + (uint64_t)head->marks * HELD_MARK_SIZE;
    const uint8_t *end =
        head->body + (head->size - HELD_HEAD_SIZE - head->name_size);

    for (uint32_t i = 0; i < head->deltas; i++) {
        struct store_delta *d = &deltas[i];

        if (end - at < DELTA_SIZE)
            return false;
        *d = (struct store_delta){.key = at + DELTA_SIZE,
                                  .key_size = get_le16(at + 4),
                                  .minute = get_le32(at),
                                  .sum_low = get_le64(at + 6),
                                  .sum_high = get_le64s(at + 14)};
        at += DELTA_SIZE;
        if (end - at < d->key_size || !delta_ok(deltas, i))
            return false;
        at += d->key_size;
    }
    return at == end;
}
