/* tests/bench/redis.h - redis-servers, where they are installed, and history as
 * users of Redis keep it: a hash for each key and day, in which HINCRBY counts
 * its hours. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_BENCH_REDIS_H
#define COUNTD_TESTS_BENCH_REDIS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/store/store.h"
#include "tests/lib/daemon.h"

struct redis {
    struct daemon daemon;
    uint16_t port; /* 0: not there */
    int fd;        /* a connection, of what follows */
};

/* Starts one on a free port, with its files in a folder.  `sync`: it appends
 * every command to a file and syncs that, "always" before it answers, or
 * "everysec"; NULL: it keeps nothing.  False: not installed. */
bool redis_open(struct redis *r, const char *dir, const char *sync);
void redis_close(struct redis *r);

/* Sends increments and waits for all answers; milliseconds. */
double redis_apply(struct redis *r, const struct store_delta *deltas,
                   size_t count);

/* Bytes of memory that its data take. */
double redis_size(struct redis *r);

#endif
