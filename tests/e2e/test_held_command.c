/* tests/e2e/test_held_command.c - what a keyspace cannot take: countd held
 * shows it and drops it; check, flush and backup know of it. */
#include "tests/lib/test.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/expect.h"
#include "tests/lib/service.h"

#define WAIT_MS 60000

/* ---- the directory ----------------------------------------------------- */

static void
hold(struct fleet *f, const char *keyspace, const char *key, int64_t increment)
{
    service_add(f, keyspace, key, increment);
    expect(FLEET_RUN(f, "flush"), 1, "; see countd held");
}

static void
merge(struct fleet *f, const char *keyspace, const char *key, int64_t increment)
{
    service_add(f, keyspace, key, increment);
    assert_int_equal(FLEET_RUN(f, "flush"), 0);
}

static void
shell(struct fleet *f, const char *script)
{
    char line[2048];

    snprintf(line, sizeof line, "cd '%s' && %s", f->path, script);
    assert_int_equal(daemon_run(text, sizeof text, "/bin/sh", "-c", line, NULL),
                     0);
}

/* Its file is exchanged for junk, and back. */
#define BREAK                                                                  \
    "mv keyspace/words.mdb good && yes junk | head -c 8192 > "                 \
    "keyspace/words.mdb"
#define REPAIR "mv good keyspace/words.mdb"

/* A worker that starts tries at once what is held. */
static void
restart_worker(struct fleet *f)
{
    fleet_stop(f, FLEET_WORKER);
    fleet_start(f, FLEET_WORKER);
}

/* ---- held -------------------------------------------------------------- */

#define CASE(name, f)                                                          \
    TEST_IN(name, struct fleet *f, service_setup_in_memory, service_teardown)

CASE(nothing_is_held_in_a_healthy_directory, f)
{
    service_start(f);
    merge(f, "words", "the", 3);
    expect_text(FLEET_RUN(f, "held", "--tsv"), 0, "");
    expect_text(FLEET_RUN(f, "held", "--json"), 0, "{\"rows\": []}\n");
    expect(FLEET_RUN(f, "held", "drop", "words"), 1,
           "dropped keyspace=words held=0\n");
    expect(FLEET_RUN(f, "check"), 0, " held=0: 0 faults\n");
}

CASE(what_a_sick_keyspace_cannot_take_is_listed_until_it_is_repaired, f)
{
    service_start(f);
    merge(f, "words", "the", 3);
    shell(f, BREAK);
    hold(f, "words", "the", 4);
    service_add(f, "other", "the", 1);
    hold(f, "words", "cat", 5);

    assert_int_equal(service_count(f, "other", "the"), 1);
    expect(FLEET_RUN(f, "held"), 1,
           "records  fills  bytes  oldest  since  why");
    expect(1, 1, "words\n");
    expect(FLEET_RUN(f, "held", "--tsv"), 1, "2\t2\t");
    expect(1, 1, "\twords\n");
    expect(FLEET_RUN(f, "held", "--json"), 1,
           "{\"records\": 2, \"fills\": 2, \"bytes\": ");
    expect(1, 1, "\"keyspace\": \"words\"}]");
    expect(FLEET_RUN(f, "check"), 1, " held=2: ");
    expect(1, 1, "records held because it could not take them: 2");

    shell(f, REPAIR);
    restart_worker(f);
    fleet_await_drained(f, WAIT_MS);
    expect_text(FLEET_RUN(f, "held", "--tsv"), 0, "");
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    assert_int_equal(service_count(f, "words", "the"), 7);
    assert_int_equal(service_count(f, "words", "cat"), 5);
    fleet_stop_all(f);
    fleet_check(f);
}

CASE(held_names_the_settings_that_a_keyspace_is_over, f)
{
    fleet_option(f, "keyspace.max_keys=1");
    service_start(f);
    merge(f, "words", "the", 3);
    hold(f, "words", "cat", 4);
    expect(FLEET_RUN(f, "held"), 1, "over keyspace.max=10000");
}

CASE(held_drop_gives_up_what_is_held_and_nothing_else, f)
{
    service_start(f);
    merge(f, "words", "the", 3);
    shell(f, BREAK);
    hold(f, "words", "the", 4);
    hold(f, "words", "cat", 5);
    expect_text(FLEET_RUN(f, "held", "drop", "words"), 0,
                "dropped keyspace=words held=2\n");
    expect_text(FLEET_RUN(f, "held", "--tsv"), 0, "");
    hold(f, "words", "the", 10);

    shell(f, REPAIR);
    restart_worker(f);
    fleet_await_drained(f, WAIT_MS);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    assert_int_equal(service_count(f, "words", "the"), 13);
    assert_int_equal(service_count(f, "words", "cat"), INT64_MIN);
    fleet_stop_all(f);
    fleet_check(f);
}

CASE(misuse_of_held_is_told, f)
{
    service_start(f);
    expect(FLEET_RUN(f, "held", "nope"), 100, "usage: countd held");
    expect(FLEET_RUN(f, "held", "drop"), 100, "usage: countd held");
    expect(FLEET_RUN(f, "held", "drop", "a\\q"), 100, "bad escape");
    expect(FLEET_RUN(f, "held", "--dry-run"), 100, "dry-run");
}

/* ---- backup ------------------------------------------------------------ */

CASE(a_copy_has_what_was_held_and_counts_it_once, f)
{
    struct fleet copy;
    char path[600];

    fleet_option(f, "keyspace.max_keys=1");
    service_start(f);
    merge(f, "words", "the", 3);
    hold(f, "words", "cat", 4);
    snprintf(path, sizeof path, "%s-copy", f->path);
    expect(FLEET_RUN(f, "backup", path), 0, "keyspaces=1 keys=1 faults=0");
    assert_null(strstr(text, "not in the copy"));

    fleet_init_at(&copy, path);
    expect(FLEET_RUN(&copy, "held", "--tsv"), 1, "1\t1\t");
    expect(FLEET_RUN(&copy, "check"), 0, " held=1: 0 faults\n");
    service_start(&copy);
    fleet_await_drained(&copy, WAIT_MS);
    merge(&copy, "words", "the", 10);
    assert_int_equal(service_count(&copy, "words", "the"), 13);
    assert_int_equal(service_count(&copy, "words", "cat"), 4);
    expect_text(FLEET_RUN(&copy, "held", "--tsv"), 0, "");
    fleet_stop_all(&copy);
    fleet_check(&copy);
    fleet_fini(&copy);
    snprintf(path, sizeof path, "rm -r '%.500s-copy'", f->path);
    shell(f, path);
}

/* ---- damage ------------------------------------------------------------- */

/* Daemons put their statistics on the board a few times a second. */
static void
await_status(struct fleet *f, int status, const char *words)
{
    const uint64_t until = clock_ms() + WAIT_MS;
    int got;

    do
        got = FLEET_RUN(f, "status");
    while ((got != status || !strstr(text, words)) && clock_ms() < until);
    expect(got, status, words);
}

CASE(a_damaged_record_is_reported_and_the_others_are_merged, f)
{
    service_start(f);
    merge(f, "words", "the", 3);
    shell(f, BREAK);
    hold(f, "words", "the", 4);
    hold(f, "words", "cat", 5);
    hold(f, "words", "dog", 6);
    fleet_stop_all(f);
    /* A byte of the first record: its group's header and its own precede it. */
    shell(f, "printf X | dd of=held/1 bs=1 seek=1130 conv=notrunc 2>/dev/null");
    expect(FLEET_RUN(f, "check"), 1, "records are lost");
    expect(FLEET_RUN(f, "held", "--tsv"), 1, "2\t2\t");

    shell(f, REPAIR);
    service_start(f);
    fleet_await_drained(f, WAIT_MS);
    expect(FLEET_RUN(f, "flush"), 0, "");
    await_status(f, 1, "1 file of held records damaged");
    shell(f, "rm held/bad-1");
    await_status(f, 0, "nothing needs an operator");
    assert_int_equal(service_count(f, "words", "the"), 3);
    assert_int_equal(service_count(f, "words", "cat"), 5);
    assert_int_equal(service_count(f, "words", "dog"), 6);
}

CASE(a_damaged_file_of_which_nothing_waits_leaves_by_itself, f)
{
    const uint64_t until = clock_ms() + WAIT_MS;
    char bad[600];

    (void)snprintf(bad, sizeof bad, "%s/held/bad-1", f->path); /* fits */
    service_start(f);
    merge(f, "words", "the", 3);
    shell(f, BREAK);
    hold(f, "words", "the", 4);
    shell(f, REPAIR);
    restart_worker(f);
    fleet_await_drained(f, WAIT_MS);
    fleet_stop_all(f);
    shell(f, "printf X | dd of=held/1 bs=1 seek=1130 conv=notrunc 2>/dev/null");
    service_start(f);
    await_status(f, 1, "1 file of held records damaged");
    while (access(bad, F_OK) < 0 && clock_ms() < until)
        (void)poll(NULL, 0, 10);
    shell(f, "rm held/bad-1");
    await_status(f, 0, "nothing needs an operator");
    assert_int_equal(service_count(f, "words", "the"), 7);
}

CASE(records_of_an_earlier_version_are_not_passed_over, f)
{
    shell(f, "mkdir -p log keyspace && touch held.mdb");
    expect(FLEET_RUN(f, "held"), 111,
           "held.mdb is of an earlier version of countd and may hold records");
    shell(f, "rm held.mdb");
    expect_text(FLEET_RUN(f, "held", "--tsv"), 0, "");
}
