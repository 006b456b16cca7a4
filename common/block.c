/* common/block.c - the block codec: rows, blocks of rows, checksums.  Pure. */
#include "common/block.h"

#include <assert.h>
#include <errno.h>

#include <zlib.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

size_t
row_between(enum block_order order, const struct row *low,
            const struct row *high, uint8_t *at)
{
    struct row s = *high;
    uint16_t same = 0;

    s.flags = 0;
    if (order == BLOCK_KEYS) {
        s.count = 0;
    } else if (low->count != high->count) {
        s.key_size = 0;
        return row_put(at, &s);
    }
    while (same < low->key_size && same < high->key_size &&
           low->key[same] == high->key[same])
        same++;

    /* low < high, so high has a byte where the two part. */
    assert(same < high->key_size);
    s.key_size = (uint16_t)(same + 1);
    return row_put(at, &s);
}

#if defined(__x86_64__)

/* crc32 by carry-less multiplication.  A remainder R of the bytes so far is
 * moved by n bits by multiplying its halves with x^(n+32) and x^(n-32) modulo
 * the polynomial; bit-reflected and shifted by one, as everything here is.
 * What is left at the end is 16 bytes with the same crc, and zlib's turn. */
#define CRC_512_LOW  0x154442bd4 /* x^544 */
#define CRC_512_HIGH 0x1c6e41596 /* x^480 */
#define CRC_128_LOW  0x1751997d0 /* x^160 */
#define CRC_128_HIGH 0x0ccaa009e /* x^96 */
#define CRC_LEAST    64

#define CRC_TARGET __attribute__((target("pclmul")))

CRC_TARGET static inline __m128i
crc_load(const uint8_t *at)
{
    __m128i v;

    memcpy(&v, at, sizeof v);
    return v;
}

CRC_TARGET static inline __m128i
crc_move(__m128i r, __m128i k, __m128i next)
{
    return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(r, k, 0x00),
                                       _mm_clmulepi64_si128(r, k, 0x11)),
                         next);
}

CRC_TARGET static uint32_t
crc_multiply(const uint8_t *p, size_t size)
{
    const __m128i k4 = _mm_set_epi64x(CRC_512_HIGH, CRC_512_LOW);
    const __m128i k1 = _mm_set_epi64x(CRC_128_HIGH, CRC_128_LOW);
    __m128i a = _mm_xor_si128(crc_load(p), _mm_cvtsi32_si128(-1));
    __m128i b = crc_load(p + 16), c = crc_load(p + 32), d = crc_load(p + 48);
    uint8_t rest[16];

    assert(size >= CRC_LEAST);
    for (p += 64, size -= 64; size >= 64; p += 64, size -= 64) {
        a = crc_move(a, k4, crc_load(p));
        b = crc_move(b, k4, crc_load(p + 16));
        c = crc_move(c, k4, crc_load(p + 32));
        d = crc_move(d, k4, crc_load(p + 48));
    }
    a = crc_move(a, k1, b);
    a = crc_move(a, k1, c);
    a = crc_move(a, k1, d);
    for (; size >= 16; p += 16, size -= 16)
        a = crc_move(a, k1, crc_load(p));
    memcpy(rest, &a, sizeof rest);
    return (uint32_t)crc32(crc32(0xffffffff, rest, sizeof rest), p, (uInt)size);
}

uint32_t
block_crc(const uint8_t *bytes, size_t size)
{
    if (size >= CRC_LEAST && __builtin_cpu_supports("pclmul"))
        return crc_multiply(bytes, size);
    return (uint32_t)crc32(0, bytes, (uInt)size);
}

#else

uint32_t
block_crc(const uint8_t *bytes, size_t size)
{
    return (uint32_t)crc32(0, bytes, (uInt)size);
}

#endif

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
    put_le32(bytes, block_crc(bytes + 4, size - 4));
}

int
block_verify(const uint8_t *bytes, size_t size, const struct block_id *id)
{
    if (size < BLOCK_HEAD || size > BLOCK_SIZE)
        return -EBADMSG;
    if (bytes[4] != id->type || bytes[5] != id->order ||
        get_le64(bytes + 8) != id->key || get_le16(bytes + 20) != size)
        return -EBADMSG;
    return get_le32(bytes) == block_crc(bytes + 4, size - 4) ? 0 : -EBADMSG;
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

/* The first row from `low` on whose count is not above `count`, in a block
 * that is sorted by falling count.  No branch depends on what is read: the
 * processor would guess wrong half the time. */
static unsigned
find_count(const struct block *b, int64_t count, unsigned low)
{
    unsigned left = b->count - low;

    while (left > 1) {
        const unsigned half = left / 2;

        low += get_le64s(block_at(b, low + half - 1)) > count ? half : 0;
        left -= half;
    }
    if (left == 1 && get_le64s(block_at(b, low)) > count)
        low++;
    return low;
}

unsigned
block_find(const struct block *b, enum block_order order, const struct row *r,
           unsigned from, bool *found)
{
    unsigned low = from, high = b->count;

    *found = false;
    if (order == BLOCK_RANKS) {
        struct row m;
        int d;

        /* Few rows have the same count: mostly this settles it. */
        low = find_count(b, r->count, low);
        if (low == high)
            return low;
        m = block_row(b, low);
        d = row_compare(order, &m, r);
        *found = d == 0;
        if (d >= 0)
            return low;
        low++;
    }
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
