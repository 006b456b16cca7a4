/* worker/memory.c - see memory.h. */
#include "worker/memory.h"

#include <fcntl.h>
#include <malloc.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

void
memory_open(struct memory *m)
{
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

size_t
memory_anonymous(const struct memory *m)
{
    unsigned long long size, resident, shared;
    char text[128];
    ssize_t n;

    if (m->fd < 0)
        return 0;
    n = pread(m->fd, text, sizeof text - 1, 0);
    if (n <= 0)
        return 0;
    text[n] = 0;
    if (sscanf(text, "%llu %llu %llu", &size, &resident, &shared) != 3 ||
        shared > resident)
        return 0;
    return (size_t)(resident - shared) * m->page_size;
}

void
memory_trim(void)
{
    /* Whether there was anything to give back does not matter. */
    (void)malloc_trim(0);
}
