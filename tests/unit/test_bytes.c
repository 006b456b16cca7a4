/* tests/unit/test_bytes.c - the order of byte strings, against memcmp() and a
 * byte at a time. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/bytes.h"

#define SIZE_MAX_TRIED 40

static int
sign_of(int order)
{
    return (order > 0) - (order < 0);
}

static int
compare_slowly(const uint8_t *a, size_t a_size, const uint8_t *b, size_t b_size)
{
    const int order = memcmp(a, b, a_size < b_size ? a_size : b_size);

    return order != 0 ? order : (a_size > b_size) - (a_size < b_size);
}

/* Compares memory of just these sizes, so that a byte read behind a string is a
 * fault under a sanitizer. */
static void
expect_same_order(const uint8_t *a, size_t a_size, const uint8_t *b,
                  size_t b_size)
{
    uint8_t *x = malloc(a_size), *y = malloc(b_size);

    assert_true((x || a_size == 0) && (y || b_size == 0));
    if (a_size > 0)
        memcpy(x, a, a_size);
    if (b_size > 0)
        memcpy(y, b, b_size);
    assert_int_equal(sign_of(bytes_compare(x, a_size, y, b_size)),
                     sign_of(compare_slowly(a, a_size, b, b_size)));
    free(x);
    free(y);
}

TEST(strings_of_all_sizes_are_in_the_order_of_their_bytes)
{
    uint8_t a[SIZE_MAX_TRIED], b[SIZE_MAX_TRIED];

    memset(a, 0x7f, sizeof a);
    for (size_t a_size = 0; a_size <= SIZE_MAX_TRIED; a_size++) {
        for (size_t b_size = 0; b_size <= SIZE_MAX_TRIED; b_size++) {
            memset(b, 0x7f, sizeof b);
            expect_same_order(a, a_size, b, b_size);
            for (size_t i = 0; i < b_size; i++) {
                static const uint8_t others[] = {0, 0x7e, 0x80, 0xff};

                for (size_t k = 0; k < sizeof others; k++) {
                    b[i] = others[k];
                    expect_same_order(a, a_size, b, b_size);
                    expect_same_order(b, b_size, a, a_size);
                }
                b[i] = 0x7f;
            }
        }
    }
}

TEST(a_word_has_the_bytes_of_its_place_and_then_zeros)
{
    uint8_t bytes[24], word[8];

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i + 1);
    for (size_t size = 0; size <= sizeof bytes; size++) {
        for (size_t from = 0; from <= size; from += 8) {
            const size_t rest = size - from;
            uint8_t wanted[8] = {0};

            memcpy(wanted, bytes + from, rest < 8 ? rest : 8);
            put_be64(word, bytes_word(bytes, size, from));
            assert_memory_equal(word, wanted, 8);
        }
    }
}

TEST(the_common_beginning_is_counted)
{
    uint8_t a[SIZE_MAX_TRIED], b[SIZE_MAX_TRIED];

    for (size_t i = 0; i < sizeof a; i++)
        a[i] = (uint8_t)(i + 1);
    for (size_t a_size = 0; a_size <= sizeof a; a_size++) {
        for (size_t b_size = 0; b_size <= sizeof b; b_size++) {
            const size_t most = a_size < b_size ? a_size : b_size;

            for (size_t same = 0; same <= most; same++) {
                memcpy(b, a, sizeof b);
                if (same < most)
                    b[same] ^= 0x80;
                assert_int_equal(bytes_common_size(a, a_size, b, b_size), same);
            }
        }
    }
}
