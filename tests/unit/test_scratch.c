/* tests/unit/test_scratch.c - memory of one request: pieces are apart, small
 * ones share a chunk, and no more is given than it may have. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <string.h>

#include "reader/scratch.h"

#define CHUNK 65536

TEST(a_large_piece_does_not_end_the_chunk_of_small_ones)
{
    struct scratch s;
    uint8_t *first, *large, *second;

    scratch_init(&s, 4 * CHUNK);
    first = scratch_take(&s, 100);
    large = scratch_take(&s, CHUNK + 1);
    memset(large, 0xff, CHUNK + 1);
    second = scratch_take(&s, 100);

    assert_ptr_equal(second, first + 112);
    assert_int_equal(second[0], 0);
    assert_int_equal(s.total, CHUNK + CHUNK + 16);
    scratch_free(&s);
    assert_int_equal(s.total, 0);
}

TEST(a_large_piece_that_is_the_first_is_followed_by_a_chunk)
{
    struct scratch s;
    uint8_t *large, *small;

    scratch_init(&s, 4 * CHUNK);
    large = scratch_take(&s, 2 * CHUNK);
    small = scratch_take(&s, 16);
    memset(large, 0xff, 2 * CHUNK);

    assert_int_equal(small[0], 0);
    assert_int_equal(s.total, 3 * CHUNK);
    scratch_free(&s);
}

TEST(no_more_is_given_than_there_may_be)
{
    struct scratch s;

    scratch_init(&s, 2 * CHUNK);
    assert_null(scratch_take(&s, 2 * CHUNK + 1));
    assert_non_null(scratch_take(&s, CHUNK));
    assert_null(scratch_take(&s, CHUNK + 1)); /* with what was taken */
    assert_non_null(scratch_take(&s, CHUNK));
    assert_null(scratch_take(&s, 1));
    scratch_free(&s);
    assert_non_null(scratch_take(&s, 2 * CHUNK));
    scratch_free(&s);
}

TEST(what_several_share_is_bounded_for_all_of_them)
{
    struct scratch_share share = {.max = 3 * CHUNK};
    struct scratch a, b;

    scratch_init(&a, 4 * CHUNK);
    scratch_init(&b, 4 * CHUNK);
    a.share = b.share = &share;
    assert_non_null(scratch_take(&a, 2 * CHUNK));
    assert_null(scratch_take(&b, 2 * CHUNK));
    assert_true(b.has_no_share);
    assert_non_null(scratch_take(&b, CHUNK));
    assert_false(b.has_no_share);
    scratch_free(&a);
    assert_int_equal(share.total, CHUNK);
    assert_non_null(scratch_take(&b, 2 * CHUNK));
    scratch_free(&b);
    assert_int_equal(share.total, 0);
}
