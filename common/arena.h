/* common/arena.h - records of any size in reserved address space, named by
 * 32-bit numbers.
 *
 * The space is cut into slabs; a slab holds records of one size class, and
 * goes back to the kernel when its last record does.  A record never moves,
 * so a walk in address order meets each that lives throughout exactly once,
 * whatever else is taken and given meanwhile.
 *
 * Several arenas (and tables, see table.h) may draw on one budget.  What they
 * count is memory taken from the kernel, not address space.
 *
 * Ownership: structs are the caller's, between init and fini.  No malloc once
 * initialised.  One thread.
 * Errors: 0 or a negative errno.
 */
#ifndef COUNTD_ARENA_H
#define COUNTD_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ARENA_UNIT       8      /* bytes; what a number counts */
#define ARENA_RECORD_MAX 131072 /* bytes of the largest record */

/* Bytes that its users may hold together. */
struct budget {
    uint64_t used;
    uint64_t max;
};

/* False: over the maximum, and nothing is taken. */
bool budget_take(struct budget *b, uint64_t bytes);
void budget_give(struct budget *b, uint64_t bytes);

struct arena {
    uint8_t *base;
    struct budget *budget; /* borrowed */
    /* ... */
};

/* Reserves address space for all that the budget allows, up to 32 GiB.
 * -ENOMEM. */
int arena_init(struct arena *a, struct budget *budget);
void arena_fini(struct arena *a);

/* A record of `size` bytes, not cleared; never 0.  0: over the budget. */
uint32_t arena_take(struct arena *a, size_t size);
void arena_give(struct arena *a, uint32_t record);

/* Where it is: aligned to ARENA_UNIT. */
static inline void *
arena_at(const struct arena *a, uint32_t record)
{
    return a->base + (size_t)record * ARENA_UNIT;
}

/* The first record in use at or after `from` in address order; 0: none.
 * Looks at `steps` places at most, from which it subtracts what it looked at;
 * when they are used up, *from is where to go on, and 0 is returned with
 * *steps 0. */
uint32_t arena_next(const struct arena *a, uint32_t *from, uint32_t *steps);

#endif
