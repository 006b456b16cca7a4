/* tests/e2e/test_counter_protocol.c - the counter and semaphore protocols of
 * countd-write.
 *
 * What clients say and hear is in tests/lib/live_client_talk.c, played by
 * unit/test_live_server.c; here are the settings. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "common/client/lib/countd.h"
#include "tests/lib/live_client.h"
#include "tests/lib/service.h"

#define CASE(name, f)                                                          \
    TEST_IN(name, struct fleet *f, service_setup_live, service_teardown)

static int
add_holder(void *ctx, const char *address, uint32_t amount, uint32_t age_s)
{
    unsigned *told = ctx;

    *told += amount;
    return strncmp(address, "127.0.0.1:", 10) == 0 && age_s < 3600 ? 0 : 1;
}

/* More holders than one answer has room for. */
CASE(who_goes_on_where_the_answer_before_it_ended, f)
{
    static struct live_client holders[100];
    struct countd_live *l;
    unsigned told = 0;
    char address[64];

    fleet_start(f, FLEET_WRITE);
    for (uint32_t i = 0; i < 100; i++) {
        live_client_open(&holders[i], fleet_writer_port(f, "counter"));
        assert_int_equal(live_client_acquire(
                             &holders[i], i % 2 ? "odd" : "even", i + 1, 10000),
                         LIVE_CLIENT_OK);
    }
    snprintf(address, sizeof address, "127.0.0.1:%u",
             fleet_writer_port(f, "counter"));
    assert_int_equal(
        countd_live_open(&l,
                         &(struct countd_live_options){
                             .size = sizeof(struct countd_live_options),
                             .address = address}),
        0);
    assert_int_equal(countd_live_who(l, countd_name("odd"), add_holder, &told),
                     0);
    assert_int_equal(told, 50 * (2 + 100) / 2); /* each once */
    countd_live_close(l);
    for (uint32_t i = 0; i < 100; i++)
        live_client_close(&holders[i]);
}

CASE(a_full_port_leaves_the_other_one_open, f)
{
    struct live_client a, b, semaphore;

    fleet_start_with(f, FLEET_WRITE, "counter.max_connections=1");
    live_client_open(&a, fleet_writer_port(f, "counter"));
    live_client_noop(&a);
    live_client_open(&b, fleet_writer_port(f, "counter"));
    live_client_expect_end(&b);
    live_client_drop(&b);

    live_client_open(&semaphore, fleet_writer_port(f, "semaphore"));
    live_client_noop(&semaphore);
    live_client_close(&a);
    live_client_close(&semaphore);
}

CASE(counters_and_semaphores_of_one_name_are_strangers, f)
{
    struct live_client a, b;

    fleet_start(f, FLEET_WRITE);
    live_client_open(&a, fleet_writer_port(f, "counter"));
    live_client_open(&b, fleet_writer_port(f, "semaphore"));

    assert_int_equal(live_client_acquire(&a, "twin", 3, 10), LIVE_CLIENT_OK);
    assert_int_equal(live_client_get(&b, "twin"), -LIVE_CLIENT_NOT_FOUND);
    assert_int_equal(live_client_release(&b, "twin", 3), LIVE_CLIENT_NOT_FOUND);
    assert_int_equal(live_client_acquire(&b, "twin", 1, 5), LIVE_CLIENT_OK);
    assert_int_equal(live_client_get(&a, "twin"), 3);
    assert_int_equal(live_client_get(&b, "twin"), 4);
    live_client_close(&a);
    live_client_close(&b);
}

CASE(what_is_idle_goes_at_the_boundary_that_is_set, f)
{
    struct live_client a;

    fleet_start_with(f, FLEET_WRITE, "counter.stats_interval=10",
                     "semaphore.gc_interval=1");
    live_client_open(&a, fleet_writer_port(f, "counter"));
    assert_int_equal(live_client_acquire(&a, "held", 1, 1), LIVE_CLIENT_OK);
    assert_int_equal(live_client_acquire(&a, "idle", 1, 1), LIVE_CLIENT_OK);
    assert_int_equal(live_client_release(&a, "idle", 1), LIVE_CLIENT_OK);
    live_client_await(&a, "idle", -LIVE_CLIENT_NOT_FOUND);
    assert_int_equal(live_client_get(&a, "held"), 1);
    live_client_close(&a);

    live_client_open(&a, fleet_writer_port(f, "semaphore"));
    for (int i = 0; i < 2; i++) { /* the first may be the sweep of the start */
        assert_int_equal(live_client_acquire(&a, "idle", 1, 5), LIVE_CLIENT_OK);
        assert_int_equal(live_client_release(&a, "idle", 1), LIVE_CLIENT_OK);
        live_client_await(&a, "idle", -LIVE_CLIENT_NOT_FOUND);
    }
    live_client_close(&a);
}
