/* worker/fold_memory.c - see fold_memory.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/fold_memory.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

/* ---- regions ----------------------------------------------------------- */

#define REGION_HUGE ((size_t)2 << 20)

int
fold_region_open(struct fold_region *r, size_t size)
{
    void *at;

    assert(size > 0);
    at = mmap(NULL, size, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
        return -errno;
    if (size >= 4 * REGION_HUGE) {
        /* Probing a large table misses the TLB at each step without; where
         * the kernel has no huge pages it is only slower. */
        (void)madvise(at, size, MADV_HUGEPAGE);
    }
    *r = (struct fold_region){.at = at, .size = size};
    return 0;
}

void
fold_region_close(struct fold_region *r)
{
    if (!r->at)
        return;
    (void)munmap(r->at, r->size); /* cannot fail for a map we made */
    *r = (struct fold_region){0};
}

void
fold_region_trim(struct fold_region *r, size_t keep)
{
    keep = (keep + REGION_HUGE - 1) / REGION_HUGE * REGION_HUGE;
    /* A failure only means that the pages stay ours. */
    if (keep < r->size)
        (void)madvise(r->at + keep, r->size - keep, MADV_DONTNEED);
}

/* ---- tables ------------------------------------------------------------ */

int
fold_table_open(struct fold_table *t, uint32_t count)
{
    assert((count & (count - 1)) == 0);
    *t = (struct fold_table){.mask = count - 1, .limit = count / 4 * 3};
    return fold_region_open(&t->cells, count * sizeof(struct fold_cell));
}

static int
table_grow(struct fold *f, struct fold_table *t)
{
    const size_t more = 2 * table_size(t);
    struct fold_table bigger;
    uint32_t at;
    int rc;

    if (t->mask >= UINT32_MAX / 4 ||
        (!f->wide && fold_memory(f) + more > f->memory))
        return -ENOBUFS;
    rc = fold_table_open(&bigger, 2 * (t->mask + 1));
    if (rc < 0)
        return rc == -ENOMEM ? -ENOBUFS : rc;
    for (at = 0; at <= t->mask; at++) {
        const struct fold_cell *c = &cells_of(t)[at];

        if (c->reference != 0)
            table_put(&bigger, c->tag, c->reference);
    }
    fold_region_close(&t->cells);
    *t = bigger;
    return 0;
}

int
fold_table_clear(struct fold_table *t)
{
    const bool fits = t->mask + 1 == FOLD_CELLS_MIN || t->used > t->mask / 8;

    if (fits) {
        memset(t->cells.at, 0, table_size(t));
        t->used = 0;
        return 0;
    }
    fold_region_close(&t->cells);
    return fold_table_open(t, FOLD_CELLS_MIN);
}

/* ---- memory ------------------------------------------------------------ */

size_t
fold_memory(const struct fold *f)
{
    return f->arena_used + table_size(&f->names) + table_size(&f->entries) +
           f->entries_most * FOLD_SCRATCH_SIZE;
}

int
fold_reserve(struct fold *f)
{
    const size_t more = FOLD_GROUP * record_size_max(f);
    int rc = 0;

    if (f->names.used + FOLD_GROUP > f->names.limit)
        rc = table_grow(f, &f->names);
    if (rc == 0 && f->entries.used + FOLD_GROUP > f->entries.limit)
        rc = table_grow(f, &f->entries);
    if (rc < 0)
        return rc;
    if (f->arena_used + more > f->arena.size)
        return -ENOBUFS;
    if (!f->wide &&
        fold_memory(f) + more + FOLD_GROUP * FOLD_SCRATCH_SIZE > f->memory)
        return -ENOBUFS;
    return 0;
}

bool
fold_expects_fit(const struct fold *f)
{
    return fold_memory(f) <= f->memory / 2;
}
