/* common/store/store_query.h - a question about counts, which store_read()
 * (store.h) answers from a snapshot.
 *
 * Ownership: names, keys and the memory for rows are the caller's. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_STORE_QUERY_H
#define COUNTD_COMMON_STORE_STORE_QUERY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"

struct store_row {
    int64_t count;
    bool saturated;
};

/* Times (Unix, ms) up to which everything that was applied is in a snapshot;
 * UINT64_MAX: all of it; 0: not known. */
struct store_as_of {
    uint64_t all_ms; /* by other data directories */
    uint64_t own_ms; /* by this one, in its own clock */
};

struct store_totals {
    uint64_t keys;
    int128 sum;         /* of all counts */
    uint64_t saturated; /* keys flagged */
    /* The state of the keyspace: `change` grows by one with each that is
     * committed, `nonce` is another one in each file. */
    uint64_t nonce, change;
};

enum store_op {
    STORE_RANGE,  /* rows by count descending, ties by key ascending */
    STORE_GET,    /* the count of a key */
    STORE_RANK,   /* that, and the key's rank from 0 */
    STORE_AROUND, /* `length` rows by count around the key's, which is in the
                     middle unless one side has fewer */
    STORE_TOTAL,  /* the totals of a keyspace */
    STORE_KEYS /* rows in key order: the first `length` of those from position
                  `offset` on whose keys begin with `prefix` and come after
                  `after` */
};

/* One question, and after store_read() its answer. */
struct store_query {
    enum store_op op;
    const uint8_t *name;
    size_t name_size;
    const uint8_t *key; /* GET, RANK, AROUND */
    size_t key_size;
    int64_t offset; /* RANGE: below 0 counts from the end, but not below it;
                       AROUND, then: rank of the first row;
                       KEYS: keys of the keyspace before, from 0 on */
    uint64_t length;

    /* KEYS; each may be empty, and `after` need not be a key.  The first row is
     * found by search, so keys that are not wanted can be jumped over: what
     * comes after P filled up with 0xff to STORE_NAME_MAX bytes is the first
     * key that does not begin with P. */
    const uint8_t *prefix;
    size_t prefix_size;
    const uint8_t *after;
    size_t after_size;

    int error;      /* 0, -ENOENT: no such keyspace or key; -EBADMSG, ... */
    uint8_t *bytes; /* RANGE, AROUND, KEYS: rows, in the wire form of
                       common/wire/query.h */
    size_t size;    /* bytes of the rows */
    uint64_t rows;
    struct store_row row;       /* GET, RANK, AROUND */
    uint64_t rank;              /* RANK, AROUND */
    struct store_totals totals; /* TOTAL */
};

/* The sum, cut to an int64. */
int64_t store_total(const struct store_totals *t);

/* The most bytes that the rows of a query take. */
size_t store_query_size_max(const struct store_query *q);

#endif
