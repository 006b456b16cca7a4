/* tests/unit/test_query.c - requests and replies as bytes. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/wire/query.h"

static struct query
range_of(const char *keyspace, int64_t offset, int64_t length)
{
    return (struct query){.op = QUERY_RANGE,
                          .offset = offset,
                          .length = length,
                          .keyspace = (const uint8_t *)keyspace,
                          .keyspace_size = (uint16_t)strlen(keyspace)};
}

static struct query
past_of(enum query_op op, const char *key)
{
    return (struct query){.op = op,
                          .from = 1763596800,
                          .to = 1763600400,
                          .step = 60,
                          .length = 7,
                          .keyspace = (const uint8_t *)"words",
                          .key = (const uint8_t *)key,
                          .keyspace_size = 5,
                          .key_size = (uint16_t)strlen(key)};
}

static struct query
extended_of(enum query_op op, const char *keyspace, const char *key)
{
    return (struct query){.op = op,
                          .keyspace = (const uint8_t *)keyspace,
                          .key = (const uint8_t *)key,
                          .keyspace_size = (uint16_t)strlen(keyspace),
                          .key_size = (uint16_t)strlen(key)};
}

/* Puts a request, and reads it again. */
static void
put_and_parse(const struct query *q, int size, uint8_t bytes[QUERY_SIZE_MAX],
              struct query *got)
{
    assert_rc(query_put(q, bytes), size);
    assert_rc(query_parse(bytes, got), 0);
}

TEST(requests_are_these_little_endian_bytes)
{
    const struct query all[] = {range_of("words", -2, 100),
                                extended_of(QUERY_RANK, "words", "the"),
                                past_of(QUERY_HISTORY, "the")};
    static const int sizes[] = {QUERY_SIZE, QUERY_EXTENDED_SIZE,
                                QUERY_HISTORY_SIZE};
    uint8_t want[3][QUERY_SIZE_MAX] = {{0}}, bytes[QUERY_SIZE_MAX];

    memset(want[0], 0xff, 8);
    want[0][0] = 0xfe;
    want[0][8] = 100;
    want[1][7] = want[2][7] = 0x80;
    want[1][8] = 2;
    want[2][8] = 7;
    put_le64s(want[2] + 528, 1763596800);
    put_le64s(want[2] + 536, 1763600400);
    want[2][544] = 60;
    want[2][552] = 7;
    for (size_t i = 0; i < 3; i++) {
        memcpy(want[i] + 16, "words", 5);
        if (i > 0)
            memcpy(want[i] + 272, "the", 3);
        memset(bytes, 0xaa, sizeof bytes);
        assert_rc(query_put(&all[i], bytes), sizes[i]);
        assert_memory_equal(bytes, want[i], (size_t)sizes[i]);
        assert_int_equal(bytes[sizes[i]], 0xaa);
        assert_int_equal(query_size(bytes, 16), sizes[i]);
        /* It is not whole, whatever it is. */
        assert_true(query_size(bytes, 15) > 15);
    }
}

TEST(a_request_for_keys_is_816_bytes)
{
    struct query q = past_of(QUERY_KEYS, "the"), got;
    uint8_t bytes[QUERY_SIZE_MAX];

    q.prefix = (const uint8_t *)"th";
    q.prefix_size = 2;
    memset(bytes, 0xaa, sizeof bytes);

    assert_rc(query_put(&q, bytes), QUERY_KEYS_SIZE);

    assert_memory_equal(bytes + 272, "the\0", 4);
    assert_int_equal(get_le64s(bytes + 552), 7);
    assert_memory_equal(bytes + 560, "th\0", 3);
    assert_int_equal(bytes[815], 0);
    assert_int_equal(query_size(bytes, 16), QUERY_KEYS_SIZE);
    assert_rc(query_parse(bytes, &got), 0);
    assert_int_equal(got.op, QUERY_KEYS);
    assert_int_equal(got.key_size, 3);
    assert_int_equal(got.prefix_size, 2);
    assert_memory_equal(got.prefix, "th", 2);
    assert_int_equal(got.length, 7);
    bytes[700] = 1; /* behind the first NUL of the prefix */
    assert_rc(query_parse(bytes, &got), -EINVAL);

    q = past_of(QUERY_KEYS, "");
    q.length = INT64_MAX;
    put_and_parse(&q, QUERY_KEYS_SIZE, bytes, &got);
    assert_int_equal(got.key_size, 0);
    assert_int_equal(got.prefix_size, 0);
    assert_int_equal(got.length, QUERY_ROWS_MAX);
}

TEST(times_come_through_and_lengths_are_cut)
{
    struct query q = range_of("k", 0, INT64_MAX), got;
    uint8_t bytes[QUERY_SIZE_MAX];

    put_and_parse(&q, QUERY_SIZE, bytes, &got);
    assert_int_equal(got.length, QUERY_ROWS_MAX);

    q = past_of(QUERY_PERIOD_TOP, "");
    q.length = INT64_MAX;
    q.from = INT64_MIN;
    put_and_parse(&q, QUERY_HISTORY_SIZE, bytes, &got);
    assert_int_equal(got.op, QUERY_PERIOD_TOP);
    assert_true(got.from == INT64_MIN);
    assert_int_equal(got.to, q.to);
    assert_int_equal(got.step, q.step);
    assert_int_equal(got.length, QUERY_ROWS_MAX);

    q = past_of(QUERY_AROUND, "key");
    q.length = INT64_MAX;
    put_and_parse(&q, QUERY_HISTORY_SIZE, bytes, &got);
    assert_int_equal(got.length, QUERY_ROWS_MAX - 1);
}

TEST(rows_of_the_past_round_trip)
{
    const struct query_history_head facts = {-22,       1, INT64_MAX,
                                             INT64_MIN, 5, 60};
    const struct query_history_row row = {-3,
                                          7,
                                          INT64_MIN,
                                          UINT64_MAX,
                                          QUERY_HISTORY_ANY,
                                          3,
                                          (const uint8_t *)"abc"};
    uint8_t head[QUERY_HISTORY_HEAD], bytes[QUERY_HISTORY_ROW_SIZE + 3];
    struct query_history_head told;
    struct query_history_row got;

    query_history_put(&facts, head);
    query_history_get(head, &told);
    assert_memory_equal(&told, &facts, sizeof facts);

    assert_int_equal(query_history_row_put(bytes, &row), sizeof bytes);
    assert_int_equal(get_le64(bytes), 7);
    assert_int_equal(get_le64s(bytes + 8), -3);
    assert_rc(query_history_row_get(bytes, sizeof bytes, &got), sizeof bytes);
    assert_int_equal(got.sum_high, -3);
    assert_int_equal(got.sum_low, 7);
    assert_true(got.before_high == INT64_MIN && got.before_low == UINT64_MAX);
    assert_int_equal(got.flags, QUERY_HISTORY_ANY);
    assert_int_equal(got.key_size, 3);
    assert_memory_equal(got.key, "abc", 3);
    for (size_t size = 0; size < sizeof bytes; size++)
        assert_rc(query_history_row_get(bytes, size, &got), -EPROTO);
}

TEST(what_is_put_is_parsed_again)
{
    const struct query asks[] = {
        range_of("k", 0, 0),
        range_of("k", INT64_MAX, 4096),
        range_of("k", -INT64_MAX, 1),
        extended_of(QUERY_GET, "k", "key"),
        extended_of(QUERY_RANK, "k", "key"),
        extended_of(QUERY_KEYSPACES, "", ""),
        extended_of(QUERY_KEYSPACES, "after", ""),
        extended_of(QUERY_TOTAL, "k", ""),
        extended_of(QUERY_NOW, "k", ""),
        extended_of(QUERY_NOW, "", ""),
        extended_of(QUERY_ABOUT, "k", ""),
        extended_of(QUERY_ABOUT, "k", "key"),
        extended_of(QUERY_VERSION, "k", ""),
    };
    uint8_t bytes[QUERY_SIZE_MAX];
    struct query got;
    int size;

    for (size_t i = 0; i < sizeof asks / sizeof asks[0]; i++) {
        size = query_put(&asks[i], bytes);
        assert_int_equal(query_size(bytes, 8), size);
        assert_rc(query_parse(bytes, &got), 0);

        assert_int_equal(got.op, asks[i].op);
        assert_int_equal(got.keyspace_size, asks[i].keyspace_size);
        assert_int_equal(got.key_size, asks[i].key_size);
        assert_memory_equal(got.keyspace, asks[i].keyspace, got.keyspace_size);
        if (got.key_size)
            assert_memory_equal(got.key, asks[i].key, got.key_size);
        if (got.op == QUERY_RANGE) {
            assert_true(got.offset == asks[i].offset);
            assert_true(got.length == asks[i].length);
        }
    }
}

TEST(fewer_than_eight_bytes_do_not_tell_the_size)
{
    uint8_t bytes[8] = {0, 0, 0, 0, 0, 0, 0, 0x80};

    for (size_t size = 0; size < 8; size++)
        assert_int_equal(query_size(bytes, size), 0);

    assert_int_equal(query_size(bytes, 8), QUERY_EXTENDED_SIZE);
    bytes[0] = 1;
    assert_int_equal(query_size(bytes, 8), QUERY_SIZE);
}

TEST(a_negative_length_is_malformed)
{
    static const int64_t bad[] = {-1, INT64_MIN};
    struct query all[] = {range_of("k", 0, 1), past_of(QUERY_AROUND, "key"),
                          past_of(QUERY_KEYS, "")};
    static const size_t at[] = {8, 552, 552};
    uint8_t bytes[QUERY_SIZE_MAX];
    struct query got;

    for (size_t i = 0; i < 6; i++) {
        struct query *q = &all[i / 2];

        q->length = 1;
        assert_true(query_put(q, bytes) > 0);
        put_le64s(bytes + at[i / 2], bad[i % 2]);
        assert_rc(query_parse(bytes, &got), -EINVAL);
        q->length = bad[i % 2];
        assert_rc(query_put(q, bytes), -EINVAL);
    }
}

TEST(names_of_256_bytes_need_no_nul)
{
    char name[QUERY_NAME_SIZE + 1];
    uint8_t bytes[QUERY_SIZE_MAX];
    struct query q, got;

    memset(name, 'x', QUERY_NAME_SIZE);
    name[QUERY_NAME_SIZE] = 0;
    q = extended_of(QUERY_GET, name, name);

    put_and_parse(&q, QUERY_EXTENDED_SIZE, bytes, &got);
    assert_int_equal(got.keyspace_size, QUERY_NAME_SIZE);
    assert_int_equal(got.key_size, QUERY_NAME_SIZE);
}

TEST(names_that_do_not_fit_are_not_put)
{
    char name[QUERY_NAME_SIZE + 2];
    uint8_t bytes[QUERY_SIZE_MAX];
    struct query q;

    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = 0;
    q = range_of(name, 0, 1);
    assert_rc(query_put(&q, bytes), -ENAMETOOLONG);
    q = extended_of(QUERY_GET, "k", name);
    assert_rc(query_put(&q, bytes), -ENAMETOOLONG);

    q = range_of("a b", 0, 1);
    name[1] = 0;
    q.keyspace = (const uint8_t *)name;
    assert_rc(query_put(&q, bytes), -EINVAL);
}

TEST(each_op_wants_its_names)
{
    const struct query bad[] = {
        range_of("", 0, 1),
        extended_of(QUERY_GET, "", "key"),
        extended_of(QUERY_GET, "k", ""),
        extended_of(QUERY_RANK, "k", ""),
        extended_of(QUERY_KEYSPACES, "", "key"),
        extended_of(QUERY_TOTAL, "", ""),
        extended_of(QUERY_TOTAL, "k", "key"),
        extended_of(QUERY_NOW, "", "key"),
        extended_of(QUERY_ABOUT, "", "key"),
        extended_of(QUERY_HISTORY, "", "key"),
        extended_of(QUERY_PERIOD_TOP, "", ""),
        extended_of(QUERY_PERIOD_TOP, "k", "key"),
        extended_of(QUERY_AROUND, "k", ""),
        extended_of(QUERY_KEYS, "", "key"),
        extended_of(QUERY_VERSION, "", ""),
        extended_of(QUERY_VERSION, "k", "key"),
    };
    uint8_t bytes[QUERY_SIZE_MAX];
    struct query got;

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_rc(query_put(&bad[i], bytes), -EINVAL);

        memset(bytes, 0, sizeof bytes);
        if (bad[i].op != QUERY_RANGE) {
            put_le64s(bytes, INT64_MIN);
            put_le64s(bytes + 8, bad[i].op);
        }
        memcpy(bytes + 16, bad[i].keyspace, bad[i].keyspace_size);
        if (bad[i].key)
            memcpy(bytes + 272, bad[i].key, bad[i].key_size);
        assert_rc(query_parse(bytes, &got), -EINVAL);
    }
}

TEST(unknown_ops_are_malformed)
{
    const int64_t ops[] = {INT64_MIN, -1, 0, 13, INT64_MAX, (1LL << 32) + 1};
    const struct query q = extended_of(QUERY_GET, "k", "key");
    uint8_t bytes[QUERY_SIZE_MAX];
    struct query got;

    assert_rc(query_put(&q, bytes), QUERY_EXTENDED_SIZE);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        put_le64s(bytes + 8, ops[i]);
        assert_rc(query_parse(bytes, &got), -EINVAL);
    }
}

TEST(any_byte_after_a_names_first_nul_is_malformed)
{
    const struct query q = extended_of(QUERY_GET, "k", "key");
    uint8_t bytes[QUERY_SIZE_MAX];
    struct query got;

    assert_rc(query_put(&q, bytes), QUERY_EXTENDED_SIZE);
    for (size_t at = 18; at < QUERY_EXTENDED_SIZE; at++) {
        if (at >= 272 && at <= 275)
            continue; /* the key itself, and the byte behind it */
        bytes[at] = 1;
        assert_rc(query_parse(bytes, &got), -EINVAL);
        bytes[at] = 0;
    }
    assert_rc(query_parse(bytes, &got), 0);
}

TEST(the_smallest_offset_is_put_as_the_start)
{
    const struct query q = range_of("k", INT64_MIN, 1);
    uint8_t bytes[QUERY_SIZE_MAX];
    struct query got;

    put_and_parse(&q, QUERY_SIZE, bytes, &got);
    assert_int_equal(got.op, QUERY_RANGE);
    assert_true(got.offset == -INT64_MAX);
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
