/* worker/memory.c - see memory.h. */
#include "worker/memory.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

/* The store takes and returns the same memory for each keyspace: giving it
 * back to the machine in between costs more than the work.  memory_trim()
 * gives it back where it counts. */
#define KEEP_SIZE   (256 << 20)
#define GROW_SIZE   (1 << 20)
#define NO_MAP_SIZE (32 << 20) /* libc's own upper limit */

void
memory_open(struct memory *m)
{
    /* Settings libc does not know change nothing. */
    (void)mallopt(M_TRIM_THRESHOLD, KEEP_SIZE);
    (void)mallopt(M_TOP_PAD, GROW_SIZE);
    (void)mallopt(M_MMAP_THRESHOLD, NO_MAP_SIZE);
    m->page_size = (size_t)sysconf(_SC_PAGESIZE);
    m->fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
}

void
memory_close(struct memory *m)
{
    if (m->fd >= 0)
        (void)close(m->fd); /* opened for reading only */
    m->fd = -1;
}

/* The three numbers that statm starts with are pages: in all, resident, and
 * resident of files. */
size_t
memory_anonymous(const struct memory *m)
{
    unsigned long long resident, shared;
    char text[128], *at;
    ssize_t n;

    if (m->fd < 0)
        return 0;
    n = pread(m->fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return 0;
    text[n] = 0;
    (void)strtoull(text, &at, 10); /* address space does not matter */
    resident = strtoull(at, &at, 10);
    shared = strtoull(at, &at, 10);
    if (shared > resident)
        return 0;
    return (size_t)(resident - shared) * m->page_size;
}

void
memory_trim(void)
{
    /* Whether there was anything to give back does not matter. */
    (void)malloc_trim(0);
}
