/* common/wire/query.h - requests for ranges, and their replies.
 *
 * A range request, all little-endian:
 *
 *   at    size  field
 *      0     8  offset    int64; negative counts from the end
 *      8     8  length    int64; above QUERY_ROWS_MAX is cut to it
 *     16   256  keyspace  NUL-padded, not NUL-terminated when it is full
 *    272        end
 *
 * A reply:
 *
 *      0     8  rows      int64; below 0 an error, and the connection closes:
 *                         -EINVAL (-22) no such request, -EIO (-5) the keyspace
 *                         is damaged, -EHOSTDOWN (-112) the server that
 *                         holds it does not answer: soon again
 *      8     8  size      int64, bytes of rows that follow
 *     16     8  as_of_ms  int64, Unix time
 *     24  size  rows: count int64 | key_size uint16 | key
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_WIRE_QUERY_H
#define COUNTD_COMMON_WIRE_QUERY_H

#include "common/base/bytes.h"

#define QUERY_NAME_SIZE  256
#define QUERY_SIZE       272
#define QUERY_REPLY_SIZE 24
#define QUERY_ROW_SIZE   10 /* without the key */
#define QUERY_ROWS_MAX   4096

struct query_range {
    int64_t offset;
    int64_t length; /* parsed: cut already; 0 to QUERY_ROWS_MAX */
    const uint8_t *keyspace;
    uint16_t keyspace_size;
};

/* Parses a request; the name points into `bytes`.
 *   -EINVAL  a negative length, an empty keyspace, bytes after its first NUL */
int query_parse(const uint8_t bytes[QUERY_SIZE], struct query_range *out);

/* What a reply says of an error of the store. */
int query_error(int error);

/* A row, whose key is where it was read. */
struct query_row {
    int64_t count;
    const uint8_t *key;
    uint16_t key_size;
};

/* Reads the row at `at`; returns where the next one begins. */
static inline const uint8_t *
query_row_get(const uint8_t *at, struct query_row *row)
{
    *row = (struct query_row){get_le64s(at), at + QUERY_ROW_SIZE,
                              get_le16(at + 8)};
    return row->key + row->key_size;
}

/* Writes one row at `at` and returns its size. */
size_t query_row_put(uint8_t *at, int64_t count, const uint8_t *key,
                     uint16_t key_size);

#endif
