/* writer/map.h - memory for tables of a known largest size. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_MAP_H
#define COUNTD_WRITER_MAP_H

#include <stddef.h>
#include <sys/mman.h>

/* Zeros that take memory only where they are written; NULL: there is no address
 * space.  The caller ends it by munmap(). */
static inline void *
map_bytes(size_t size)
{
    void *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return bytes == MAP_FAILED ? NULL : bytes;
}

#endif
