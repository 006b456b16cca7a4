/* tests/e2e/test_semaphore_protocol.c - the semaphore protocol of
 * countd-write, byte for byte: what it shares with counters in short, and
 * where it differs. */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "tests/lib/client.h"
#include "tests/lib/live_rig.h"
#include "tests/lib/taker.h"

#define LIMIT_MS 20000

static uint8_t batch[64 * 1024];

/* ---- in digits ---------------------------------------------------------- */

static void
noop_gives_back_the_opaque(void **state)
{
    struct live_rig *r = *state;
    struct taker a;

    live_rig_start(r, NULL);
    taker_open(&a, r->semaphore);

    taker_exchange(&a, "90 00 0000 00000000 00000001",
                   "91 00 0000 00000000 00000001");
    taker_exchange(&a, "90 00 0505 00000000 deadbeef",
                   "91 00 0000 00000000 deadbeef");
    taker_exchange(&a, "90 00 0000 00000004 00000002 62756c6b",
                   "91 00 0000 00000000 00000002");
    taker_close(&a);
}

static void
get_tells_what_is_available(void **state)
{
    struct live_rig *r = *state;
    struct taker a;

    live_rig_start(r, NULL);
    taker_open(&a, r->semaphore);

    /* Get, Acquire 3 with initial 10, Get, Acquire 7, Get, Acquire 1,
     * Release 2, Get: of "bus". */
    taker_exchange(&a, "90 01 0000 00000005 00000001 0003 627573",
                   "91 01 0100 00000009 00000001 4e6f7420666f756e64");
    taker_exchange(&a,
                   "90 02 0000 0000000d 00000002 00000003 0000000a 0003 627573",
                   "91 02 0000 00000004 00000002 00000003");
    taker_exchange(&a, "90 01 0000 00000005 00000003 0003 627573",
                   "91 01 0000 00000004 00000003 00000007");
    taker_exchange(&a,
                   "90 02 0000 0000000d 00000004 00000007 0000000a 0003 627573",
                   "91 02 0000 00000004 00000004 00000007");
    taker_exchange(&a, "90 01 0000 00000005 00000005 0003 627573",
                   "91 01 0000 00000004 00000005 00000000");
    taker_exchange(&a,
                   "90 02 0000 0000000d 00000006 00000001 0000000a 0003 627573",
                   "91 02 2100 00000016 00000006"
                   "5265736f75726365206e6f7420617661696c61626c65");
    taker_exchange(&a, "90 03 0000 00000009 00000007 00000002 0003 627573",
                   "91 03 0000 00000000 00000007");
    taker_exchange(&a, "90 01 0000 00000005 00000008 0003 627573",
                   "91 01 0000 00000004 00000008 00000002");
    taker_exchange(&a, "90 03 0000 00000009 00000009 00000009 0003 627573",
                   "91 03 2200 0000000c 00000009 4e6f74206163717569726564");
    taker_close(&a);
}

static void
there_is_no_dump_and_no_other_opcode(void **state)
{
    static const uint8_t known[] = {TAKER_NOOP,    TAKER_GET,   TAKER_ACQUIRE,
                                    TAKER_RELEASE, TAKER_STATS, TAKER_WHO};
    struct live_rig *r = *state;
    struct taker a;
    uint8_t bytes[64];
    int opcode;

    live_rig_start(r, NULL);
    taker_open(&a, r->semaphore);

    taker_exchange(&a, "90 11 0000 00000000 00000001",
                   "91 11 8100 0000000f 00000001"
                   "556e6b6e6f776e20636f6d6d616e64");
    for (opcode = 0; opcode < 256; opcode++) {
        if (memchr(known, opcode, sizeof known))
            continue;
        taker_send(&a, bytes,
                   taker_put(bytes, (uint8_t)opcode, (uint32_t)opcode, "a body",
                             (size_t)opcode % 7));
        taker_expect(&a, (uint8_t)opcode, (uint32_t)opcode, TAKER_UNKNOWN, NULL,
                     0);
    }
    taker_noop(&a);
    taker_close(&a);
}

static void
a_wrong_magic_is_refused_before_the_opcode_is_looked_at(void **state)
{
    struct live_rig *r = *state;
    struct taker a;

    live_rig_start(r, NULL);
    taker_open(&a, r->semaphore);

    taker_exchange(&a, "21 7b 0000 00000001 00000001 00",
                   "91 7b 0400 00000011 00000001"
                   "496e76616c696420617267756d656e7473");
    taker_noop(&a);
    taker_close(&a);
}

/* ---- Acquire and Release ------------------------------------------------ */

static void
the_initial_value_is_that_of_the_first_request(void **state)
{
    struct live_rig *r = *state;
    struct taker a;

    live_rig_start(r, NULL);
    taker_open(&a, r->semaphore);

    assert_int_equal(taker_acquire(&a, "mill", 6, 10), TAKER_OK);
    /* A later one is only to be no smaller than what is asked for. */
    assert_int_equal(taker_acquire(&a, "mill", 5, 1000), TAKER_FULL);
    assert_int_equal(taker_acquire(&a, "mill", 2, 2), TAKER_OK);
    assert_int_equal(taker_acquire(&a, "mill", 2, 1), TAKER_INVALID);
    assert_int_equal(taker_acquire(&a, "mill", 2, UINT32_MAX), TAKER_OK);
    assert_int_equal(taker_acquire(&a, "mill", 1, 1000), TAKER_FULL);
    assert_int_equal(taker_get(&a, "mill"), 0);
    assert_int_equal(taker_release(&a, "mill", 10), TAKER_OK);
    assert_int_equal(taker_get(&a, "mill"), 10);
    /* All is back, and until a sweep it still has its initial value. */
    assert_int_equal(taker_acquire(&a, "mill", 11, 1000), TAKER_FULL);
    taker_close(&a);
}

static void
the_largest_semaphore_has_four_bytes(void **state)
{
    struct live_rig *r = *state;
    struct taker a, b;

    live_rig_start(r, NULL);
    taker_open(&a, r->semaphore);
    taker_open(&b, r->semaphore);

    assert_int_equal(taker_acquire(&a, "sea", 1, UINT32_MAX), TAKER_OK);
    assert_int_equal(taker_get(&a, "sea"), UINT32_MAX - 1);
    assert_int_equal(taker_acquire(&b, "sea", UINT32_MAX - 1, UINT32_MAX),
                     TAKER_OK);
    assert_int_equal(taker_acquire(&b, "sea", UINT32_MAX, UINT32_MAX),
                     TAKER_FULL);
    assert_int_equal(taker_get(&a, "sea"), 0);
    assert_int_equal(taker_release(&b, "sea", UINT32_MAX), TAKER_NOT_HELD);
    assert_int_equal(taker_release(&b, "sea", UINT32_MAX - 1), TAKER_OK);
    taker_close(&a);
    taker_await(&b, "sea", UINT32_MAX);
    assert_int_equal(taker_acquire(&b, "sea", UINT32_MAX, UINT32_MAX),
                     TAKER_OK);
    taker_close(&b);
}

static void
nobody_releases_more_than_the_connection_holds(void **state)
{
    struct live_rig *r = *state;
    struct taker a, b;

    live_rig_start(r, NULL);
    taker_open(&a, r->semaphore);
    taker_open(&b, r->semaphore);

    assert_int_equal(taker_acquire(&a, "pier", 5, 8), TAKER_OK);
    assert_int_equal(taker_acquire(&b, "pier", 3, 8), TAKER_OK);
    assert_int_equal(taker_release(&a, "pier", 2), TAKER_OK);
    assert_int_equal(taker_release(&a, "pier", 4), TAKER_NOT_HELD);
    assert_int_equal(taker_get(&b, "pier"), 2);
    assert_int_equal(taker_release(&a, "pier", 3), TAKER_OK);
    assert_int_equal(taker_release(&a, "pier", 1), TAKER_NOT_HELD);
    assert_int_equal(taker_get(&b, "pier"), 5);
    taker_close(&a);
    taker_close(&b);
}

static void
releasing_zero_succeeds_where_there_is_a_semaphore(void **state)
{
    struct live_rig *r = *state;
    struct taker a, b;

    live_rig_start(r, NULL);
    taker_open(&a, r->semaphore);
    taker_open(&b, r->semaphore);

    assert_int_equal(taker_acquire(&a, "arch", 1, 5), TAKER_OK);
    assert_int_equal(taker_release(&a, "arch", 0), TAKER_OK);
    assert_int_equal(taker_release(&b, "arch", 0), TAKER_OK);
    assert_int_equal(taker_release(&b, "none", 0), TAKER_NOT_FOUND);
    assert_int_equal(taker_release(&b, "none", 1), TAKER_NOT_FOUND);
    assert_int_equal(taker_get(&b, "arch"), 4);
    taker_close(&a);
    taker_close(&b);
}

static void
what_is_not_well_formed_is_refused_and_creates_nothing(void **state)
{
    struct live_rig *r = *state;
    struct taker a;

    live_rig_start(r, NULL);
    taker_open(&a, r->semaphore);

    assert_int_equal(taker_acquire(&a, "vase", 0, 5), TAKER_INVALID);
    assert_int_equal(taker_acquire(&a, "vase", 6, 5), TAKER_INVALID);
    assert_int_equal(taker_acquire(&a, "", 1, 5), TAKER_INVALID);
    assert_int_equal(taker_get(&a, ""), -TAKER_INVALID);
    assert_int_equal(taker_release(&a, "", 1), TAKER_INVALID);
    /* One byte too few; a name that overruns. */
    taker_exchange(&a, "90 02 0000 00000009 00000006 000000000000000000",
                   "91 02 0400 00000011 00000006"
                   "496e76616c696420617267756d656e7473");
    taker_exchange(&a, "90 01 0000 00000005 00000007 0004 767673",
                   "91 01 0400 00000011 00000007"
                   "496e76616c696420617267756d656e7473");
    assert_int_equal(taker_get(&a, "vase"), -TAKER_NOT_FOUND);
    taker_close(&a);
}

static void
names_are_bytes_and_surplus_is_ignored(void **state)
{
    struct live_rig *r = *state;
    struct taker a;

    live_rig_start(r, NULL);
    taker_open(&a, r->semaphore);

    /* "n\0\xff" and three bytes more. */
    taker_exchange(
        &a, "90 02 0000 00000010 00000001 00000001 00000002 0003 6e00ff 787878",
        "91 02 0000 00000004 00000001 00000001");
    taker_exchange(&a, "90 01 0000 00000005 00000002 0003 6e00ff",
                   "91 01 0000 00000004 00000002 00000001");
    assert_int_equal(taker_get_bytes(&a, "n\0\xff", 3), 1);
    assert_int_equal(taker_get_bytes(&a, "n\0", 2), -TAKER_NOT_FOUND);
    taker_close(&a);
}

static void
a_pipeline_is_answered_in_order(void **state)
{
    struct live_rig *r = *state;
    struct taker a;
    uint8_t *at = batch;

    live_rig_start(r, NULL);
    taker_open(&a, r->semaphore);

    at += taker_put_acquire(at, 1, "lock", 4, 1, 2);
    at += taker_put_acquire(at, 2, "lock", 4, 1, 2);
    at += taker_put_acquire(at, 3, "lock", 4, 1, 2);
    at += taker_put_get(at, 4, "lock", 4);
    at += taker_put_release(at, 5, "lock", 4, 1);
    at += taker_put_acquire(at, 6, "lock", 4, 3, 2);
    at += taker_put_get(at, 7, "lock", 4);
    taker_send(&a, batch, (size_t)(at - batch));

    taker_expect_u32(&a, TAKER_ACQUIRE, 1, 1);
    taker_expect_u32(&a, TAKER_ACQUIRE, 2, 1);
    taker_expect(&a, TAKER_ACQUIRE, 3, TAKER_FULL, NULL, 0);
    taker_expect_u32(&a, TAKER_GET, 4, 0);
    taker_expect(&a, TAKER_RELEASE, 5, TAKER_OK, NULL, 0);
    taker_expect(&a, TAKER_ACQUIRE, 6, TAKER_INVALID, NULL, 0);
    taker_expect_u32(&a, TAKER_GET, 7, 1);
    taker_close(&a);
}

/* ---- connections -------------------------------------------------------- */

static void
whichever_way_a_connection_ends_all_is_available_again(void **state)
{
    struct live_rig *r = *state;
    struct taker a, b;
    int way;

    live_rig_start(r, NULL);
    taker_open(&b, r->semaphore);
    assert_int_equal(taker_acquire(&b, "yard", 2, 9), TAKER_OK);

    for (way = 0; way < 9; way++) {
        taker_open(&a, r->semaphore);
        assert_int_equal(taker_acquire(&a, "yard", 7, 9), TAKER_OK);
        assert_int_equal(taker_get(&b, "yard"), 0);
        if (way % 3 == 0) {
            taker_close(&a);
        } else if (way % 3 == 1) {
            taker_reset(&a);
        } else {
            taker_half_close(&a);
            taker_expect_end(&a);
            taker_drop(&a);
        }
        taker_await(&b, "yard", 7);
    }
    taker_close(&b);
}

static void
connections_above_the_limit_are_closed_without_a_byte(void **state)
{
    struct live_rig *r = *state;
    struct taker a, b, c;

    live_rig_start(r, "semaphore.max_connections=1", NULL);
    taker_open(&a, r->semaphore);
    taker_noop(&a);

    taker_open(&b, r->semaphore);
    taker_expect_end(&b);
    taker_drop(&b);
    taker_noop(&a);
    taker_open(&c, r->counter);
    taker_noop(&c);
    taker_close(&a);
    taker_close(&c);
}

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
stats_begins_with_fourteen_names_in_their_order(void **state)
{
    static const char *const figures[] = {
        "objects",          "total_objects",    "used_memory",
        "conflicts",        "gc_count",         "last_gc_elapsed",
        "total_gc_elapsed", "curr_connections", "total_connections",
        "command:noop",     "command:get",      "command:acquire",
        "command:release",  "command:stats"};
    struct live_rig *r = *state;
    struct taker_stats s;
    struct taker a;
    size_t i;

    live_rig_start(r, NULL);
    taker_open(&a, r->semaphore);
    assert_int_equal(taker_acquire(&a, "s", 1, 3), TAKER_OK);
    assert_int_equal(taker_acquire(&a, "t", 4, 3), TAKER_INVALID);

    taker_stats(&a, &s);
    assert_true(s.count >= 14);
    for (i = 0; i < s.count; i++)
        if (i < 14)
            assert_string_equal(s.name[i], figures[i]);
        else
            assert_string_not_equal(s.name[i], "command:dump");
    assert_int_equal(taker_stat(&s, "objects"), 1);
    assert_int_equal(taker_stat(&s, "command:acquire"), 1);
    assert_int_equal(taker_stat(&s, "command:stats"), 1);
    assert_int_equal(taker_stat(&s, "curr_connections"), 1);
    taker_close(&a);
}

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
    TEST(noop_gives_back_the_opaque),
    TEST(get_tells_what_is_available),
    TEST(there_is_no_dump_and_no_other_opcode),
    TEST(a_wrong_magic_is_refused_before_the_opcode_is_looked_at),
    TEST(the_initial_value_is_that_of_the_first_request),
    TEST(the_largest_semaphore_has_four_bytes),
    TEST(nobody_releases_more_than_the_connection_holds),
    TEST(releasing_zero_succeeds_where_there_is_a_semaphore),
    TEST(what_is_not_well_formed_is_refused_and_creates_nothing),
    TEST(names_are_bytes_and_surplus_is_ignored),
    TEST(a_pipeline_is_answered_in_order),
    TEST(whichever_way_a_connection_ends_all_is_available_again),
    TEST(connections_above_the_limit_are_closed_without_a_byte),
    TEST(thousands_of_semaphores_come_back_when_their_holder_goes),
    TEST(stats_begins_with_fourteen_names_in_their_order),
    TEST(a_sweep_takes_what_nobody_holds_and_another_initial_value_may_follow),
};

TEST_MAIN(tests)
