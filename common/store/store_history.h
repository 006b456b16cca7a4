/* common/store/store_history.h - a query about history, which store_history()
 * (store.h) answers.
 *
 * Times are minutes since 1970, UTC, of which increments are: of the time that
 * they were given, or else that at which they were received.  Sums are exact, of
 * 128 bits: they neither saturate nor lose what was removed from the counts
 * since.  The setting `history` determines resolution and retention;
 * an answer includes the time from which on it is complete.
 *
 * A query of all keys may be limited to those that begin with a prefix, and may
 * sum keys in groups: a group is what all its keys begin with, up to and with
 * the first byte `group` behind the prefix; a key without that byte is a group
 * of its own.
 *
 * A query may take long: it continues in pieces, each of its own snapshot. Each
 * part of a key's time, and each key of a query over all keys, is counted once,
 * as it is in the snapshot that reaches it.
 *
 * Ownership: names and the arrays for the answer are the caller's.  Pure. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_STORE_HISTORY_H
#define COUNTD_COMMON_STORE_STORE_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/bytes.h"

#define STORE_NAME_MAX 256

struct store_bucket {
    int128 sum;
    bool any; /* there were increments, though their sum may be 0 */
};

/* A key of the top: its sum, and its sum in the span of the same length before.
 */
struct store_top {
    struct store_bucket sum, before;
    uint16_t key_size;
    uint8_t key[STORE_NAME_MAX];
};

enum store_history_op {
    STORE_HISTORY_KEY,      /* buckets of a key */
    STORE_HISTORY_KEYSPACE, /* buckets of all keys together */
    STORE_HISTORY_TOP,      /* keys by their sums descending, ties by key */
    STORE_HISTORY_RANK, /* the sum of a key, its rank from 0 by that, and how
                               many keys have increments; without a key the sum
                               of all, and with `group` how many groups */
    STORE_HISTORY_STEP  /* keys behind `key` in their order, with their sums in
                          the finest step of `from` that is retained; without a
                          key in the first from there on in which something
                          came, which `from` and `to` then are, 0 and 0: none;
                          with `to` UINT32_MAX in all that is retained */
};

/* How far a query has come over the keys. */
struct store_history_place {
    int128 least; /* smaller sums are passed over */
    uint16_t size;
    uint8_t key[STORE_NAME_MAX]; /* size 0: the beginning */
};

#define STORE_BUCKETS_MAX 4096
#define STORE_TOP_MAX     4096

/* A query and its answer.  The caller sets what it asks for and leaves the rest
 * 0. */
struct store_history_query {
    enum store_history_op op;
    const uint8_t *name;
    size_t name_size;
    const uint8_t *key; /* KEY, RANK, STEP */
    size_t key_size;
    const uint8_t *prefix; /* all but KEY; may be empty */
    size_t prefix_size;
    uint8_t group; /* TOP, RANK; 0: each key by itself */
    /* Whether a key that begins with the prefix counts, by what is in the query: an
     * engine asks with a copy, and in any thread.  NULL: each does. */
    bool (*wants)(const struct store_history_query *q, const uint8_t *key,
                  size_t size);
    size_t wants_from;            /* for wants(): a place in keys */
    uint32_t from, to;            /* without the minute `to` */
    uint32_t step;                /* KEY, KEYSPACE: divides to - from */
    struct store_bucket *buckets; /* KEY, KEYSPACE: one for each step; these and
                                     `top` are the caller's */
    struct store_top *top;        /* TOP, STEP: `length` of them */
    uint64_t length;

    uint32_t since;          /* increments before may be missing; 0: none are */
    uint32_t floor;          /* steps like these were removed before; 0: none */
    uint32_t keep;           /* minutes after which they are removed */
    bool before_known;       /* TOP: `before` is complete, too */
    uint64_t rows;           /* TOP, STEP */
    struct store_bucket sum; /* RANK */
    uint64_t rank, keys;

    /* Where the next piece begins; the engine's. */
    unsigned phase;
    uint32_t minutes; /* of the span, for KEY, KEYSPACE, or one key's sum */
    uint64_t done;
    struct store_history_place at;
    struct store_top open; /* the group that is being summed */
};

/* Whether the answer is buckets. */
static inline bool
store_history_has_buckets(const struct store_history_query *q)
{
    return q->op == STORE_HISTORY_KEY || q->op == STORE_HISTORY_KEYSPACE;
}

#endif
