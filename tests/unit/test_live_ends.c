/* tests/unit/test_live_ends.c - counters and semaphores: what ends. Connections
 * and with them what they hold, windows, objects without a holder. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/live_fixture.h"

/* ---- ends -------------------------------------------------------------- */

#define CASE(name, r) TEST_IN(name, struct fixture *r, set_up, tear_down)

CASE(a_reset_releases_in_the_same_turn, r)
{
    struct live_client *p, *q;

    start_listening(r, (struct live_options){.kind = LIVE_COUNTER});
    p = join_tcp(r);
    q = join_tcp(r);
    expect_taken(p, "n", 3, 5);
    live_client_reset(p);

    assert_int_equal(live_client_get(q, "n"), 0);
    assert_int_equal(r->listener->open, 1);
}

CASE(many_holdings_are_released_in_steps, r)
{
    struct live_client_stats stats;
    struct live_client *p, *q;

    start_server(r, (struct live_options){.kind = LIVE_COUNTER, .holders = 2});
    p = join_pair(r);
    q = join_pair(r);
    acquire_many(p, 300000);
    live_client_drop(p);
    run_turns(r, 1);

    /* The socket is closed, its number is not free. */
    assert_int_equal(r->listener->open, 1);
    assert_int_equal(r->listener->used, 2);
    live_client_stats(q, &stats);
    assert_int_equal(live_client_stat(&stats, "curr_connections"), 1);
    live_client_noop(q);
    while (r->listener->used == 2)
        run_turns(r, 1);

    assert_int_equal(live_client_get(q, "many:0"), 0);
    assert_int_equal(live_client_get(q, "many:299999"), 0);
    assert_true(live_check(&r->server.live));
}

CASE(ten_thousand_holdings_take_few_turns, r)
{
    struct live_client *p, *q;
    size_t before;

    start_counter(r);
    p = join_pair(r);
    q = join_pair(r);
    acquire_many(p, 10000);
    live_client_drop(p);
    before = r->turns;
    while (r->listener->used == 2)
        run_turns(r, 1);

    assert_true(r->turns - before <= 10);
    assert_int_equal(live_client_get(q, "many:9999"), 0);
}

static void
note_stopped(void *ctx)
{
    ((struct fixture *)ctx)->stopped = true;
}

static bool
has_stopped(struct fixture *r)
{
    return r->stopped;
}

CASE(a_stop_releases_everything, r)
{
    struct live_client *p, *q;
    struct live_record record;
    struct live_walk walk = {.steps = UINT32_MAX};
    size_t seen = 0;

    start_listening(r, (struct live_options){.kind = LIVE_COUNTER});
    p = join_tcp(r);
    q = join_tcp(r);
    acquire_many(p, 5000);
    expect_taken(q, "many:1", 1, 10);
    conns_stop(r->conns, 1000, note_stopped, r);
    run_until(r, has_stopped);
    run_turns(r, 3);

    live_client_expect_end(p);
    live_client_expect_end(q);
    assert_int_equal(r->listener->used, 0);
    while (live_next(&r->server.live, &walk, &record) == 1) {
        assert_int_equal(record.current, 0);
        seen++;
    }
    assert_int_equal(seen, 5000);
    assert_int_equal(bytes_kept(r), 0);
}

/* ---- windows and sweeps ------------------------------------------------ */

CASE(unused_counters_are_removed_after_their_window, r)
{
    struct live_client *p;

    start_server(r,
                 (struct live_options){.kind = LIVE_COUNTER, .window_s = 3600});
    p = join_pair(r);
    r->want = 1; /* one at the start */
    run_until(r, is_swept);
    expect_taken(p, "used", 1, 1);
    expect_taken(p, "unused", 1, 1);
    assert_int_equal(live_client_release(p, "unused", 1), LIVE_CLIENT_OK);
    assert_int_equal(live_client_get(p, "unused"), 0);
    fault_clock(3600 * 1000);
    live_client_noop(p); /* a clock that is set is seen at the next event */
    r->want = 2;
    run_until(r, is_swept);

    assert_int_equal(live_client_get(p, "unused"), -LIVE_CLIENT_NOT_FOUND);
    assert_int_equal(live_client_get(p, "used"), 1);
    assert_int_equal(r->server.live.stats.swept, 2);
}

CASE(unused_semaphores_are_removed_at_each_interval, r)
{
    struct live_client *p;

    start_server(r,
                 (struct live_options){.kind = LIVE_SEMAPHORE, .window_s = 1});
    p = join_pair(r);
    r->want = 1;
    run_until(r, is_swept);
    expect_taken(p, "unused", 1, 3);
    expect_taken(p, "used", 1, 3);
    assert_int_equal(live_client_release(p, "unused", 1), LIVE_CLIENT_OK);
    r->want = r->server.live.stats.swept + 1;
    run_until(r, is_swept); /* the loop's timer */

    assert_int_equal(live_client_get(p, "unused"), -LIVE_CLIENT_NOT_FOUND);
    assert_int_equal(live_client_get(p, "used"), 2);
}
