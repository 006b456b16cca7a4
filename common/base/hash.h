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
hash_word(struct hash_state *s, uint64_t word)
{
    s->v3 ^= word;
    hash_round(s);
    s->v0 ^= word;
}

/* The hash of `first` followed by `size` bytes. */
static inline uint64_t
hash_name(const struct hash_key *key, uint64_t first, const uint8_t *bytes,
          size_t size)
{
    struct hash_state s = {
        key->k0 ^ 0x736f6d6570736575, key->k1 ^ 0x646f72616e646f6d,
        key->k0 ^ 0x6c7967656e657261, key->k1 ^ 0x7465646279746573};
    uint64_t last = (uint64_t)(size + 8) << 56;
    size_t at;

    hash_word(&s, first);
    for (at = 0; at + 8 <= size; at += 8)
        hash_word(&s, get_le64(bytes + at));
    /* The last bytes, by reading some before them again where there are. */
    if (size > 8 && size % 8 > 0)
        last |= get_le64(bytes + size - 8) >> 8 * (8 - size % 8);
    else
        for (; at < size; at++)
            last |= (uint64_t)bytes[at] << 8 * (at % 8);
    hash_word(&s, last);
    s.v2 ^= 0xff;
    hash_round(&s);
    hash_round(&s);
    hash_round(&s);
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
    struct hash_state s = {
        key->k0 ^ 0x736f6d6570736575, key->k1 ^ 0x646f72616e646f6d ^ 0xee,
        key->k0 ^ 0x6c7967656e657261, key->k1 ^ 0x7465646279746573};
    uint64_t word = (uint64_t)size << 56;
    struct hash_wide out;
    size_t at;

    for (at = 0; at + 8 <= size; at += 8) {
        s.v3 ^= get_le64(bytes + at);
        hash_round(&s);
        hash_round(&s);
        s.v0 ^= get_le64(bytes + at);
    }
    for (; at < size; at++)
        word |= (uint64_t)bytes[at] << 8 * (at % 8);
    s.v3 ^= word;
    hash_round(&s);
    hash_round(&s);
    s.v0 ^= word;
    s.v2 ^= 0xee;
    for (int i = 0; i < 4; i++)
        hash_round(&s);
    out.low = s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
    s.v1 ^= 0xdd;
    for (int i = 0; i < 4; i++)
        hash_round(&s);
    out.high = s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
    return out;
}

#endif
