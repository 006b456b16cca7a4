/* tests/unit/test_live_ends.c - counters and semaphores: what ends. Connections
 * and with them what they hold, windows, objects that nobody uses. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/live_requests.h"

/* ---- ends -------------------------------------------------------------- */

#define CASE(name, r) TEST_IN(name, struct fixture *r, set_up, tear_down)

CASE(a_reset_releases_in_the_same_turn, r)
{
    struct peer *p, *q;

    start_listening(r, (struct live_options){.kind = LIVE_COUNTER});
    p = join_tcp(r);
    q = join_tcp(r);
    ask_acquire(r, p, "n", 3, 5);
    reset_peer(p);

    expect_get(r, q, "n", 0);
    assert_int_equal(r->listener->open, 1);
}

CASE(many_holdings_are_released_in_steps, r)
{
    const size_t count = 300000;
    uint8_t bytes[64];
    struct peer *p, *q;

    start_server(r, (struct live_options){.kind = LIVE_COUNTER, .holders = 2});
    p = join_pair(r);
    q = join_pair(r);
    acquire_many(r, p, count);
    leave_server(r, p);
    run_turns(r, 1);

    /* The socket is closed, its number is not free. */
    assert_int_equal(r->listener->open, 1);
    assert_int_equal(r->listener->used, 2);
    send_later(q, bytes, live_client_put(bytes, LIVE_CLIENT_STATS, 1, NULL, 0));
    pump_peer(q);
    await_bytes(r, q, LIVE_CLIENT_HEADER);
    assert_non_null(memmem(q->in, q->size, "curr_connections1", 17));
    q->size = 0;
    ask_noop(r, q);
    while (r->listener->used == 2)
        run_turns(r, 1);

    expect_get(r, q, "many:0", 0);
    expect_get(r, q, "many:299999", 0);
    assert_true(live_check(&r->server.live));
}

CASE(ten_thousand_holdings_take_few_turns, r)
{
    struct peer *p, *q;
    size_t before;

    start_counter(r);
    p = join_pair(r);
    q = join_pair(r);
    acquire_many(r, p, 10000);
    leave_server(r, p);
    before = r->turns;
    while (r->listener->used == 2)
        run_turns(r, 1);

    assert_true(r->turns - before <= 10);
    expect_get(r, q, "many:9999", 0);
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
    struct peer *p, *q;
    struct live_record record;
    struct live_walk walk = {.steps = UINT32_MAX};
    size_t seen = 0;

    start_listening(r, (struct live_options){.kind = LIVE_COUNTER});
    p = join_tcp(r);
    q = join_tcp(r);
    acquire_many(r, p, 5000);
    ask_acquire(r, q, "many:1", 1, 10);
    conns_stop(r->conns, 1000, note_stopped, r);
    run_until(r, has_stopped);
    run_turns(r, 3);

    assert_true(p->ended && q->ended);
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
    uint8_t bytes[64];
    struct peer *p;

    start_server(r,
                 (struct live_options){.kind = LIVE_COUNTER, .window_s = 3600});
    p = join_pair(r);
    r->want = 1; /* one at the start */
    run_until(r, is_swept);
    ask_acquire(r, p, "used", 1, 1);
    ask_acquire(r, p, "unused", 1, 1);
    say_bytes(r, p, bytes, live_client_put_release(bytes, 1, "unused", 6, 1));
    expect_done(r, p, LIVE_CLIENT_RELEASE, 1);
    expect_get(r, p, "unused", 0);
    fault_clock(3600 * 1000);
    ask_noop(r, p); /* a clock that is set is seen at the next event */
    r->want = 2;
    run_until(r, is_swept);

    expect_absent(r, p, "unused");
    expect_get(r, p, "used", 1);
    assert_int_equal(r->server.live.stats.swept, 2);
}

CASE(unused_semaphores_are_removed_at_each_interval, r)
{
    uint8_t bytes[64];
    struct peer *p;

    start_server(r,
                 (struct live_options){.kind = LIVE_SEMAPHORE, .window_s = 1});
    p = join_pair(r);
    r->want = 1;
    run_until(r, is_swept);
    ask_acquire(r, p, "unused", 1, 3);
    ask_acquire(r, p, "used", 1, 3);
    say_bytes(r, p, bytes, live_client_put_release(bytes, 1, "unused", 6, 1));
    expect_done(r, p, LIVE_CLIENT_RELEASE, 1);
    r->want = r->server.live.stats.swept + 1;
    run_until(r, is_swept); /* the loop's timer */

    expect_absent(r, p, "unused");
    expect_get(r, p, "used", 2);
}
