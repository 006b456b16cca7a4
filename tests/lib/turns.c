/* tests/lib/turns.c - see turns.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/turns.h"

#include "tests/lib/daemon.h"
#include "tests/lib/test.h"

#define LIMIT_MS 30000

struct turns {
    struct loop *loop;
    struct loop_timer limit;
    struct loop_timer tick;
    bool late;
};

static void
limit_due(struct loop_timer *timer)
{
    struct turns *t = LOOP_OWNER(timer, struct turns, limit);

    t->late = true;
    loop_stop(t->loop);
}

static void
tick_due(struct loop_timer *timer)
{
    struct turns *t = LOOP_OWNER(timer, struct turns, tick);

    loop_arm(t->loop, timer, loop_now_ms(t->loop) + 1);
}

void
turns_run(struct loop *loop)
{
    struct turns t = {
        .loop = loop, .limit = {.due = limit_due}, .tick = {.due = tick_due}};

    loop_arm(loop, &t.limit, test_deadline(LIMIT_MS));
    loop_arm(loop, &t.tick, 1);
    assert_rc(loop_run(loop), 0);
    loop_disarm(&t.limit);
    loop_disarm(&t.tick);
    assert_false(t.late);
}
