/* tests/unit/test_block.c - the block codec: what goes in comes out, and
 * nothing else is accepted. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include "common/store/tree/block.h"
#include "tests/lib/random.h"

static const struct block_id base_id = {
    .type = BLOCK_BASE, .order = BLOCK_KEYS, .key = 77, .generation = 5};

/* Fills a block with as many random rows as fit, in key order.  Returns its
 * size. */
static size_t
make_block(struct random *r, uint8_t bytes[BLOCK_SIZE])
{
    struct block_writer w;
    uint16_t count;
    size_t size;

    block_writer_init(&w, bytes);
    for (unsigned i = 0;; i++) {
        uint8_t key[BLOCK_KEY_MAX];
        const struct row row = {.count = (int64_t)random_next(r),
                                .key = key,
                                .key_size =
                                    (uint16_t)(2 + random_below(r, 19))};

        memset(key, (int)random_below(r, 255) + 1, sizeof key);
        key[0] = (uint8_t)(i >> 8);
        key[1] = (uint8_t)i;
        if (!block_writer_fits(&w, (size_t)BLOCK_ROW_HEAD + row.key_size))
            break;
        block_writer_add(&w, &row);
    }
    count = w.count;
    size = block_writer_finish(&w);
    block_seal(bytes, size, count, &base_id);
    return size;
}

TEST(a_flipped_bit_is_found)
{
    struct random r = {.state = random_seed("test_block")};
    uint8_t bytes[BLOCK_SIZE];
    const size_t size = make_block(&r, bytes);

    for (size_t bit = 0; bit < size * 8; bit++) {
        bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ 1 << bit % 8);
        assert_rc(block_verify(bytes, size, &base_id), -EBADMSG);
        bytes[bit / 8] = (uint8_t)(bytes[bit / 8] ^ 1 << bit % 8);
    }
    assert_rc(block_verify(bytes, size, &base_id), 0);
}

TEST(a_block_in_the_wrong_place_is_found)
{
    struct random r = {.state = random_seed("test_block")};
    struct block_id id = base_id;
    uint8_t bytes[BLOCK_SIZE];
    const size_t size = make_block(&r, bytes);

    id.key++;
    assert_rc(block_verify(bytes, size, &id), -EBADMSG);
    id = base_id;
    id.order = BLOCK_RANKS;
    assert_rc(block_verify(bytes, size, &id), -EBADMSG);
    id = base_id;
    id.type = BLOCK_BUFFER;
    assert_rc(block_verify(bytes, size, &id), -EBADMSG);
    assert_rc(block_verify(bytes, size - 1, &base_id), -EBADMSG);
    assert_rc(block_verify(bytes, BLOCK_HEAD - 1, &base_id), -EBADMSG);
}

TEST(rows_that_leave_the_block_are_refused)
{
    struct random r = {.state = random_seed("test_block")};
    uint8_t bytes[BLOCK_SIZE], broken[BLOCK_SIZE];
    const size_t size = make_block(&r, bytes);
    const struct block b = block_open(bytes);
    const size_t offset = (size_t)(b.offsets - bytes) + 2;
    const struct {
        const char *what;
        size_t at;
        unsigned value;
    } cases[] = {
        {"a key of no bytes", BLOCK_HEAD + 8, 0},
        {"a key that is too long", BLOCK_HEAD + 8, BLOCK_KEY_MAX + 1},
        {"a sign in a base block", BLOCK_HEAD + 8,
         get_le16(bytes + BLOCK_HEAD + 8) | BLOCK_INSERT},
        {"a count beyond the offsets", 6, 2000},
        {"no rows", 6, 0},
        {"an offset that is off by one", offset, get_le16(bytes + offset) + 1u},
    };

    assert_rc(block_check(bytes, size), 0);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        memcpy(broken, bytes, size);
        put_le16(broken + cases[i].at, (uint16_t)cases[i].value);
        if (block_check(broken, size) != -EBADMSG)
            fail_msg("%s", cases[i].what);
    }
}
