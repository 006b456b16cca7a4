/* worker/later.h - logs that failed, and when to try each again.
 *
 * A log that cannot be merged now must neither hold up the others nor be
 * claimed in a circle: claiming it changes the directory, which wakes every
 * worker.  Each failure doubles its wait.  A log is known by index and inode,
 * so that a new one under an old name starts afresh.
 *
 * Pure: the caller brings the time.
 */
#ifndef COUNTD_WORKER_LATER_H
#define COUNTD_WORKER_LATER_H

#include <stdbool.h>
#include <stdint.h>

#define LATER_MAX      256 /* logs; of more the oldest are forgotten */
#define LATER_FIRST_MS 50
#define LATER_MOST_MS  5000

struct later_log {
    uint64_t index;
    uint64_t inode;
    uint64_t until_ms;
    uint64_t wait_ms; /* 0: free */
};

struct later {
    uint64_t first_ms; /* 0: nothing ever waits */
    struct later_log logs[LATER_MAX];
    unsigned next; /* entry to take when all are in use */
};

/* It failed: it waits. */
void later_note(struct later *l, uint64_t index, uint64_t inode,
                uint64_t now_ms);

/* It went well. */
void later_forget(struct later *l, uint64_t index, uint64_t inode);

/* True while it is to be left alone; *until_ms then is not above its time. */
bool later_waits(const struct later *l, uint64_t index, uint64_t inode,
                 uint64_t now_ms, uint64_t *until_ms);

#endif
