/* common/store/tree/block.c - the block codec: rows, blocks of rows, checksums.
 * Pure. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/store/tree/block.h"

#include <assert.h>
#include <errno.h>

#include "common/base/crc.h"

size_t
row_between(enum block_order order, const struct row *low,
            const struct row *high, uint8_t *at)
{
    struct row s = *high;
    size_t same;

    s.flags = 0;
    if (order == BLOCK_KEYS) {
        s.count = 0;
    } else if (low->count != high->count) {
        s.key_size = 0;
        return row_put(at, &s);
    }
    same =
        bytes_common_size(low->key, low->key_size, high->key, high->key_size);

    /* low < high, so high has a byte where the two part. */
    assert(same < high->key_size);
    s.key_size = (uint16_t)(same + 1);
    return row_put(at, &s);
}

void
block_seal(uint8_t *bytes, size_t size, uint16_t count,
           const struct block_id *id)
{
    assert(size >= BLOCK_HEAD && size <= BLOCK_SIZE);
    bytes[4] = id->type;
    bytes[5] = id->order;
    put_le16(bytes + 6, count);
    put_le64(bytes + 8, id->key);
    put_le32(bytes + 16, id->generation);
    put_le16(bytes + 20, (uint16_t)size);
    put_le16(bytes + 22, id->more);
    put_le32(bytes, crc_of(bytes + 4, size - 4));
}

int
block_verify(const uint8_t *bytes, size_t size, const struct block_id *id)
{
    if (size < BLOCK_HEAD || size > BLOCK_SIZE)
        return -EBADMSG;
    if (bytes[4] != id->type || bytes[5] != id->order ||
        get_le64(bytes + 8) != id->key || get_le16(bytes + 20) != size)
        return -EBADMSG;
    return get_le32(bytes) == crc_of(bytes + 4, size - 4) ? 0 : -EBADMSG;
}

/* Whether a row's flags may stand in this type of block and order. */
static bool
flags_suit(uint8_t type, uint8_t order, unsigned flags)
{
    if (order == BLOCK_RANKS && (flags & BLOCK_SATURATED) != 0)
        return false;
    if (type == BLOCK_BASE)
        return (flags & BLOCK_SIGN) == 0;
    if (order == BLOCK_RANKS && (flags & BLOCK_SIGN) == BLOCK_UPDATE)
        return false;
    return (flags & BLOCK_SIGN) != 0;
}

int
block_check(const uint8_t *bytes, size_t size)
{
    const size_t count = block_count(bytes);
    const uint8_t type = bytes[4], order = bytes[5];
    size_t end, at = BLOCK_HEAD;

    assert(size >= BLOCK_HEAD && size <= BLOCK_SIZE);
    if (count == 0 || BLOCK_HEAD + 2 * count > size)
        return -EBADMSG;
    end = size - 2 * count;
    for (size_t i = 0; i < count; i++) {
        unsigned field, key_size;

        if (get_le16(bytes + end + 2 * i) != at || at + BLOCK_ROW_HEAD > end)
            return -EBADMSG;
        field = get_le16(bytes + at + 8);
        key_size = field & BLOCK_KEY_MASK;
        if (key_size < 1 || key_size > BLOCK_KEY_MAX ||
            !flags_suit(type, order, field & ~BLOCK_KEY_MASK))
            return -EBADMSG;
        at += BLOCK_ROW_HEAD + key_size;
    }
    return at == end ? 0 : -EBADMSG;
}

unsigned
block_find(const struct block *b, enum block_order order, const struct row *r,
           unsigned from, bool *found)
{
    unsigned low = from, high = b->count;

    *found = false;
    while (low < high) {
        const unsigned middle = (low + high) / 2;
        const struct row m = block_row(b, middle);
        const int d = row_compare(order, &m, r);

        if (d == 0) {
            *found = true;
            return middle;
        }
        if (d < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void
block_writer_init(struct block_writer *w, uint8_t *bytes)
{
    w->bytes = bytes;
    w->at = BLOCK_HEAD;
    w->count = 0;
}

unsigned
block_writer_copy(struct block_writer *w, const struct block *b, unsigned from,
                  unsigned to)
{
    const uint8_t *start = block_at(b, from);
    const unsigned base = w->at;
    unsigned i = from, at = w->at;

    while (i < to) {
        const unsigned end = (unsigned)(block_at(b, i + 1) - start) + base;

        if (end + 2 * (w->count + 1u) > BLOCK_SIZE)
            break;
        w->offsets[w->count++] = (uint16_t)at;
        at = end;
        i++;
    }
    memcpy(w->bytes + base, start, at - base);
    w->at = (uint16_t)at;
    return i - from;
}

size_t
block_writer_finish(struct block_writer *w)
{
    size_t at = w->at;

    for (unsigned i = 0; i < w->count; i++, at += 2)
        put_le16(w->bytes + at, w->offsets[i]);
    assert(at <= BLOCK_SIZE);
    return at;
}
