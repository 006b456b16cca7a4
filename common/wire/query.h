/* common/wire/query.h - range and extended requests, and their replies.
 *
 * A range request, all little-endian:
 *
 *   at    size  field
 *      0     8  offset    int64; negative counts from the end
 *      8     8  length    int64; above QUERY_ROWS_MAX is cut to it
 *     16   256  keyspace  NUL-padded, not NUL-terminated when it is full
 *    272        end
 *
 * An extended request has INT64_MIN for its offset:
 *
 *      0     8  INT64_MIN
 *      8     8  op        int64, enum query_op
 *     16   256  keyspace  NUL-padded (may be empty for keyspaces and now)
 *    272   256  key       NUL-padded (empty but for get, rank and about)
 *    528        end
 *
 * A reply:
 *
 *      0     8  rows      int64; below 0 an error, and the connection closes
 *      8     8  size      int64, bytes of rows that follow
 *     16     8  as_of_ms  int64, Unix time
 *     24  size  rows: count int64 | key_size uint16 | key
 */
#ifndef COUNTD_QUERY_H
#define COUNTD_QUERY_H

#include <stddef.h>
#include <stdint.h>

#define QUERY_NAME_SIZE     256
#define QUERY_SIZE          272
#define QUERY_EXTENDED_SIZE 528
#define QUERY_REPLY_SIZE    24
#define QUERY_ROW_SIZE      10 /* without the key */
#define QUERY_ROWS_MAX      4096

enum query_op {
    QUERY_RANGE = 0, /* never on the wire */
    QUERY_GET = 1,
    QUERY_RANK = 2,
    QUERY_KEYSPACES = 3,
    QUERY_TOTAL = 4,
    QUERY_NOW = 5, /* the server's time, and as_of_ms of the keyspace or all */
    QUERY_ABOUT = 6, /* facts of a key, or of a keyspace without one */
};

struct query {
    enum query_op op;
    int64_t offset;
    int64_t length; /* cut already; 0 to QUERY_ROWS_MAX */
    const uint8_t *keyspace;
    const uint8_t *key;
    uint16_t keyspace_size;
    uint16_t key_size;
};

struct query_reply {
    int64_t rows; /* or -EINVAL (-22), -EIO (-5) */
    int64_t size;
    int64_t as_of_ms;
};

/* Bytes of the request that starts at `bytes`: 0 while `size` is too little
 * to tell (less than 8), else QUERY_SIZE or QUERY_EXTENDED_SIZE. */
size_t query_size(const uint8_t *bytes, size_t size);

/* Parses a whole request; names point into `bytes`.
 *   -EINVAL  a negative length, an unknown op, an empty keyspace or key where
 *            one is needed, bytes after a name's first NUL */
int query_parse(const uint8_t *bytes, struct query *out);

/* Writes a request (QUERY_SIZE or QUERY_EXTENDED_SIZE, by op) and returns
 * its size, -EINVAL or -ENAMETOOLONG. */
int query_put(const struct query *q, uint8_t *bytes);

void query_reply_get(const uint8_t bytes[QUERY_REPLY_SIZE],
                     struct query_reply *out);
void query_reply_put(const struct query_reply *r,
                     uint8_t bytes[QUERY_REPLY_SIZE]);

/* Writes one row at `at` and returns its size. */
size_t query_row_put(uint8_t *at, int64_t count, const uint8_t *key,
                     uint16_t key_size);

#endif
