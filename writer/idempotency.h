/* writer/idempotency.h - the answers to requests that came with an
 * Idempotency-Key.
 *
 * The last `max` of them, for IDEMPOTENCY_MS at most; the oldest go first.  A
 * key is here as a hash of 128 bits under a secret, so that a client cannot
 * find two with the same one.
 *
 * Ownership: the caller's, between init and fini.  Memory: 56 bytes a key that
 * was used, taken when it is touched; 56 MiB at most for IDEMPOTENCY_MAX.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_IDEMPOTENCY_H
#define COUNTD_WRITER_IDEMPOTENCY_H

#include <stddef.h>
#include <stdint.h>

#define IDEMPOTENCY_MAX  1048576u /* keys, where no setting says */
#define IDEMPOTENCY_MS   UINT64_C(86400000)
#define IDEMPOTENCY_HASH 16

/* What a request was answered; the fields are the caller's to name. */
struct key_answer {
    uint32_t form;
    uint64_t number;
    int64_t remaining;
};

struct key_entry {
    uint8_t hash[IDEMPOTENCY_HASH];
    uint64_t request; /* a hash of what was asked */
    uint64_t number;
    int64_t remaining;
    uint32_t at_s; /* Unix time */
    uint32_t form;
};

struct idempotency {
    struct key_entry *ring;
    uint32_t *slots;          /* 1 + place in the ring; 0: free */
    uint32_t max, slot_count; /* of the slots: a power of two */
    uint64_t first, next;
};

/* For the last `max` keys, at least 1.  -ENOMEM */
int idempotency_init(struct idempotency *k, uint32_t max);
void idempotency_fini(struct idempotency *k);

/* NULL: it was not used, or too long ago. */
const struct key_entry *idempotency_find(const struct idempotency *k,
                                         const uint8_t hash[IDEMPOTENCY_HASH],
                                         uint64_t now_ms);

/* Gives up some of the oldest keys, as far as they were used too long ago: not
 * of the time of a single request, whose clock may have been wrong. */
void idempotency_forget(struct idempotency *k, uint64_t now_ms);

/* A key that idempotency_find() does not find; `at_ms`: when it was used. */
void idempotency_add(struct idempotency *k,
                     const uint8_t hash[IDEMPOTENCY_HASH], uint64_t request,
                     const struct key_answer *a, uint64_t at_ms);

static inline size_t
idempotency_count(const struct idempotency *k)
{
    return (size_t)(k->next - k->first);
}

#endif
