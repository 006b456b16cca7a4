/* writer/quota/keys.h - the answers to requests that came with an
 * Idempotency-Key.
 *
 * The last KEYS_MAX of them, for KEYS_MS at most; the oldest go first.  A key
 * is here as a hash of 128 bits under a secret, so that nobody finds two with
 * the same one.
 *
 * Ownership: the caller's, between init and fini.  Memory: 56 bytes a key that
 * was used, 56 MiB at most, taken when it is touched.
 */
#ifndef COUNTD_QUOTA_KEYS_H
#define COUNTD_QUOTA_KEYS_H

#include <stddef.h>
#include <stdint.h>

#define KEYS_MAX  1048576u /* a power of two */
#define KEYS_MS   UINT64_C(86400000)
#define KEYS_HASH 16

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
    uint8_t hash[KEYS_HASH];
    uint64_t request; /* a hash of what was asked */
    uint64_t number;
    int64_t remaining;
    uint32_t at_s; /* Unix time */
    uint32_t form;
};

struct keys {
    struct key_entry *ring;
    uint32_t *slots; /* 1 + place in the ring; 0: free */
    uint64_t first, next;
};

/* -ENOMEM */
int keys_init(struct keys *k);
void keys_fini(struct keys *k);

/* NULL: it was not used, or too long ago. */
const struct key_entry *
keys_find(const struct keys *k, const uint8_t hash[KEYS_HASH], uint64_t now_ms);

/* A key that keys_find() does not find. */
void keys_add(struct keys *k, const uint8_t hash[KEYS_HASH], uint64_t request,
              const struct answer *a, uint64_t now_ms);

static inline size_t
keys_count(const struct keys *k)
{
    return (size_t)(k->next - k->first);
}

#endif
