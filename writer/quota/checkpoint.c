/* writer/quota/checkpoint.c - see checkpoint.h.
 *
 * Entry points: checkpoint_write(), checkpoint_read(). An error is stored in
 * the stream, and each step after it does nothing: it is checked once at the
 * end.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/quota/checkpoint.h"

#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "common/base/bytes.h"
#include "common/base/files.h"

#define BUFFER   ((size_t)1 << 16)
#define KEY_SIZE 48u

struct stream {
    int fd;
    uint64_t at;   /* byte of the buffer in the file */
    uint64_t left; /* reading: bytes after the buffer */
    uint32_t crc;
    size_t next, size; /* in the buffer */
    int rc;            /* the first error; nothing is done after it */
    uint8_t bytes[BUFFER];
};

/* ---- writing ----------------------------------------------------- */

static void
flush_stream(struct stream *s)
{
    if (s->rc == 0)
        s->rc = write_at(s->fd, s->bytes, s->next, s->at);
    s->crc = (uint32_t)crc32(s->crc, s->bytes, (uInt)s->next);
    s->at += s->next;
    s->next = 0;
}

static void
put_bytes(struct stream *s, const void *bytes, size_t size)
{
    if (s->next + size > BUFFER)
        flush_stream(s);
    memcpy(s->bytes + s->next, bytes, size);
    s->next += size;
}

static void
put_varint(struct stream *s, uint64_t n)
{
    if (s->next + 10 > BUFFER)
        flush_stream(s);
    for (; n >= 0x80; n >>= 7)
        s->bytes[s->next++] = (uint8_t)(n | 0x80);
    s->bytes[s->next++] = (uint8_t)n;
}

static void
put_number(struct stream *s, uint64_t number, const struct number *n)
{
    if (n->amount == NUMBER_IS_CANCEL) {
        put_varint(s, 0);
        put_varint(s, number - n->other);
    } else if (n->other != 0) {
        put_varint(s, 1);
        put_varint(s, (uint64_t)n->amount);
        put_varint(s, n->other - number);
    } else {
        put_varint(s, (uint64_t)n->amount + 2);
    }
}

static void
put_quota(struct stream *s, struct quota *quota)
{
    struct number n[JOURNAL_NUMBERS_TAIL];
    uint64_t number = 1;

    put_varint(s, quota->id);
    put_varint(s, quota->name_size);
    put_bytes(s, quota->name, quota->name_size);
    put_varint(s, (uint64_t)quota->limit);
    put_varint(s, (uint64_t)quota->remaining);
    put_varint(s, quota->numbers.count);
    while (s->rc == 0 && number <= quota->numbers.count) {
        const int count = journal_numbers_read(&quota->numbers, number, n,
                                               JOURNAL_NUMBERS_TAIL);

        if (count < 0)
            s->rc = count;
        for (int i = 0; i < count; i++)
            put_number(s, number++, &n[i]);
    }
}

static void
put_keys(struct stream *s, const struct idempotency *k)
{
    put_varint(s, idempotency_count(k));
    for (uint64_t i = k->first; i < k->next; i++) {
        const struct key_entry *e = &k->ring[i % k->max];
        uint8_t bytes[KEY_SIZE];

        memcpy(bytes, e->hash, IDEMPOTENCY_HASH);
        put_le64(bytes + 16, e->request);
        put_le64(bytes + 24, e->number);
        put_le64s(bytes + 32, e->remaining);
        put_le32(bytes + 40, e->at_s);
        put_le32(bytes + 44, e->form);
        put_bytes(s, bytes, sizeof bytes);
    }
}

int
checkpoint_write(void *ctx, int fd, uint64_t at, uint64_t *size, uint32_t *crc)
{
    static struct stream s; /* one thread at a time */
    struct quotas *q = ctx;

    s = (struct stream){.fd = fd, .at = at};
    put_varint(&s, q->count + 1);
    put_quota(&s, quotas_unnamed(q));
    for (size_t i = 0; i < q->count; i++)
        put_quota(&s, q->names[i]);
    put_keys(&s, &q->keys);
    flush_stream(&s);
    *size = s.at - at;
    *crc = s.crc;
    return s.rc;
}

/* ---- reading ----------------------------------------------------- */

static uint8_t
get_byte(struct stream *s)
{
    if (s->next == s->size) {
        const size_t want = s->left < BUFFER ? (size_t)s->left : BUFFER;
        const ssize_t got =
            s->rc == 0 && want > 0 ? read_at(s->fd, s->bytes, want, s->at) : 0;

        if (s->rc == 0 && (got < 0 || got < (ssize_t)want || want == 0))
            s->rc = got < 0 ? (int)got : -EBADMSG;
        if (s->rc < 0)
            return 0;
        s->at += want;
        s->left -= want;
        s->size = want;
        s->next = 0;
    }
    return s->bytes[s->next++];
}

static void
get_bytes(struct stream *s, void *to, size_t size)
{
    uint8_t *bytes = to;

    for (size_t i = 0; i < size; i++)
        bytes[i] = get_byte(s);
}

static uint64_t
get_varint(struct stream *s)
{
    uint64_t n = 0;

    for (unsigned shift = 0; shift < 64; shift += 7) {
        const uint8_t byte = get_byte(s);

        n |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            return n;
    }
    s->rc = -EBADMSG;
    return 0;
}

/* An amount: 63 bits. */
static int64_t
get_amount(struct stream *s)
{
    const uint64_t n = get_varint(s);

    if (n > INT64_MAX)
        s->rc = -EBADMSG;
    return (int64_t)(n & INT64_MAX);
}

static void
get_number(struct stream *s, struct journal_numbers *n)
{
    const uint64_t kind = get_varint(s);
    struct number what = {.amount = (int64_t)((kind - 2) & INT64_MAX)};
    int rc;

    if (kind == 0) {
        what.amount = NUMBER_IS_CANCEL;
        what.other = n->count + 1 - get_varint(s);
    } else if (kind == 1) {
        what.amount = get_amount(s);
        what.other = n->count + 1 + get_varint(s);
    }
    rc = journal_numbers_reserve(n);
    if (s->rc == 0)
        s->rc = rc;
    if (s->rc == 0)
        journal_numbers_add(n, what);
}

static void
get_quota(struct stream *s, struct quotas *q, bool named)
{
    const uint64_t id = get_varint(s), size = get_varint(s);
    char name[QUOTA_NAME_MAX];
    struct quota *quota = quotas_unnamed(q);
    uint64_t count;
    int64_t limit;

    if (size > sizeof name || id > QUOTA_MAX || (id > 0) != named ||
        (size > 0) != named)
        s->rc = -EBADMSG;
    if (s->rc == 0)
        get_bytes(s, name, (size_t)size);
    limit = get_amount(s);
    if (s->rc == 0 && named)
        s->rc = quotas_add(q, (uint16_t)id, name, (size_t)size, limit, &quota);
    if (s->rc < 0)
        return;
    quota->limit = limit;
    quota->remaining = get_amount(s);
    count = get_varint(s);
    for (uint64_t i = 0; s->rc == 0 && i < count; i++)
        get_number(s, &quota->numbers);
}

static void
get_keys(struct stream *s, struct idempotency *k)
{
    const uint64_t count = get_varint(s);

    if (count > IDEMPOTENCY_MAX)
        s->rc = -EBADMSG;
    for (uint64_t i = 0; s->rc == 0 && i < count; i++) {
        uint8_t bytes[KEY_SIZE];
        struct key_answer a;

        get_bytes(s, bytes, sizeof bytes);
        a = (struct key_answer){.form = get_le32(bytes + 44),
                                .number = get_le64(bytes + 24),
                                .remaining = get_le64s(bytes + 32)};
        if (s->rc == 0)
            idempotency_add(k, bytes, get_le64(bytes + 16), &a,
                            (uint64_t)get_le32(bytes + 40) * 1000);
    }
}

/* Before anything of it is believed. */
static int
check_crc(struct stream *s, uint64_t at, uint64_t size, uint32_t crc)
{
    uint32_t sum = 0;

    while (size > 0) {
        const size_t want = size < BUFFER ? (size_t)size : BUFFER;
        const ssize_t got = read_at(s->fd, s->bytes, want, at);

        if (got < 0)
            return (int)got;
        if (got < (ssize_t)want)
            return -EBADMSG;
        sum = (uint32_t)crc32(sum, s->bytes, (uInt)want);
        at += want;
        size -= want;
    }
    return sum == crc ? 0 : -EBADMSG;
}

int
checkpoint_read(struct quotas *q, int fd, uint64_t at, uint64_t size,
                uint32_t crc)
{
    static struct stream s; /* one thread at a time */
    uint64_t count;
    int rc;

    s = (struct stream){.fd = fd, .at = at, .left = size};
    rc = check_crc(&s, at, size, crc);
    if (rc < 0)
        return rc;
    count = get_varint(&s);
    if (count == 0 || count > QUOTA_MAX + 1)
        s.rc = -EBADMSG;
    for (uint64_t i = 0; s.rc == 0 && i < count; i++)
        get_quota(&s, q, i > 0);
    get_keys(&s, &q->keys);
    if (s.rc == 0 && (s.left > 0 || s.next < s.size))
        s.rc = -EBADMSG;
    return s.rc;
}
