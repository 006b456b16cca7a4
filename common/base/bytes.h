/* common/base/bytes.h - the only byte-order code: integers to and from bytes.
 *
 * get_X reads and put_X writes an integer at any address, aligned or not.
 * `le` is little-endian (increment messages, logs, keyspace files, ranges),
 * `be` big-endian (live protocols, keys that must sort as bytes).
 */
#ifndef COUNTD_COMMON_BASE_BYTES_H
#define COUNTD_COMMON_BASE_BYTES_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

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

#endif
