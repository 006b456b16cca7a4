/* writer/live/live.c - live objects: counters and semaphores in memory.
 *
 * Entry points: live_clock(), live_get(), live_held(), live_acquire(),
 * live_sweep(), live_next(). */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/live/live.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "common/base/clock.h"
#include "writer/live/live_object.h"
#include "writer/map.h"

#define PAGE           4096
#define HOLDERS_PART   8  /* places for names, for each one for holdings */
#define HOLDINGS_SHARE 32 /* 1 / this of the budget is only for holdings */

/* ---- memory -------------------------------------------------------------- */

/* Maps the lists of the holders and both indexes, one after the other.  Pages
 * take memory only once they are touched; the budget has all of it at once. */
static int
take_area(struct live *l)
{
    const size_t size =
        l->options.holders * sizeof *l->held +
        (l->names.count + l->holders.count) * sizeof *l->names.first;

    l->area_size = (size + PAGE - 1) / PAGE * PAGE;
    if (!budget_take(l->options.budget, l->area_size))
        return -ENOMEM;
    l->held = map_bytes(l->area_size);
    if (!l->held) {
        budget_give(l->options.budget, l->area_size);
        return -ENOMEM;
    }
    l->names.first = (uint32_t *)(void *)(l->held + l->options.holders);
    l->holders.first = l->names.first + l->names.count;
    return 0;
}

/* The index of names takes an eighth of the memory at most. */
static size_t
count_places(const struct live_options *o)
{
    const uint64_t most =
        (o->budget->max - o->budget->used) / 8 / sizeof(uint32_t);

    if (o->places < most)
        return o->places > 0 ? o->places : 1;
    return most > 0 ? (size_t)most : 1;
}

int
live_init(struct live *l, const struct live_options *options)
{
    int rc;

    assert(options->holders > 0 && options->holders < HOLDER_MANY);
    assert(options->window_s > 0);
    *l = (struct live){.options = *options, .wants_sweep = true};
    if (getrandom(&l->key, sizeof l->key, 0) != sizeof l->key)
        return -EIO;
    l->names.count = count_places(options);
    l->holders.count = l->names.count / HOLDERS_PART + 1;
    rc = arena_init(&l->objects, options->budget);
    if (rc < 0)
        return rc;
    rc = arena_init(&l->holdings, options->budget);
    if (rc < 0)
        goto fini_objects;
    rc = take_area(l);
    if (rc == 0)
        return 0;
    arena_fini(&l->holdings);
fini_objects:
    arena_fini(&l->objects);
    return rc;
}

void
live_fini(struct live *l)
{
    (void)munmap(l->held, l->area_size); /* as mapped: cannot fail */
    budget_give(l->options.budget, l->area_size);
    arena_fini(&l->holdings);
    arena_fini(&l->objects);
    *l = (struct live){0};
}

uint64_t
live_memory(const struct live *l)
{
    return l->objects.taken + l->holdings.taken + l->area_size;
}

/* ---- time ---------------------------------------------------------------- */

bool
live_clock(struct live *l, uint64_t unix_ms)
{
    const uint64_t interval = unix_ms / 1000 / l->options.window_s;

    /* If the clock was set back, one sweep too many begins, not one too few. */
    l->wants_sweep |= interval != l->interval;
    l->interval = interval;
    if (l->options.kind == LIVE_COUNTER)
        l->window = (uint32_t)interval;
    return live_needs_sweep(l);
}

/* ---- who holds what ------------------------------------------------------ */

/* Puts a node first in the list of its holder. */
static void
list_add(const struct arena *a, uint32_t *first, uint32_t number)
{
    struct live_node *node = node_at(a, number);

    node->prev = 0;
    node->next = *first;
    if (*first != 0)
        node_at(a, *first)->prev = number;
    *first = number;
}

static void
list_remove(const struct arena *a, uint32_t *first, uint32_t number)
{
    const struct live_node *node = node_at(a, number);

    if (node->prev != 0)
        node_at(a, node->prev)->next = node->next;
    else
        *first = node->next;
    if (node->next != 0)
        node_at(a, node->next)->prev = node->prev;
}

static void
link_object(struct live *l, uint32_t number, uint32_t holder)
{
    struct object *o = object_at(l, number);

    assert(o->node.holder == HOLDER_NONE);
    o->node.holder = holder;
    list_add(&l->objects, &l->held[holder].objects, number);
}

static void
unlink_object(struct live *l, uint32_t number)
{
    struct object *o = object_at(l, number);

    assert(o->node.holder < l->options.holders);
    list_remove(&l->objects, &l->held[o->node.holder].objects, number);
    o->node.holder = HOLDER_NONE;
}

/* 0: no memory. */
static uint32_t
new_holding(struct live *l, uint32_t object, uint32_t holder, uint32_t amount)
{
    const uint32_t number = arena_take(&l->holdings, sizeof(struct holding));

    struct holding *h = holding_at(l, number);

    if (number == 0)
        return 0;
    *h = (struct holding){
        .node.holder = holder, .object = object, .amount = amount};
    index_add(&l->holders, &l->holdings, holding_hash(l, object, holder),
              number);
    list_add(&l->holdings, &l->held[holder].holdings, number);
    return number;
}

static void
end_holding(struct live *l, uint32_t number)
{
    const struct holding *h = holding_at(l, number);
    const uint32_t holder = h->node.holder;

    list_remove(&l->holdings, &l->held[holder].holdings, number);
    index_remove(&l->holders, &l->holdings, holding_hash(l, h->object, holder),
                 number);
    arena_give(&l->holdings, number);
}

/* A second holder comes: each gets a holding.  Returns the second one's, which
 * has nothing so far; 0: no memory, and nothing has changed. */
static uint32_t
split_holdings(struct live *l, uint32_t number, uint32_t second)
{
    struct object *o = object_at(l, number);
    const uint32_t mine = new_holding(l, number, o->node.holder, o->current);
    uint32_t other;

    if (mine == 0)
        return 0;
    other = new_holding(l, number, second, 0);
    if (other == 0) {
        end_holding(l, mine);
        return 0;
    }
    unlink_object(l, number);
    o->node.holder = HOLDER_MANY;
    o->node.next = 2;
    return other;
}

/* Makes `holder` one of the object's.  *holding is its holding, or 0 when it
 * is the only holder.  False: no memory, and nothing has changed. */
static bool
join_object(struct live *l, uint32_t number, uint32_t holder, uint32_t *holding)
{
    struct object *o = object_at(l, number);

    *holding = 0;
    if (o->node.holder == holder)
        return true;
    if (o->node.holder == HOLDER_NONE) {
        link_object(l, number, holder);
        return true;
    }
    if (o->node.holder != HOLDER_MANY) {
        *holding = split_holdings(l, number, holder);
        return *holding != 0;
    }
    *holding = find_holding(l, number, holder);
    if (*holding == 0) {
        *holding = new_holding(l, number, holder, 0);
        o->node.next += *holding != 0;
    }
    return *holding != 0;
}

/* Removes a holding that has become 0. */
static void
leave_object(struct live *l, uint32_t number, uint32_t holding)
{
    struct object *o = object_at(l, number);

    assert(holding_at(l, holding)->amount == 0);
    assert(o->node.holder == HOLDER_MANY && o->node.next > 0);
    end_holding(l, holding);
    o->node.next--;
    if (o->node.next == 0) {
        assert(o->current == 0);
        o->node.holder = HOLDER_NONE;
    }
}

/* ---- the operations ------------------------------------------------------ */

/* Before each change: begins a new window, if it is time, with what is taken
 * now.  Semaphores have only one window, and never exceed their maximum. */
static void
begin_change(const struct live *l, struct object *o)
{
    if (o->window < l->window)
        o->maximum = o->current;
    o->window = l->window;
}

enum frame_status
live_get(const struct live *l, uint32_t hash, const uint8_t *name, size_t size,
         uint32_t *value)
{
    const uint32_t number = find_object(l, hash, name, size);
    const struct object *o;

    if (number == 0)
        return FRAME_NOT_FOUND;
    o = object_at(l, number);
    *value =
        l->options.kind == LIVE_COUNTER ? o->current : o->maximum - o->current;
    return FRAME_OK;
}

/* Returns how much a holder has of an object.  *holding is its holding, or 0 if
 * it has none of its own. */
static uint32_t
amount_held(const struct live *l, uint32_t number, uint32_t holder,
            uint32_t *holding)
{
    const struct object *o = object_at(l, number);

    *holding = 0;
    if (o->node.holder == holder)
        return o->current;
    if (o->node.holder == HOLDER_MANY)
        *holding = find_holding(l, number, holder);
    return *holding == 0 ? 0 : holding_at(l, *holding)->amount;
}

uint32_t
live_held(const struct live *l, uint32_t holder, uint32_t hash,
          const uint8_t *name, size_t size)
{
    const struct live_holder *head = &l->held[holder];
    uint32_t number, holding;

    if (head->objects == 0 && head->holdings == 0)
        return 0;
    number = find_object(l, hash, name, size);
    return number == 0 ? 0 : amount_held(l, number, holder, &holding);
}

static enum frame_status
no_memory(struct live *l)
{
    l->stats.no_memory++;
    l->wants_sweep |= l->options.kind == LIVE_SEMAPHORE && l->idle > 0;
    return FRAME_NO_MEMORY;
}

/* Makes a record for a name.  0: no memory. */
static uint32_t
take_record(struct live *l, size_t name_size)
{
    struct budget *b = l->options.budget;
    const uint64_t max = b->max, most = max - max / HOLDINGS_SHARE;
    uint32_t number;

    /* For a name, the budget is what names may use, or what is used already. */
    b->max = most > b->used ? most : b->used;
    number = arena_take(&l->objects, OBJECT_SIZE + name_size);
    b->max = max;
    return number;
}

/* Makes the object of a new name, which the holder is the first to acquire. */
static enum frame_status
create_object(struct live *l, uint32_t holder, uint32_t hash,
              const struct frame_ask *ask)
{
    const uint32_t number = take_record(l, ask->name_size);
    struct object *o;

    if (number == 0)
        return no_memory(l);
    o = object_at(l, number);
    o->current = ask->resources;
    o->maximum = l->options.kind == LIVE_COUNTER ? ask->resources : ask->bound;
    o->window = l->window;
    o->node.holder = HOLDER_NONE;
    o->name_size = ask->name_size;
    memcpy(o->name, ask->name, ask->name_size);
    index_add(&l->names, &l->objects, hash, number);
    link_object(l, number, holder);
    l->count++;
    l->stats.created++;
    return FRAME_OK;
}

enum frame_status
live_acquire(struct live *l, uint32_t holder, uint32_t hash,
             const struct frame_ask *ask)
{
    const uint32_t number = find_object(l, hash, ask->name, ask->name_size);
    struct object *o;
    uint64_t bound;
    uint32_t holding;

    assert(holder < l->options.holders);
    assert(ask->resources > 0 && ask->resources <= ask->bound);
    if (number == 0)
        return create_object(l, holder, hash, ask);
    o = object_at(l, number);
    bound = l->options.kind == LIVE_COUNTER ? ask->bound : o->maximum;
    if ((uint64_t)o->current + ask->resources > bound)
        return FRAME_NOT_AVAILABLE;
    if (!join_object(l, number, holder, &holding))
        return no_memory(l);
    begin_change(l, o);
    l->idle -= o->current == 0;
    o->current += ask->resources;
    if (o->maximum < o->current)
        o->maximum = o->current;
    if (holding != 0)
        holding_at(l, holding)->amount += ask->resources;
    return FRAME_OK;
}

/* Takes `amount` from what a holder has: its `holding` or, without one, the
 * object's whole amount. */
static void
reduce_object(struct live *l, uint32_t number, uint32_t holding,
              uint32_t amount)
{
    struct object *o = object_at(l, number);
    struct holding *h;

    assert(amount <= o->current);
    begin_change(l, o);
    o->current -= amount;
    l->idle += o->current == 0;
    if (holding == 0) {
        if (o->current == 0)
            unlink_object(l, number);
        return;
    }
    h = holding_at(l, holding);
    assert(amount <= h->amount);
    h->amount -= amount;
    if (h->amount == 0)
        leave_object(l, number, holding);
}

enum frame_status
live_release(struct live *l, uint32_t holder, uint32_t hash,
             const struct frame_ask *ask)
{
    const uint32_t number = find_object(l, hash, ask->name, ask->name_size);
    uint32_t holding;

    assert(holder < l->options.holders);
    if (number == 0)
        return FRAME_NOT_FOUND;
    if (ask->resources == 0) {
        begin_change(l, object_at(l, number));
        return FRAME_OK;
    }
    if (ask->resources > amount_held(l, number, holder, &holding))
        return FRAME_NOT_ACQUIRED;
    reduce_object(l, number, holding, ask->resources);
    return FRAME_OK;
}

bool
live_drop(struct live *l, uint32_t holder, uint32_t steps)
{
    const struct live_holder *head = &l->held[holder];

    assert(holder < l->options.holders);
    for (; steps > 0 && head->objects != 0; steps--)
        reduce_object(l, head->objects, 0,
                      object_at(l, head->objects)->current);
    for (; steps > 0 && head->holdings != 0; steps--) {
        const struct holding *h = holding_at(l, head->holdings);

        reduce_object(l, h->object, head->holdings, h->amount);
    }
    return head->objects == 0 && head->holdings == 0;
}

/* ---- all objects, a few at a time ---------------------------------------- */

static bool
is_removable(const struct live *l, uint32_t number)
{
    const struct object *o = object_at(l, number);

    /* Any other window, even a later one: the clock may have been set back. */
    return o->current == 0 &&
           (l->options.kind == LIVE_SEMAPHORE || o->window != l->window);
}

static void
remove_object(struct live *l, uint32_t number)
{
    const struct object *o = object_at(l, number);

    assert(o->node.holder == HOLDER_NONE);
    assert(l->count > 0 && l->idle > 0);
    index_remove(&l->names, &l->objects, live_hash(l, o->name, o->name_size),
                 number);
    arena_give(&l->objects, number);
    l->count--;
    l->idle--;
}

bool
live_sweep(struct live *l, uint32_t steps)
{
    const uint64_t start_ns = clock_ns();
    uint32_t number;

    if (!l->sweeping) {
        l->sweeping = true;
        l->wants_sweep = false;
        l->sweep_from = 0;
        l->sweep_ns = 0;
    }
    while ((number = arena_next(&l->objects, &l->sweep_from, &steps)) != 0)
        if (is_removable(l, number))
            remove_object(l, number);
    l->sweep_ns += clock_ns() - start_ns;
    if (steps == 0)
        return false;
    l->sweeping = false;
    l->stats.swept++;
    l->stats.last_sweep_us = l->sweep_ns / 1000;
    l->stats.total_sweep_us += l->stats.last_sweep_us;
    return true;
}

int
live_next(const struct live *l, struct live_walk *walk, struct live_record *out)
{
    const uint32_t number = arena_next(&l->objects, &walk->from, &walk->steps);
    const struct object *o = object_at(l, number);

    if (number == 0)
        return walk->steps == 0 ? -EAGAIN : 0;
    *out = (struct live_record){
        .current = o->current,
        .maximum = o->window < l->window ? o->current : o->maximum,
        .name_size = o->name_size,
        .name = o->name,
    };
    return 1;
}
