/* common/wire/query.c - see query.h: query_size(), query_parse(), query_put(),
 * then answers: query_error(), query_reply_put(), query_row_put(),
 * query_history_put() and their readers.
 *
 * The client library links this file, so it needs nothing but bytes.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/wire/query.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"

/* Wire offsets; the table is in query.h. */
#define AT_LENGTH   8
#define AT_KEYSPACE 16
#define AT_KEY      272
#define AT_FROM     528
#define AT_TO       536
#define AT_STEP     544
#define AT_ROWS     552
#define AT_PREFIX   560

/* The row's key_size, and the reply's fields. */
#define ROW_AT_KEY_SIZE 8
#define REPLY_AT_SIZE   8
#define REPLY_AT_AS_OF  16

/* Size of the NUL-padded name at `at`; -EINVAL when a byte follows its first
 * NUL, which is how a peer that lost the framing shows. */
static int
name_size(const uint8_t *at)
{
    const uint8_t *nul = memchr(at, 0, QUERY_NAME_SIZE);
    size_t size;

    if (!nul)
        return QUERY_NAME_SIZE;
    size = (size_t)(nul - at);
    /* Each byte equals the one before it, and the first is zero. */
    if (memcmp(nul, nul + 1, QUERY_NAME_SIZE - size - 1) != 0)
        return -EINVAL;
    return (int)size;
}

/* Each op needs certain names; a key where none belongs is refused too. */
static int
check_names(const struct query *q)
{
    const int keyspace_needed = q->op != QUERY_KEYSPACES && q->op != QUERY_NOW;
    const int key_needed =
        q->op == QUERY_GET || q->op == QUERY_RANK || q->op == QUERY_AROUND;
    const int key_allowed = key_needed || q->op == QUERY_ABOUT ||
                            q->op == QUERY_HISTORY ||
                            q->op == QUERY_PERIOD_RANK || q->op == QUERY_KEYS;

    if (keyspace_needed && q->keyspace_size == 0)
        return -EINVAL;
    if (q->key_size > 0 ? !key_allowed : key_needed)
        return -EINVAL;
    return 0;
}

static size_t
extended_size(int64_t op)
{
    if (op == QUERY_KEYS)
        return QUERY_KEYS_SIZE;
    return op >= QUERY_HISTORY && op <= QUERY_AROUND ? QUERY_HISTORY_SIZE
                                                     : QUERY_EXTENDED_SIZE;
}

size_t
query_size(const uint8_t *bytes, size_t size)
{
    if (size < 8)
        return 0;
    if (get_le64s(bytes) != INT64_MIN)
        return QUERY_SIZE;
    return size < AT_KEYSPACE ? QUERY_EXTENDED_SIZE
                              : extended_size(get_le64s(bytes + AT_LENGTH));
}

/* Reads the fields after the names of the longer requests. */
static int
parse_times(const uint8_t *bytes, struct query *q)
{
    const int64_t most =
        q->op == QUERY_AROUND ? QUERY_AROUND_MAX : QUERY_ROWS_MAX;

    q->from = get_le64s(bytes + AT_FROM);
    q->to = get_le64s(bytes + AT_TO);
    q->step = get_le64s(bytes + AT_STEP);
    q->length = get_le64s(bytes + AT_ROWS);
    if (q->length < 0)
        return -EINVAL;
    if (q->length > most)
        q->length = most;
    return 0;
}

static int
parse_extended(const uint8_t *bytes, struct query *q)
{
    const int64_t op = get_le64s(bytes + AT_LENGTH);
    int size;

    if (op < QUERY_GET || op > QUERY_VERSION)
        return -EINVAL;
    size = name_size(bytes + AT_KEY);
    if (size < 0)
        return size;
    q->op = (enum query_op)op;
    q->offset = 0;
    q->length = op == QUERY_KEYSPACES ? QUERY_ROWS_MAX : 1;
    q->key = bytes + AT_KEY;
    q->key_size = (uint16_t)size;
    if (op == QUERY_KEYS) {
        size = name_size(bytes + AT_PREFIX);
        if (size < 0)
            return size;
        q->prefix = bytes + AT_PREFIX;
        q->prefix_size = (uint16_t)size;
    }
    return extended_size(op) == QUERY_EXTENDED_SIZE ? 0 : parse_times(bytes, q);
}

int
query_parse(const uint8_t *bytes, struct query *out)
{
    struct query q = {.offset = get_le64s(bytes)};
    int rc;

    if (q.offset == INT64_MIN) {
        rc = parse_extended(bytes, &q);
        if (rc < 0)
            return rc;
    } else {
        q.length = get_le64s(bytes + AT_LENGTH);
        if (q.length < 0)
            return -EINVAL;
        if (q.length > QUERY_ROWS_MAX)
            q.length = QUERY_ROWS_MAX;
    }
    rc = name_size(bytes + AT_KEYSPACE);
    if (rc < 0)
        return rc;
    q.keyspace = bytes + AT_KEYSPACE;
    q.keyspace_size = (uint16_t)rc;
    rc = check_names(&q);
    if (rc < 0)
        return rc;
    *out = q;
    return 0;
}

static int
put_name(uint8_t *at, const uint8_t *name, size_t size)
{
    if (size > QUERY_NAME_SIZE)
        return -ENAMETOOLONG;
    if (size > 0 && memchr(name, 0, size))
        return -EINVAL;
    if (size > 0)
        memcpy(at, name, size);
    memset(at + size, 0, QUERY_NAME_SIZE - size);
    return 0;
}

int
query_put(const struct query *q, uint8_t *bytes)
{
    const int64_t first = -INT64_MAX;
    int rc;

    assert(q->op >= QUERY_RANGE && q->op <= QUERY_VERSION);
    rc = check_names(q);
    if (rc < 0)
        return rc;
    if (q->length < 0)
        return -EINVAL;
    rc = put_name(bytes + AT_KEYSPACE, q->keyspace, q->keyspace_size);
    if (rc < 0)
        return rc;
    if (q->op == QUERY_RANGE) {
        /* INT64_MIN would mark an extended request; both are far below the
         * start and mean the start. */
        put_le64s(bytes, q->offset < first ? first : q->offset);
        put_le64s(bytes + AT_LENGTH, q->length);
        return QUERY_SIZE;
    }
    rc = put_name(bytes + AT_KEY, q->key, q->key_size);
    if (rc < 0)
        return rc;
    put_le64s(bytes, INT64_MIN);
    put_le64s(bytes + AT_LENGTH, q->op);
    if (extended_size(q->op) == QUERY_EXTENDED_SIZE)
        return QUERY_EXTENDED_SIZE;
    put_le64s(bytes + AT_FROM, q->from);
    put_le64s(bytes + AT_TO, q->to);
    put_le64s(bytes + AT_STEP, q->step);
    put_le64s(bytes + AT_ROWS, q->length);
    if (q->op != QUERY_KEYS)
        return QUERY_HISTORY_SIZE;
    rc = put_name(bytes + AT_PREFIX, q->prefix, q->prefix_size);
    return rc < 0 ? rc : QUERY_KEYS_SIZE;
}

void
query_reply_get(const uint8_t bytes[QUERY_REPLY_SIZE], struct query_reply *out)
{
    out->rows = get_le64s(bytes);
    out->size = get_le64s(bytes + REPLY_AT_SIZE);
    out->as_of_ms = get_le64s(bytes + REPLY_AT_AS_OF);
}

int
query_error(int error)
{
    return error == -EINVAL || error == -EHOSTDOWN ? error : -EIO;
}

void
query_reply_put(const struct query_reply *r, uint8_t bytes[QUERY_REPLY_SIZE])
{
    put_le64s(bytes, r->rows);
    put_le64s(bytes + REPLY_AT_SIZE, r->size);
    put_le64s(bytes + REPLY_AT_AS_OF, r->as_of_ms);
}

size_t
query_row_put(uint8_t *at, int64_t count, const uint8_t *key, uint16_t key_size)
{
    put_le64s(at, count);
    put_le16(at + ROW_AT_KEY_SIZE, key_size);
    if (key_size > 0)
        memcpy(at + QUERY_ROW_SIZE, key, key_size);
    return QUERY_ROW_SIZE + (size_t)key_size;
}

/* ---- the past ---------------------------------------------------------- */

#define HISTORY_AT_BEFORE   16
#define HISTORY_AT_FLAGS    32
#define HISTORY_AT_KEY_SIZE 34

void
query_history_get(const uint8_t bytes[QUERY_HISTORY_HEAD],
                  struct query_history_head *out)
{
    *out = (struct query_history_head){.error = get_le64s(bytes),
                                       .since = get_le64s(bytes + 8),
                                       .known = get_le64s(bytes + 16),
                                       .rank = get_le64s(bytes + 24),
                                       .keys = get_le64s(bytes + 32),
                                       .step = get_le64s(bytes + 40)};
}

void
query_history_put(const struct query_history_head *p,
                  uint8_t bytes[QUERY_HISTORY_HEAD])
{
    put_le64s(bytes, p->error);
    put_le64s(bytes + 8, p->since);
    put_le64s(bytes + 16, p->known);
    put_le64s(bytes + 24, p->rank);
    put_le64s(bytes + 32, p->keys);
    put_le64s(bytes + 40, p->step);
}

size_t
query_history_row_put(uint8_t *at, const struct query_history_row *row)
{
    put_le128(at, int128_of(row->sum_high, row->sum_low));
    put_le128(at + HISTORY_AT_BEFORE,
              int128_of(row->before_high, row->before_low));
    put_le16(at + HISTORY_AT_FLAGS, row->flags);
    put_le16(at + HISTORY_AT_KEY_SIZE, row->key_size);
    if (row->key_size > 0)
        memcpy(at + QUERY_HISTORY_ROW_SIZE, row->key, row->key_size);
    return QUERY_HISTORY_ROW_SIZE + (size_t)row->key_size;
}

int
query_history_row_get(const uint8_t *at, size_t left,
                      struct query_history_row *out)
{
    if (left < QUERY_HISTORY_ROW_SIZE)
        return -EPROTO;
    *out = (struct query_history_row){
        .sum_low = get_le64(at),
        .sum_high = get_le64s(at + 8),
        .before_low = get_le64(at + HISTORY_AT_BEFORE),
        .before_high = get_le64s(at + HISTORY_AT_BEFORE + 8),
        .flags = get_le16(at + HISTORY_AT_FLAGS),
        .key_size = get_le16(at + HISTORY_AT_KEY_SIZE),
        .key = at + QUERY_HISTORY_ROW_SIZE};
    if (out->key_size > QUERY_NAME_SIZE ||
        left - QUERY_HISTORY_ROW_SIZE < out->key_size)
        return -EPROTO;
    return QUERY_HISTORY_ROW_SIZE + (int)out->key_size;
}
