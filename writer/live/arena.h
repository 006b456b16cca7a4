/* writer/live/arena.h - records of any size in reserved address space, named by
 * 32-bit numbers.
 *
 * The space is cut into slabs; a slab holds records of one size class, and
 * goes back to the kernel when its last record does.  A record never moves,
 * so a walk in address order meets each that lives throughout exactly once,
 * whatever else is taken and given meanwhile.
 *
 * Several arenas and other tables may draw on one budget.  The budget
 * counts memory taken from the kernel, not address space.
 *
 * Ownership: structs are the caller's, between init and fini.  No malloc once
 * initialised.  One thread.
 * Errors: 0 or a negative errno.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_LIVE_ARENA_H
#define COUNTD_WRITER_LIVE_ARENA_H

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

#define ARENA_SLAB    262144 /* bytes */
#define ARENA_CLASSES 95
#define ARENA_PAGE    4096

#define ARENA_CLASS_NONE UINT8_MAX

/* The layout of the slabs of one class.  A slab begins with a bitmap of the
 * records in use. */
struct arena_class {
    uint32_t size;        /* bytes of a record */
    uint32_t count;       /* records in a slab */
    uint32_t first;       /* byte where the first one is */
    uint32_t partly_free; /* slabs with a free record; 0: none */
};

/* The state of a slab.  The lists hold slab numbers plus one; 0 ends a list.
 */
struct arena_slab {
    uint32_t next, prev; /* of its class with a free record; of empty slabs */
    uint16_t used;       /* records in use */
    uint16_t word;       /* words of the bitmap before it are full */
    uint8_t class;       /* ARENA_CLASS_NONE: not in use */
    uint8_t pages;       /* from its start that were taken of the budget */
};

struct arena {
    uint8_t *base;
    struct budget *budget; /* borrowed */
    uint64_t taken;        /* bytes of the budget */
    size_t reserved;       /* bytes of address space */
    struct arena_slab *slabs;
    uint32_t slab_max; /* there is address space for */
    uint32_t top;      /* slabs ever used */
    uint32_t empty;    /* slabs; only the first may still have its memory */
    size_t records;    /* in use */
    struct arena_class classes[ARENA_CLASSES];
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

/* The first record in use at or after *from in address order; 0: there is none,
 * or *steps is 0.  *from, 0 at first, is then where to go on, whatever is taken
 * and given meanwhile.  Looks at `steps` places at most, from which it subtracts
 * what it looked at, a record being one. */
uint32_t arena_next(const struct arena *a, uint32_t *from, uint32_t *steps);

#endif
