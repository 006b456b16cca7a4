/* reader/query.h - what is asked inside of countd-read, and the bytes of the
 * answers that answer.h makes: those of a range (common/wire/query.h), or
 *
 * about the past, behind what is true of all rows:
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
#ifndef COUNTD_READER_QUERY_H
#define COUNTD_READER_QUERY_H

#include <stdbool.h>

#include "common/wire/query.h"

#define QUERY_HISTORY_HEAD     48 /* what is true of all rows of the past */
#define QUERY_HISTORY_ROW_SIZE 36 /* without the key */
#define QUERY_AROUND_MAX       (QUERY_ROWS_MAX - 1) /* there is one row more */

enum query_op {
    QUERY_RANGE,
    QUERY_GET,
    QUERY_RANK,
    QUERY_KEYSPACES,
    QUERY_TOTAL,
    QUERY_NOW,     /* the server's time, and as_of_ms of the keyspace or all */
    QUERY_ABOUT,   /* facts of a key, or of a keyspace without one */
    QUERY_HISTORY, /* buckets of a key, or of a keyspace without one */
    QUERY_PERIOD_TOP,  /* the largest sums, and those of the time before */
    QUERY_PERIOD_RANK, /* the sum of a key and its rank by that; without a
                              key the sum of all */
    QUERY_AROUND,      /* rows around a key; before them one without key, whose
                          count is the rank of the first */
    QUERY_KEYS,        /* rows in key order, after a key, with a prefix */
    QUERY_VERSION      /* facts that change with the keyspace: nonce, change */
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
