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

TEST(the_checksum_is_the_crc32_of_zlib)
{
    uint8_t bytes[700];
    struct random r = {.state = random_seed("test_block")};

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)random_next(&r);

    for (size_t at = 0; at < 17; at++)
        for (size_t size = 0; size <= 600; size++)
            assert_int_equal(crc_of(bytes + at, size),
                             crc32(0, bytes + at, (uInt)size));
}

TEST(rows_come_out_as_they_went_in)
{
    struct random r = {.state = random_seed("test_block")};
    uint8_t bytes[BLOCK_SIZE];

    for (unsigned key_max = 2; key_max <= BLOCK_KEY_MAX; key_max += 127) {
        const uint64_t seed = r.state;
        const size_t size = make_block(&r, bytes, BLOCK_KEYS, key_max);
        struct random again = {.state = seed};
        struct block b;

        assert_rc(block_verify(bytes, size, &base_id), 0);
        assert_rc(block_check(bytes, size), 0);
        b = block_open(bytes);
        assert_true(b.count > 0);
        assert_true(size <= BLOCK_SIZE &&
                    size + BLOCK_ROW_HEAD + key_max + 2 >= BLOCK_SIZE);
        for (unsigned i = 0; i < b.count; i++) {
            const struct row row = block_row(&b, i);
            const int64_t count = (int64_t)random_next(&again);
            const unsigned key_size =
                2 + (unsigned)random_below(&again, key_max - 1);

            (void)random_next(&again); /* the byte of the key */
            assert_true(row.count == count);
            assert_int_equal(row.key_size, key_size);
            assert_int_equal(row.key[0] << 8 | row.key[1], i);
        }
    }
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

TEST(finding_agrees_with_looking_at_every_row)
{
    struct random r = {.state = random_seed("test_block")};
    uint8_t bytes[BLOCK_SIZE];

    for (unsigned round = 0; round < 40; round++) {
        const enum block_order order = round % 2 ? BLOCK_KEYS : BLOCK_RANKS;
        struct block b;

        (void)make_alike(&r, bytes, order, 30, round / 2);
        b = block_open(bytes);
        for (unsigned i = 0; i < 200; i++) {
            const unsigned at = (unsigned)random_below(&r, b.count);
            struct row want = block_row(&b, at);
            unsigned plain = 0;
            bool found;

            if (random_chance(&r, 50))
                want.key_size--; /* just before that row */
            while (plain < b.count) {
                const struct row row = block_row(&b, plain);

                if (row_compare(order, &row, &want) >= 0)
                    break;
                plain++;
            }
            assert_int_equal(block_find(&b, order, &want, 0, &found), plain);
            assert_int_equal(found,
                             plain == at &&
                                 want.key_size == block_row(&b, at).key_size);
        }
    }
}

TEST(a_separator_lies_between_its_neighbours)
{
    struct random r = {.state = random_seed("test_block")};

    for (unsigned i = 0; i < 20000; i++) {
        const enum block_order order = i % 2 ? BLOCK_KEYS : BLOCK_RANKS;
        uint8_t a[8], b[8], bytes[BLOCK_ROW_MAX];
        struct row low = {.key = a}, high = {.key = b}, s;
        size_t size;
        int d;

        for (unsigned at = 0; at < sizeof a; at++) {
            a[at] = (uint8_t)(1 + random_below(&r, 2));
            b[at] = (uint8_t)(1 + random_below(&r, 2));
        }
        low.key_size = (uint16_t)(1 + random_below(&r, sizeof a));
        high.key_size = (uint16_t)(1 + random_below(&r, sizeof b));
        low.count = (int64_t)random_below(&r, 3);
        high.count = (int64_t)random_below(&r, 3);
        d = row_compare(order, &low, &high);
        if (d == 0)
            continue;
        if (d > 0) {
            const struct row swap = low;

            low = high;
            high = swap;
        }

        size = row_between(order, &low, &high, bytes);

        assert_int_equal(size, row_size(bytes));
        s = row_get(bytes);
        assert_true(row_compare(order, &low, &s) < 0);
        assert_true(row_compare(order, &s, &high) <= 0);
    }
}

TEST(copied_rows_are_the_same_rows)
{
    struct random r = {.state = random_seed("test_block")};
    uint8_t from[BLOCK_SIZE], to[BLOCK_SIZE];
    const struct block_id id = base_id;
    struct block_writer w;
    struct block b, copy;
    unsigned first, n;
    size_t size;

    (void)make_block(&r, from, BLOCK_KEYS, 40);
    b = block_open(from);
    first = b.count / 3;
    block_writer_init(&w, to);
    n = block_writer_copy(&w, &b, first, b.count);
    assert_int_equal(n, b.count - first);
    n += block_writer_copy(&w, &b, 0, b.count);
    assert_true(n < first + b.count); /* it was full before the end */
    size = block_writer_finish(&w);
    block_seal(to, size, (uint16_t)n, &id);

    assert_rc(block_check(to, size), 0);
    copy = block_open(to);
    for (unsigned i = 0; i < n; i++) {
        const unsigned at =
            i < b.count - first ? first + i : i - (b.count - first);
        const struct row x = block_row(&copy, i), y = block_row(&b, at);

        assert_true(x.count == y.count);
        assert_int_equal(row_compare_keys(&x, &y), 0);
    }
}
