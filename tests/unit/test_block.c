/* tests/unit/test_block.c - the block codec: what goes in comes out, and
 * nothing else is accepted. */
#include "tests/lib/test.h"

#include <errno.h>
#include <string.h>

#include <zlib.h>

#include "common/base/crc.h"
#include "common/store/tree/block.h"
#include "tests/lib/random.h"

static const struct block_id base_id = {
    .type = BLOCK_BASE, .order = BLOCK_KEYS, .key = 77, .generation = 5};

/* Fills a block with as many random rows as fit, in key order, whose keys begin
 * with the same `same` bytes.  Returns its size. */
static size_t
make_alike(struct random *r, uint8_t bytes[BLOCK_SIZE], enum block_order order,
           unsigned key_max, unsigned same)
{
    const struct block_id id = {
        .type = BLOCK_BASE, .order = (uint8_t)order, .key = 77};
    struct block_writer w;
    uint16_t count;
    size_t size;

    block_writer_init(&w, bytes);
    for (unsigned i = 0;; i++) {
        uint8_t key[BLOCK_KEY_MAX];
        const struct row row = {
            .count = order == BLOCK_KEYS ? (int64_t)random_next(r)
                                         : 1000000 - (int64_t)i,
            .key = key,
            .key_size =
                (uint16_t)(same + 2 + random_below(r, key_max - 1 - same)),
        };

        memset(key, (int)random_below(r, 255) + 1, sizeof key);
        memset(key, 'p', same);
        key[same] = (uint8_t)(i >> 8);
        key[same + 1] = (uint8_t)i;
        if (!block_writer_fits(&w, (size_t)BLOCK_ROW_HEAD + row.key_size))
            break;
        block_writer_add(&w, &row);
    }
    count = w.count;
    size = block_writer_finish(&w);
    block_seal(bytes, size, count, &id);
    return size;
}

static size_t
make_block(struct random *r, uint8_t bytes[BLOCK_SIZE], enum block_order order,
           unsigned key_max)
{
    return make_alike(r, bytes, order, key_max, 0);
}

TEST(a_flipped_bit_is_found)
{
    struct random r = {.state = random_seed("test_block")};
    uint8_t bytes[BLOCK_SIZE];
    const size_t size = make_block(&r, bytes, BLOCK_KEYS, 20);

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
    const size_t size = make_block(&r, bytes, BLOCK_KEYS, 20);

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
    const size_t size = make_block(&r, bytes, BLOCK_KEYS, 20);
    struct block b = block_open(bytes);

    assert_rc(block_check(bytes, size), 0);

    memcpy(broken, bytes, size); /* a key of no bytes */
    put_le16(broken + BLOCK_HEAD + 8, 0);
    assert_rc(block_check(broken, size), -EBADMSG);
    memcpy(broken, bytes, size); /* a key that is too long */
    put_le16(broken + BLOCK_HEAD + 8, BLOCK_KEY_MAX + 1);
    assert_rc(block_check(broken, size), -EBADMSG);
    memcpy(broken, bytes, size); /* a sign in a base block */
    put_le16(broken + BLOCK_HEAD + 8,
             (uint16_t)(get_le16(broken + BLOCK_HEAD + 8) | BLOCK_INSERT));
    assert_rc(block_check(broken, size), -EBADMSG);
    memcpy(broken, bytes, size); /* a count beyond the offsets */
    put_le16(broken + 6, 2000);
    assert_rc(block_check(broken, size), -EBADMSG);
    memcpy(broken, bytes, size); /* no rows */
    put_le16(broken + 6, 0);
    assert_rc(block_check(broken, size), -EBADMSG);
    memcpy(broken, bytes, size); /* a row offset that is off by one */
    put_le16(broken + (b.offsets - bytes) + 2,
             (uint16_t)(get_le16(b.offsets + 2) + 1));
    assert_rc(block_check(broken, size), -EBADMSG);
}
