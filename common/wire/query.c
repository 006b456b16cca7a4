/* common/wire/query.c - see query.h.
 *
 * The client library links this file, so it needs nothing but bytes.h. */
#include "common/wire/query.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"

/* Wire offsets; the table is in query.h. */
#define AT_LENGTH   8
#define AT_KEYSPACE 16
#define AT_KEY      272

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
    const int key_needed = q->op == QUERY_GET || q->op == QUERY_RANK;

    if (keyspace_needed && q->keyspace_size == 0)
        return -EINVAL;
    if (q->op != QUERY_ABOUT && key_needed != (q->key_size > 0))
        return -EINVAL;
    return 0;
}

size_t
query_size(const uint8_t *bytes, size_t size)
{
    if (size < 8)
        return 0;
    return get_le64s(bytes) == INT64_MIN ? QUERY_EXTENDED_SIZE : QUERY_SIZE;
}

static int
parse_extended(const uint8_t *bytes, struct query *q)
{
    const int64_t op = get_le64s(bytes + AT_LENGTH);
    int size;

    if (op < QUERY_GET || op > QUERY_ABOUT)
        return -EINVAL;
    size = name_size(bytes + AT_KEY);
    if (size < 0)
        return size;
    q->op = (enum query_op)op;
    q->offset = 0;
    q->length = op == QUERY_KEYSPACES ? QUERY_ROWS_MAX : 1;
    q->key = bytes + AT_KEY;
    q->key_size = (uint16_t)size;
    return 0;
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

    assert(q->op >= QUERY_RANGE && q->op <= QUERY_ABOUT);
    rc = check_names(q);
    if (rc < 0)
        return rc;
    if (q->op == QUERY_RANGE && q->length < 0)
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
    return QUERY_EXTENDED_SIZE;
}

void
query_reply_get(const uint8_t bytes[QUERY_REPLY_SIZE], struct query_reply *out)
{
    out->rows = get_le64s(bytes);
    out->size = get_le64s(bytes + REPLY_AT_SIZE);
    out->as_of_ms = get_le64s(bytes + REPLY_AT_AS_OF);
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
