/* tests/e2e/test_postgresql_behind.c - a database that has lost what it had
 * acknowledged: found, told, and brought up to date. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include "tests/lib/pg_machines.h"

/* Starts a machine whose database then has 10, and had 20 and 30 after it, which
 * an older copy of it lacks, or a standby that takes over; 5 waits. */
static struct fleet *
lose_commits(struct pg_machines *x, bool by_standby)
{
    struct fleet *f = &x->fleets[0];

    fleet_put_option(f, "store.conninfo", pg_server_both());
    fleet_put_option(f, "archive.keep", "1d");
    service_start(f);
    pg_machines_add(f, "words", "the", 10);
    if (by_standby) {
        pg_server_standby_start(false);
        pg_server_standby_stop();
    } else {
        pg_server_save();
    }
    pg_machines_add(f, "words", "the", 20);
    pg_machines_add(f, "words", "of", 30);
    if (by_standby)
        pg_server_fail_over();
    else
        pg_server_restore();
    service_add(f, "words", "the", 5);
    expect(FLEET_RUN(f, "flush", "--timeout", "1s"), CONFIG_EXIT_NEGATIVE,
           "not merged in time");
    assert_int_equal(service_count(f, "words", "the"), 10);
    return f;
}

static void
replay_commits(struct fleet *f)
{
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
    replay_commits(lose_commits(x, false));
}

PG_MACHINES(a_standby_that_lacks_commits_is_brought_up_to_date, x)
{
    replay_commits(lose_commits(x, true));
}

/* What no archive has is lost, once that is accepted. */
PG_MACHINES(what_is_lost_can_be_accepted, x)
{
    struct fleet *f = lose_commits(x, false);

    fleet_stop(f, FLEET_WORKER);
    fleet_start(f, FLEET_WORKER);
    assert_int_equal(service_count(f, "words", "the"), 10);
    expect(FLEET_RUN(f, "store", "accept"), 0, "accepted: ");
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    assert_int_equal(service_count(f, "words", "the"), 15);
    assert_int_equal(service_total(f, "words"), 15);
}

PG_MACHINES(that_it_could_not_be_is_said_at_the_start, x)
{
    struct fleet *f = &x->fleets[0];

    fleet_start(f, FLEET_WORKER);
    daemon_await_words(fleet_daemon(f, FLEET_WORKER), "archive.keep");
}
