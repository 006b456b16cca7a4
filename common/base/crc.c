/* common/base/crc.c - see crc.h.
 *
 * Where the machine has carry-less multiplication (x86 since 2010) a remainder
 * of the bytes so far is moved behind the next ones by two multiplications, 16
 * bytes at a time and in four lanes where there are enough; at the end it is
 * reduced to 8 bytes, to 4, and to the crc (Barrett), as described in "Fast CRC
 * Computation for Generic Polynomials Using PCLMULQDQ Instruction" (Gopal and
 * others, 2009).  The constants are powers of x modulo the polynomial, bits
 * reflected.  Elsewhere zlib does it.
 *
 * Side by side on a busy Xeon at 2.5 GHz, medians of three: 65 bytes, as in a
 * usual slot, 61 ns and zlib 383; 4076, a block, 1.8 us and zlib 6.0. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/base/crc.h"

#include <string.h>
#include <zlib.h>

#if defined __x86_64__ && defined __GNUC__
#include <immintrin.h>

#define WORD  ((size_t)16)
#define LEAST (2 * WORD) /* below, zlib is as good */
#define LANES ((size_t)4)
#define FOLD  __attribute__((target("pclmul,ssse3")))

FOLD static inline __m128i
load(const uint8_t *at)
{
    __m128i v;

    memcpy(&v, at, sizeof v);
    return v;
}

/* `sum` moved behind `next`, which follows it at the distance `by` is for. */
FOLD static inline __m128i
move(__m128i sum, __m128i by, __m128i next)
{
    return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(sum, by, 0x00),
                                       _mm_clmulepi64_si128(sum, by, 0x11)),
                         next);
}

/* The remainder of 16 bytes modulo the polynomial. */
FOLD static inline uint32_t
reduce(__m128i sum)
{
    const __m128i by128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    const __m128i by32 = _mm_set_epi64x(0, 0x163cd6124);
    const __m128i barrett = _mm_set_epi64x(0x1f7011641, 0x1db710641);
    const __m128i low = _mm_set_epi32(0, -1, 0, -1);
    __m128i other;

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

/* Shuffles that move a word to its end or its start, zeros behind it. */
#define Z4 0x80, 0x80, 0x80, 0x80
static const uint8_t slide[3 * WORD] = {Z4, Z4, Z4, Z4, 0,  1,  2,  3,
                                        4,  5,  6,  7,  8,  9,  10, 11,
                                        12, 13, 14, 15, Z4, Z4, Z4, Z4};

FOLD static uint32_t
multiply(const uint8_t *at, size_t size)
{
    const __m128i by512 = _mm_set_epi64x(0x1c6e41596, 0x154442bd4);
    const __m128i by128 = _mm_set_epi64x(0x0ccaa009e, 0x1751997d0);
    const size_t rest = size % WORD;
    const __m128i ones = _mm_cvtsi32_si128(-1);
    __m128i sum, next, lanes[LANES];
    size_t i;

    /* Zeros in front change nothing, so the bytes that make no whole word are
     * taken first and behind zeros.  The crc's own start, all ones, meets the
     * first bytes that count, be they in the first word or the second. */
    sum = _mm_shuffle_epi8(_mm_xor_si128(load(at), ones), load(slide + rest));
    next = _mm_shuffle_epi8(ones, load(slide + WORD + rest));
    sum = move(sum, by128, _mm_xor_si128(load(at + rest), next));
    at += rest + WORD;
    size -= rest + WORD;

    if (size >= 2 * LANES * WORD) {
        lanes[0] = move(sum, by128, load(at));
        for (i = 1; i < LANES; i++)
            lanes[i] = load(at + i * WORD);
        at += LANES * WORD;
        size -= LANES * WORD;
        for (; size >= LANES * WORD; at += LANES * WORD, size -= LANES * WORD)
            for (i = 0; i < LANES; i++)
                lanes[i] = move(lanes[i], by512, load(at + i * WORD));
        sum = lanes[0];
        for (i = 1; i < LANES; i++)
            sum = move(sum, by128, lanes[i]);
    }
    for (; size > 0; at += WORD, size -= WORD)
        sum = move(sum, by128, load(at));
    return ~reduce(sum);
}

#endif

uint32_t
crc_of(const uint8_t *bytes, size_t size)
{
#ifdef LEAST
    if (size >= LEAST && __builtin_cpu_supports("pclmul") &&
        __builtin_cpu_supports("ssse3"))
        return multiply(bytes, size);
#endif
    return (uint32_t)crc32_z(0, bytes, size);
}
