/* tests/unit/test_query.c - requests and replies as bytes. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/wire/query.h"

static struct query_range
range_of(const char *keyspace, int64_t offset, int64_t length)
{
    return (struct query_range){offset, length, (const uint8_t *)keyspace,
                                (uint16_t)strlen(keyspace)};
}

TEST(a_request_is_these_little_endian_bytes)
{
    const struct query_range q = range_of("words", -2, 100);
    uint8_t want[QUERY_SIZE] = {0xfe, 0xff, 0xff, 0xff, 0xff,
                                0xff, 0xff, 0xff, 100};
    uint8_t bytes[QUERY_SIZE + 1];

    memcpy(want + 16, "words", 5);
    memset(bytes, 0xaa, sizeof bytes);
    assert_rc(query_put(&q, bytes), QUERY_SIZE);
    assert_memory_equal(bytes, want, QUERY_SIZE);
    assert_int_equal(bytes[QUERY_SIZE], 0xaa);
}

TEST(what_is_put_is_parsed_again_and_lengths_are_cut)
{
    char longest[QUERY_NAME_SIZE + 1] = "";
    const struct query_range asks[] = {
        range_of("k", 0, 0),          range_of("k", INT64_MAX, QUERY_ROWS_MAX),
        range_of("k", -INT64_MAX, 1), range_of("k", INT64_MIN, 1),
        range_of("k", 0, INT64_MAX),  range_of(longest, 3, 5)};
    uint8_t bytes[QUERY_SIZE];
    struct query_range got;

    memset(longest, 'x', QUERY_NAME_SIZE);
    longest[QUERY_NAME_SIZE] = 0;
    for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++) {
        struct query_range q = asks[i];

        if (i == 5)
            q.keyspace_size = QUERY_NAME_SIZE;
        assert_rc(query_put(&q, bytes), QUERY_SIZE);
        assert_rc(query_parse(bytes, &got), 0);
        /* Both are far below the start. */
        assert_true(got.offset == (i == 3 ? -INT64_MAX : q.offset));
        assert_true(got.length == (i == 4 ? QUERY_ROWS_MAX : q.length));
        assert_int_equal(got.keyspace_size, q.keyspace_size);
        assert_memory_equal(got.keyspace, q.keyspace, got.keyspace_size);
    }
}

TEST(what_is_no_request_is_neither_put_nor_parsed)
{
    char long_name[QUERY_NAME_SIZE + 2];
    const struct query_range good = range_of("k", 0, 1);
    struct query_range q = good, got;
    uint8_t bytes[QUERY_SIZE];

    memset(long_name, 'x', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = 0;
    q = range_of(long_name, 0, 1);
    assert_rc(query_put(&q, bytes), -ENAMETOOLONG);
    q = range_of("", 0, 1);
    assert_rc(query_put(&q, bytes), -EINVAL);
    q = range_of("a b", 0, 1);
    q.keyspace = (const uint8_t *)"a\0b";
    assert_rc(query_put(&q, bytes), -EINVAL);
    q = range_of("k", 0, -1);
    assert_rc(query_put(&q, bytes), -EINVAL);

    for (size_t i = 0; i < 4; i++) {
        assert_rc(query_put(&good, bytes), QUERY_SIZE);
        if (i == 0)
            put_le64s(bytes, INT64_MIN);
        else if (i == 1)
            put_le64s(bytes + 8, INT64_MIN);
        else
            bytes[i == 2 ? 16 : 271] = i == 2 ? 0 : 1;
        assert_rc(query_parse(bytes, &got), -EINVAL);
    }
    assert_rc(query_put(&good, bytes), QUERY_SIZE);
    for (size_t at = 18; at < QUERY_SIZE; at++) {
        bytes[at] = 1; /* behind the first NUL */
        assert_rc(query_parse(bytes, &got), -EINVAL);
        bytes[at] = 0;
    }
    assert_rc(query_parse(bytes, &got), 0);
}

TEST(replies_and_rows_round_trip)
{
    const struct query_reply reply = {-22, 7, INT64_MAX};
    uint8_t bytes[QUERY_REPLY_SIZE], row[QUERY_ROW_SIZE + 3];
    struct query_reply got;

    query_reply_put(&reply, bytes);
    query_reply_get(bytes, &got);
    assert_int_equal(got.rows, -22);
    assert_int_equal(got.size, 7);
    assert_true(got.as_of_ms == INT64_MAX);

    assert_int_equal(query_row_put(row, -9, (const uint8_t *)"abc", 3), 13);
    assert_int_equal(get_le64s(row), -9);
    assert_int_equal(get_le16(row + 8), 3);
    assert_memory_equal(row + 10, "abc", 3);
}
