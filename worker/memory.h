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
    int fd; /* /proc/self/statm; -1: cannot tell */
    size_t page_size;
};

/* Without /proc it works and always says 0. */
void memory_open(struct memory *m);
void memory_close(struct memory *m);

/* Bytes resident that no file backs, less what malloc has free for its next
 * calls; 0 when it cannot be told. */
size_t memory_in_use(const struct memory *m);

/* Gives what malloc keeps free back to the machine. */
void memory_trim(void);

#endif
