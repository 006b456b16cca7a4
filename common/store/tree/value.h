/* common/store/tree/value.h - the values of a tree: fetched and checked,
 * stored, removed.
 *
 * A read looks at a value where it lies and trusts what the cache remembers of
 * it.  A change rewrites what it has read and so gives it a new checksum: it
 * takes a copy, past the cache, and checks the copy, so that what it writes
 * again is what it has verified.
 *
 * Errors: 0 or a negative errno, as common/store/tree/tree.h has them.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_COMMON_STORE_TREE_VALUE_H
#define COUNTD_COMMON_STORE_TREE_VALUE_H

#include "common/store/tree/tree.h"

static inline uint64_t
value_key(uint64_t id, unsigned part)
{
    return id << 16 | part;
}

/* The slot of a value in the cache. */
static inline struct tree_slot *
value_slot(const struct tree *t, uint64_t key)
{
    const uint64_t hash = (key * 2 + t->kind) * 0x9e3779b97f4a7c15u;

    return &t->cache->slots[(hash >> 40) % TREE_CACHE];
}

/* Whether a slot is about this value of this tree. */
static inline bool
value_in_slot(const struct tree_slot *slot, const struct tree *t,
              enum block_type type, uint64_t key)
{
    return slot->key == key && slot->order == t->kind && slot->type == type;
}

/* value_get() of what is not in the cache. */
int value_fetch(struct tree *t, enum block_type type, uint64_t key,
                uint8_t *copy, const uint8_t **bytes);

/* A value of this type whose checksum, place and structure are right, else
 * -EBADMSG.  Without `copy` *bytes are the kv's, for a read; else they are
 * `copy`, BLOCK_SIZE bytes, for a change. */
static inline int
value_get(struct tree *t, enum block_type type, uint64_t key, uint8_t *copy,
          const uint8_t **bytes)
{
    if (copy == NULL && t->cache != NULL && t->snapshot != 0) {
        const struct tree_slot *slot = value_slot(t, key);

        if (slot->snapshot == t->snapshot &&
            value_in_slot(slot, t, type, key)) {
            *bytes = slot->bytes;
            return 0;
        }
    }
    return value_fetch(t, type, key, copy, bytes);
}

/* Stores a sealed value; -E2BIG when the tree's pages are used up. */
int value_put(struct tree *t, uint64_t key, const uint8_t *bytes, size_t size);

int value_remove(struct tree *t, uint64_t key);

#endif
