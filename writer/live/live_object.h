/* writer/live/live_object.h - the records behind live.h; for live.c only
 * (and tests/lib/checks.c).
 *
 * An object with one holder is in that holder's list of objects, and its
 * `current` is what the holder has.  With several it is in no list; each of
 * them has a holding, which is in the holder's list of holdings and found by
 * object and holder.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_LIVE_LIVE_OBJECT_H
#define COUNTD_WRITER_LIVE_LIVE_OBJECT_H

#include <assert.h>

#include "writer/live/live.h"

#define HOLDER_NONE UINT32_MAX       /* no holder; current is 0 */
#define HOLDER_MANY (UINT32_MAX - 1) /* see its holdings */

/* What objects and holdings begin with. */
struct live_node {
    uint32_t holder;
    uint32_t next, prev; /* in the list of the holder */
    uint32_t below;      /* the next at its place of the index */
};

struct object {
    struct live_node node; /* HOLDER_MANY: next is the number of holdings */
    uint32_t current;
    uint32_t maximum; /* of the window; a semaphore: its initial value */
    uint32_t window;  /* of the last change */
    uint16_t name_size;
    uint8_t name[];
};

#define OBJECT_SIZE offsetof(struct object, name)
static_assert(OBJECT_SIZE == 30, "56 bytes with a name of 20");

struct holding {
    struct live_node node;
    uint32_t object;
    uint32_t amount;
};

/* The newest of each kind that a holder has. */
struct live_holder {
    uint32_t objects;
    uint32_t holdings;
};

static inline struct live_node *
node_at(const struct arena *a, uint32_t number)
{
    return arena_at(a, number);
}

static inline struct object *
object_at(const struct live *l, uint32_t number)
{
    return arena_at(&l->objects, number);
}

static inline struct holding *
holding_at(const struct live *l, uint32_t number)
{
    return arena_at(&l->holdings, number);
}

/* Where the holding of this object and holder is in the index.  Keyed: a
 * client has some say in both numbers. */
static inline uint32_t
holding_hash(const struct live *l, uint32_t object, uint32_t holder)
{
    uint64_t x = ((uint64_t)object << 32 | holder) ^ l->key.k0;

    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93) + l->key.k1;
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    return (uint32_t)(x >> 32);
}

/* 0: it holds nothing of it. */
static inline uint32_t
find_holding(const struct live *l, uint32_t object, uint32_t holder)
{
    uint32_t n = *live_place(&l->holders, holding_hash(l, object, holder));

    while (n != 0 && (holding_at(l, n)->object != object ||
                      holding_at(l, n)->node.holder != holder))
        n = holding_at(l, n)->node.below;
    return n;
}

/* Puts a node first at its place. */
static inline void
index_add(struct live_index *x, const struct arena *a, uint32_t hash,
          uint32_t number)
{
    uint32_t *first = live_place(x, hash);

    x->used += *first == 0;
    node_at(a, number)->below = *first;
    *first = number;
}

static inline void
index_remove(struct live_index *x, const struct arena *a, uint32_t hash,
             uint32_t number)
{
    uint32_t *const first = live_place(x, hash), *link = first;

    while (*link != number)
        link = &node_at(a, *link)->below;
    *link = node_at(a, number)->below;
    x->used -= *first == 0;
}

/* 0: there is no such object. */
static inline uint32_t
find_object(const struct live *l, uint32_t hash, const uint8_t *name,
            size_t size)
{
    uint32_t n = *live_place(&l->names, hash);

    while (n != 0 && (object_at(l, n)->name_size != size ||
                      memcmp(object_at(l, n)->name, name, size) != 0))
        n = object_at(l, n)->node.below;
    return n;
}

#endif
