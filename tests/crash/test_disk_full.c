/* tests/crash/test_disk_full.c - the disk fills up while increments come in: no
 * daemon dies, nothing is lost, and it goes on by itself when there is room again.
 *
 * On a small tmpfs of its own, in a mount namespace of its own: needs root.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/setup/reserve.h"
#include "tests/crash/small_disk.h"
#include "tests/lib/client.h"
#include "tests/lib/engines.h"
#include "tests/lib/expect.h"
#include "tests/lib/fleet.h"
#include "tests/lib/service.h"
#include "tests/lib/stored.h"
#include "tests/lib/traffic.h"

#define KEYSPACES 3
#define QUIET_MS  400 /* without an answer: pushed back */
#define LIMIT_MS  60000

struct full {
    struct small_disk disk;
    struct fleet fleet;
    struct model model;
    struct traffic traffic;
    _Atomic uint64_t moments;
};

static void
begin_full(struct full *f)
{
    uint64_t seed = random_seed("disk full");

    fleet_init_at(&f->fleet, f->disk.data);
    fleet_option(&f->fleet, "log.size=256K");
    model_init(&f->model, seed, KEYSPACES);
    traffic_init(&f->traffic, &f->model, &f->moments, 4, 64);
}

static void
finish_full(struct full *f)
{
    traffic_fini(&f->traffic);
    model_fini(&f->model);
    fleet_fini(&f->fleet);
    small_disk_unmount(&f->disk);
}

static void
start_writer(struct full *f)
{
    fleet_start(&f->fleet, FLEET_WRITE);
    traffic_port(&f->traffic, fleet_ack_port(&f->fleet));
}

static const char *
text_of(struct full *f, enum fleet_role role)
{
    return daemon_text(fleet_daemon(&f->fleet, role));
}

/* Sends until the writer says why, and no answer comes any more. */
static void
send_until_pushed_back(struct full *f)
{
    uint64_t deadline = test_deadline(LIMIT_MS);
    size_t acked = 0, now;
    uint64_t last = clock_ms();

    while (clock_ms() < last + QUIET_MS ||
           !strstr(text_of(f, FLEET_WRITE), "cannot get an empty log")) {
        traffic_turn(&f->traffic, 5);
        now = model_acked(&f->model, UINT64_MAX);
        if (now != acked)
            last = clock_ms();
        acked = now;
        if (clock_ms() > deadline)
            fail_msg("the writer takes more than the disk holds");
    }
}

static void
send_some(struct full *f, size_t count)
{
    uint64_t deadline = test_deadline(LIMIT_MS);
    size_t from = model_acked(&f->model, UINT64_MAX);

    while (model_acked(&f->model, UINT64_MAX) < from + count) {
        traffic_turn(&f->traffic, 5);
        if (clock_ms() > deadline)
            fail_msg("no more answers, though there is room");
    }
}

static void
expect_exactly_once(struct full *f)
{
    char why[512];

    assert_true(traffic_drain(&f->traffic, LIMIT_MS));
    fleet_stop(&f->fleet, FLEET_WRITE);
    fleet_await_drained(&f->fleet, LIMIT_MS);
    fleet_stop_all(&f->fleet);
    fleet_check(&f->fleet);
    fleet_look(&f->fleet, &f->model);
    if (model_verdict(&f->model, UINT64_MAX, why, sizeof why) > 0)
        fail_msg("%s", why);
}

/* Same daemons before and after. */
static void
expect_alive(struct full *f, enum fleet_role role)
{
    if (!daemon_alive(fleet_daemon(&f->fleet, role)))
        fail_msg("a daemon died of the full disk");
}

/* Where nothing is merged, no late merge empties a log for it. */
static void
expect_load_is_refused(struct full *f)
{
    char lines[600];
    int fd;

    (void)snprintf(lines, sizeof lines, "%s/lines", f->disk.dir.path);
    fd = open(lines, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "w\tk\t0\n", 6), 6);
    assert_int_equal(close(fd), 0);
    expect(FLEET_RUN(&f->fleet, "load", "--timeout", "300ms", lines), 111,
           "the disk is full");
}

TEST(logs_that_cannot_be_made_push_back_and_go_on)
{
    struct full f = {0};

    if (!small_disk_mount(&f.disk, "size=8m,mode=700"))
        test_skip("needs root and a tmpfs of its own");
    begin_full(&f);
    small_disk_fill(&f.disk, 5 << 20);
    start_writer(&f);

    send_until_pushed_back(&f);
    expect_alive(&f, FLEET_WRITE);
    assert_true(model_acked(&f.model, UINT64_MAX) > 500);
    expect_load_is_refused(&f);

    assert_int_equal(unlink(f.disk.ballast), 0);
    send_some(&f, 200);
    assert_has(text_of(&f, FLEET_WRITE), "there is an empty log again");
    expect_alive(&f, FLEET_WRITE);
    fleet_start(&f.fleet, FLEET_WORKER);
    expect_exactly_once(&f);
    finish_full(&f);
}

/* Waits until the worker has met the full disk, which it says on the board with
 * its next beat, or has merged all that was loaded: then the load ended before
 * the disk was full, since the worker was slow. */
static bool
is_worker_waiting(struct full *f)
{
    const uint64_t end_ms = test_deadline(LIMIT_MS);

    for (;;) {
        (void)FLEET_RUN(&f->fleet, "status");
        if (strstr(text, "a worker cannot write now") != NULL)
            return true;
        if (FLEET_RUN(&f->fleet, "flush", "--timeout", "100ms") == 0)
            return false;
        expect_alive(f, FLEET_WORKER);
        if (clock_ms() > end_ms) {
            (void)FLEET_RUN(&f->fleet, "status");
            fail_msg("countd status never says that a worker cannot write:\n%s",
                     text);
        }
    }
}

/* A fact of `countd status --json`. */
static int64_t
status_figure(struct full *f, const char *name)
{
    char line[64];
    const char *at;

    (void)FLEET_RUN(&f->fleet, "status", "--json");
    (void)snprintf(line, sizeof line, "\"%s\": ", name);
    at = strstr(text, line);
    if (at == NULL)
        fail_msg("no %s in: %s", name, text);
    return strtoll(at + strlen(line), NULL, 10);
}

/* A command that waits says at once why, and not only at its end. */
static void
expect_flush_explains_itself(struct full *f)
{
    const char *const words[] = {"flush", "--timeout", "10m", NULL};
    const uint64_t until = test_deadline(LIMIT_MS);
    struct daemon flush;

    fleet_begin(&f->fleet, &flush, words);
    do {
        (void)poll(NULL, 0, 20); /* paces the looking */
        (void)daemon_output(&flush, text, sizeof text);
    } while (!strstr(text, "waiting: the disk of the data directory is full") &&
             daemon_alive(&flush) && clock_ms() < until);
    expect(0, 0, "waiting: the disk of the data directory is full");
    daemon_kill(&flush);
    daemon_fini(&flush);
}

/* Commands that wait for a merge say why there is none; status says how many
 * increments wait, however often a worker tries and gives its logs back. */
static void
expect_full_disk_is_named(struct full *f)
{
    expect_flush_explains_itself(f);
    expect(FLEET_RUN(&f->fleet, "flush", "--timeout", "300ms"), 1,
           "the disk is full");
    expect(FLEET_RUN(&f->fleet, "del", "--timeout", "300ms", "ks0", "k"), 1,
           "the disk is full");
    for (int i = 0; i < 50; i++) {
        assert_true(status_figure(f, "unmerged") > 0);
        (void)poll(NULL, 0, 50); /* paces the looking */
    }
    fleet_stop(&f->fleet, FLEET_READ);
}

TEST(merges_that_cannot_be_written_are_made_later)
{
    struct full f = {0};

    if (!small_disk_mount(&f.disk, "size=16m,mode=700"))
        test_skip("needs root and a tmpfs of its own");
    begin_full(&f);
    fleet_option(&f.fleet, "log.max=6");
    start_writer(&f);
    fleet_start(&f.fleet, FLEET_WORKER);
    send_some(&f, 2000);

    fleet_start(&f.fleet, FLEET_READ);
    small_disk_fill(&f.disk, SIZE_MAX);
    do
        send_until_pushed_back(&f);
    while (!is_worker_waiting(&f) ||
           FLEET_RUN(&f.fleet, "flush", "--timeout", "3s") == 0);
    expect_alive(&f, FLEET_WRITE);
    expect_alive(&f, FLEET_WORKER);
    expect_full_disk_is_named(&f);

    assert_int_equal(unlink(f.disk.ballast), 0);
    send_some(&f, 2000);
    expect_alive(&f, FLEET_WRITE);
    expect_alive(&f, FLEET_WORKER);
    expect_exactly_once(&f);
    finish_full(&f);
}

/* Files until there is no inode left; returns how many. */
static unsigned
take_inodes(const struct full *f)
{
    char path[640];
    unsigned count = 0;
    int fd;

    for (;; count++) {
        (void)snprintf(path, sizeof path, "%s.%u", f->disk.ballast, count);
        fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
            break;
        assert_int_equal(close(fd), 0);
    }
    assert_int_equal(errno, ENOSPC);
    return count;
}

static void
give_inodes(const struct full *f, unsigned count)
{
    char path[640];

    while (count-- > 0) {
        (void)snprintf(path, sizeof path, "%s.%u", f->disk.ballast, count);
        assert_int_equal(unlink(path), 0);
    }
}

/* What a daemon that runs lives through, one that starts does, too. */
TEST(daemons_start_without_a_free_inode_and_go_on_when_there_is_one)
{
    struct full f = {0};
    unsigned taken;

    if (!small_disk_mount(&f.disk, "size=64m,nr_inodes=100,mode=700"))
        test_skip("needs root and a tmpfs of its own");
    begin_full(&f);
    start_writer(&f);
    fleet_start(&f.fleet, FLEET_WORKER);
    fleet_start(&f.fleet, FLEET_READ);
    send_some(&f, 2000);
    assert_true(traffic_drain(&f.traffic, LIMIT_MS));
    fleet_stop_all(&f.fleet);
    taken = take_inodes(&f);

    start_writer(&f);
    fleet_start(&f.fleet, FLEET_WORKER);
    fleet_start(&f.fleet, FLEET_READ);
    send_until_pushed_back(&f);
    assert_has(text_of(&f, FLEET_WRITE),
               "links, locks and syncs are not tried");

    give_inodes(&f, taken);
    send_some(&f, 200);
    expect_alive(&f, FLEET_WRITE);
    expect_alive(&f, FLEET_WORKER);
    expect_alive(&f, FLEET_READ);
    expect_exactly_once(&f);
    finish_full(&f);
}

/* ---- LMDB's lock files ------------------------------------------------- */

/* LMDB writes to them through a map: a page for which there is no room is the
 * end of the process (SIGBUS). */

static int
apply_new(const char *keyspace_dir)
{
    const int fd = open(keyspace_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    struct store *s = engine_open(fd);
    const int rc = stored_add(s, "new", NULL, "key", 1);

    store_close(s);
    assert_int_equal(close(fd), 0);
    return rc;
}

/* The same in a child: its status. */
static int
apply_new_in_child(const char *keyspace_dir)
{
    const pid_t child = test_fork();
    int rc;

    if (child == 0) {
        (void)signal(SIGBUS, SIG_DFL); /* it is an answer here */
        rc = apply_new(keyspace_dir);
        _exit(rc == 0 ? 0 : rc == -ENOSPC ? 1 : 2);
    }
    return test_wait(child);
}

/* Whatever file is the first that does not fit. */
TEST(a_keyspace_that_fits_by_half_is_refused_not_died_of)
{
    struct full f = {0};
    unsigned refused = 0;
    struct stat st;
    int status = 1;

    if (!small_disk_mount(&f.disk, "size=1m,mode=700"))
        test_skip("needs root and a tmpfs of its own");
    small_disk_fill(&f.disk, SIZE_MAX);

    for (int tries = 0; tries < 64 && status != 0; tries++) {
        status = apply_new_in_child(f.disk.data);
        if (!WIFEXITED(status) || WEXITSTATUS(status) > 1)
            fail_msg("status %#x with %d pages free", (unsigned)status, tries);
        refused += status != 0;
        assert_int_equal(stat(f.disk.ballast, &st), 0);
        assert_int_equal(truncate(f.disk.ballast, (st.st_size - 1) & ~4095L),
                         0);
    }
    assert_int_equal(status, 0);
    assert_true(refused > 0);
    small_disk_unmount(&f.disk);
}

/* As after a restore from a backup, which has none. */
static void
remove_lock_files(const struct full *f)
{
    char path[640];

    (void)snprintf(path, sizeof path, "%s/keyspace/words.mdb-lock",
                   f->disk.data);
    assert_int_equal(unlink(path), 0);
}

TEST(a_restored_directory_on_a_full_disk_is_waited_for)
{
    struct full f = {0};
    struct client_rows rows;
    int64_t count = 0;
    int send, ask;

    if (!small_disk_mount(&f.disk, "size=16m,mode=700"))
        test_skip("needs root and a tmpfs of its own");
    fleet_init_at(&f.fleet, f.disk.data);
    fleet_start_with(&f.fleet, FLEET_WRITE, "log.size=256K");
    fleet_start(&f.fleet, FLEET_WORKER);
    send = client_connect(fleet_ack_port(&f.fleet));
    client_increment(send, "words", "key", 1);
    client_wins(send, 1);
    fleet_await_drained(&f.fleet, LIMIT_MS);
    fleet_stop(&f.fleet, FLEET_WORKER);
    remove_lock_files(&f);
    small_disk_fill(&f.disk, SIZE_MAX);

    fleet_start(&f.fleet, FLEET_READ);
    ask = client_connect(fleet_read_port(&f.fleet));
    client_range(ask, "words", 0, 1, &rows);
    assert_int_equal(rows.rows, -EIO);
    client_rows_free(&rows);
    client_close(ask);
    expect_alive(&f, FLEET_READ);
    client_increment(send, "words", "key", 1);
    client_wins(send, 1);
    fleet_start(&f.fleet, FLEET_WORKER);
    daemon_await_words(fleet_daemon(&f.fleet, FLEET_WORKER),
                       "make its lock file");
    expect_alive(&f, FLEET_WORKER);

    assert_int_equal(unlink(f.disk.ballast), 0);
    fleet_await_drained(&f.fleet, LIMIT_MS);
    ask = client_connect(fleet_read_port(&f.fleet));
    assert_true(client_get(ask, "words", "key", &count));
    assert_int_equal(count, 2);
    client_close(ask);
    client_close(send);
    fleet_stop_all(&f.fleet);
    fleet_fini(&f.fleet);
    small_disk_unmount(&f.disk);
}

/* Until the worker has made the space that drop needs. */
static void
await_reserve(const struct full *f)
{
    const uint64_t end_ms = test_deadline(LIMIT_MS);
    char path[640];
    struct stat st;

    (void)snprintf(path, sizeof path, "%s/" RESERVE_FILE, f->disk.data);
    while (stat(path, &st) < 0 || st.st_size != RESERVE_BYTES) {
        if (clock_ms() > end_ms)
            fail_msg("there is no %s", path);
        (void)poll(NULL, 0, 1); /* paces the looking */
    }
}

/* ---- drop -------------------------------------------------------------- */

/* Writes lines of the keys of "big" from `from` to `end`, 1 each. */
static void
put_lines(const char *path, unsigned from, unsigned end)
{
    FILE *lines = fopen(path, "w");

    assert_non_null(lines);
    for (unsigned i = from; i < end; i++)
        (void)fprintf(lines, "big\tkey-of-some-length-%u\t1\n", i);
    assert_int_equal(fclose(lines), 0);
}

/* Loads them until the disk is full; how many are acknowledged. */
static unsigned
load_until_full(struct full *f, const char *lines)
{
    static const char first[] = "the first ";
    const char *at;

    expect(FLEET_RUN(&f->fleet, "load", "--timeout", "2s", lines), 111,
           "the disk is full");
    at = strstr(text, first);
    assert_non_null(at);
    return (unsigned)strtoul(at + strlen(first), NULL, 10);
}

TEST(drop_frees_a_full_disk_and_ends_when_the_logs_are_merged)
{
    struct full f = {0};
    char lines[600], key[64];
    unsigned acked = 0;

    if (!small_disk_mount(&f.disk, "size=20m,mode=700"))
        test_skip("needs root and a tmpfs of its own");
    fleet_init_at(&f.fleet, f.disk.data);
    fleet_options(&f.fleet, "log.size=256K", "log.max=8");
    service_start(&f.fleet);
    service_add(&f.fleet, "kept", "key", 5);
    expect(FLEET_RUN(&f.fleet, "flush"), 0, "");
    await_reserve(&f);
    (void)snprintf(lines, sizeof lines, "%s/lines", f.disk.dir.path);
    do {
        put_lines(lines, acked, 400000);
        acked += load_until_full(&f, lines);
    } while (!is_worker_waiting(&f));
    assert_true(acked > 50000);

    fleet_stop(&f.fleet, FLEET_WORKER);
    expect(FLEET_RUN(&f.fleet, "drop", "--timeout", "300ms", "big"), 1,
           "space freed, not finished: what is in the logs is not merged");
    fleet_start(&f.fleet, FLEET_WORKER);
    expect(FLEET_RUN(&f.fleet, "drop", "big"), 0, "dropped keyspace=big");

    expect(FLEET_RUN(&f.fleet, "flush"), 0, "");
    assert_int_equal(service_count(&f.fleet, "kept", "key"), 5);
    for (unsigned i = 0; i < acked; i += acked / 100) {
        (void)snprintf(key, sizeof key, "key-of-some-length-%u", i);
        assert_int_equal(service_count(&f.fleet, "big", key), INT64_MIN);
    }
    expect_alive(&f, FLEET_WRITE);
    fleet_stop_all(&f.fleet);
    fleet_check(&f.fleet);
    fleet_fini(&f.fleet);
    small_disk_unmount(&f.disk);
}
