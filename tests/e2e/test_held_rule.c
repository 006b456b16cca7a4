/* tests/e2e/test_held_rule.c - a record that is held is neither lost nor
 * counted twice, whatever a worker, countd log salvage, countd replay and
 * countd backup do beside it.
 *
 * Every fill of a log adds 1 to a key of its own, "f1", "f2", ..., of keyspace
 * "words", so a count other than 1 names the fill that was lost or doubled.
 */
#include "tests/lib/test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/store/lmdb/engine.h"
#include "tests/lib/expect.h"
#include "tests/lib/filler.h"
#include "tests/lib/service.h"
#include "tests/lib/stored.h"

#define WAIT_MS 60000
#define FIRST   UINT64_C(1700000000000)
#define SLOTS   8

static unsigned fills; /* made so far */

static int
setup(void **state)
{
    const int rc = service_site_setup(state);
    struct service_site *x = *state;

    fleet_option(&x->fleet, "archive.keep=3660d");
    fills = 0;
    return rc;
}

/* Fills log `index` once more, a minute later than the fill before. */
static void
fill_log(const struct service_site *x, uint64_t index)
{
    struct filler f;
    char key[16];

    filler_open(&f, x->dir.log_fd, index, SLOTS);
    f.received_ms = FIRST + fills * UINT64_C(60000);
    snprintf(key, sizeof key, "f%u", ++fills);
    filler_add(&f, "words", key, 1);
    filler_add(&f, "words", "all", 1);
    filler_seal(&f);
}

static mode_t
mode_of(const struct service_site *x, uint64_t index)
{
    char name[16];
    struct stat st;

    snprintf(name, sizeof name, "%010u", (unsigned)index);
    return fstatat(x->dir.log_fd, name, &st, 0) == 0 ? st.st_mode & 0777 : 0;
}

/* Runs a worker until logs 0 to 2 are empty or quarantined. */
static void
merge_logs(struct service_site *x)
{
    const uint64_t end_ms = clock_ms() + WAIT_MS * (uint64_t)test_slow();

    fleet_start(&x->fleet, FLEET_WORKER);
    for (uint64_t i = 0; i < 3; i++)
        while (mode_of(x, i) != LOG_MODE_EMPTY && mode_of(x, i) != 0) {
            assert_true(clock_ms() < end_ms);
            (void)poll(NULL, 0, 1); /* paces the looking */
        }
    fleet_stop(&x->fleet, FLEET_WORKER);
}

/* Runs a worker until nothing is held either. */
static void
drain(struct fleet *f)
{
    fleet_start(f, FLEET_WORKER);
    fleet_await_drained(f, WAIT_MS);
    fleet_stop(f, FLEET_WORKER);
}

static void
shell(struct service_site *x, const char *script)
{
    char line[2048];

    snprintf(line, sizeof line, "cd '%s' && %s", x->fleet.path, script);
    assert_int_equal(daemon_run(text, sizeof text, "/bin/sh", "-c", line, NULL),
                     0);
}

/* The keyspace's file is exchanged for junk, and back. */
#define BREAK                                                                  \
    "mv keyspace/words.mdb good && yes junk | head -c 8192 > "                 \
    "keyspace/words.mdb"
#define REPAIR "mv good keyspace/words.mdb"

/* Every fill made so far counts once in this directory. */
static void
assert_counts(const char *path)
{
    struct lmdb_options options = {
        .keyspace_size = 256, .key_size = 256, .open_max = 4};
    struct store_row row;
    struct datadir dir;
    struct store *s;
    char key[16];

    assert_rc(datadir_open(&dir, path, DATADIR_READ), 0);
    options.keyspace_fd = dir.keyspace_fd;
    assert_rc(lmdb_store_open(&s, &options), 0);
    for (unsigned i = 1; i <= fills; i++) {
        snprintf(key, sizeof key, "f%u", i);
        row.count = 0;
        if (stored_get(s, "words", key, &row) < 0 || row.count != 1)
            fail_msg("%s/words: %s counts %lld", path, key,
                     (long long)row.count);
    }
    assert_rc(stored_get(s, "words", "all", &row), 0);
    assert_int_equal(row.count, fills);
    store_close(s);
    datadir_close(&dir);
}

/* ---- scenarios ----------------------------------------------------------- */

static void
damage_log(struct service_site *x, const char *name)
{
    uint8_t bytes[16] = {1, 2, 3};
    char path[600];
    int fd;

    snprintf(path, sizeof path, "%s/log/%s", x->fleet.path, name);
    assert_int_equal(chmod(path, 0600), 0);
    fd = open(path, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    /* The third slot, which counts nothing. */
    assert_int_equal(pwrite(fd, bytes, sizeof bytes, 8192 + 2 * 544 + 20), 16);
    assert_int_equal(close(fd), 0);
    assert_int_equal(chmod(path, LOG_MODE_FULL), 0);
}

static void
salvage_holds_a_log_behind_what_is_held_of_earlier_fills(void **state)
{
    struct service_site *x = *state;
    struct filler f;

    fill_log(x, 0);
    merge_logs(x);
    shell(x, BREAK);
    for (int i = 0; i < 3; i++) {
        fill_log(x, 0);
        merge_logs(x);
    }
    filler_open(&f, x->dir.log_fd, 0, SLOTS);
    filler_add(&f, "words", "f5", 1);
    filler_add(&f, "words", "all", 1);
    filler_add(&f, "words", "lost", 0);
    filler_seal(&f);
    fills++;
    damage_log(x, "0000000000");
    merge_logs(x);
    shell(x, REPAIR);

    expect(FLEET_RUN(&x->fleet, "log", "salvage", "bad-0000000000-5"), 0,
           "0 increments merged, 0 merged already, 1 damaged and lost, 2 held "
           "behind what is held for their keyspace");

    drain(&x->fleet);
    assert_counts(x->fleet.path);
    expect_text(FLEET_RUN(&x->fleet, "held", "--tsv"), 0, "");
}

static void
a_replay_into_a_backup_goes_behind_what_the_backup_holds(void **state)
{
    struct service_site *x = *state;
    char copy[600], archive[600];
    struct fleet to;

    snprintf(copy, sizeof copy, "%s/copy", x->fleet.path);
    snprintf(archive, sizeof archive, "%s/archive", x->fleet.path);
    fleet_option(&x->fleet, "keyspace.max_keys=2");
    fill_log(x, 0); /* "f1" and "all" are what the keyspace has room for */
    merge_logs(x);
    for (uint64_t i = 0; i < 3; i++)
        fill_log(x, i);
    merge_logs(x);
    expect(FLEET_RUN(&x->fleet, "backup", "--no-flush", copy), 0, "faults=0");

    fleet_option(&x->fleet, "keyspace.max_keys=0");
    drain(&x->fleet);
    for (uint64_t i = 0; i < 3; i++)
        fill_log(x, i);
    merge_logs(x);
    assert_counts(x->fleet.path);

    /* From the first fill that is not in the backup on. */
    expect(FLEET_RUN(&x->fleet, "-d", copy, "replay", "--from", "1700000220",
                     archive),
           0, "6 held behind what is held for their keyspace");
    fleet_init_at(&to, copy);
    drain(&to);
    assert_counts(copy);
    fleet_fini(&to);
}

static void
a_replay_that_was_killed_leaves_no_record_in_parts(void **state)
{
    struct service_site *x = *state;
    char copy[600], archive[600];
    struct fleet to;

    snprintf(copy, sizeof copy, "%s/copy", x->fleet.path);
    snprintf(archive, sizeof archive, "%s/archive", x->fleet.path);
    fleet_option(&x->fleet, "keyspace.max_keys=2");
    fill_log(x, 0);
    merge_logs(x);
    for (uint64_t i = 0; i < 3; i++) /* one record of three logs */
        fill_log(x, i);
    merge_logs(x);
    expect(FLEET_RUN(&x->fleet, "held", "--tsv"), 1, "1\t3\t");
    expect(FLEET_RUN(&x->fleet, "backup", "--no-flush", copy), 0, "faults=0");

    /* What a kill after its first commit leaves: one log of three. */
    expect(FLEET_RUN(&x->fleet, "-d", copy, "-o", "keyspace.max_keys=0",
                     "replay", "--to", "1700000090", archive),
           0, "0 increments merged");
    fleet_init_at(&to, copy);
    drain(&to);
    assert_counts(copy);
    fleet_fini(&to);
}

#define TEST(t) cmocka_unit_test_setup_teardown(t, setup, service_site_teardown)

static const struct CMUnitTest tests[] = {
    TEST(salvage_holds_a_log_behind_what_is_held_of_earlier_fills),
    TEST(a_replay_into_a_backup_goes_behind_what_the_backup_holds),
    TEST(a_replay_that_was_killed_leaves_no_record_in_parts),
};

TEST_MAIN(tests)
