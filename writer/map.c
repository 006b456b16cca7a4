/* writer/map.c - see map.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "writer/map.h"

#include <sys/mman.h>

void *
map_bytes(size_t size)
{
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return bytes == MAP_FAILED ? NULL : bytes;
}
