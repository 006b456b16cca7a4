/* tests/e2e/test_fresh.c - what is counted is readable at once while workers
 * keep up: log.rotate_after is an hour here, so it never is what hands a log
 * on. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <poll.h>
#include <string.h>

#include "common/base/clock.h"
#include "tests/lib/client.h"
#include "tests/lib/fleet.h"

#define MERGE_MS 20000

struct fixture {
    struct fleet fleet;
    int count, read;
};

static void
set_up(struct fixture *x)
{
    fleet_init(&x->fleet);
    fleet_start_with(&x->fleet, FLEET_WRITE, "log.rotate_after=1h");
    fleet_start(&x->fleet, FLEET_WORKER);
    fleet_start(&x->fleet, FLEET_READ);
    x->count = client_connect(fleet_ack_port(&x->fleet));
    x->read = client_connect(fleet_read_port(&x->fleet));
}

static void
tear_down(struct fixture *x)
{
    client_close(x->count);
    client_close(x->read);
    fleet_fini(&x->fleet);
}

#define CASE(name, x) TEST_WITH(name, struct fixture, x, set_up, tear_down)

static void
count_one(struct fixture *x, const char *keyspace)
{
    client_increment(x->count, keyspace, "k", 1);
    client_wins(x->count, 1);
}

static void
await_readable(struct fixture *x, int64_t total)
{
    client_await_merge(x->read, "healthy", (int64_t)clock_unix_ms(), MERGE_MS);
    assert_int_equal(client_total(x->read, "healthy"), total);
}

CASE(each_increment_is_readable_long_before_its_log_is_old, x)
{
    for (int64_t i = 1; i <= 5; i++) {
        count_one(x, "healthy");
        await_readable(x, i);
    }
}

/* Each log that is merged now leaves a file. */
CASE(logs_go_by_their_age_while_a_keyspace_refuses_its_increments, x)
{
    const uint64_t end_ms = test_deadline(MERGE_MS);
    const struct tmpdir *dir = &x->fleet.dir;
    static const char junk[8192] = "junk";

    tmpdir_put(dir, "keyspace/sick.mdb", junk, sizeof junk, 0600);
    do {
        count_one(x, "sick");
        assert_true(clock_ms() < end_ms);
    } while (!tmpdir_has(dir, "log/waiting") ||
             tmpdir_count(dir, "log/waiting") == 0);
    for (int i = 0; i < 60; i++) {
        count_one(x, "sick");
        (void)poll(NULL, 0, 30); /* each could have a log of its own */
    }
    assert_true(tmpdir_count(dir, "log/waiting") <= 4);
    assert_false(fleet_logs_are_drained(&x->fleet)); /* the last one waits */
}
