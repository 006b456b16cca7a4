/* tests/bench/live_load.h - load for servers of the counter protocol, and the
 * least that one of them can do.  Names have 20 bytes.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_BENCH_LIVE_LOAD_H
#define COUNTD_TESTS_BENCH_LIVE_LOAD_H

#include <sys/types.h>

#include "tests/bench/load.h"

#define LIVE_NAME_SIZE 20
#define LIVE_KNOWN     1000 /* names of pairs */

/* Pairs of an Acquire of 1 and a Release of 1 a second; times of requests. */
double live_load_run(unsigned conns, unsigned depth, uint64_t ms, uint16_t port,
                     struct times *t);

/* Takes one of each name from `from` to `to` - 1: seconds. */
double live_load_fill(int fd, uint64_t from, uint64_t to);

/* A Dump: seconds until its end has come.  *records is what came. */
double live_load_dump(int fd, uint64_t *records);

/* A process that answers every request with a success, and knows no names.  A
 * Dump has `records` records. */
pid_t live_ceiling_start(uint16_t *port, uint64_t records);

#endif
