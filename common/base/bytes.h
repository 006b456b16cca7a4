/* common/base/bytes.h - the only byte-order code: integers to and from bytes;
 * the order of byte strings; integers of 128 bits.
 *
 * get_X reads and put_X writes an integer at any address, aligned or not.
 * `le` is little-endian (increment messages, logs, keyspace files, ranges),
 * `be` big-endian (live protocols, keys that must sort as bytes).
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_BASE_BYTES_H
#define COUNTD_COMMON_BASE_BYTES_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "common/base/decimal_put.h"

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;

static inline bool
bytes_equal(const void *a, size_t a_size, const void *b, size_t b_size)
{
    return a_size == b_size && memcmp(a, b, a_size) == 0;
}

/* Whether `a` begins with `prefix`, which may be NULL if it has no bytes. */
static inline bool
bytes_begin(const void *a, size_t a_size, const void *prefix,
            size_t prefix_size)
{
    return prefix_size == 0 ||
           (a_size >= prefix_size && memcmp(a, prefix, prefix_size) == 0);
}

/* Copies bytes; returns the place after them. */
static inline uint8_t *
bytes_append(uint8_t *to, const void *from, size_t size)
{
    memcpy(to, from, size);
    return to + size;
}

static inline uint16_t
get_le16(const void *at)
{
    uint16_t v;

    memcpy(&v, at, sizeof v);
    return le16toh(v);
}

static inline uint32_t
get_le32(const void *at)
{
    uint32_t v;

    memcpy(&v, at, sizeof v);
    return le32toh(v);
}

static inline uint64_t
get_le64(const void *at)
{
    uint64_t v;

    memcpy(&v, at, sizeof v);
    return le64toh(v);
}

static inline int64_t
get_le64s(const void *at)
{
    return (int64_t)get_le64(at);
}

static inline void
put_le16(void *at, uint16_t v)
{
    v = htole16(v);
    memcpy(at, &v, sizeof v);
}

static inline void
put_le32(void *at, uint32_t v)
{
    v = htole32(v);
    memcpy(at, &v, sizeof v);
}

static inline void
put_le64(void *at, uint64_t v)
{
    v = htole64(v);
    memcpy(at, &v, sizeof v);
}

static inline void
put_le64s(void *at, int64_t v)
{
    put_le64(at, (uint64_t)v);
}

static inline uint16_t
get_be16(const void *at)
{
    uint16_t v;

    memcpy(&v, at, sizeof v);
    return be16toh(v);
}

static inline uint32_t
get_be32(const void *at)
{
    uint32_t v;

    memcpy(&v, at, sizeof v);
    return be32toh(v);
}

static inline uint64_t
get_be64(const void *at)
{
    uint64_t v;

    memcpy(&v, at, sizeof v);
    return be64toh(v);
}

static inline void
put_be16(void *at, uint16_t v)
{
    v = htobe16(v);
    memcpy(at, &v, sizeof v);
}

static inline void
put_be32(void *at, uint32_t v)
{
    v = htobe32(v);
    memcpy(at, &v, sizeof v);
}

static inline void
put_be64(void *at, uint64_t v)
{
    v = htobe64(v);
    memcpy(at, &v, sizeof v);
}

/* Writes the digits of n, without a NUL; returns how many. */
static inline size_t
put_decimal(void *to, uint64_t n)
{
    return (size_t)(decimal_put(to, n) - (uint8_t *)to);
}

/* high * 2^64 + low. */
static inline int128
int128_of(int64_t high, uint64_t low)
{
    return (int128)((uint128)(uint64_t)high << 64 | low);
}

static inline int128
get_le128(const void *at)
{
    return int128_of((int64_t)get_le64((const uint8_t *)at + 8), get_le64(at));
}

static inline void
put_le128(void *at, int128 v)
{
    put_le64(at, (uint64_t)v);
    put_le64((uint8_t *)at + 8, (uint64_t)((uint128)v >> 64));
}

/* Writes a varint: 7 bits a byte, the low ones first, the high bit set in all
 * but the last.  Returns the place behind it, 10 bytes on at most. */
static inline uint8_t *
varint_put(uint8_t *to, uint64_t n)
{
    for (; n > 127; n >>= 7)
        *to++ = (uint8_t)(n | 128);
    *to++ = (uint8_t)n;
    return to;
}

/* Reads the varint at `*at`, which moves behind it.  False: it is cut short by
 * `end`, or too long. */
static inline bool
varint_get(const uint8_t **at, const uint8_t *end, uint64_t *n)
{
    *n = 0;
    for (unsigned shift = 0; *at < end && shift < 64; shift += 7) {
        const uint8_t byte = *(*at)++;

        *n |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

/* Up to 8 bytes of a string, from byte `from` on, as a number; zeros follow the
 * last one.  `from` is a multiple of 8, and not behind the end. */
static inline uint64_t
bytes_word(const uint8_t *at, size_t size, size_t from)
{
    const size_t rest = size - from;

    if (rest >= 8)
        return get_be64(at + from);
    if (rest == 0)
        return 0;
    if (size >= 8) /* bytes before them are shifted out */
        return get_be64(at + size - 8) << 8 * (8 - rest);
    if (size >= 4) /* the two may overlap */
        return ((uint64_t)get_be32(at) << 32) |
               ((uint64_t)get_be32(at + size - 4) << 8 * (8 - size));
    return (uint64_t)at[0] << 56 |
           (uint64_t)at[size / 2] << (56 - 8 * (size / 2)) |
           (uint64_t)at[size - 1] << (64 - 8 * size);
}

/* Below, equal to or above 0: `a` stands before, is, or stands after `b`.  A
 * string stands before every longer one that begins with it.
 *
 * Searches compare names, most of which have at most 16 bytes: these are two
 * numbers each, and no call. */
static inline int
bytes_compare(const void *a, size_t a_size, const void *b, size_t b_size)
{
    const size_t size = a_size < b_size ? a_size : b_size;
    uint64_t x = bytes_word(a, a_size, 0), y = bytes_word(b, b_size, 0);
    int order;

    if (x == y && size > 8) {
        x = bytes_word(a, a_size, 8);
        y = bytes_word(b, b_size, 8);
    }
    if (x != y)
        return x < y ? -1 : 1;
    if (size > 16) {
        order =
            memcmp((const uint8_t *)a + 16, (const uint8_t *)b + 16, size - 16);
        if (order != 0)
            return order;
    }
    return (a_size > b_size) - (a_size < b_size);
}

/* How many bytes both begin with. */
static inline size_t
bytes_common_size(const uint8_t *a, size_t a_size, const uint8_t *b,
                  size_t b_size)
{
    const size_t most = a_size < b_size ? a_size : b_size;
    size_t n = 0;

    for (; n + 8 <= most; n += 8) {
        const uint64_t differ = get_le64(a + n) ^ get_le64(b + n);

        if (differ != 0)
            return n + (size_t)__builtin_ctzll(differ) / 8;
    }
    if (n < most && most >= 8) { /* some bytes that are equal once more */
        const uint64_t differ = get_le64(a + most - 8) ^ get_le64(b + most - 8);

        return differ == 0 ? most
                           : most - 8 + (size_t)__builtin_ctzll(differ) / 8;
    }
    while (n < most && a[n] == b[n])
        n++;
    return n;
}

#endif
