/* reader/resp/last_answers.c - see last_answers.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "reader/resp/last_answers.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define NAME_MAX_SIZE 256

int
last_answers_init(struct last_answers *a)
{
    if (getrandom(&a->key, sizeof a->key, 0) != (ssize_t)sizeof a->key)
        return -EIO;
    a->in_flight = a->acked_ms = 0;
    a->entries = calloc(LAST_ANSWERS_COUNT, sizeof *a->entries);
    return a->entries ? 0 : -ENOMEM;
}

void
last_answers_fini(struct last_answers *a)
{
    free(a->entries);
}

struct hash_wide
last_answers_hash(const struct last_answers *a, const uint8_t *keyspace,
                  size_t keyspace_size, const uint8_t *key, size_t key_size)
{
    uint8_t name[2 * NAME_MAX_SIZE + 1];
    struct hash_wide hash;

    assert(keyspace_size <= NAME_MAX_SIZE && key_size <= NAME_MAX_SIZE);
    /* Names have no NUL, so no two pairs become the same bytes. */
    memcpy(name, keyspace, keyspace_size);
    name[keyspace_size] = 0;
    memcpy(name + keyspace_size + 1, key, key_size);
    hash = hash_bytes_wide(&a->key, name, keyspace_size + 1 + key_size);
    hash.low |= hash.high == 0; /* both 0 is a free entry */
    return hash;
}

static bool
is_free(const struct last_answer *e)
{
    return e->hash.low == 0 && e->hash.high == 0;
}

static uint32_t
bucket_of(const struct hash_wide *hash)
{
    return (uint32_t)(hash->low % (LAST_ANSWERS_COUNT / LAST_ANSWERS_BUCKET)) *
           LAST_ANSWERS_BUCKET;
}

/* The index of the entry of a key; LAST_ANSWERS_NONE. */
static uint32_t
find_entry(const struct last_answers *a, const struct hash_wide *hash)
{
    const uint32_t first = bucket_of(hash);

    for (uint32_t i = first; i < first + LAST_ANSWERS_BUCKET; i++)
        if (a->entries[i].hash.low == hash->low &&
            a->entries[i].hash.high == hash->high)
            return i;
    return LAST_ANSWERS_NONE;
}

/* Whether the entry has increments that a snapshot of as_of_ms may lack. */
static bool
has_unread(const struct last_answers *a, uint32_t index, uint64_t as_of_ms)
{
    const struct last_answer *e;

    if (index == LAST_ANSWERS_NONE)
        return false;
    e = &a->entries[index];
    return e->in_flight > 0 || as_of_ms < e->acked_ms;
}

void
last_answers_apply(const struct last_answers *a, const struct hash_wide *hash,
                   struct last_answers_read *read)
{
    const uint32_t index = find_entry(a, hash);
    const struct last_answer *e;

    if (!has_unread(a, index, read->as_of_ms))
        return;
    e = &a->entries[index];
    if (e->is_lowered != 0 || !read->exists || read->count < e->value)
        read->count = e->value;
    read->exists = true;
}

/* The entry for a new key: a free one, or the one that is given up. */
static uint32_t
claim_entry(const struct last_answers *a, const struct hash_wide *hash)
{
    const uint32_t first = bucket_of(hash);
    uint32_t least = LAST_ANSWERS_NONE;

    for (uint32_t i = first; i < first + LAST_ANSWERS_BUCKET; i++) {
        const struct last_answer *e = &a->entries[i];

        if (is_free(e))
            return i;
        if (e->in_flight == 0 && (least == LAST_ANSWERS_NONE ||
                                  e->acked_ms < a->entries[least].acked_ms))
            least = i;
    }
    return least;
}

int64_t
last_answers_add(struct last_answers *a, const struct hash_wide *hash,
                 int64_t increment, const struct last_answers_read *read,
                 uint32_t *index)
{
    uint32_t i = find_entry(a, hash);
    const bool holds = has_unread(a, i, read->as_of_ms);
    const bool was_lowered = holds && a->entries[i].is_lowered != 0;
    struct last_answer *e;
    int64_t value = read->count;

    if (holds && (was_lowered || increment < 0 || a->entries[i].value > value))
        value = a->entries[i].value;
    if (__builtin_add_overflow(value, increment, &value))
        value = increment < 0 ? INT64_MIN : INT64_MAX;
    if (i == LAST_ANSWERS_NONE)
        i = claim_entry(a, hash);
    *index = i;
    if (i == LAST_ANSWERS_NONE)
        return value;
    e = &a->entries[i];
    if (e->hash.low != hash->low || e->hash.high != hash->high)
        *e = (struct last_answer){.hash = *hash};
    e->value = value;
    e->is_lowered = was_lowered || increment < 0;
    e->in_flight++;
    a->in_flight++;
    return value;
}

void
last_answers_ack(struct last_answers *a, uint32_t index, uint64_t now_ms)
{
    struct last_answer *e;

    if (index == LAST_ANSWERS_NONE)
        return;
    e = &a->entries[index];
    assert(e->in_flight > 0);
    e->in_flight--;
    e->acked_ms = now_ms;
    a->in_flight--;
    if (a->acked_ms < now_ms)
        a->acked_ms = now_ms;
}

void
last_answers_forget(struct last_answers *a, uint32_t index)
{
    if (index == LAST_ANSWERS_NONE)
        return;
    a->in_flight -= a->entries[index].in_flight;
    a->entries[index] = (struct last_answer){.value = 0};
}

size_t
last_answers_held(const struct last_answers *a, uint64_t as_of_ms)
{
    size_t count = 0;

    if (last_answers_any_holds(a, as_of_ms))
        for (uint32_t i = 0; i < LAST_ANSWERS_COUNT; i++)
            count += has_unread(a, i, as_of_ms);
    return count;
}
