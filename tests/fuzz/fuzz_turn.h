/* tests/fuzz/fuzz_turn.h - a turn of a loop in a fuzz target. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_FUZZ_FUZZ_TURN_H
#define COUNTD_TESTS_FUZZ_FUZZ_TURN_H

#include "common/net/loop.h"
#include "tests/fuzz/fuzz.h"

static inline void
fuzz_no_step(struct loop_timer *timer)
{
    (void)timer;
}

/* Does not wait, since a timer is due.  The target's loop_after_turn() stops
 * the loop. */
static inline void
fuzz_turn(struct loop *loop)
{
    struct loop_timer now = {.due = fuzz_no_step};

    loop_arm(loop, &now, 1);
    assert(loop_run(loop) == 0);
}

#endif
