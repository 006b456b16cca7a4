/* writer/quota/idempotency.h - the answers to requests that came with an
 * Idempotency-Key.
 *
 * The last IDEMPOTENCY_MAX of them, for IDEMPOTENCY_MS at most; the oldest go
 * first.  A key is here as a hash of 128 bits under a secret, so that a client
 * cannot find two with the same one.
 *
 * Ownership: the caller's, between init and fini.  Memory: 56 bytes a key that
 * was used, 56 MiB at most, taken when it is touched.
 */
#ifndef COUNTD_WRITER_QUOTA_IDEMPOTENCY_H
#define COUNTD_WRITER_QUOTA_IDEMPOTENCY_H

#include <stddef.h>
#include <stdint.h>

#define IDEMPOTENCY_MAX  1048576u /* a power of two */
#define IDEMPOTENCY_MS   UINT64_C(86400000)
#define IDEMPOTENCY_HASH 16

/* What a request was answered. */
enum answer_form {
    ANSWER_PAIR = 1,    /* "NUMBER REMAINING" */
    ANSWER_REMAINING,   /* "REMAINING" */
    ANSWER_REFUSED,     /* "0" */
    ANSWER_IMPOSSIBLE,  /* "-1" */
    ANSWER_CREATED,     /* 201, "REMAINING" */
    ANSWER_UNKNOWN,     /* 404 */
    ANSWER_EXISTS,      /* 409 */
    ANSWER_NO_MORE,     /* 507 */
    ANSWER_UNAVAILABLE, /* 503 */
    ANSWER_OTHER        /* 422 */
};

struct answer {
    enum answer_form form;
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
    uint32_t *slots; /* 1 + place in the ring; 0: free */
    uint64_t first, next;
};

/* -ENOMEM */
int idempotency_init(struct idempotency *k);
void idempotency_fini(struct idempotency *k);

/* NULL: it was not used, or too long ago. */
const struct key_entry *idempotency_find(const struct idempotency *k,
                                         const uint8_t hash[IDEMPOTENCY_HASH],
                                         uint64_t now_ms);

/* A key that idempotency_find() does not find. */
void idempotency_add(struct idempotency *k,
                     const uint8_t hash[IDEMPOTENCY_HASH], uint64_t request,
                     const struct answer *a, uint64_t now_ms);

static inline size_t
idempotency_count(const struct idempotency *k)
{
    return (size_t)(k->next - k->first);
}

#endif
