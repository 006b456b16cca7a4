/* common/slot.c - the slots of message.h: stamp, checksum, check.
 *
 * Apart from message.c because libcountd needs messages and no checksums.
 *
 * The crc32 (zlib's) of a slot covers, in this order:
 *
 *     uuid of the log | slot number u64 | increment | keyspace | 00 | key |
 *     00 | epoch u64 | received_ms u64 | synced u32
 *
 * with the names up to their first NUL (a name that fills its field gets its
 * 00 too).  uuid, number and epoch are in it so that a slot that was copied,
 * misplaced or left from an earlier fill never counts.  The padding is not
 * summed but compared with zero: summing it would cost more than all else
 * that is done for a message.
 *
 * This runs for every message, in and out, and the sum is the greatest part
 * of it.  zlib's crc32 takes 115 ns for the 80 bytes of a usual slot where the
 * carry-less multiplication of x86 takes 31 (measured side by side on a Xeon
 * at 2.5 GHz), so the latter is used where there is one. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <zlib.h>

#include "common/bytes.h"
#include "common/message.h"

#define HEAD_SIZE  (MESSAGE_UUID_SIZE + 8u + 8u) /* uuid, number, increment */
#define STAMP_SIZE (8u + 8u + 4u)
#define WORD       16u /* what is folded at a time */
#define BYTES_MAX  (HEAD_SIZE + 2 * (MESSAGE_NAME_MAX + 1) + STAMP_SIZE)

#if defined __x86_64__ && defined __GNUC__
#include <immintrin.h>

/* Whether the machine has the instruction; a look at a word that the
 * compiler's runtime fills once. */
static bool
can_fold(void)
{
    return __builtin_cpu_supports("pclmul") != 0;
}

/* What is left of the polynomial `bytes` (a positive multiple of WORD) modulo
 * that of crc32: folded by 16 bytes, then reduced to 8, to 4, and to the
 * remainder (Barrett), as described in "Fast CRC Computation for Generic
 * Polynomials Using PCLMULQDQ Instruction" (Gopal and others, 2009).  The
 * constants are powers of x modulo the polynomial, bits reflected. */
__attribute__((target("pclmul,sse2"))) static uint32_t
fold(const uint8_t *bytes, size_t size)
{
    const __m128i by128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    const __m128i by32 = _mm_set_epi64x(0, 0x163cd6124);
    const __m128i barrett = _mm_set_epi64x(0x1f7011641, 0x1db710641);
    const __m128i low = _mm_set_epi32(0, -1, 0, -1);
    __m128i sum, next, other;
    size_t at;

    memcpy(&sum, bytes, WORD);
    for (at = WORD; at < size; at += WORD) {
        memcpy(&next, bytes + at, WORD);
        other = _mm_clmulepi64_si128(sum, by128, 0x11);
        sum = _mm_clmulepi64_si128(sum, by128, 0x00);
        sum = _mm_xor_si128(_mm_xor_si128(sum, other), next);
    }
    other = _mm_clmulepi64_si128(sum, by128, 0x10);
    sum = _mm_xor_si128(_mm_srli_si128(sum, 8), other);
    other = _mm_srli_si128(sum, 4);
    sum = _mm_clmulepi64_si128(_mm_and_si128(sum, low), by32, 0x00);
    sum = _mm_xor_si128(sum, other);
    other = _mm_clmulepi64_si128(_mm_and_si128(sum, low), barrett, 0x10);
    other = _mm_clmulepi64_si128(_mm_and_si128(other, low), barrett, 0x00);
    sum = _mm_xor_si128(sum, other);
    return (uint32_t)_mm_cvtsi128_si32(_mm_srli_si128(sum, 4));
}
#else
static bool
can_fold(void)
{
    return false;
}

static uint32_t
fold(const uint8_t *bytes, size_t size)
{
    (void)bytes, (void)size; /* can_fold() said no */
    return 0;
}
#endif

/* Copies a name of a slot by whole words.  They may end up to 15 bytes behind
 * it: in the source that is still the slot, whose stamp and crc32 are 24, and
 * in the target what is put next. */
static uint8_t *
put_name(uint8_t *at, const uint8_t *name, size_t size)
{
    size_t i;

    for (i = 0; i < size; i += WORD)
        memcpy(at + i, name + i, WORD);
    at[size] = 0;
    return at + size + 1;
}

/* Takes the sizes of the names from `m` and all bytes from the slot. */
static uint32_t
slot_crc(const struct layout *l, const uint8_t *slot, const struct message *m,
         const uint8_t *uuid, uint64_t number)
{
    const size_t size =
        HEAD_SIZE + m->keyspace_size + 1 + m->key_size + 1 + STAMP_SIZE;
    const size_t pad = -size % WORD;
    const bool folding = can_fold();
    uint8_t bytes[WORD + BYTES_MAX + WORD], *at = bytes + pad;

    /* A crc32 starts by inverting the first 32 bits it meets. */
    memset(bytes, 0, WORD);
    put_le64(at, get_le64(uuid) ^ (folding ? 0xffffffff : 0));
    memcpy(at + 8, uuid + 8, 8);
    put_le64(at + MESSAGE_UUID_SIZE, number);
    memcpy(at + MESSAGE_UUID_SIZE + 8, slot, 8);
    at = put_name(at + HEAD_SIZE, slot + 8, m->keyspace_size);
    at = put_name(at, slot + l->key_at, m->key_size);
    memcpy(at, slot + l->message_size, STAMP_SIZE);
#ifdef COUNTD_MUTANT_NO_EPOCH_IN_CRC
    memset(at, 0, 8);
#endif

    /* Zeros in front of the bytes that count change nothing, which saves all
     * care for a last word that is not whole. */
    return folding ? ~fold(bytes, pad + size)
                   : (uint32_t)crc32_z(0, bytes + pad, size);
}

void
slot_put(const struct layout *l, uint8_t *slot, const struct message *m,
         const uint8_t uuid[MESSAGE_UUID_SIZE], uint64_t number,
         const struct slot_stamp *stamp)
{
    assert(m->keyspace_size <= l->keyspace_size && m->key_size <= l->key_size);

    put_le64(slot + l->message_size, stamp->epoch);
    put_le64(slot + l->received_at, stamp->received_ms);
    put_le32(slot + l->synced_at, stamp->synced);
    put_le32(slot + l->crc_at, slot_crc(l, slot, m, uuid, number));
}

int
slot_parse(const struct layout *l, const uint8_t *slot,
           const uint8_t uuid[MESSAGE_UUID_SIZE], uint64_t number,
           uint64_t epoch, struct message *out, struct slot_stamp *stamp)
{
    struct slot_stamp s;
    struct message m;
    int rc;

    s.epoch = get_le64(slot + l->message_size);
#ifdef COUNTD_MUTANT_NO_EPOCH_IN_CRC
    (void)epoch; /* the planted bug: a slot of any fill is taken */
#else
    if (s.epoch != epoch)
        return -ENOENT;
#endif
    s.received_ms = get_le64(slot + l->received_at);
    s.synced = get_le32(slot + l->synced_at);
    rc = message_parse(l, slot, &m);
    if (rc < 0)
        return rc;
    if (slot_crc(l, slot, &m, uuid, number) != get_le32(slot + l->crc_at))
        return -EBADMSG;
    *out = m;
    *stamp = s;
    return 0;
}
