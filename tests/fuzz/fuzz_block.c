/* tests/fuzz/fuzz_block.c - any bytes as a block: what passes the checks can
 * be read in every way without leaving it, and is written again the same. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz.h"

#include "common/base/crc.h"
#include "common/store/tree/block.h"

/* Writes the rows again; what comes out is what went in. */
static void
write_again(const struct block *b)
{
    static uint8_t bytes[BLOCK_SIZE];
    static struct block_writer w;

    block_writer_init(&w, bytes);
    assert(block_writer_copy(&w, b, 0, b->count) == b->count);
    assert(block_writer_finish(&w) == b->size);
    assert(memcmp(bytes + BLOCK_HEAD, b->bytes + BLOCK_HEAD,
                  b->size - (size_t)BLOCK_HEAD) == 0);
    block_writer_init(&w, bytes);
    for (unsigned i = 0; i < b->count; i++) {
        const struct row r = block_row(b, i);

        assert(block_writer_fits(&w, (size_t)BLOCK_ROW_HEAD + r.key_size));
        block_writer_add(&w, &r);
    }
    assert(block_writer_finish(&w) == b->size);
    assert(memcmp(bytes + BLOCK_HEAD, b->bytes + BLOCK_HEAD,
                  b->size - (size_t)BLOCK_HEAD) == 0);
}

static void
read_rows(const struct block *b, enum block_order order)
{
    bool found;

    for (unsigned i = 0; i < b->count; i++) {
        const struct row r = block_row(b, i);
        uint8_t separator[BLOCK_ROW_MAX];

        assert(r.key + r.key_size <= b->bytes + b->size);
        assert(block_find(b, order, &r, 0, &found) <= b->count);
        if (i > 0) {
            const struct row last = block_row(b, i - 1);

            if (row_compare(order, &last, &r) < 0)
                assert(row_between(order, &last, &r, separator) <=
                       sizeof separator);
        }
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct block_id id;
    struct block b;
    uint8_t *copy;

    if (size < BLOCK_HEAD || size > BLOCK_SIZE)
        return 0;

    /* The checksum is made right, so that what is behind it gets tested. */
    copy = fuzz_copy(bytes, size);
    put_le16(copy + 20, (uint16_t)size);
    put_le32(copy, crc_of(copy + 4, size - 4));
    id = (struct block_id){
        .type = copy[4], .order = copy[5], .key = get_le64(copy + 8)};
    assert(block_verify(copy, size, &id) == 0);
    if ((id.type == BLOCK_BASE || id.type == BLOCK_BUFFER) &&
        (id.order == BLOCK_KEYS || id.order == BLOCK_RANKS) &&
        block_check(copy, size) == 0) {
        b = block_open(copy);
        read_rows(&b, (enum block_order)id.order);
        write_again(&b);
    }
    copy[size - 1] ^= 1;
    assert(block_verify(copy, size, &id) < 0);
    free(copy);
    return 0;
}
