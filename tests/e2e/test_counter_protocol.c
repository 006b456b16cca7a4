/* tests/e2e/test_counter_protocol.c - the counter and semaphore protocols of
 * countd-write.
 *
 * What one after another says and hears is in tests/lib/live_talk.c, what any
 * may say in test_counter_model.c; here are the settings. */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "common/client/lib/countd.h"
#include "tests/lib/live_rig.h"
#include "tests/lib/taker.h"

#define CASE(name, r)                                                          \
    TEST_IN(name, struct live_rig *r, live_rig_setup, live_rig_teardown)

static int
add_holder(void *ctx, const char *address, uint32_t amount, uint32_t age_s)
{
    unsigned *told = ctx;

    *told += amount;
    return strncmp(address, "127.0.0.1:", 10) == 0 && age_s < 3600 ? 0 : 1;
}

/* More holders than one answer has room for. */
CASE(who_goes_on_where_the_answer_before_it_ended, r)
{
    static struct taker holders[100];
    struct countd_live *l;
    unsigned told = 0;
    char address[64];

    live_rig_start(r, NULL);
    for (uint32_t i = 0; i < 100; i++) {
        taker_open(&holders[i], r->counter);
        assert_int_equal(
            taker_acquire(&holders[i], i % 2 ? "odd" : "even", i + 1, 10000),
            TAKER_OK);
    }
    snprintf(address, sizeof address, "127.0.0.1:%u", r->counter);
    assert_int_equal(
        countd_live_open(&l,
                         &(struct countd_live_options){
                             .size = sizeof(struct countd_live_options),
                             .address = address}),
        0);
    assert_int_equal(countd_live_who(l, "odd", 3, add_holder, &told), 0);
    assert_int_equal(told, 50 * (2 + 100) / 2); /* each once */
    countd_live_close(l);
    for (uint32_t i = 0; i < 100; i++)
        taker_close(&holders[i]);
}

CASE(a_full_port_leaves_the_other_one_open, r)
{
    struct taker a, b, semaphore;

    live_rig_start(r, "counter.max_connections=1", NULL);
    taker_open(&a, r->counter);
    taker_noop(&a);
    taker_open(&b, r->counter);
    taker_expect_end(&b);
    taker_drop(&b);

    taker_open(&semaphore, r->semaphore);
    taker_noop(&semaphore);
    taker_close(&a);
    taker_close(&semaphore);
}

CASE(counters_and_semaphores_of_one_name_are_strangers, r)
{
    struct taker a, b;

    live_rig_start(r, NULL);
    taker_open(&a, r->counter);
    taker_open(&b, r->semaphore);

    assert_int_equal(taker_acquire(&a, "twin", 3, 10), TAKER_OK);
    assert_int_equal(taker_get(&b, "twin"), -TAKER_NOT_FOUND);
    assert_int_equal(taker_release(&b, "twin", 3), TAKER_NOT_FOUND);
    assert_int_equal(taker_acquire(&b, "twin", 1, 5), TAKER_OK);
    assert_int_equal(taker_get(&a, "twin"), 3);
    assert_int_equal(taker_get(&b, "twin"), 4);
    taker_close(&a);
    taker_close(&b);
}

CASE(what_is_idle_goes_at_the_boundary_that_is_set, r)
{
    struct taker a;

    live_rig_start(r, "counter.stats_interval=10", "semaphore.gc_interval=1",
                   NULL);
    taker_open(&a, r->counter);
    assert_int_equal(taker_acquire(&a, "held", 1, 1), TAKER_OK);
    assert_int_equal(taker_acquire(&a, "idle", 1, 1), TAKER_OK);
    assert_int_equal(taker_release(&a, "idle", 1), TAKER_OK);
    taker_await(&a, "idle", -TAKER_NOT_FOUND);
    assert_int_equal(taker_get(&a, "held"), 1);
    taker_close(&a);

    taker_open(&a, r->semaphore);
    for (int i = 0; i < 2; i++) { /* the first may be the sweep of the start */
        assert_int_equal(taker_acquire(&a, "idle", 1, 5), TAKER_OK);
        assert_int_equal(taker_release(&a, "idle", 1), TAKER_OK);
        taker_await(&a, "idle", -TAKER_NOT_FOUND);
    }
    taker_close(&a);
}

int
main(int argc, char **argv)
{
    return dialogue_main(BOTH, &live_rig_play, argc, argv);
}
