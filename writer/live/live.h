/* writer/live/live.h - live objects: named counters or semaphores in memory,
 * and what each connection holds of them.
 *
 * An object is a name, what is taken of it (`current`), and by kind
 *
 *   counter    the largest `current` of the window, and the window of its last
 *              change; a window is stats_interval seconds, from multiples of it
 *   semaphore  its initial value; available is initial - current
 *
 * A holder is a connection's side: how much of which object it has.  Always
 * current = the sum of what holders have of it.  Most objects have one holder
 * at a time, which is written into the object itself; when a second one
 * comes, each gets a holding of its own, until all of it is released.
 *
 * An object without a holder is idle, and stays until a sweep removes it: a
 * counter when its last change is in an earlier window, a semaphore at every
 * sweep.
 *
 * All arithmetic is in 64 bits.  Names are hashed with a random key.  Memory
 * is that of the budget; above it live_acquire() says FRAME_NO_MEMORY and
 * nothing has changed.  Names get less than all of it, so that what there is
 * can still get further holders.  Idle semaphores are swept early then; idle
 * counters are not, as their values and maxima last until their window ends.
 *
 * Ownership: the caller's, between init and fini.  One thread.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_LIVE_LIVE_H
#define COUNTD_WRITER_LIVE_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/hash.h"
#include "common/wire/frame.h"
#include "writer/live/arena.h"

enum live_kind { LIVE_COUNTER, LIVE_SEMAPHORE };

struct live_options {
    enum live_kind kind;
    struct budget *budget; /* borrowed; may be shared with others */
    size_t places;         /* of the index of names */
    uint32_t holders;      /* connections: numbers 0 to holders - 1 */
    uint32_t window_s; /* a sweep is due at its multiples; counter: of maxima */
};

struct live_stats {
    uint64_t created;       /* objects, ever */
    uint64_t swept;         /* sweeps done */
    uint64_t no_memory;     /* requests that were refused for it */
    uint64_t last_sweep_us; /* time the last one took, in all its steps */
    uint64_t total_sweep_us;
};

/* An index of records by hash: of each place the first record that belongs there;
 * each record says which is the next. */
struct live_index {
    uint32_t *first; /* numbers; 0: there is none */
    size_t count;    /* places */
    size_t used;     /* of them */
};

static inline uint32_t *
live_place(const struct live_index *x, uint32_t hash)
{
    return &x->first[(uint64_t)hash * x->count >> 32];
}

struct live {
    struct live_options options;
    struct hash_key key;
    struct arena objects;
    struct arena holdings;
    struct live_index names;   /* of objects */
    struct live_index holders; /* of holdings, by object and holder */
    uint32_t window;           /* the present one; semaphore: always 0 */
    size_t count;              /* objects */
    size_t idle;               /* of them */
    struct live_stats stats;
    struct live_holder *held; /* by holder: the lists of what it has */
    size_t area_size;         /* bytes of `held` and the indexes behind it */
    uint32_t sweep_from;      /* where the sweep goes on */
    bool sweeping;            /* one has begun and is not through */
    bool wants_sweep;         /* one is due, or would free memory */
    uint64_t interval;        /* the present one, of window_s since 1970 */
    uint64_t sweep_ns;        /* spent in this one so far */
};

/* -ENOMEM, or another errno of getrandom(). */
int live_init(struct live *l, const struct live_options *options);
void live_fini(struct live *l);

/* Whether a sweep is due or not yet through; the first one is due at once. */
static inline bool
live_needs_sweep(const struct live *l)
{
    return l->wants_sweep || l->sweeping;
}

/* The time for all that follows; once per turn.  As live_needs_sweep(). */
bool live_clock(struct live *l, uint64_t unix_ms);

/* Hash of a name, for the calls below. */
static inline uint32_t
live_hash(const struct live *l, const uint8_t *name, size_t size)
{
    return (uint32_t)hash_name(&l->key, 0, name, size);
}

/* Consumption of a counter, what is available of a semaphore.
 * FRAME_NOT_FOUND. */
enum frame_status live_get(const struct live *l, uint32_t hash,
                           const uint8_t *name, size_t size, uint32_t *value);

/* What a holder has of it. */
uint32_t live_held(const struct live *l, uint32_t holder, uint32_t hash,
                   const uint8_t *name, size_t size);

/* Checked arguments (frame_get_ask).  FRAME_NOT_AVAILABLE, FRAME_NO_MEMORY:
 * nothing has changed. */
enum frame_status live_acquire(struct live *l, uint32_t holder, uint32_t hash,
                               const struct frame_ask *ask);
/* FRAME_NOT_FOUND, FRAME_NOT_ACQUIRED. */
enum frame_status live_release(struct live *l, uint32_t holder, uint32_t hash,
                               const struct frame_ask *ask);

/* The holder has gone: releases up to `steps` of its holdings.  True when it
 * holds nothing any more; its number may then be used again. */
bool live_drop(struct live *l, uint32_t holder, uint32_t steps);

/* Removes idle objects; reads at most `steps` places, as arena_next().  True
 * when this sweep has ended; the next call begins another. */
bool live_sweep(struct live *l, uint32_t steps);

/* One record of a dump. */
struct live_record {
    uint32_t current;
    uint32_t maximum; /* of the window; a semaphore: its initial value */
    uint16_t name_size;
    const uint8_t *name; /* until the next call that changes anything */
};

/* A walk over all objects. */
struct live_walk {
    uint32_t from;  /* where to go on; 0 at first */
    uint32_t steps; /* places to look at, at most, as arena_next() */
};

/* The next object.  Objects that live throughout a walk are met exactly once,
 * whatever changes meanwhile.  1: *out is one, 0: all done, -EAGAIN: steps used
 * up. */
int live_next(const struct live *l, struct live_walk *walk,
              struct live_record *out);

/* Bytes taken for all this. */
uint64_t live_memory(const struct live *l);

#endif
