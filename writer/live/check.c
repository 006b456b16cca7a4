/* writer/live/check.c - does everything behind table.h agree? */
#include "writer/live/object.h"

/* Sums over objects and over their holdings, which must come out equal.  Each
 * object has a weight of its own, so that too much here does not make up for
 * too little there. */
struct sums {
    uint64_t amounts;
    uint64_t holdings;
    size_t objects;
    size_t idle;
    size_t single; /* objects with one holder */
    size_t waiting;
};

static uint64_t
weight(const struct live *l, uint32_t object)
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
    s->waiting += l->before != 0 && history_at(l, number)->waiting;
    if (l->options.kind == LIVE_SEMAPHORE && o->current > o->maximum)
        return false;
    if (o->holder == HOLDER_NONE) {
        s->idle++;
        return o->current == 0;
    }
    if (o->current == 0)
        return false;
    if (o->holder == HOLDER_MANY) {
        s->amounts += o->current * weight(l, number);
        s->holdings += o->next * weight(l, number);
        return o->next > 0;
    }
    s->single++;
    return o->holder < l->options.holders;
}

static bool
check_holding(const struct live *l, uint32_t number, struct sums *s)
{
    const struct holding *h = holding_at(l, number);

    if (h->holder >= l->options.holders || h->amount == 0 ||
        object_at(l, h->object)->holder != HOLDER_MANY)
        return false;
    s->amounts -= h->amount * weight(l, h->object);
    s->holdings -= weight(l, h->object);
    return find_holding(l, h->object, h->holder) == number;
}

/* The lists of one holder; at most as many as are counted down to 0. */
static bool
check_lists(const struct live *l, uint32_t holder, size_t *objects,
            size_t *holdings)
{
    uint32_t n, before = 0;

    for (n = l->held[holder].objects; n != 0; n = object_at(l, n)->next) {
        if (*objects == 0 || object_at(l, n)->holder != holder ||
            object_at(l, n)->prev != before)
            return false;
        before = n;
        --*objects;
    }
    before = 0;
    for (n = l->held[holder].holdings; n != 0; n = holding_at(l, n)->next) {
        if (*holdings == 0 || holding_at(l, n)->holder != holder ||
            holding_at(l, n)->prev != before)
            return false;
        before = n;
        --*holdings;
    }
    return true;
}

static bool
check_told(const struct live *l, size_t waiting)
{
    uint32_t n, last = 0;

    if (l->before == 0)
        return l->tell_first == 0 && l->tell_last == 0;
    for (n = l->tell_first; n != 0; n = history_at(l, n)->next) {
        if (waiting == 0 || !history_at(l, n)->waiting)
            return false;
        last = n;
        waiting--;
    }
    return waiting == 0 && last == l->tell_last;
}

bool
live_check(const struct live *l)
{
    struct sums s = {0};
    uint32_t n, from = 0, steps = UINT32_MAX;
    size_t holdings = l->holdings.records;

    if (!arena_check(&l->objects) || !arena_check(&l->holdings) ||
        !table_check(&l->names) || !table_check(&l->holders))
        return false;
    while ((n = arena_next(&l->objects, &from, &steps)) != 0)
        if (!check_object(l, n, &s))
            return false;
    from = 0;
    while ((n = arena_next(&l->holdings, &from, &steps)) != 0)
        if (!check_holding(l, n, &s))
            return false;
    if (s.amounts != 0 || s.holdings != 0 || s.objects != l->count ||
        s.idle != l->idle || l->names.entries != l->count ||
        l->objects.records != l->count || l->holders.entries != holdings)
        return false;
    for (n = 0; n < l->options.holders; n++)
        if (!check_lists(l, n, &s.single, &holdings))
            return false;
    return s.single == 0 && holdings == 0 && check_told(l, s.waiting);
}
