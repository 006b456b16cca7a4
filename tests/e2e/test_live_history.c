/* tests/e2e/test_live_history.c - what happens to counters and semaphores, read
 * as counts: countd-write, countd-worker and countd-read together. */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/client.h"
#include "tests/lib/live_client.h"
#include "tests/lib/service.h"

static int
set_up(void **state)
{
    return service_setup_with(state, "live.history=on", "counter.port=0",
                              "semaphore.enable=on", "semaphore.port=0", NULL);
}

#define ON_FLEET(name, f)                                                      \
    TEST_IN(name, struct fleet *f, set_up, service_teardown)

static void
open_client(struct fleet *f, struct live_client *t, const char *port)
{
    live_client_open(t, daemon_port(fleet_daemon(f, FLEET_WRITE), port));
}

static void
merge(struct fleet *f)
{
    fleet_stop(f, FLEET_WRITE);
    fleet_start(f, FLEET_WORKER);
    fleet_await_drained(f, 60000);
    fleet_start(f, FLEET_READ);
}

ON_FLEET(what_was_acquired_and_released_can_be_read_as_counts, f)
{
    struct client_rows rows;
    struct live_client a, b, s;
    int64_t count;
    int fd;

    fleet_start(f, FLEET_WRITE);
    open_client(f, &a, "counter");
    open_client(f, &b, "counter");
    open_client(f, &s, "semaphore");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(live_client_acquire(&a, "lamps", 2, 10),
                         LIVE_CLIENT_OK);
        assert_int_equal(live_client_release(&a, "lamps", 1), LIVE_CLIENT_OK);
    }
    assert_int_equal(live_client_acquire(&b, "lamps", 9, 10), LIVE_CLIENT_FULL);
    assert_int_equal(live_client_acquire(&b, "doors", 1, 10), LIVE_CLIENT_OK);
    assert_int_equal(live_client_acquire(&s, "lamps", 4, 4), LIVE_CLIENT_OK);
    live_client_reset(&a);
    live_client_await(&b, "lamps", 0);
    live_client_close(&b);
    live_client_close(&s);
    merge(f);

    fd = client_connect(fleet_read_port(f));
    client_range(fd, "live.acquired", 0, 10, &rows);
    assert_int_equal(rows.rows, 2);
    assert_string_equal(rows.row[0].key, "lamps");
    assert_int_equal(rows.row[0].count, 6);
    assert_string_equal(rows.row[1].key, "doors");
    assert_int_equal(rows.row[1].count, 1);
    client_rows_free(&rows);
    assert_int_equal(client_total(fd, "live.released"), 7);
    assert_true(client_get(fd, "live.refused", "lamps", &count));
    assert_int_equal(count, 9);
    assert_int_equal(client_total(fd, "live.semaphore.acquired"), 4);
    assert_int_equal(client_total(fd, "live.semaphore.released"), 4);
    assert_false(client_get(fd, "live.semaphore.refused", "lamps", &count));
    client_close(fd);
    fleet_stop_all(f);
    fleet_check(f);
}

/* What is held at a stop is released turn by turn, and all of it is told. */
ON_FLEET(many_names_that_are_held_at_a_stop_are_released_and_told, f)
{
    enum { NAMES = 20000 };
    struct live_client a;
    char name[32];
    int fd;

    /* Few logs to seal while the stop is waited for. */
    fleet_option(f, "log.size=4M");
    fleet_start(f, FLEET_WRITE);
    open_client(f, &a, "counter");
    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(name, sizeof name, "n%d", i); /* fits */
        assert_int_equal(live_client_acquire(&a, name, 1, 1), LIVE_CLIENT_OK);
    }
    merge(f);
    live_client_expect_end(&a);
    live_client_drop(&a);

    fd = client_connect(fleet_read_port(f));
    assert_int_equal(client_total(fd, "live.acquired"), NAMES);
    assert_int_equal(client_total(fd, "live.released"), NAMES);
    client_close(fd);
    fleet_stop_all(f);
    fleet_check(f);
}

ON_FLEET(a_long_name_has_one_key_across_restarts, f)
{
    static char name[1000], other[1000];
    struct client_rows rows;
    struct live_client t;
    int fd;

    memset(name, 'n', sizeof name);
    memset(other, 'n', sizeof other);
    other[999] = 'm';
    for (int i = 0; i < 3; i++) {
        fleet_start(f, FLEET_WRITE);
        open_client(f, &t, "counter");
        assert_int_equal(
            live_client_acquire_bytes(&t, name, sizeof name, 5, 100),
            LIVE_CLIENT_OK);
        assert_int_equal(
            live_client_acquire_bytes(&t, other, sizeof other, 1, 100),
            LIVE_CLIENT_OK);
        live_client_close(&t);
        fleet_stop(f, FLEET_WRITE);
    }
    fleet_start(f, FLEET_WRITE);
    merge(f);

    fd = client_connect(fleet_read_port(f));
    client_range(fd, "live.acquired", 0, 10, &rows);
    assert_int_equal(rows.rows, 2);
    assert_int_equal(rows.row[0].count, 15);
    assert_int_equal(rows.row[0].key_size, 256);
    assert_int_equal(rows.row[1].count, 3);
    assert_memory_equal(rows.row[0].key, rows.row[1].key, 256 - 33);
    client_rows_free(&rows);
    client_close(fd);
    fleet_stop_all(f);
    fleet_check(f);
}
