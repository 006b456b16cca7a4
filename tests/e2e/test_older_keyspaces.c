/* tests/e2e/test_older_keyspaces.c - an older copy of keyspace/ that is put
 * beside logs that were used on is seen: nothing is merged, and so nothing
 * lost, until countd replay and countd log accept.
 *
 * Every fill of a log adds 1 to a key of its own, "f1", "f2", ..., and to
 * "all", of keyspace "words".
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/e2e/fills_fixture.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"

static void
merge_logs(struct service_site *x)
{
    fleet_start(&x->fleet, FLEET_WORKER);
    fleet_await_drained(&x->fleet, WAIT_MS);
    fleet_stop(&x->fleet, FLEET_WORKER);
}

static void
merge_fills(struct service_site *x, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        fill_log(x, i % 2);
        merge_logs(x);
    }
}

#define SAVE     "cp -a keyspace saved"
#define PUT_BACK "rm -r keyspace && cp -a saved keyspace"

/* Runs the writer, which makes the board, and a worker until the board says
 * that it found the older copy. */
static void
await_refusal(struct service_site *x)
{
    const uint64_t end_ms = test_deadline(WAIT_MS);

    while (FLEET_RUN(&x->fleet, "status") != 1 ||
           strstr(text, "keyspace/ is older than log/") == NULL) {
        assert_true(clock_ms() < end_ms);
        (void)poll(NULL, 0, 20); /* paces the looking */
    }
}

/* The writer makes the board. */
static void
start_refused(struct service_site *x)
{
    fleet_start(&x->fleet, FLEET_WRITE);
    fleet_start(&x->fleet, FLEET_WORKER);
    await_refusal(x);
}

/* What countd(7) says to do. */
static void
replay_and_accept(struct service_site *x, const char *merged)
{
    expect(FLEET_RUN(&x->fleet, "replay", x->fleet.path), 0, merged);
    expect(FLEET_RUN(&x->fleet, "log", "accept"), 0, "workers merge again");
}

CASE(no_worker_merges_into_an_older_copy, x)
{
    char copy[600];

    merge_fills(x, 2);
    expect_shell(x, SAVE);
    merge_fills(x, 4);
    expect_shell(x, PUT_BACK);
    fill_log(x, 0);

    start_refused(x);
    expect(FLEET_RUN(&x->fleet, "check"), 1, "keyspace/ is older than log/");
    (void)snprintf(copy, sizeof copy, "%s/copy", x->fleet.path);
    expect(FLEET_RUN(&x->fleet, "backup", "--timeout", "1ms", copy), 111,
           "keyspace/ is older than log/");
    assert_int_equal(count_in(x->fleet.path, "all"), 2);

    /* The worker goes on by itself, in the right order. */
    expect(FLEET_RUN(&x->fleet, "replay", x->fleet.path), 0,
           "8 increments merged, 4 merged already");
    assert_int_equal(count_in(x->fleet.path, "all"), 6);
    expect(FLEET_RUN(&x->fleet, "log", "accept"), 0, "workers merge again");
    fleet_await_drained(&x->fleet, WAIT_MS);
    fleet_stop(&x->fleet, FLEET_WORKER);
    assert_counts(x->fleet.path);
    expect(FLEET_RUN(&x->fleet, "check"), 0, "0 faults");
    expect(FLEET_RUN(&x->fleet, "log", "accept"), 0, "nothing to accept");
}

CASE(a_copy_that_lacks_nothing_is_not_older, x)
{
    merge_fills(x, 2);
    expect_shell(x, SAVE);
    fleet_start(&x->fleet, FLEET_WORKER); /* finds nothing to merge */
    fleet_stop(&x->fleet, FLEET_WORKER);
    expect_shell(x, PUT_BACK);
    merge_fills(x, 2);
    assert_counts(x->fleet.path);
}

CASE(an_empty_folder_beside_logs_that_were_merged_is_older, x)
{
    merge_fills(x, 2);
    expect_shell(x, "mv keyspace saved && mkdir -m 700 keyspace");
    fill_log(x, 0);
    start_refused(x);
    fleet_stop(&x->fleet, FLEET_WORKER);
    expect_shell(
        x, "rmdir keyspace 2>/dev/null || rm -r keyspace; mv saved keyspace");
    merge_logs(x);
    assert_counts(x->fleet.path);
}

CASE(a_backup_is_older_beside_the_logs_and_whole_elsewhere, x)
{
    char copy[600];
    struct fleet to;

    snprintf(copy, sizeof copy, "%s/copy", x->fleet.path);
    merge_fills(x, 2);
    expect(FLEET_RUN(&x->fleet, "backup", copy), 0, "faults=0");
    merge_fills(x, 2);

    /* On a new machine: a worker merges what comes. */
    fleet_init_at(&to, copy);
    expect(FLEET_RUN(&to, "check"), 0, "0 faults");
    expect_shell(x, "cp -a copy moved");
    fleet_fini(&to);

    expect_shell(x, "mv keyspace newer && mv copy/keyspace keyspace");
    expect(FLEET_RUN(&x->fleet, "check"), 1, "keyspace/ is older than log/");
    replay_and_accept(x, "4 increments merged, 4 merged already");
    merge_fills(x, 1);
    assert_counts(x->fleet.path);
}

CASE(a_file_of_a_backup_is_older_with_the_note_of_its_backup, x)
{
    char copy[600];

    snprintf(copy, sizeof copy, "%s/copy", x->fleet.path);
    merge_fills(x, 2);
    expect(FLEET_RUN(&x->fleet, "backup", copy), 0, "faults=0");
    merge_fills(x, 2);
    expect_shell(x, "rm keyspace/words.mdb-lock; cp copy/keyspace/words.mdb "
                    "copy/keyspace/merged keyspace/");
    expect(FLEET_RUN(&x->fleet, "check"), 1, "keyspace/ is older than log/");
    replay_and_accept(x, "4 increments merged, 4 merged already");
    merge_fills(x, 1);
    assert_counts(x->fleet.path);
}

CASE(no_log_is_salvaged_into_an_older_copy, x)
{
    merge_fills(x, 2);
    expect_shell(x, SAVE);
    merge_fills(x, 4);
    fill_log(x, 0);
    fill_log(x, 1);
    expect_shell(x, "mv log/0000000001 log/bad-0000000001-4");
    expect_shell(x, PUT_BACK);
    expect(FLEET_RUN(&x->fleet, "log", "salvage", "bad-0000000001-4"), 111,
           "keyspace/ is older than log/");
    assert_int_equal(count_in(x->fleet.path, "all"), 2);
    replay_and_accept(x, "8 increments merged, 4 merged already");
    expect(FLEET_RUN(&x->fleet, "log", "salvage", "bad-0000000001-4"), 0,
           "2 increments merged");
    merge_logs(x);
    assert_counts(x->fleet.path);
}

CASE(nothing_is_merged_into_a_folder_that_was_moved_away, x)
{
    merge_fills(x, 2);
    fleet_start(&x->fleet, FLEET_WRITE);
    fleet_start(&x->fleet, FLEET_WORKER);
    expect_shell(x, "mv keyspace gone && cp -a gone keyspace");
    service_add(&x->fleet, "words", "f3", 1);
    service_add(&x->fleet, "words", "all", 1);
    fills++;
    await_refusal(x);
    fleet_stop(&x->fleet, FLEET_WORKER);
    fleet_stop(&x->fleet, FLEET_WRITE);
    merge_logs(x);
    assert_counts(x->fleet.path);
}

CASE(what_is_held_waits_for_the_fills_before_it, x)
{
    merge_fills(x, 2);
    expect_shell(x, SAVE);
    merge_fills(x, 4);
    expect_shell(x, "yes junk | head -c 8192 > keyspace/words.mdb");
    fill_log(x, 0);
    fill_log(x, 1);
    fleet_start(&x->fleet, FLEET_WORKER);
    while (!fleet_logs_are_drained(&x->fleet))
        (void)poll(NULL, 0, 1); /* until both are held */
    fleet_stop(&x->fleet, FLEET_WORKER);
    expect_shell(x, PUT_BACK);

    start_refused(x);
    fleet_stop(&x->fleet, FLEET_WORKER);
    assert_int_equal(count_in(x->fleet.path, "all"), 2);

    /* What waited before is not the replay's to merge. */
    expect(FLEET_RUN(&x->fleet, "replay", x->fleet.path), 1,
           "8 increments merged, 4 merged already, 4 wait (countd held)");
    expect(FLEET_RUN(&x->fleet, "log", "accept"), 0, "");
    merge_logs(x);
    assert_counts(x->fleet.path);
    expect_text(FLEET_RUN(&x->fleet, "held", "--tsv"), 0, "");
}
