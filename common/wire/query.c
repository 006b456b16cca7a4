/* common/wire/query.c - see query.h: query_parse(), query_error(),
 * query_row_put(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/wire/query.h"

#include <errno.h>
#include <string.h>

/* Wire offsets; the table is in query.h. */
#define AT_LENGTH   8
#define AT_KEYSPACE 16

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

int
query_error(int error)
{
    return error == -EINVAL || error == -EHOSTDOWN ? error : -EIO;
}

size_t
query_row_put(uint8_t *at, int64_t count, const uint8_t *key, uint16_t key_size)
{
    put_le64s(at, count);
    put_le16(at + 8, key_size);
    if (key_size > 0)
        memcpy(at + QUERY_ROW_SIZE, key, key_size);
    return QUERY_ROW_SIZE + (size_t)key_size;
}
