/* common/store/lmdb/held_record.c - see held_record.h. */
#include "common/store/lmdb/held_record.h"

#include <assert.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/crc.h"

#define DELTA_SIZE 22 /* without the key */

static const uint8_t magic[4] = "HLD1";

/* A value. */
struct value_wire {
    uint8_t crc[4];
    uint8_t magic[4];
    uint8_t size[4];
    uint8_t part[4];
    uint8_t id[8];
    uint8_t nonce[8];
};

/* The head's, behind that. */
struct head_wire {
    struct value_wire value;
    uint8_t body_size[8];
    uint8_t held_ms[8];
    uint8_t parts[4];
    uint8_t marks[4];
    uint8_t deltas[4];
    uint8_t error[4];
    uint8_t name_size[2];
    uint8_t zero[2];
};

static_assert(sizeof(struct value_wire) == HELD_PART_HEAD, "size is fixed");
static_assert(sizeof(struct head_wire) == HELD_HEAD_SIZE, "size is fixed");
static_assert(_Alignof(struct head_wire) == 1, "may sit at any address");

/* Bytes of the body that the head has room for. */
static size_t
head_room(size_t name_size)
{
    return (size_t)HELD_VALUE_MAX - HELD_HEAD_SIZE - name_size;
}

static uint64_t
least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* How many parts a body needs beyond the head. */
static uint64_t
part_count(uint64_t body_size, size_t name_size)
{
    const uint64_t here = least(body_size, head_room(name_size));

    return (body_size - here + HELD_PART_ROOM - 1) / HELD_PART_ROOM;
}

uint64_t
held_record_size(const struct held_head *head)
{
    return HELD_HEAD_SIZE + head->name_size + head->body_size +
           (uint64_t)head->parts * HELD_PART_HEAD;
}

/* Whether `b` comes after `a`. */
static bool
is_after(const struct store_delta *a, const struct store_delta *b)
{
    const size_t size = a->key_size < b->key_size ? a->key_size : b->key_size;
    const int order = memcmp(a->key, b->key, size);

    if (order != 0)
        return order < 0;
    if (a->key_size != b->key_size)
        return a->key_size < b->key_size;
    return a->minute < b->minute;
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

void
held_encode(struct held_encoder *e, const struct store_batch *batch,
            uint64_t id, uint64_t nonce, uint64_t held_ms, int error)
{
    uint64_t size = (uint64_t)batch->mark_count * HELD_MARK_SIZE;

    for (size_t i = 0; i < batch->delta_count; i++)
        size += (uint64_t)DELTA_SIZE + batch->deltas[i].key_size;
    *e = (struct held_encoder){
        .batch = batch,
        .head = {.id = id,
                 .nonce = nonce,
                 .body_size = size,
                 .held_ms = held_ms,
                 .parts = (uint32_t)part_count(size, batch->name_size),
                 .marks = (uint32_t)batch->mark_count,
                 .deltas = (uint32_t)batch->delta_count,
                 .error = error < 0 ? -error : error,
                 .name = batch->name,
                 .name_size = batch->name_size,
                 .body_here =
                     (size_t)least(size, head_room(batch->name_size))}};
}

/* Has the next mark or delta in e->item. */
static void
next_item(struct held_encoder *e)
{
    const struct store_batch *b = e->batch;
    uint8_t *at = e->item;

    e->item_given = 0;
    if (e->next < b->mark_count) {
        const struct store_mark *m = &b->marks[e->next++];

        memcpy(at, m->uuid, sizeof m->uuid);
        put_le64(at + 16, m->epoch);
        put_le64(at + 24, m->first_ms);
        e->item_size = HELD_MARK_SIZE;
    } else {
        const struct store_delta *d = &b->deltas[e->next++ - b->mark_count];

        put_le32(at, d->minute);
        put_le16(at + 4, d->key_size);
        put_le64(at + 6, d->sum_low);
        put_le64s(at + 14, d->sum_high);
        memcpy(at + DELTA_SIZE, d->key, d->key_size);
        e->item_size = (size_t)DELTA_SIZE + d->key_size;
    }
}

/* Writes the next bytes of the body. */
static void
give_body(struct held_encoder *e, uint8_t *at, size_t size)
{
    while (size > 0) {
        size_t n;

        if (e->item_given == e->item_size)
            next_item(e);
        n = (size_t)least(size, e->item_size - e->item_given);
        memcpy(at, e->item + e->item_given, n);
        e->item_given += n;
        at += n;
        size -= n;
    }
}

/* Writes what every value begins with, around a body that is in its place. */
static size_t
seal(const struct held_encoder *e, uint8_t *value, size_t size)
{
    struct value_wire *w = (struct value_wire *)value;

    memcpy(w->magic, magic, sizeof magic);
    put_le32(w->size, (uint32_t)size);
    put_le32(w->part, e->part);
    put_le64(w->id, e->head.id);
    put_le64(w->nonce, e->head.nonce);
    put_le32(w->crc, crc_of(value + 4, size - 4));
    return size;
}

static size_t
encode_head(struct held_encoder *e, uint8_t *value)
{
    const struct held_head *h = &e->head;
    struct head_wire *w = (struct head_wire *)value;
    uint8_t *at = value + sizeof *w;

    *w = (struct head_wire){.zero = {0}};
    put_le64(w->body_size, h->body_size);
    put_le64(w->held_ms, h->held_ms);
    put_le32(w->parts, h->parts);
    put_le32(w->marks, h->marks);
    put_le32(w->deltas, h->deltas);
    put_le32(w->error, (uint32_t)h->error);
    put_le16(w->name_size, (uint16_t)h->name_size);
    memcpy(at, h->name, h->name_size);
    give_body(e, at + h->name_size, h->body_here);
    return seal(e, value, sizeof *w + h->name_size + h->body_here);
}

size_t
held_encode_next(struct held_encoder *e, uint8_t value[HELD_VALUE_MAX])
{
    size_t size;

    if (e->part > e->head.parts)
        return 0;
    if (e->part == 0) {
        size = encode_head(e, value);
    } else {
        size = held_part_room(&e->head, e->part);
        give_body(e, value + HELD_PART_HEAD, size);
        size = seal(e, value, HELD_PART_HEAD + size);
    }
    e->part++;
    return size;
}

/* ---- reading ----------------------------------------------------------- */

size_t
held_value_size(const uint8_t *value, size_t room)
{
    const struct value_wire *w = (const struct value_wire *)value;
    size_t size;

    if (room < sizeof *w || memcmp(w->magic, magic, sizeof magic) != 0)
        return 0;
    size = get_le32(w->size);
    if (size < sizeof *w || size > room || size > HELD_VALUE_MAX ||
        get_le32(w->crc) != crc_of(value + 4, size - 4))
        return 0;
    return size;
}

size_t
held_value_scan(const uint8_t *bytes, size_t size)
{
    const size_t before = offsetof(struct value_wire, magic);
    const uint8_t *at;

    if (size < before + sizeof magic)
        return size;
    at = memmem(bytes + before, size - before, magic, sizeof magic);
    return at != NULL ? (size_t)(at - bytes) - before : size;
}

uint32_t
held_value_part(const uint8_t *value)
{
    return get_le32(((const struct value_wire *)value)->part);
}

uint64_t
held_value_id(const uint8_t *value)
{
    return get_le64(((const struct value_wire *)value)->id);
}

uint64_t
held_value_nonce(const uint8_t *value)
{
    return get_le64(((const struct value_wire *)value)->nonce);
}

/* Whether the numbers of a head fit one another. */
static bool
head_ok(const struct held_head *h, size_t size)
{
    if (h->marks == 0 || h->name_size < 1 || h->name_size > STORE_NAME_MAX ||
        size < HELD_HEAD_SIZE + h->name_size || !name_ok(h->name, h->name_size))
        return false;
    return h->body_size / HELD_MARK_SIZE >= h->marks &&
           (h->body_size - (uint64_t)h->marks * HELD_MARK_SIZE) /
                   (DELTA_SIZE + 1) >=
               h->deltas &&
           h->body_size <= (uint64_t)UINT32_MAX * HELD_PART_ROOM &&
           h->parts == part_count(h->body_size, h->name_size) &&
           h->body_here == least(h->body_size, head_room(h->name_size)) &&
           h->error >= 0;
}

bool
held_head_parse(const uint8_t *value, size_t size, struct held_head *out)
{
    const struct head_wire *w = (const struct head_wire *)value;
    struct held_head h;

    if (held_value_size(value, size) != size || size < sizeof *w ||
        held_value_part(value) != 0 || get_le16(w->zero) != 0)
        return false;
    h = (struct held_head){
        .id = held_value_id(value),
        .nonce = held_value_nonce(value),
        .body_size = get_le64(w->body_size),
        .held_ms = get_le64(w->held_ms),
        .parts = get_le32(w->parts),
        .marks = get_le32(w->marks),
        .deltas = get_le32(w->deltas),
        .error = (int)get_le32(w->error),
        .name = value + sizeof *w,
        .name_size = get_le16(w->name_size),
    };
    h.body = h.name + h.name_size;
    h.body_here = size - sizeof *w - h.name_size;
    if (!head_ok(&h, size))
        return false;
    *out = h;
    return true;
}

size_t
held_part_room(const struct held_head *head, uint32_t part)
{
    const uint64_t before =
        head->body_here + (uint64_t)(part - 1) * HELD_PART_ROOM;

    assert(part >= 1 && part <= head->parts);
    return (size_t)least(HELD_PART_ROOM, head->body_size - before);
}

const uint8_t *
held_part_parse(const uint8_t *value, size_t size, const struct held_head *head,
                uint32_t part, size_t *body_size)
{
    if (held_value_size(value, size) != size ||
        held_value_part(value) != part || held_value_id(value) != head->id ||
        held_value_nonce(value) != head->nonce)
        return NULL;
    *body_size = size - HELD_PART_HEAD;
    return *body_size == held_part_room(head, part) ? value + HELD_PART_HEAD
                                                    : NULL;
}

void
held_marks_parse(const uint8_t *body, uint32_t count, struct store_mark *marks)
{
    for (uint32_t i = 0; i < count; i++, body += HELD_MARK_SIZE) {
        memcpy(marks[i].uuid, body, sizeof marks[i].uuid);
        marks[i].epoch = get_le64(body + 16);
        marks[i].first_ms = get_le64(body + 24);
    }
}

bool
held_deltas_parse(const struct held_head *head, const uint8_t *body,
                  struct store_delta *deltas)
{
    const uint8_t *end = body + head->body_size;

    body += (uint64_t)head->marks * HELD_MARK_SIZE;
    for (uint32_t i = 0; i < head->deltas; i++) {
        struct store_delta *d = &deltas[i];

        if (end - body < DELTA_SIZE)
            return false;
        *d = (struct store_delta){.key = body + DELTA_SIZE,
                                  .key_size = get_le16(body + 4),
                                  .minute = get_le32(body),
                                  .sum_low = get_le64(body + 6),
                                  .sum_high = get_le64s(body + 14)};
        body += DELTA_SIZE;
        if (end - body < d->key_size || !delta_ok(deltas, i))
            return false;
        body += d->key_size;
    }
    return body == end;
}
