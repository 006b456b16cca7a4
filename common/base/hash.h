/* common/base/hash.h - SipHash-1-3, for tables of names that come from the
 * network, and SipHash-2-4-128, for tables that store hashes instead of names.
 *
 * Keyed, so that a client cannot choose names that collide; the key is random
 * per process.  (Aumasson, Bernstein 2012; one and three rounds are what hash
 * tables use.)
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_BASE_HASH_H
#define COUNTD_COMMON_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"

struct hash_key {
    uint64_t k0, k1;
};

struct hash_state {
    uint64_t v0, v1, v2, v3;
};

static inline uint64_t
hash_rotate(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void
hash_round(struct hash_state *s)
{
    s->v0 += s->v1;
    s->v2 += s->v3;
    s->v1 = hash_rotate(s->v1, 13) ^ s->v0;
    s->v3 = hash_rotate(s->v3, 16) ^ s->v2;
    s->v0 = hash_rotate(s->v0, 32);
    s->v2 += s->v1;
    s->v0 += s->v3;
    s->v1 = hash_rotate(s->v1, 17) ^ s->v2;
    s->v3 = hash_rotate(s->v3, 21) ^ s->v0;
    s->v2 = hash_rotate(s->v2, 32);
}

static inline void
hash_rounds(struct hash_state *s, int rounds)
{
    for (int i = 0; i < rounds; i++)
        hash_round(s);
}

static inline void
hash_word(struct hash_state *s, uint64_t word, int rounds)
{
    s->v3 ^= word;
    hash_rounds(s, rounds);
    s->v0 ^= word;
}

static inline struct hash_state
hash_begin(const struct hash_key *key)
{
    return (struct hash_state){
        key->k0 ^ 0x736f6d6570736575, key->k1 ^ 0x646f72616e646f6d,
        key->k0 ^ 0x6c7967656e657261, key->k1 ^ 0x7465646279746573};
}

/* Takes these bytes, which are the last of `all`. */
static inline void
hash_bytes(struct hash_state *s, const uint8_t *bytes, size_t size, size_t all,
           int rounds)
{
    uint64_t last = (uint64_t)all << 56;
    size_t at;

    for (at = 0; at + 8 <= size; at += 8)
        hash_word(s, get_le64(bytes + at), rounds);
    /* The last bytes, by reading some before them again where there are. */
    if (size > 8 && size % 8 > 0)
        last |= get_le64(bytes + size - 8) >> 8 * (8 - size % 8);
    else
        for (; at < size; at++)
            last |= (uint64_t)bytes[at] << 8 * (at % 8);
    hash_word(s, last, rounds);
}

/* The hash of `first` followed by `size` bytes. */
static inline uint64_t
hash_name(const struct hash_key *key, uint64_t first, const uint8_t *bytes,
          size_t size)
{
    struct hash_state s = hash_begin(key);

    hash_word(&s, first, 1);
    hash_bytes(&s, bytes, size, size + 8, 1);
    s.v2 ^= 0xff;
    hash_rounds(&s, 3);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

/* A hash that is as good as the bytes: a table may store it in their place. */
struct hash_wide {
    uint64_t low, high;
};

/* SipHash-2-4-128 of `size` bytes. */
static inline struct hash_wide
hash_bytes_wide(const struct hash_key *key, const uint8_t *bytes, size_t size)
{
    struct hash_state s = hash_begin(key);
    struct hash_wide out;

    s.v1 ^= 0xee;
    hash_bytes(&s, bytes, size, size, 2);
    s.v2 ^= 0xee;
    hash_rounds(&s, 4);
    out.low = s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
    s.v1 ^= 0xdd;
    hash_rounds(&s, 4);
    out.high = s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
    return out;
}

#endif
