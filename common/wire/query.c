/* common/wire/query.c - see query.h: query_parse(), query_put(), then answers:
 * query_error(), query_reply_put(), query_row_put().
 *
 * The client library links this file, so it needs nothing else. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/wire/query.h"

#include <errno.h>
#include <string.h>

/* Wire offsets; the table is in query.h. */
#define AT_LENGTH   8
#define AT_KEYSPACE 16

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

int
query_parse(const uint8_t bytes[QUERY_SIZE], struct query_range *out)
{
    struct query_range q = {.offset = get_le64s(bytes),
                            .length = get_le64s(bytes + AT_LENGTH),
                            .keyspace = bytes + AT_KEYSPACE};
    const int size = name_size(bytes + AT_KEYSPACE);

    if (q.offset == INT64_MIN || q.length < 0 || size <= 0)
        return -EINVAL;
    if (q.length > QUERY_ROWS_MAX)
        q.length = QUERY_ROWS_MAX;
    q.keyspace_size = (uint16_t)size;
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
query_put(const struct query_range *q, uint8_t bytes[QUERY_SIZE])
{
    const int64_t first = -INT64_MAX;
    int rc;

    if (q->keyspace_size == 0 || q->length < 0)
        return -EINVAL;
    rc = put_name(bytes + AT_KEYSPACE, q->keyspace, q->keyspace_size);
    if (rc < 0)
        return rc;
    /* INT64_MIN is not a valid offset; both are far below the start and mean it. */
    put_le64s(bytes, q->offset < first ? first : q->offset);
    put_le64s(bytes + AT_LENGTH, q->length);
    return QUERY_SIZE;
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
