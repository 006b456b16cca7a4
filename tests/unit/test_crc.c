/* tests/unit/test_crc.c - crc_of() beside zlib's crc32. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/base/crc.h"

#include <zlib.h>

#include "tests/lib/test.h"

static void
fill_bytes(uint8_t *bytes, size_t size, uint32_t seed)
{
    for (size_t i = 0; i < size; i++) {
        seed = seed * 1664525 + 1013904223;
        bytes[i] = (uint8_t)(seed >> 24);
    }
}

TEST(any_size_at_any_address_gets_the_crc32_of_zlib)
{
    static uint8_t bytes[4200];

    fill_bytes(bytes, sizeof bytes, 1);

    for (size_t size = 0; size <= 4080; size += size < 1100 ? 1 : 149)
        for (size_t at = 0; at < 17; at++)
            assert_int_equal(crc_of(bytes + at, size),
                             crc32(0, bytes + at, (uInt)size));
}

TEST(zeros_and_ones_are_no_exception)
{
    static uint8_t zeros[4080], ones[4080];

    for (size_t size = 0; size < sizeof ones; size++)
        ones[size] = 0xff;

    for (size_t size = 0; size <= sizeof ones; size += 7) {
        assert_int_equal(crc_of(zeros, size), crc32(0, zeros, (uInt)size));
        assert_int_equal(crc_of(ones, size), crc32(0, ones, (uInt)size));
    }
}
