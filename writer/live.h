/* writer/live.h - live objects: named counters or semaphores in memory, and
 * what each connection holds of them.
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
 * comes, each gets a holding of its own, until nobody holds anything.
 *
 * An object that nobody holds stays until a sweep removes it: a counter when
 * its last change is in an earlier window, a semaphore at every sweep.
 *
 * History: when it is on, what was acquired, released and refused is added
 * up per object until live_tally() takes it.
 *
 * All arithmetic is in 64 bits.  Names are hashed with a random key.  Memory
 * is that of the budget; above it live_acquire() says FRAME_NO_MEMORY and
 * nothing has changed.
 *
 * Ownership: the caller's, between init and fini.  One thread.
 */
#ifndef COUNTD_LIVE_H
#define COUNTD_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/arena.h"
#include "common/frame.h"
#include "common/hash.h"
#include "common/table.h"

enum live_kind { LIVE_COUNTER, LIVE_SEMAPHORE };

struct live_options {
    enum live_kind kind;
    struct budget *budget; /* borrowed; may be shared with others */
    size_t slots;          /* of the index, at start */
    uint32_t holders;      /* connections: numbers 0 to holders - 1 */
    uint32_t window_s;     /* counter: stats_interval */
    bool history;
};

struct live_figures {
    uint64_t created;       /* objects, ever */
    uint64_t swept;         /* sweeps done */
    uint64_t last_sweep_us; /* time the last one took, in all its steps */
    uint64_t total_sweep_us;
};

struct live {
    struct live_options options;
    struct hash_key key;
    struct arena objects;
    struct arena holdings;
    struct table names;   /* of objects */
    struct table holders; /* of holdings, by object and holder */
    uint32_t window;      /* the present one */
    size_t count;         /* objects */
    struct live_figures figures;
    /* ... */
};

int live_init(struct live *l, const struct live_options *options);
void live_fini(struct live *l);

/* The time for all that follows; once per turn.  True when a sweep is due. */
bool live_clock(struct live *l, uint64_t unix_ms);

/* Hash of a name, for the calls below; live_prefetch() may be called a few
 * names ahead of them. */
uint32_t live_hash(const struct live *l, const uint8_t *name, size_t size);
void live_prefetch(const struct live *l, uint32_t hash);

/* Consumption of a counter, what is available of a semaphore.
 * FRAME_NOT_FOUND. */
enum frame_status live_get(const struct live *l, uint32_t hash,
                           const uint8_t *name, size_t size, uint32_t *value);

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

/* Removes what may be removed, `steps` objects at a time.  True when this
 * sweep is through. */
bool live_sweep(struct live *l, uint32_t steps);

/* One record of a dump. */
struct live_record {
    uint32_t current;
    uint32_t maximum; /* of the window; a semaphore: its initial value */
    uint16_t name_size;
    const uint8_t *name; /* until the next call that changes anything */
};

/* The next object at or after *from (0 at first); looks at `steps` places at
 * most, as arena_next().  Objects that live throughout a dump are met exactly
 * once.  1: *out is one, 0: all done, -EAGAIN: steps used up, call again. */
int live_next(const struct live *l, uint32_t *from, uint32_t *steps,
              struct live_record *out);

/* What happened to one object since its last tally. */
struct live_tally {
    uint64_t acquired;
    uint64_t released;
    uint64_t refused; /* resources asked for in refused requests */
    uint16_t name_size;
    const uint8_t *name;
};

/* The object that has waited longest with something to tell: looks without
 * taking.  False: none.  live_tallied() clears it. */
bool live_tally(const struct live *l, struct live_tally *out);
void live_tallied(struct live *l);

/* Bytes taken for all this. */
uint64_t live_memory(const struct live *l);

#endif
