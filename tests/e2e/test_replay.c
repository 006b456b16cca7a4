/* tests/e2e/test_replay.c - countd replay and countd explain: what a worker
 * archived gives the same counts in another directory, once, whatever happens
 * on the way; and explain shows where a count came from. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/log/archive.h"
#include "common/setup/datadir.h"
#include "tests/lib/client.h"
#include "tests/lib/compare_dirs.h"
#include "tests/lib/engines.h"
#include "tests/lib/expect.h"
#include "tests/lib/file.h"
#include "tests/lib/filler.h"
#include "tests/lib/fleet.h"
#include "tests/lib/random.h"
#include "tests/lib/stored.h"

#define FIRST UINT64_C(1700000000000) /* 2023-11-14T22:13:20Z */

struct fixture {
    struct fleet fleet;
    char archive[600], target[600];
    int log_fd, archive_fd;
};

static void
set_up(struct fixture *s)
{
    fleet_init_in_memory(&s->fleet);
    fleet_option(&s->fleet, "archive.keep=36500d");
    fleet_option(&s->fleet, "history=1m:2d,1h:90d,1d:100y"); /* since 2023 */
    snprintf(s->archive, sizeof s->archive, "%s/archive", s->fleet.path);
    snprintf(s->target, sizeof s->target, "%s/target", s->fleet.path);
    s->log_fd = s->archive_fd = -1;
}

static void
tear_down(struct fixture *s)
{
    if (s->log_fd >= 0)
        (void)close(s->log_fd); /* only for this test */
    if (s->archive_fd >= 0)
        (void)close(s->archive_fd);
    fleet_fini(&s->fleet);
}

#define CASE(name, s) TEST_WITH(name, struct fixture, s, set_up, tear_down)

/* The command on the target: the last -d rules. */
#define REPLAY(s, ...)                                                         \
    FLEET_RUN(&(s)->fleet, "-d", (s)->target, "replay", __VA_ARGS__)

/* ---- what a directory holds --------------------------------------------- */

static void
assert_same(const struct fixture *s)
{
    compare_dirs(s->fleet.path, s->target, false);
}

/* The counts of "words" and "other" in the target; 0: there is none. */
static void
assert_counts(const struct fixture *s, int64_t the, int64_t of, int64_t x)
{
    const struct {
        const char *keyspace, *key;
        int64_t count;
    } want[] = {{"words", "the", the}, {"words", "of", of}, {"other", "x", x}};
    struct datadir dir;
    struct store *store;

    assert_rc(datadir_open(&dir, s->target, DATADIR_READ), 0);
    store = engine_open(dir.keyspace_fd);
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        struct store_row row = {.count = 0};
        const int rc = stored_get(store, want[i].keyspace, want[i].key, &row);

        assert_rc(rc, want[i].count == 0 ? -ENOENT : 0);
        assert_int_equal(row.count, want[i].count);
    }
    store_close(store);
    datadir_close(&dir);
}

static void
remove_target(const struct fixture *s)
{
    assert_int_equal(daemon_run(NULL, 0, "/bin/rm", "-r", s->target), 0);
}

/* ---- archives ----------------------------------------------------------- */

/* Real daemons, small logs, many fills of each, several keyspaces. */
static void
count_and_stop(struct fixture *s, unsigned count)
{
    struct random r = {random_seed(__func__)};
    char keyspace[32], key[32];
    int fd;

    fleet_start(&s->fleet, FLEET_WRITE);
    fleet_start(&s->fleet, FLEET_WORKER);
    fleet_start(&s->fleet, FLEET_WORKER2);
    fd = client_connect(fleet_ack_port(&s->fleet));
    for (unsigned i = 0; i < count; i++) {
        const int64_t most = random_chance(&r, 1) ? INT64_MAX / 10000 : 1000;

        snprintf(keyspace, sizeof keyspace, "space-%u",
                 (unsigned)random_below(&r, 4));
        snprintf(key, sizeof key, "key-%u", (unsigned)random_below(&r, 300));
        client_increment(fd, keyspace, key,
                         (int64_t)random_below(&r, (uint64_t)most) - most / 3);
        if (i % 64 == 63)
            client_wins(fd, 64);
    }
    client_wins(fd, count % 64);
    client_close(fd);
    fleet_stop(&s->fleet, FLEET_WRITE);
    fleet_await_drained(&s->fleet, 20000);
    fleet_stop_all(&s->fleet);
}

/* Logs by hand: one of four increments for each minute. */
static void
archive_open_hand(struct fixture *s, struct archive *a)
{
    struct datadir dir;

    assert_rc(datadir_open(&dir, s->fleet.path, DATADIR_WRITE), 0);
    assert_rc(datadir_archive(&dir), 0);
    s->log_fd = dup(dir.log_fd);
    s->archive_fd = dup(dir.archive_fd);
    datadir_close(&dir);
    assert_rc(archive_open(a, s->archive_fd, 0), 0);
}

static void
archive_by_hand_at(struct fixture *s, unsigned logs,
                   uint64_t (*minute)(unsigned log))
{
    struct archive a;

    archive_open_hand(s, &a);
    for (unsigned i = 0; i < logs; i++) {
        struct filler f;
        struct log log;

        filler_open(&f, s->log_fd, i % 3, 8);
        f.received_ms = FIRST + minute(i) * UINT64_C(60000);
        filler_add(&f, "words", "the", 1 << i % 30);
        filler_add(&f, "words", "of", 2);
        f.received_ms += 1000;
        filler_add(&f, "words", "the", 100000);
        filler_add(&f, "other", "x", -5);
        filler_seal(&f);
        assert_rc(log_claim(&log, s->log_fd, i % 3, LOG_MODE_FULL), 0);
        assert_rc(archive_add(&a, &log), 0);
        assert_rc(log_empty(&log), 0);
        assert_rc(log_release(&log), 0);
    }
    archive_close(&a);
}

static uint64_t
number_forward(unsigned log)
{
    return log;
}

static uint64_t
number_backward(unsigned log)
{
    return 100 - log;
}

static void
archive_by_hand(struct fixture *s, unsigned logs)
{
    archive_by_hand_at(s, logs, number_forward);
}

/* The path of the archived log of a minute. */
static const char *
path_of(const struct fixture *s, unsigned i)
{
    const struct archive_name n = {.first_ms = FIRST + i * UINT64_C(60000),
                                   .index = i % 3,
                                   .epoch = 1 + i / 3};
    char name[ARCHIVE_NAME_SIZE];

    archive_name_put(&n, name);
    return file_path(s->archive, "%s", name);
}

/* ---- replay ------------------------------------------------------------- */

CASE(a_replay_into_an_empty_directory_gives_the_same_counts, s)
{
    count_and_stop(s, 6000);

    expect(REPLAY(s, s->fleet.path), 0, "; logs left out 0, missing 0, ");
    assert_same(s);
    expect(REPLAY(s, s->archive), 0, " logs: nothing new: ");
    assert_same(s);
    expect(FLEET_RUN(&s->fleet, "-d", s->target, "check"), 0, "0 faults");
    /* And where it came from all of it is in. */
    expect(FLEET_RUN(&s->fleet, "replay", s->archive), 0,
           " logs: nothing new: ");
    assert_same(s);
}

/* Full logs whose increments came at any time of the last three years, of some
 * minutes each. */
static void
fill_logs_of_years(struct fixture *s, unsigned logs)
{
    const uint64_t minute = 60000, now = clock_unix_ms();
    const uint64_t spans[] = {60 * minute, 47 * 60 * minute, 80 * 1440 * minute,
                              1000 * 1440 * minute};
    struct random r = {random_seed(__func__)};
    struct datadir dir;
    char key[32];

    assert_rc(datadir_open(&dir, s->fleet.path, DATADIR_WRITE), 0);
    for (unsigned i = 0; i < logs; i++) {
        struct filler f;

        filler_open(&f, dir.log_fd, i, 64);
        f.received_ms = now - 1 - random_below(&r, spans[i % 4]);
        for (unsigned n = 0; n < 60; n++) {
            snprintf(key, sizeof key, "key-%u", (unsigned)random_below(&r, 20));
            filler_add(&f, n % 3 ? "words" : "others", key,
                       (int64_t)random_below(&r, 2000) - 1000);
            if (random_chance(&r, 10) && f.received_ms + minute < now)
                f.received_ms += random_below(&r, minute);
        }
        filler_seal(&f);
    }
    datadir_close(&dir);
}

CASE(a_replay_into_an_empty_directory_gives_the_same_history, s)
{
    fill_logs_of_years(s, 40);
    /* A replay applies one log after the other, the oldest first. */
    fleet_start_with(&s->fleet, FLEET_WORKER, "worker.batch=1");
    fleet_await_drained(&s->fleet, 20000);
    fleet_stop_all(&s->fleet);

    assert_true(compare_dirs_replay(&s->fleet, s->target));
    compare_dirs(s->fleet.path, s->target, true);
    assert_true(compare_dirs_replay(&s->fleet, s->target));
    compare_dirs(s->fleet.path, s->target, true);
    expect(FLEET_RUN(&s->fleet, "-d", s->target, "check"), 0, "0 faults");
}

/* An earlier backup, rolled forward. */
CASE(a_replay_into_an_older_copy_adds_what_is_missing, s)
{
    count_and_stop(s, 1500);
    expect(FLEET_RUN(&s->fleet, "backup", "--no-flush", s->target), 0, "");
    count_and_stop(s, 1500);

    expect(REPLAY(s, s->archive), 0, " merged already");
    assert_same(s);
}

CASE(a_replay_killed_at_any_system_call_is_repeated, s)
{
    enum { KILLS = 40 };
    static const char *const calls[] = {"fdatasync", "pwrite64", "pwritev",
                                        "fsync",     "pread64",  "openat"};
    struct random r = {random_seed(__func__)};
    unsigned killed = 0;
    char options[80];

    count_and_stop(s, 3000);
    for (unsigned i = 0; i < KILLS; i++) {
        int status;

        snprintf(options, sizeof options,
                 "-o /dev/null --inject=%s:signal=KILL:when=%u", calls[i % 6],
                 1 + (unsigned)random_below(&r, 20));
        status = expect_traced(s->fleet.path, options, "-d '%s' replay '%s'",
                               s->target, s->archive);
        killed += status == 128 + SIGKILL;
        if (status != 0)
            assert_int_equal(status, 128 + SIGKILL);
        if (i % 8 != 7) /* up to eight kills in a row, then to its end */
            continue;
        assert_int_equal(REPLAY(s, s->archive), 0);
        assert_same(s);
        remove_target(s);
    }
    printf("%u of %d replays were killed\n", killed, (int)KILLS);
    assert_true(killed > KILLS / 4);
}

/* Workers may merge beside it: each name is given when those before are
 * durable, and of one log they are in its order. */
CASE(logs_are_placed_in_the_order_of_time, s)
{
    archive_by_hand(s, 9);
    assert_int_equal(expect_traced(s->fleet.path, "-o trace -e trace=renameat2",
                                   "-d '%s' replay '%s'", s->target,
                                   s->archive),
                     0);
    expect_text(daemon_run(text, sizeof text, "/bin/sh", "-c",
                           "cd \"$1\" && grep -o 'placed-[0-9]*' trace "
                           ">order && sort -C order && wc -l <order",
                           "sh", s->fleet.path),
                0, "9\n");
}

CASE(a_part_of_the_time_or_a_keyspace_may_be_replayed, s)
{
    archive_by_hand(s, 9);

    expect(REPLAY(s, s->archive, "--to", "1700000180", "--json"), 0,
           "\"logs\": 3, \"merged\": 12, ");
    expect(0, 0, "\"logs_left_out\": 6, ");
    expect(REPLAY(s, s->archive, "--utc", "--from", "2023-11-14T22:16:20",
                  "--keyspace", "words"),
           0, "6 logs: 18 increments merged, 0 ");
    /* The rest of the later logs. */
    expect(REPLAY(s, s->archive), 0, "9 logs: 6 increments merged, 30 ");
    assert_counts(s, 900511, 18, -45);
    expect(REPLAY(s, s->archive, "--from", "yesterday"), 100, "give a time");
    expect(REPLAY(s, "/nowhere"), 100, "No such file");
    expect(REPLAY(s, s->target), 1, "no archived logs");
}

/* By time alone the last fill of each log would come first, and hide the
 * others. */
CASE(a_clock_that_was_set_back_loses_nothing, s)
{
    archive_by_hand_at(s, 9, number_backward);
    expect(REPLAY(s, s->archive), 0, "9 logs: 36 increments merged, 0 ");
    expect(REPLAY(s, s->archive), 0,
           "9 logs: nothing new: 36 increments were merged, or left out, "
           "before; logs left out 0");
    expect(REPLAY(s, "--keyspace", "nowhere", s->archive), 0,
           "9 logs: nothing new; logs left out 0");
    assert_counts(s, 900511, 18, -45);
}

/* Most records stand before the damage, and a good log behind it. */
CASE(a_log_damaged_at_its_end_leaves_nothing_of_its_beginning, s)
{
    struct archive a;

    archive_open_hand(s, &a);
    for (unsigned i = 0; i < 2; i++) {
        struct filler f;
        struct log log;

        filler_open(&f, s->log_fd, i, 32768);
        f.received_ms = FIRST + i * UINT64_C(60000);
        for (unsigned n = 0; n < (i == 0 ? 16393 : 1); n++)
            filler_add(&f, "words", "the", 1);
        filler_seal(&f);
        assert_rc(log_claim(&log, s->log_fd, i, LOG_MODE_FULL), 0);
        assert_rc(archive_add(&a, &log), 0);
        assert_rc(log_release(&log), 0);
    }
    archive_close(&a);
    file_flip(path_of(s, 0), -1, 4);

    expect(REPLAY(s, s->archive, "--skip-damaged"), 1,
           "1 log: 1 increment merged, 0 ");
    assert_counts(s, 1, 0, 0);
}

/* Some came before history was kept, some more than a day apart. */
CASE(explain_tells_each_day_and_from_when_on_it_is_known, s)
{
    const uint32_t day = (uint32_t)(time(NULL) / 86400) * 1440;
    struct store_delta d = {.key = (const uint8_t *)"the", .key_size = 3};
    struct datadir dir;
    struct store *store;
    char want[200];

    assert_rc(datadir_open(&dir, s->fleet.path, DATADIR_WRITE), 0);
    store = engine_open(dir.keyspace_fd);
    assert_rc(stored_add(store, "words", NULL, "the", 1000), 0);
    store_close(store);
    store = engine_open_history(dir.keyspace_fd, ENGINE_TIERS, NULL);
    for (uint32_t i = 0; i < 2; i++) {
        d.minute = day - 1440 * i;
        d.sum = 7 + i;
        assert_rc(stored_apply(store, "words", NULL, &d, 1), 0);
    }
    store_close(store);
    datadir_close(&dir);

    snprintf(want, sizeof want,
             "\"rows\": [], \"history\": [\n"
             " {\"from\": %u, \"sum\": 8, \"logged\": 0},\n"
             " {\"from\": %u, \"sum\": 7, \"logged\": 0}], "
             "\"history_sum\": 15, \"history_since\": ",
             (day - 1440) * 60, day * 60);
    expect(FLEET_RUN(&s->fleet, "explain", "words", "the", "--json"), 0, want);
    expect(0, 0, ", \"not_in_history\": 1000, ");
    expect(FLEET_RUN(&s->fleet, "explain", "words", "the"), 0,
           "not known: what came before ");
    expect(0, 0, "not in history: 1000, from before that, or changed by del");
}
