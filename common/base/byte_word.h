/* common/base/byte_word.h - eight bytes looked at together.
 *
 * Each function returns a word that is not 0 if a byte of `v` is as asked; its
 * lowest bit that is set is then in the first such byte, which the highest bits
 * of later bytes do not say. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_BASE_BYTE_WORD_H
#define COUNTD_COMMON_BASE_BYTE_WORD_H

#include <stdint.h>

#define BYTE_WORD_ONES  UINT64_C(0x0101010101010101)
#define BYTE_WORD_HIGHS UINT64_C(0x8080808080808080)

/* A byte below `limit`, which is at most 0x80. */
static inline uint64_t
byte_word_below(uint64_t v, uint8_t limit)
{
    return (v - BYTE_WORD_ONES * limit) & ~v & BYTE_WORD_HIGHS;
}

/* A byte that is `c`. */
static inline uint64_t
byte_word_equal(uint64_t v, uint8_t c)
{
    return byte_word_below(v ^ (BYTE_WORD_ONES * c), 1);
}

#endif
