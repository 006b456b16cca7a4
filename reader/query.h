/* reader/query.h - what is asked inside of countd-read.  The bytes of the answers
 * that answer.h makes are those of a range (common/wire/query.h). */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_QUERY_H
#define COUNTD_READER_QUERY_H

#include <stdbool.h>

#include "common/wire/query.h"

#define QUERY_AROUND_MAX (QUERY_ROWS_MAX - 1) /* there is one row more */

enum query_op {
    QUERY_RANGE,
    QUERY_GET,
    QUERY_RANK,
    QUERY_TOTAL,
    QUERY_NOW,     /* the server's time, and as_of_ms of the keyspace or all */
    QUERY_ABOUT,   /* facts of a key, or of a keyspace without one */
    QUERY_HISTORY, /* buckets of a key, or of a keyspace without one */
    QUERY_PERIOD_TOP,  /* the largest sums, and those of the time before */
    QUERY_PERIOD_RANK, /* the sum of a key and its rank by that; without a
                              key the sum of all, and how many */
    QUERY_AROUND,      /* rows around a key; before them one without key, whose
                          count is the rank of the first */
    QUERY_KEYS         /* rows in key order, after a key, with a prefix */
};

struct query {
    enum query_op op;
    int64_t offset;
    int64_t length;         /* cut already; 0 to QUERY_ROWS_MAX */
    int64_t from, to, step; /* as they came: the past; PERIOD, both 0: of all
                               time, the counts instead of sums */
    const uint8_t *keyspace;
    const uint8_t *key;    /* KEYS: the rows come after it; may be empty */
    const uint8_t *prefix; /* KEYS, HISTORY, PERIOD; may be empty */
    uint16_t keyspace_size;
    uint16_t key_size;
    uint16_t prefix_size;
    uint8_t
        group; /* PERIOD: groups instead of keys (store_history.h); 0: keys */
};

/* Whether the answers to it are about the past. */
static inline bool
query_is_history(enum query_op op)
{
    return op >= QUERY_HISTORY && op <= QUERY_PERIOD_RANK;
}

#endif
