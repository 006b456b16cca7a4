/* writer/map.h - memory for tables of a known largest size. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WRITER_MAP_H
#define COUNTD_WRITER_MAP_H

#include <stddef.h>

/* Zeros that take memory only where they are written; NULL: there is no address
 * space.  The caller ends it by munmap(). */
void *map_bytes(size_t size);

#endif
