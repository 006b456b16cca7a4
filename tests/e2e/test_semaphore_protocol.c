/* tests/e2e/test_semaphore_protocol.c - the semaphore protocol of
 * countd-write through real sockets.
 *
 * What one after another says and hears is in tests/lib/live_talk.c; here is
 * what has loops or a clock in it. */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "tests/lib/live_rig.h"
#include "tests/lib/taker.h"

#define LIMIT_MS 20000

static uint8_t batch[64 * 1024];

/* ---- connections -------------------------------------------------------- */

static void
thousands_of_semaphores_come_back_when_their_holder_goes(void **state)
{
    struct live_rig *r = *state;
    struct taker a, b;
    char name[32];
    size_t size, n;
    uint32_t i, k;

    live_rig_start(r, NULL);
    taker_open(&a, r->semaphore);
    taker_open(&b, r->semaphore);

    for (i = 0; i < 6000; i += 500) {
        for (size = 0, k = i; k < i + 500; k++) {
            n = (size_t)snprintf(name, sizeof name, "sheep%u", k);
            size += taker_put_acquire(batch + size, k, name, n, 2, 5);
        }
        taker_send(&a, batch, size);
        for (k = i; k < i + 500; k++)
            taker_expect_u32(&a, TAKER_ACQUIRE, k, 2);
    }
    assert_int_equal(taker_get(&b, "sheep5999"), 3);
    taker_drop(&a);
    for (i = 0; i < 6000; i++) {
        (void)snprintf(name, sizeof name, "sheep%u", i); /* fits */
        taker_await(&b, name, 5);
    }
    taker_close(&b);
}

/* ---- Stats and sweeps --------------------------------------------------- */

static void
a_sweep_takes_what_nobody_holds_and_another_initial_value_may_follow(
    void **state)
{
    const uint64_t end_ms = clock_ms() + LIMIT_MS * test_slow();
    struct live_rig *r = *state;
    struct taker a, b;
    int64_t got;

    live_rig_start(r, "semaphore.gc_interval=1", NULL);
    taker_open(&a, r->semaphore);
    taker_open(&b, r->semaphore);
    assert_int_equal(taker_acquire(&a, "held", 1, 5), TAKER_OK);

    /* Its end is seen however fast a sweep comes: a name is either whole or
     * not there. */
    assert_int_equal(taker_acquire(&a, "free", 1, 5), TAKER_OK);
    assert_int_equal(taker_release(&a, "free", 1), TAKER_OK);
    while ((got = taker_get(&a, "free")) != -TAKER_NOT_FOUND) {
        assert_int_equal(got, 5);
        assert_true(clock_ms() < end_ms);
        /* What is taken meanwhile is never swept away. */
        assert_int_equal(taker_acquire(&b, "busy", 2, 3), TAKER_OK);
        assert_int_equal(taker_get(&b, "busy"), 1);
        assert_int_equal(taker_release(&b, "busy", 2), TAKER_OK);
    }
    assert_int_equal(taker_get(&a, "held"), 4);
    assert_int_equal(taker_acquire(&a, "free", 1, 9), TAKER_OK);
    assert_int_equal(taker_get(&a, "free"), 8);
    taker_close(&a);
    taker_await(&b, "held", -TAKER_NOT_FOUND);
    taker_await(&b, "free", -TAKER_NOT_FOUND);
    taker_close(&b);
}

#define TEST(name)                                                             \
    cmocka_unit_test_setup_teardown(name, live_rig_setup, live_rig_teardown)

static const struct CMUnitTest tests[] = {
    TEST(thousands_of_semaphores_come_back_when_their_holder_goes),
    TEST(a_sweep_takes_what_nobody_holds_and_another_initial_value_may_follow),
};

int
main(int argc, char **argv)
{
    return dialogue_main(__FILE__, tests, sizeof tests / sizeof *tests,
                         SEMAPHORES, &live_rig_play, argc, argv);
}
