/* writer/live/live_walk.c - all objects, a few at a time: see live.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/live/live.h"

#include <assert.h>
#include <errno.h>

#include "common/base/clock.h"
#include "writer/live/live_object.h"

static bool
is_removable(const struct live *l, uint32_t number)
{
    const struct object *o = object_at(l, number);

    /* Any other window: the clock may have been set back. */
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

static void
begin_sweep(struct live *l)
{
    l->sweeping = true;
    l->wants_sweep = false;
    l->sweep_from = 0;
    l->sweep_ns = 0;
}

bool
live_sweep(struct live *l, uint32_t steps)
{
    const uint64_t start_ns = clock_ns();
    struct arena_run run;

    if (!l->sweeping)
        begin_sweep(l);
    while (arena_next(&l->objects, &l->sweep_from, &steps, &run))
        for (; run.count > 0; run.count--, run.record += run.stride)
            if (is_removable(l, run.record))
                remove_object(l, run.record);
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
    struct arena_run *run = &walk->run;
    const struct object *o;

    if (run->count == 0 &&
        !arena_next(&l->objects, &walk->from, &walk->steps, run))
        return walk->steps == 0 ? -EAGAIN : 0;
    o = object_at(l, run->record);
    walk->from = run->record + 1;
    run->record += run->stride;
    run->count--;
    *out = (struct live_record){
        .current = o->current,
        .maximum = o->window < l->window ? o->current : o->maximum,
        .name_size = o->name_size,
        .name = o->name,
    };
    return 1;
}
