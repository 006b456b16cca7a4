/* tests/lib/live_daemon.h - a countd-write that serves counters and semaphores.
 *
 *     static void
 *     a_test(void **state)
 *     {
 *         struct live_daemon *r = *state;
 *
 *         live_daemon_start(r, "counter.max_connections=2", NULL);
 *         live_client_open(&a, r->counter);
 *
 * Windows and sweeps do not end while a test runs, unless it asks for that:
 * stats_interval and gc_interval are thirty years.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_LIVE_DAEMON_H
#define COUNTD_TESTS_LIB_LIVE_DAEMON_H

#include <stdint.h>

#include "tests/lib/daemon.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"

struct live_daemon {
    struct tmpdir dir;
    struct daemon writer;
    uint16_t counter, semaphore, ack, silent; /* ports */
};

/* cmocka's setup and teardown. */
int live_daemon_setup(void **state);
int live_daemon_teardown(void **state);

/* KEY=VALUE more, a later one rules; ends with NULL. */
void live_daemon_start(struct live_daemon *r, ...);

/* SIGTERM; fails the test unless it ends well. */
void live_daemon_stop(struct live_daemon *r);

/* Lets this process, and the daemons it starts from now on, have `count`
 * descriptors; what it got. */
uint64_t live_daemon_descriptors(uint64_t count);

/* Connects from one of several addresses, by `number`: the search for a free
 * port gets slow when thousands of one address are taken. */
int live_daemon_connect_from(uint16_t port, uint64_t number);

#endif
