/* worker/memory.c - see memory.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/memory.h"

#include <malloc.h>

/* The store takes and returns the same memory for each keyspace: giving it
 * back to the machine in between costs more than the work.  memory_trim()
 * gives it back where it counts.  Pieces above MAP_SIZE are maps of their
 * own: LMDB takes 2 MB for each environment and touches little of it. */
#define TRIM_THRESHOLD (256 << 20)
#define GROW_SIZE      (1 << 20)
#define MAP_SIZE       (1 << 20)

void
memory_init(void)
{
    /* Settings libc does not know change nothing. */
    (void)mallopt(M_TRIM_THRESHOLD, TRIM_THRESHOLD);
    (void)mallopt(M_TOP_PAD, GROW_SIZE);
    (void)mallopt(M_MMAP_THRESHOLD, MAP_SIZE);
    /* Where something else serves malloc(), as AddressSanitizer does, the first
     * call sets libc's heap up, which two threads cannot do at once. */
    (void)mallinfo2();
}

void
memory_trim(void)
{
    /* Whether there was anything to give back does not matter. */
    (void)malloc_trim(0);
}
