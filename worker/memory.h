/* worker/memory.h - what malloc() keeps.
 *
 * The promise is worker.memory and 64 MB on top. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_WORKER_MEMORY_H
#define COUNTD_WORKER_MEMORY_H

/* Has malloc() keep what the store takes and returns for each keyspace. */
void memory_init(void);

/* Returns the free memory of malloc to the system. */
void memory_trim(void);

#endif
