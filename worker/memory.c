/* worker/memory.c - see memory.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "worker/memory.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <unistd.h>

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

/* The three numbers that statm starts with are pages: in all, resident, and
 * resident of files. */
size_t
memory_in_use(void)
{
    unsigned long long resident, shared;
    size_t anonymous, unused;
    const int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    char text[128], *at;
    ssize_t n;

    if (fd < 0)
        return 0;
    n = read(fd, text, sizeof text - 1);
    (void)close(fd);
    if (n <= 0)
        return 0;
    text[n] = 0;
    (void)strtoull(text, &at, 10); /* address space does not matter */
    resident = strtoull(at, &at, 10);
    shared = strtoull(at, &at, 10);
    if (shared > resident)
        return 0;
    anonymous = (size_t)(resident - shared) * (size_t)sysconf(_SC_PAGESIZE);
    unused = mallinfo2().fordblks;
    return unused < anonymous ? anonymous - unused : anonymous;
}

void
memory_trim(void)
{
    /* Whether there was anything to give back does not matter. */
    (void)malloc_trim(0);
}
