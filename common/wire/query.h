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
 *    272   256  key       NUL-padded (empty but for get, rank, about and longer
 *                         requests)
 *    528        end
 *
 * An extended request of the past, one for neighbours and one for keys in order
 * is longer:
 *
 *    528     8  from      int64, Unix seconds; a multiple of 60, as `to` and
 *                         `step` are
 *    536     8  to        int64, Unix seconds; the first second left out
 *    544     8  step      int64, seconds; of history
 *    552     8  length    int64, rows; of the top, of neighbours and of keys
 *    560        end
 *
 * The one for keys goes on; its key is the one that the rows come after:
 *
 *    560   256  prefix    NUL-padded; of all keys; may be empty
 *    816        end
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
 *
 * A reply about the past has other rows, behind what is true of all of them:
 *
 *     24     8  error     int64: 0, or why there are no rows: -EINVAL (-22)
 *                         times that no tier has, -E2BIG (-7) too many
 *                         buckets, -ENOENT (-2) no such keyspace, -ENODATA
 *                         (-61) it has no history
 *     32     8  since     int64, Unix seconds: what came before may be missing;
 *                         0: nothing is
 *     40     8  known     int64, 1: nothing is missing from `before`, either
 *     48     8  rank      int64, of the key
 *     56     8  keys      int64: how many have increments
 *     64     8  step      int64, seconds: those of a period are multiples of it
 *     72        rows: sum int128 | before int128 | flags uint16 |
 *               key_size uint16 | key
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_WIRE_QUERY_H
#define COUNTD_COMMON_WIRE_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define QUERY_NAME_SIZE        256
#define QUERY_SIZE             272
#define QUERY_EXTENDED_SIZE    528
#define QUERY_HISTORY_SIZE     560
#define QUERY_KEYS_SIZE        816
#define QUERY_SIZE_MAX         QUERY_KEYS_SIZE
#define QUERY_REPLY_SIZE       24
#define QUERY_ROW_SIZE         10 /* without the key */
#define QUERY_ROWS_MAX         4096
#define QUERY_HISTORY_HEAD     48 /* what is true of all rows of the past */
#define QUERY_HISTORY_ROW_SIZE 36 /* without the key */
#define QUERY_AROUND_MAX       (QUERY_ROWS_MAX - 1) /* there is one row more */

enum query_op {
    QUERY_RANGE = 0, /* never on the wire */
    QUERY_GET = 1,
    QUERY_RANK = 2,
    QUERY_KEYSPACES = 3,
    QUERY_TOTAL = 4,
    QUERY_NOW = 5, /* the server's time, and as_of_ms of the keyspace or all */
    QUERY_ABOUT = 6,       /* facts of a key, or of a keyspace without one */
    QUERY_HISTORY = 7,     /* buckets of a key, or of a keyspace without one */
    QUERY_PERIOD_TOP = 8,  /* the largest sums, and those of the time before */
    QUERY_PERIOD_RANK = 9, /* the sum of a key and its rank by that; without a
                              key the sum of all */
    QUERY_AROUND = 10, /* rows around a key; before them one without key, whose
                          count is the rank of the first */
    QUERY_KEYS = 11,   /* rows in key order, after a key, with a prefix */
    QUERY_VERSION = 12 /* facts that change with the keyspace: nonce, change */
};

struct query {
    enum query_op op;
    int64_t offset;
    int64_t length;         /* cut already; 0 to QUERY_ROWS_MAX */
    int64_t from, to, step; /* as they came: the past */
    const uint8_t *keyspace;
    const uint8_t *key;    /* KEYS: the rows come after it; may be empty */
    const uint8_t *prefix; /* KEYS; may be empty */
    uint16_t keyspace_size;
    uint16_t key_size;
    uint16_t prefix_size;
};

struct query_reply {
    int64_t rows; /* below 0: query_error() */
    int64_t size;
    int64_t as_of_ms;
};

/* The facts that hold for all rows of an answer about history. */
struct query_history_head {
    int64_t error;
    int64_t since;
    int64_t known;
    int64_t rank;
    int64_t keys;
    int64_t step;
};

#define QUERY_HISTORY_ANY        1u /* increments came, though the sum may be 0 */
#define QUERY_HISTORY_ANY_BEFORE 2u

/* A row of it; sums are signed, of 128 bits. */
struct query_history_row {
    int64_t sum_high;
    uint64_t sum_low;
    int64_t before_high;
    uint64_t before_low;
    uint16_t flags;
    uint16_t key_size;
    const uint8_t *key;
};

/* Whether the answers to it are about the past. */
static inline bool
query_is_history(enum query_op op)
{
    return op >= QUERY_HISTORY && op <= QUERY_PERIOD_RANK;
}

/* Returns the bytes of the request that starts at `bytes`: 0 while `size` is
 * less than 8, else QUERY_SIZE, QUERY_EXTENDED_SIZE, QUERY_HISTORY_SIZE or
 * QUERY_KEYS_SIZE.  With less than 16 bytes the last two are not distinguished
 * from the second. */
size_t query_size(const uint8_t *bytes, size_t size);

/* Parses a whole request; names point into `bytes`.
 *   -EINVAL  a negative length, an unknown op, an empty keyspace or key where
 *            one is needed, bytes after a name's first NUL */
int query_parse(const uint8_t *bytes, struct query *out);

/* Writes a request (at most QUERY_SIZE_MAX, by op) and returns its size,
 * -EINVAL or -ENAMETOOLONG. */
int query_put(const struct query *q, uint8_t *bytes);

void query_reply_get(const uint8_t bytes[QUERY_REPLY_SIZE],
                     struct query_reply *out);
/* What a reply says of an error of the store. */
int query_error(int error);
void query_reply_put(const struct query_reply *r,
                     uint8_t bytes[QUERY_REPLY_SIZE]);

/* Writes one row at `at` and returns its size. */
size_t query_row_put(uint8_t *at, int64_t count, const uint8_t *key,
                     uint16_t key_size);

void query_history_get(const uint8_t bytes[QUERY_HISTORY_HEAD],
                       struct query_history_head *out);
void query_history_put(const struct query_history_head *p,
                       uint8_t bytes[QUERY_HISTORY_HEAD]);

/* The same of a row; its key points into `at`, which has `left` bytes.  Returns
 * its size, -EPROTO when it does not end there. */
size_t query_history_row_put(uint8_t *at, const struct query_history_row *row);
int query_history_row_get(const uint8_t *at, size_t left,
                          struct query_history_row *out);

#endif
