/* tests/unit/test_pool.c - bytes that wait in the chunks of a pool. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <string.h>

#include "common/net/pool.h"

#define CHUNKS 16

TEST(a_chain_gives_back_its_bytes_and_chunks)
{
    enum { TOTAL = 5 * POOL_CHUNK_SIZE + 77 };
    static uint8_t bytes[TOTAL], got[TOTAL];
    struct iovec pieces[8];
    struct chain a = {0}, b = {0};
    struct pool p;
    size_t at = 0, n, step;

    assert_rc(pool_init(&p, CHUNKS * (size_t)POOL_CHUNK_SIZE), 0);
    for (size_t i = 0; i < TOTAL; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 1000);
    for (size_t i = 0; i < TOTAL; i += n) {
        n = TOTAL - i < 99 ? TOTAL - i : 99;
        assert_int_equal(chain_lacks(&a, n),
                         pool_chunks(i + n) - pool_chunks(i));
        chain_push(&p, &a, bytes + i, n);
        chain_push(&p, &b, bytes, 1);
    }
    assert_int_equal(p.free_count, CHUNKS - 6 - 1);
    assert_int_equal(chain_copy(&p, &a, got), TOTAL);
    assert_memory_equal(got, bytes, TOTAL);

    memset(got, 0, sizeof got);
    while (a.size > 0) {
        n = chain_pieces(&p, &a, a.size, pieces, 2);
        assert_true(n >= 1);
        step = pieces[0].iov_len < 500 ? pieces[0].iov_len : 500;
        memcpy(got + at, pieces[0].iov_base, step);
        at += step;
        chain_drop(&p, &a, step);
    }
    assert_int_equal(at, TOTAL);
    assert_memory_equal(got, bytes, TOTAL);
    assert_int_equal(p.free_count, CHUNKS - 1);
    chain_drop(&p, &b, b.size);
    assert_int_equal(p.free_count, CHUNKS);
    pool_fini(&p);
}

TEST(bytes_of_a_chain_are_overwritten_where_they_are)
{
    enum { TOTAL = 4 * POOL_CHUNK_SIZE, DROPPED = 333 };
    static const size_t places[] = {0,
                                    5,
                                    POOL_CHUNK_SIZE - DROPPED - 6,
                                    POOL_CHUNK_SIZE - DROPPED + 7,
                                    3 * POOL_CHUNK_SIZE - DROPPED,
                                    TOTAL - DROPPED - 13};
    static uint8_t bytes[TOTAL], got[TOTAL];
    struct chain_cursor cursor = {0};
    struct chain a = {0}, b = {0};
    struct pool p;

    assert_rc(pool_init(&p, CHUNKS * (size_t)POOL_CHUNK_SIZE), 0);
    for (size_t i = 0; i < TOTAL; i += 64) {
        chain_push(&p, &a, bytes + i, 64);
        chain_push(&p, &b, bytes + i, 64);
    }
    chain_drop(&p, &a, DROPPED);

    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        chain_write_at(&p, &a, &cursor, places[i], "thirteenbytes", 13);
        memcpy(bytes + DROPPED + places[i], "thirteenbytes", 13);
    }

    assert_int_equal(chain_copy(&p, &a, got), TOTAL - DROPPED);
    assert_memory_equal(got, bytes + DROPPED, TOTAL - DROPPED);
    memset(bytes, 0, sizeof bytes);
    assert_int_equal(chain_copy(&p, &b, got), TOTAL);
    assert_memory_equal(got, bytes, TOTAL);
    pool_fini(&p);
}
