/* tests/fuzz/fuzz_query.c - any bytes as a request; what parses is, put
 * together again, the same bytes. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include "common/base/bytes.h"
#include "common/wire/query.h"

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    uint8_t again[QUERY_SIZE] = {0};
    struct query_range q;

    if (size < QUERY_SIZE || query_parse(bytes, &q) < 0)
        return 0;
    assert(q.length >= 0 && q.length <= QUERY_ROWS_MAX);
    assert(q.keyspace_size > 0 && q.keyspace_size <= QUERY_NAME_SIZE);
    put_le64s(again, q.offset);
    put_le64s(again + 8, q.length);
    memcpy(again + 16, q.keyspace, q.keyspace_size);
    if (get_le64s(bytes + 8) > QUERY_ROWS_MAX)
        put_le64s(again + 8, get_le64s(bytes + 8)); /* was cut */
    assert(memcmp(again, bytes, QUERY_SIZE) == 0);
    return 0;
}
