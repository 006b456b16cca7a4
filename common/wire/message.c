/* common/wire/message.c - see message.h; its slots are in slot.c.
 *
 * layout_init(), message_parse(), message_put() and message_is_time().  Parsing is hot: fields of
 * the default sizes are read 32 bytes at a time where the processor can. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/wire/message.h"

#include <errno.h>
#include <string.h>

#include "common/base/bytes.h"

#if defined __x86_64__ && defined __GNUC__
#include <immintrin.h>
#endif

int
layout_init(struct layout *l, unsigned keyspace_size, unsigned key_size)
{
    if (keyspace_size < 1 || keyspace_size > MESSAGE_NAME_MAX)
        return -ERANGE;
    if (key_size < 1 || key_size > MESSAGE_NAME_MAX)
        return -ERANGE;

    l->keyspace_size = (uint16_t)keyspace_size;
    l->key_size = (uint16_t)key_size;
    l->key_at = 8 + keyspace_size;
    l->message_size = l->key_at + key_size;
    l->received_at = l->message_size + 8;
    l->synced_at = l->received_at + 8;
    l->crc_at = l->synced_at + 4;
    l->slot_size = l->crc_at + 4;
    return 0;
}

/* Nearly every byte of a message is padding, so this runs over some 480 bytes
 * of each.  libc's memcmp uses the widest loads of the machine it runs on,
 * which no loop compiled for every machine can. */
bool
message_is_zero(const uint8_t *at, size_t size)
{
    static const uint8_t zeros[MESSAGE_NAME_MAX];

    for (; size > sizeof zeros; at += sizeof zeros, size -= sizeof zeros)
        if (memcmp(at, zeros, sizeof zeros) != 0)
            return false;
    return memcmp(at, zeros, size) == 0;
}

/* Bytes of the names in their fields up to the first NUL; 0 when a name is
 * empty or something follows its NUL: the stream is not aligned to messages
 * then. */
struct sizes {
    uint16_t keyspace;
    uint16_t key;
};

static uint16_t
name_size(const uint8_t *field, uint16_t field_size)
{
    const uint8_t *nul = memchr(field, 0, field_size);
    size_t size;

    if (!nul)
        return field_size;
    size = (size_t)(nul - field);
    if (!message_is_zero(nul, field_size - size))
        return 0;
    return (uint16_t)size;
}

static struct sizes
plain_sizes(const struct layout *l, const uint8_t *bytes)
{
    return (struct sizes){name_size(bytes + 8, l->keyspace_size),
                          name_size(bytes + l->key_at, l->key_size)};
}

static inline int
check_sizes(const struct layout *l, const uint8_t *bytes, struct sizes s,
            struct message *out)
{
    if (s.keyspace == 0 || s.key == 0)
        return -EBADMSG;
    out->increment = get_le64s(bytes);
    out->keyspace = bytes + 8;
    out->key = bytes + l->key_at;
    out->keyspace_size = s.keyspace;
    out->key_size = s.key;
    out->minute = 0;
    return 0;
}

static int
parse_plain(const struct layout *l, const uint8_t *bytes, struct message *out)
{
    return check_sizes(l, bytes, plain_sizes(l, bytes), out);
}

#if defined __x86_64__ && defined __GNUC__
#define WIDE ((size_t)32) /* bytes looked at together */
#define AVX2 __attribute__((target("avx2")))

AVX2 static inline __m256i
word_at(const uint8_t *at)
{
    return _mm256_loadu_si256((const __m256i *)(const void *)at);
}

/* The same of a field of whole words: nearly all of a message is padding, and
 * to check it is most of the work.  The bytes that must be zero are added to
 * *rest. */
AVX2 static inline uint16_t
wide_size(const uint8_t *field, size_t field_size, __m256i *rest)
{
    const __m256i zero = _mm256_setzero_si256();
    uint32_t zeros, size;
    size_t at = 0;

    do {
        zeros = (uint32_t)_mm256_movemask_epi8(
            _mm256_cmpeq_epi8(word_at(field + at), zero));
        at += WIDE;
    } while (zeros == 0 && at < field_size);
    if (zeros == 0)
        return (uint16_t)field_size;
    size = (uint32_t)__builtin_ctz(zeros);
    if (~zeros >> size != 0)
        return 0;
    size += (uint32_t)(at - WIDE);
    for (; at < field_size; at += WIDE)
        *rest = _mm256_or_si256(*rest, word_at(field + at));
    return (uint16_t)size;
}

/* The same of a field as large as can be, without loops where the name ends in
 * the first word. */
AVX2 static inline uint16_t
usual_size(const uint8_t *field, __m256i *rest)
{
    const __m256i zero = _mm256_setzero_si256();
    uint32_t zeros, size;
    __m256i even, odd;

    zeros =
        (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(word_at(field), zero));
    if (zeros == 0)
        return wide_size(field, MESSAGE_NAME_MAX, rest);
    odd = _mm256_or_si256(word_at(field + WIDE), word_at(field + 3 * WIDE));
    even =
        _mm256_or_si256(word_at(field + 2 * WIDE), word_at(field + 4 * WIDE));
    odd = _mm256_or_si256(odd, word_at(field + 5 * WIDE));
    even = _mm256_or_si256(even, word_at(field + 6 * WIDE));
    odd = _mm256_or_si256(odd, word_at(field + 7 * WIDE));
    *rest = _mm256_or_si256(*rest, _mm256_or_si256(odd, even));
    size = (uint32_t)__builtin_ctz(zeros);
    return ~zeros >> size != 0 ? 0 : (uint16_t)size;
}

AVX2 static struct sizes
wide_sizes(const struct layout *l, const uint8_t *bytes)
{
    __m256i rest = _mm256_setzero_si256();
    struct sizes s;

    if (l->message_size == MESSAGE_SIZE_MAX) {
        s.keyspace = usual_size(bytes + 8, &rest);
        s.key = usual_size(bytes + 8 + MESSAGE_NAME_MAX, &rest);
    } else {
        s.keyspace = wide_size(bytes + 8, l->keyspace_size, &rest);
        s.key = wide_size(bytes + l->key_at, l->key_size, &rest);
    }
    if (!_mm256_testz_si256(rest, rest))
        s.key = 0;
    return s;
}

AVX2 static int
parse_wide(const struct layout *l, const uint8_t *bytes, struct message *out)
{
    return check_sizes(l, bytes, wide_sizes(l, bytes), out);
}

#endif

int
message_parse(const struct layout *l, const uint8_t *bytes, struct message *out)
{
#if defined __x86_64__ && defined __GNUC__
    if ((l->keyspace_size | l->key_size) % WIDE == 0 &&
        __builtin_cpu_supports("avx2"))
        return parse_wide(l, bytes, out);
#endif
    return parse_plain(l, bytes, out);
}

static int
check_name(const uint8_t *name, size_t size, size_t field_size)
{
    if (size == 0)
        return -EINVAL;
    if (size > field_size)
        return -ENAMETOOLONG;
    return memchr(name, 0, size) ? -EINVAL : 0;
}

int
message_check(const struct layout *l, const struct message *m)
{
    const int rc = check_name(m->keyspace, m->keyspace_size, l->keyspace_size);

    return rc < 0 ? rc : check_name(m->key, m->key_size, l->key_size);
}

int
message_put(const struct layout *l, const struct message *m, uint8_t *bytes)
{
    const int rc = message_check(l, m);

    if (rc < 0)
        return rc;

    memset(bytes, 0, l->message_size);
    put_le64s(bytes, m->increment);
    memcpy(bytes + 8, m->keyspace, m->keyspace_size);
    memcpy(bytes + l->key_at, m->key, m->key_size);
    return 0;
}

bool
message_is_time(const struct layout *l, const uint8_t *bytes, uint32_t *minute)
{
    if (get_le32(bytes + 4) != MESSAGE_TIME_TAG ||
        !message_is_zero(bytes + 8, l->message_size - 8))
        return false;
    *minute = get_le32(bytes);
    return true;
}

void
message_put_time(const struct layout *l, uint32_t minute, uint8_t *bytes)
{
    memset(bytes, 0, l->message_size);
    put_le32(bytes, minute);
    put_le32(bytes + 4, MESSAGE_TIME_TAG);
}
