/* tests/e2e/test_postgresql_behind.c - a database that has lost what it had
 * acknowledged: found, told, and brought up to date. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include "tests/lib/pg_machines.h"

static struct fleet *
start_machine(struct pg_machines *x)
{
    struct fleet *f = &x->fleets[0];

    fleet_put_option(f, "store.conninfo", pg_server_both());
    fleet_put_option(f, "archive.keep", "1d");
    service_start(f);
    return f;
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

PG_MACHINES(an_older_copy_of_the_database_is_brought_up_to_date, x)
{
    struct fleet *f = start_machine(x);

    pg_machines_add(f, "words", "the", 10);
    pg_server_save();
    pg_machines_add(f, "words", "the", 20);
    pg_machines_add(f, "words", "of", 30);
    pg_server_restore();
    find_and_mend(f);
}

PG_MACHINES(a_standby_that_lacks_commits_is_brought_up_to_date, x)
{
    struct fleet *f = start_machine(x);

    pg_machines_add(f, "words", "the", 10);
    pg_server_standby_start(false);
    pg_server_standby_stop();
    pg_machines_add(f, "words", "the", 20);
    pg_machines_add(f, "words", "of", 30);
    pg_server_fail_over();
    find_and_mend(f);
}

/* What no archive has is lost, once that is accepted. */
PG_MACHINES(what_is_lost_can_be_accepted, x)
{
    struct fleet *f = start_machine(x);

    pg_machines_add(f, "words", "the", 10);
    pg_server_save();
    pg_machines_add(f, "words", "the", 20);
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
