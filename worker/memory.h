/* worker/memory.h - how much anonymous memory this process has.
 *
 * The promise is worker.memory and 64 MB on top.  The fold counts its own
 * bytes; what the store's engine keeps for later is not ours to count, but it
 * can be seen from here, and closing the store gives it back.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WORKER_MEMORY_H
#define COUNTD_WORKER_MEMORY_H

#include <stddef.h>

/* Has malloc() keep what the store takes and returns for each keyspace. */
void memory_init(void);

/* Resident bytes that no file backs, less the free memory of malloc; 0:
 * unknown, as without /proc. */
size_t memory_in_use(void);

/* Returns the free memory of malloc to the system. */
void memory_trim(void);

#endif
