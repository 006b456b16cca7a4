/* tests/e2e/test_purge.c - countd del --purge: afterwards no live file has a
 * byte of the key, nothing else is changed, and it may be killed anywhere.
 *
 *     TEST_SEED   repeats the choice of kills */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/aside.h"
#include "tests/lib/client.h"
#include "tests/lib/daemon.h"
#include "tests/lib/expect.h"
#include "tests/lib/file.h"
#include "tests/lib/fleet.h"
#include "tests/lib/random.h"
#include "tests/lib/service.h"

#define WAIT_MS 60000
#define SECRET  "key:00500-zebra-of-the-secret"

/* ---- the bytes of files ------------------------------------------------- */

/* How many files of a folder of the directory have the text, or one of several
 * that " -e " parts, as they are or inflated. */
static unsigned
files_with(const struct fleet *f, const char *folder, const char *bytes)
{
    char script[8000];
    unsigned count = 0;

    snprintf(
        script, sizeof script,
        "cd '%s' && find '%s' -maxdepth 1 -type f -perm -400 "
        "-exec zgrep -lF -e %s {} + 2>/dev/null || true", /* no such folder */
        f->path, folder, bytes);
    assert_int_equal(
        daemon_run(text, sizeof text, "/bin/sh", "-c", script, NULL), 0);
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        count++;
    if (count > 0)
        print_message("%s have %.40s\n", text, bytes);
    return count;
}

static unsigned
all_with(const struct fleet *f, const char *bytes)
{
    return files_with(f, "keyspace", bytes) + files_with(f, "log", bytes) +
           files_with(f, "archive", bytes) +
           files_with(f, "log/waiting", bytes);
}

/* ---- a directory -------------------------------------------------------- */

#define KEYS 3000

/* Some thousand keys, some of them more than once; one is saturated. */
static void
count_keys(struct fleet *f)
{
    const int fd = client_connect(fleet_ack_port(f));

    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < KEYS; i++) {
            char key[64];

            snprintf(key, sizeof key, "key:%05u%s", i,
                     i == 500 ? "-zebra-of-the-secret" : "");
            client_increment(fd, "words", key, 1 + i % 7);
        }
        client_increment(fd, "words", "most", INT64_MAX);
        client_increment(fd, "other", SECRET, 5);
        client_wins(fd, KEYS + 2);
        expect_text(FLEET_RUN(f, "flush"), 0, "");
    }
    assert_int_equal(close(fd), 0);
}

static void
start_daemons(struct fleet *f)
{
    fleet_options(f, "archive.keep=36500d", "log.size=512K", NULL);
    service_start(f);
    count_keys(f);
}

static void
stop_all(struct fleet *f)
{
    fleet_stop(f, FLEET_WRITE);
    fleet_await_drained(f, WAIT_MS);
    fleet_stop_all(f);
}

/* ---- the tests ---------------------------------------------------------- */

#define CASE(name, f)                                                          \
    TEST_IN(name, struct fleet *f, service_setup_in_memory, service_teardown)

CASE(no_live_file_has_a_byte_of_a_purged_key, f)
{
    char *before;

    start_daemons(f);
    expect(FLEET_RUN(f, "del", "words", SECRET), 0, "keys=1 of 1\n");
    expect(FLEET_RUN(f, "export", "words"), 0, "key:00501");
    before = test_memory(strdup(text));
    stop_all(f);
    /* What del leaves, without which this would prove nothing. */
    assert_true(files_with(f, "log", "zebra") > 0);
    assert_true(files_with(f, "archive", "zebra") > 0);

    expect(FLEET_RUN(f, "del", "words", SECRET, "--purge"), 0, "keys=0 of 1\n");
    expect(0, 0, " left=0\n");
    expect(FLEET_RUN(f, "del", "other", SECRET, "--purge"), 0, " left=0\n");

    assert_int_equal(all_with(f, "zebra"), 0);
    fleet_check(f);
    service_start(f);
    expect_text(FLEET_RUN(f, "export", "words"), 0, before);
    free(before);
    assert_int_equal(service_count(f, "words", SECRET), INT64_MIN);
    assert_int_equal(service_count(f, "words", "key:00501"), 2 * (1 + 501 % 7));
    assert_int_equal(service_count(f, "words", "most"), INT64_MAX);
    service_add(f, "words", SECRET, 4);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    assert_int_equal(service_count(f, "words", SECRET), 4);

    /* Beside the daemons, and the writer owns most logs ahead of need. */
    expect(FLEET_RUN(f, "del", "words", SECRET, "--purge"), 0, " left=0\n");
    assert_int_equal(all_with(f, "zebra"), 0);
    assert_int_equal(service_count(f, "words", SECRET), INT64_MIN);
    service_add(f, "words", SECRET, 3);
    service_add(f, "words", "key:00501", 1);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    assert_int_equal(service_count(f, "words", SECRET), 3);
    assert_int_equal(service_count(f, "words", "key:00501"),
                     2 * (1 + 501 % 7) + 1);
    fleet_stop_all(f);
    fleet_check(f);
}

/* A key that stands in separators of nodes and groups, and in buffered edits:
 * one of many is. */
static void
run_shell(const struct fleet *f, const char *script)
{
    char line[1000];

    snprintf(line, sizeof line, "cd '%s' && %s", f->path, script);
    assert_int_equal(daemon_run(text, sizeof text, "/bin/sh", "-c", line, NULL),
                     0);
}

CASE(what_waits_for_another_keyspace_is_written_again_without_the_key, f)
{
    static const struct aside_record records[] = {{"sick", "k", 1},
                                                  {"words", SECRET, 1}};
    const struct log_fill mark = {.uuid = {9}, .epoch = 1, .first_ms = 1};
    int log_fd;

    start_daemons(f);
    stop_all(f);
    log_fd =
        open(file_path(f->path, "log"), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(log_fd >= 0);
    (void)aside_put(log_fd, false, &mark, records, 2, 60000);
    run_shell(f, "yes junk | head -c 8192 > keyspace/sick.mdb");
    assert_int_equal(daemon_run(text, sizeof text, "countd-worker", "-d",
                                f->path, "-o", "log.size=512K", "--once", NULL),
                     0);
    run_shell(f, "cp log/waiting/held-* archive/%t-of-one-that-died");
    assert_int_equal(files_with(f, "log/waiting", "zebra"), 1);

    expect(FLEET_RUN(f, "del", "words", SECRET, "--purge"), 0,
           " waiting=1 left=0\n");
    expect(FLEET_RUN(f, "del", "other", SECRET, "--purge"), 0, " left=0\n");
    assert_int_equal(all_with(f, "zebra"), 0);
    assert_int_equal(aside_count(log_fd), 1); /* the other's */
    assert_int_equal(close(log_fd), 0);
    run_shell(f, "rm keyspace/sick.mdb");
}

CASE(no_file_of_a_keyspace_has_any_of_many_purged_keys, f)
{
    static char script[KEYS / 3 * 64 + 800], some[KEYS / 30 * 48];
    char path[700];
    size_t size;

    start_daemons(f);
    stop_all(f);
    daemon_path("countd", path, sizeof path);
    size = (size_t)snprintf(script, sizeof script,
                            "'%s' -d '%s' del --purge words", path, f->path);
    for (unsigned i = 2; i < KEYS; i += 3)
        size +=
            (size_t)snprintf(script + size, sizeof script - size, " key:%05u%s",
                             i, i == 500 ? "-zebra-of-the-secret" : "");
    size = (size_t)snprintf(some, sizeof some, "key:00002");
    for (unsigned i = 32; i < KEYS; i += 30)
        size += (size_t)snprintf(some + size, sizeof some - size,
                                 " -e key:%05u", i);
    expect(daemon_run(text, sizeof text, "/bin/sh", "-c", script, NULL), 0,
           "keys=1000 of 1000\n");
    expect(0, 0, " left=0\n");
    assert_int_equal(all_with(f, some), 0);
    fleet_check(f);
    service_start(f);
    assert_int_equal(service_count(f, "words", "key:00500"), INT64_MIN);
    assert_int_equal(service_count(f, "words", "key:00501"), 2 * (1 + 501 % 7));
    fleet_stop_all(f);
}

/* The purged archive is still an archive: of the same fills, without the key.
 */
CASE(a_purged_archive_is_replayed_without_the_key, f)
{
    char target[700], archive[700];

    start_daemons(f);
    stop_all(f);
    expect(FLEET_RUN(f, "del", "words", SECRET, "--purge"), 0, " left=0\n");
    expect(FLEET_RUN(f, "del", "other", SECRET, "--purge"), 0, " left=0\n");
    snprintf(target, sizeof target, "%s/again", f->path);
    snprintf(archive, sizeof archive, "%s/archive", f->path);
    expect(FLEET_RUN(f, "replay", "--dry-run", archive), 0, ": nothing new: ");
    expect(FLEET_RUN(f, "replay", "-d", target, archive), 0, ", damaged 0\n");
    assert_int_equal(files_with(f, "again/keyspace", "zebra"), 0);
    assert_true(files_with(f, "again/keyspace", "key:00501") > 0);
}

CASE(what_cannot_be_purged_is_listed, f)
{
    start_daemons(f);
    stop_all(f);
    file_put(file_path(f->path, "log/bad-0000000077-1"), SECRET, sizeof SECRET);
    file_put(file_path(f->path, "archive/1700000000000-0000000001-"
                                "00000000000000000001.gz"),
             "junk", 4);

    expect(FLEET_RUN(f, "del", "words", SECRET, "--purge"), 1,
           "left log/bad-0000000077-1: it is quarantined and may have a key\n");
    expect(0, 0, ".gz: it is damaged and may have a key\n");
    expect(0, 0, " left=2\n");
}

/* A key in every log of a writer that then has nothing to do. */
CASE(a_log_in_use_is_waited_for_and_named_when_time_is_up, f)
{
    start_daemons(f);
    for (unsigned i = 0; i < 6; i++) {
        service_add(f, "words", SECRET, 1);
        expect_text(FLEET_RUN(f, "flush"), 0, "");
    }
    assert_int_equal(kill(f->daemons[FLEET_WRITE].pid, SIGSTOP), 0);
    expect(FLEET_RUN(f, "del", "words", SECRET, "--purge", "--timeout", "1s"),
           1, ": a daemon has it in use, and it may have a key; repeat the ");
    assert_int_equal(kill(f->daemons[FLEET_WRITE].pid, SIGCONT), 0);

    expect(FLEET_RUN(f, "del", "words", SECRET, "--purge"), 0, " left=0\n");
    expect(FLEET_RUN(f, "del", "other", SECRET, "--purge"), 0, " left=0\n");
    assert_int_equal(all_with(f, "zebra"), 0);
    service_add(f, "words", SECRET, 4);
    expect_text(FLEET_RUN(f, "flush"), 0, "");
    assert_int_equal(service_count(f, "words", SECRET), 4);
    fleet_stop_all(f);
    fleet_check(f);
}

CASE(killed_at_any_system_call_it_leaves_a_good_store_and_is_repeated, f)
{
    enum { KILLS = 24 };
    static const char *const calls[] = {
        "fdatasync",       "pwrite64", "fsync", "rename,renameat,renameat2",
        "unlink,unlinkat", "openat"};
    struct random r = {random_seed(__func__)};
    unsigned killed = 0;
    char options[80];

    start_daemons(f);
    stop_all(f);
    for (unsigned i = 0; i < KILLS; i++) {
        int status;

        snprintf(options, sizeof options,
                 "-o /dev/null --inject=%s:signal=KILL:when=%u", calls[i % 6],
                 1 + (unsigned)random_below(&r, i % 6 < 5 ? 6 : 60));
        status = expect_traced(f->path, options,
                               "-d '%s' del words key:%05u --purge", f->path,
                               600 + i / 6);
        killed += status == 128 + SIGKILL;
        fleet_check(f);
    }
    print_message("%u of %d were killed\n", killed, (int)KILLS);
    assert_true(killed > KILLS / 4);
    for (unsigned i = 0; i < KILLS / 6; i++) {
        char key[32];

        snprintf(key, sizeof key, "key:%05u", 600 + i);
        assert_in_range(FLEET_RUN(f, "del", "words", key, "--purge"), 0, 1);
        expect(0, 0, " left=0\n");
        assert_int_equal(all_with(f, key), 0);
    }
    fleet_check(f);
    service_start(f);
    assert_int_equal(service_count(f, "words", "key:00600"), INT64_MIN);
    assert_int_equal(service_count(f, "words", "key:00501"), 2 * (1 + 501 % 7));
    fleet_stop_all(f);
}
