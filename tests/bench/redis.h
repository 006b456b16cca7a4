/* tests/bench/redis.h - history as users of Redis keep it: a hash for each key
 * and day, in which HINCRBY counts its hours.
 *
 * The server of the PATH is started on a socket in a folder; it appends every
 * command to a file and syncs that before it answers, as countd does.  What
 * fails ends the bench. */
#ifndef COUNTD_TESTS_BENCH_REDIS_H
#define COUNTD_TESTS_BENCH_REDIS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "common/store/store.h"

struct redis {
    pid_t pid;
    int fd;
    char *text; /* commands, or an answer */
};

/* False: redis-server is not installed. */
bool redis_open(struct redis *r, const char *dir);
void redis_close(struct redis *r);

/* Sends increments and waits for all answers; milliseconds. */
double redis_apply(struct redis *r, const struct store_delta *deltas,
                   size_t count);

/* Bytes of memory that its data take. */
double redis_size(struct redis *r);

#endif
