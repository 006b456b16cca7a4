/* tests/e2e/test_postgresql_behind.c - a database that has lost what it had
 * acknowledged: found, told, and brought up to date. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "tests/lib/engines.h"
#include "tests/lib/expect.h"
#include "tests/lib/pg_server.h"
#include "tests/lib/service.h"

struct fixture {
    struct fleet fleet;
    char schema[32];
    bool has_server;
};

static int
setup(void **state)
{
    static unsigned schemas;
    static struct fixture x;

    x = (struct fixture){.has_server = pg_server_is_installed()};
    *state = &x;
    fleet_init_in_memory(&x.fleet);
    if (!x.has_server)
        return 0;
    (void)snprintf(x.schema, sizeof x.schema, "behind%u", ++schemas);
    (void)pg_server_conninfo();
    fleet_put_option(&x.fleet, "store", "postgresql");
    fleet_put_option(&x.fleet, "store.conninfo", pg_server_both());
    fleet_put_option(&x.fleet, "store.schema", x.schema);
    fleet_put_option(&x.fleet, "archive.keep", "1d");
    expect(FLEET_RUN(&x.fleet, "store", "init"), 0, "made schema=");
    service_start(&x.fleet);
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *x = *state;

    if (x->has_server)
        fleet_stop_all(&x->fleet);
    fleet_fini(&x->fleet);
    return 0;
}

#define CASE(name, x) PG_CASE(name, x, setup, teardown)

static void
add_merged(struct fleet *f, const char *key, int64_t n)
{
    service_add(f, "words", key, n);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
}

/* The database has only what it had before 20 and 30 were added; 5 waits. */
static void
find_and_mend(struct fleet *f)
{
    service_add(f, "words", "the", 5);
    expect(FLEET_RUN(f, "flush", "--timeout", "1s"), CONFIG_EXIT_NEGATIVE,
           "not merged in time");
    assert_int_equal(service_count(f, "words", "the"), 10);
    assert_false(fleet_logs_are_drained(f));
    expect(FLEET_RUN(f, "store"), CONFIG_EXIT_NEGATIVE,
           "the database is behind: ");
    expect(FLEET_RUN(f, "store", "replay"), 0, "2 increments merged");
    assert_int_equal(service_count(f, "words", "the"), 30);
    assert_int_equal(service_count(f, "words", "of"), 30);
    expect(FLEET_RUN(f, "store", "accept"), 0, "accepted: ");
    expect(FLEET_RUN(f, "store", "accept"), 0, "nothing to accept");
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    assert_int_equal(service_count(f, "words", "the"), 35);
    assert_int_equal(service_total(f, "words"), 65);
    expect(FLEET_RUN(f, "store", "replay"), 0, "nothing new");
    expect(FLEET_RUN(f, "check"), 0, "");
}

CASE(an_older_copy_of_the_database_is_brought_up_to_date, x)
{
    struct fleet *f = &x->fleet;

    add_merged(f, "the", 10);
    pg_server_save();
    add_merged(f, "the", 20);
    add_merged(f, "of", 30);
    pg_server_restore();
    find_and_mend(f);
}

CASE(a_standby_that_lacks_commits_is_brought_up_to_date, x)
{
    struct fleet *f = &x->fleet;

    add_merged(f, "the", 10);
    pg_server_standby_start(false);
    pg_server_standby_stop();
    add_merged(f, "the", 20);
    add_merged(f, "of", 30);
    pg_server_fail_over();
    find_and_mend(f);
}

/* What no archive has is lost, and said so by whoever accepts it. */
CASE(what_is_lost_can_be_accepted, x)
{
    struct fleet *f = &x->fleet;

    add_merged(f, "the", 10);
    pg_server_save();
    add_merged(f, "the", 20);
    pg_server_restore();
    service_add(f, "words", "the", 5);
    expect(FLEET_RUN(f, "flush", "--timeout", "1s"), CONFIG_EXIT_NEGATIVE,
           "not merged in time");
    fleet_stop(f, FLEET_WORKER);
    fleet_start(f, FLEET_WORKER);
    assert_int_equal(service_count(f, "words", "the"), 10);
    expect(FLEET_RUN(f, "store", "accept"), 0, "accepted: ");
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    assert_int_equal(service_count(f, "words", "the"), 15);
}
