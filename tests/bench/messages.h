/* tests/bench/messages.h - load of increments, of 100 keyspaces and a million
 * keys. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_BENCH_MESSAGES_H
#define COUNTD_TESTS_BENCH_MESSAGES_H

#include "tests/bench/load.h"

/* Messages to the acknowledging port: a second. */
double messages_acked(uint16_t port, unsigned conns, unsigned depth,
                      uint64_t ms, struct times *t);

/* Messages to the silent port, as fast as they are taken, until a descriptor
 * can be read: a second. */
double messages_silent(uint16_t port, unsigned conns, int until);

/* At least `count` messages on one connection, until the server has closed it:
 * a second. */
double messages_blast(uint16_t port, uint64_t count);

#endif
