/* common/wire/query.c - see query.h: query_parse(), query_error(),
 * query_row_put(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/wire/query.h"

#include <errno.h>
#include <string.h>

#include "common/wire/message.h"

/* Wire offsets; the table is in query.h. */
#define AT_LENGTH   8
#define AT_KEYSPACE 16

int
query_parse(const uint8_t bytes[QUERY_SIZE], struct query_range *out)
{
    struct query_range q = {.offset = get_le64s(bytes),
                            .length = get_le64s(bytes + AT_LENGTH),
                            .keyspace = bytes + AT_KEYSPACE,
                            .keyspace_size = message_name_size(
                                bytes + AT_KEYSPACE, QUERY_NAME_SIZE)};

    if (q.length < 0 || q.keyspace_size == 0)
        return -EINVAL;
    if (q.length > QUERY_ROWS_MAX)
        q.length = QUERY_ROWS_MAX;
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
