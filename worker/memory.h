/* worker/memory.h - how much anonymous memory this process has.
 *
 * The promise is worker.memory and 64 MB on top.  The fold counts its own
 * bytes; what the store's engine keeps for later is not ours to count, but it
 * can be seen from here, and closing the store gives it back.
 */
#ifndef COUNTD_WORKER_MEMORY_H
#define COUNTD_WORKER_MEMORY_H

#include <stddef.h>

struct memory {
    int fd; /* /proc/self/statm; -1: not available */
    size_t page_size;
};

/* Without /proc memory_in_use() returns 0. */
void memory_open(struct memory *m);
void memory_close(struct memory *m);

/* Resident bytes that no file backs, less the free memory of malloc; 0:
 * unknown. */
size_t memory_in_use(const struct memory *m);

/* Returns the free memory of malloc to the system. */
void memory_trim(void);

#endif
