/* reader/resp/last_answers.h - the last answer to an increment, per key.
 *
 * An increment is answered before it is readable: that takes a merge, 5 ms to
 * a second.  So that the next answer continues where the last one ended,
 * the last answer of each key is stored here until the snapshot surely contains
 * it:
 *
 *     S       count of the key in the snapshot, 0 without a key
 *     as_of   every increment received until then is in the snapshot
 *     V, T    an entry: the last answer, and the time of its last
 *             acknowledgement, infinite while one is awaited
 *
 * An entry holds while as_of < T.
 *
 *     increment d:  entry holds, never lowered, d > 0:  max(S, V) + d
 *                   entry holds otherwise:              V + d
 *                   no entry that holds:                S + d
 *     read:         entry holds and lowered:  V
 *                   entry holds:              max(S, V)
 *                   no entry that holds:      S, or no such key
 *
 * Sums saturate.  While one process is the only writer of a key, its answers
 * are exact; if others count the same key, they are estimates.  The counts in
 * the store never depend on them.
 *
 * The table has LAST_ANSWERS_COUNT entries of 40 bytes, four to a bucket, by
 * SipHash-2-4-128 of keyspace and key under a random key: a client cannot
 * choose names that collide.  A full bucket gives up the entry with the least T
 * that is not infinite; a lost entry costs only the estimate.  Ten clients that
 * are 16 increments ahead, each of another key, have up to 50,000 entries that
 * hold on a machine that is busy.
 *
 * Ownership: the caller's. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_READER_RESP_LAST_ANSWERS_H
#define COUNTD_READER_RESP_LAST_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/hash.h"

#define LAST_ANSWERS_COUNT  65536u
#define LAST_ANSWERS_BUCKET 4u
#define LAST_ANSWERS_NONE   UINT32_MAX

struct last_answer {
    struct hash_wide hash; /* both 0: free */
    int64_t value;
    uint64_t acked_ms;  /* T, of the acknowledgements that have come */
    uint32_t in_flight; /* increments not acknowledged yet */
    uint32_t is_lowered;
};

_Static_assert(sizeof(struct last_answer) == 40, "as the man page says");

struct last_answers {
    struct hash_key key;
    struct last_answer *entries;
    uint64_t in_flight; /* of all entries */
    uint64_t acked_ms;  /* the latest of all entries */
};

/* What the snapshot says of a key. */
struct last_answers_read {
    bool exists;
    int64_t count;     /* 0 if it does not exist */
    uint64_t as_of_ms; /* of the snapshot, or before */
};

/*   -ENOMEM, -EIO: no random key */
int last_answers_init(struct last_answers *a);
void last_answers_fini(struct last_answers *a);

/* The hash of a keyspace and a key of at most 256 bytes each. */
struct hash_wide last_answers_hash(const struct last_answers *a,
                                   const uint8_t *keyspace,
                                   size_t keyspace_size, const uint8_t *key,
                                   size_t key_size);

/* Whether an entry may have increments that a snapshot of as_of_ms lacks: false
 * spares a read the search for its entry. */
static inline bool
last_answers_any_holds(const struct last_answers *a, uint64_t as_of_ms)
{
    return a->in_flight > 0 || as_of_ms < a->acked_ms;
}

/* What a read of the key is to answer: *read changed by its entry. */
void last_answers_apply(const struct last_answers *a,
                        const struct hash_wide *hash,
                        struct last_answers_read *read);

/* The answer to an increment, which is one more in flight; *index is the entry
 * that has it, or LAST_ANSWERS_NONE. */
int64_t last_answers_add(struct last_answers *a, const struct hash_wide *hash,
                         int64_t increment,
                         const struct last_answers_read *read, uint32_t *index);

/* An increment of the entry was acknowledged. */
void last_answers_ack(struct last_answers *a, uint32_t index, uint64_t now_ms);

/* An increment of the entry may have been lost: the entry goes. */
void last_answers_forget(struct last_answers *a, uint32_t index);

/* Entries that hold: a figure. */
size_t last_answers_held(const struct last_answers *a, uint64_t as_of_ms);

#endif
