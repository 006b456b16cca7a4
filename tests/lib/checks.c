/* tests/lib/checks.c - see checks.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/checks.h"

#include <errno.h>
#include <string.h>

#include "common/store/tree/scan.h"
#include "writer/live/live_object.h"

/* ---- arenas ------------------------------------------------------------ */

/* A slab in use: its bitmap. */
static bool
check_slab(const struct arena *a, uint32_t slab)
{
    const struct arena_slab *s = &a->slabs[slab];
    const struct arena_class *c = &a->classes[s->class];
    const uint8_t *base = a->base + (size_t)slab * ARENA_SLAB;
    const uint64_t *bits = (const uint64_t *)(const void *)base;
    uint32_t used = 0, last = 0, index;

    for (index = 0; index < c->count; index++)
        if (bits[index / 64] >> index % 64 & 1) {
            used++;
            last = index;
        } else if (index < s->word * 64u) {
            return false;
        }
    return used > 0 && used == s->used &&
           (uint32_t)s->pages * ARENA_PAGE >= c->first + (last + 1) * c->size;
}

static bool
has_room(const struct arena *a, const struct arena_slab *s)
{
    return s->used < a->classes[s->class].count;
}

/* Slabs in the lists of those with room. */
static bool
check_room(const struct arena *a, size_t expected)
{
    size_t seen = 0;
    unsigned i;

    for (i = 0; i < ARENA_CLASSES; i++) {
        uint32_t link = a->classes[i].partly_free, before = 0;

        for (; link != 0; before = link, link = a->slabs[link - 1].next) {
            const struct arena_slab *s = &a->slabs[link - 1];

            if (s->class != i || !has_room(a, s) || s->prev != before ||
                ++seen > expected)
                return false;
        }
    }
    return seen == expected;
}

/* The records in use, what was taken, the lists of slabs. */
static bool
arena_check(const struct arena *a)
{
    size_t records = 0, room = 0;
    uint64_t taken = 0;
    uint32_t slab;

    for (slab = 0; slab < a->top; slab++) {
        const struct arena_slab *s = &a->slabs[slab];

        taken += (uint64_t)s->pages * ARENA_PAGE;
        if (s->class == ARENA_CLASS_NONE)
            continue;
        if (!check_slab(a, slab))
            return false;
        records += s->used;
        room += has_room(a, s);
    }
    return records == a->records && taken == a->taken && check_room(a, room);
}

/* ---- live objects ------------------------------------------------------ */

/* Counts the records of an index, by what each says of the next.  False: as many
 * places are not used. */
static bool
check_index(const struct live *l, const struct live_index *x, size_t expected)
{
    const struct arena *a = x == &l->names ? &l->objects : &l->holdings;
    size_t used = 0, records = 0;

    for (size_t i = 0; i < x->count; i++) {
        used += x->first[i] != 0;
        for (uint32_t n = x->first[i]; n != 0 && records <= expected; records++)
            n = node_at(a, n)->below;
    }
    return used == x->used && records == expected;
}

/* Sums over objects and over their holdings, which must come out equal.  Each
 * object has a weight of its own, so that too much here does not make up for
 * too little there. */
struct sums {
    uint64_t amounts;
    uint64_t holdings;
    size_t objects;
    size_t idle;
    size_t single; /* objects with one holder */
};

static uint64_t
weigh_object(const struct live *l, uint32_t object)
{
    return (object ^ l->key.k0) * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

static bool
check_object(const struct live *l, uint32_t number, struct sums *s)
{
    const struct object *o = object_at(l, number);
    const uint32_t hash = live_hash(l, o->name, o->name_size);

    if (find_object(l, hash, o->name, o->name_size) != number)
        return false;
    s->objects++;
    if (l->options.kind == LIVE_SEMAPHORE && o->current > o->maximum)
        return false;
    if (o->node.holder == HOLDER_NONE) {
        s->idle++;
        return o->current == 0;
    }
    if (o->current == 0)
        return false;
    if (o->node.holder == HOLDER_MANY) {
        s->amounts += o->current * weigh_object(l, number);
        s->holdings += o->node.next * weigh_object(l, number);
        return o->node.next > 0;
    }
    s->single++;
    return o->node.holder < l->options.holders;
}

static bool
check_holding(const struct live *l, uint32_t number, struct sums *s)
{
    const struct holding *h = holding_at(l, number);

    if (h->node.holder >= l->options.holders || h->amount == 0 ||
        object_at(l, h->object)->node.holder != HOLDER_MANY)
        return false;
    s->amounts -= h->amount * weigh_object(l, h->object);
    s->holdings -= weigh_object(l, h->object);
    return find_holding(l, h->object, h->node.holder) == number;
}

/* A list of one holder; at most as many as are counted down to 0. */
static bool
check_list(const struct arena *a, uint32_t first, uint32_t holder,
           size_t *count)
{
    uint32_t before = 0;

    for (uint32_t n = first; n != 0; n = node_at(a, n)->next) {
        if (*count == 0 || node_at(a, n)->holder != holder ||
            node_at(a, n)->prev != before)
            return false;
        before = n;
        --*count;
    }
    return true;
}

bool
live_check(const struct live *l)
{
    struct sums s = {0};
    uint32_t from = 0, steps = UINT32_MAX;
    size_t holdings = l->holdings.records;
    uint32_t number;

    if (!arena_check(&l->objects) || !arena_check(&l->holdings) ||
        !check_index(l, &l->names, l->count) ||
        !check_index(l, &l->holders, holdings))
        return false;
    while ((number = arena_next(&l->objects, &from, &steps)) != 0)
        if (!check_object(l, number, &s))
            return false;
    from = 0;
    while ((number = arena_next(&l->holdings, &from, &steps)) != 0)
        if (!check_holding(l, number, &s))
            return false;
    if (s.amounts != 0 || s.holdings != 0 || s.objects != l->count ||
        s.idle != l->idle || l->objects.records != l->count)
        return false;
    for (uint32_t n = 0; n < l->options.holders; n++)
        if (!check_list(&l->objects, l->held[n].objects, n, &s.single) ||
            !check_list(&l->holdings, l->held[n].holdings, n, &holdings))
            return false;
    return s.single == 0 && holdings == 0;
}

/* ---- trees ------------------------------------------------------------- */

int
tree_scan(struct tree *t, int (*row)(void *ctx, const struct row *r), void *ctx)
{
    struct tree_finder f;
    uint64_t at = 0;
    int rc = 0;

    while (rc == 0 && at < t->root.count) {
        rc = scan_find_offset(t, at, &f);
        if (rc == 0)
            rc = f.group.count == 0
                     ? -EBADMSG
                     : scan_group(t, &f.group, &f.buffer, row, ctx);
        if (rc == 0)
            at = f.before + f.group.count;
    }
    return rc;
}
