/* worker/region.c - see region.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/region.h"

#include <assert.h>
#include <errno.h>
#include <sys/mman.h>

#define REGION_HUGE ((size_t)2 << 20)

int
region_open(struct region *r, size_t size)
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
    *r = (struct region){.at = at, .size = size};
    return 0;
}

void
region_close(struct region *r)
{
    if (!r->at)
        return;
    (void)munmap(r->at, r->size); /* cannot fail for a map we made */
    *r = (struct region){0};
}

void
region_trim(struct region *r, size_t keep)
{
    keep = (keep + REGION_HUGE - 1) / REGION_HUGE * REGION_HUGE;
    /* A failure only means that the pages stay ours. */
    if (keep < r->size)
        (void)madvise(r->at + keep, r->size - keep, MADV_DONTNEED);
}
