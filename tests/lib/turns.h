/* tests/lib/turns.h - a loop that runs until a test stops it.
 *
 *     static bool
 *     after_turn(void *ctx) ... if (what I wait for) loop_stop(loop);
 *
 *     loop_after_turn(loop, after_turn, ctx);
 *     turns_run(loop);
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_LIB_TURNS_H
#define COUNTD_TESTS_LIB_TURNS_H

#include "common/net/loop.h"

/* Runs the loop until loop_stop(), with a turn every millisecond at least.
 * The test fails after test_patience() of 30 s. */
void turns_run(struct loop *loop);

#endif
