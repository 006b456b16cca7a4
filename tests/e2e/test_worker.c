/* tests/e2e/test_worker.c - countd-worker on directories of full logs: the
 * transcript worker.txt, and what needs many logs, or a process that is stopped
 * at a moment. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/filler.h"
#include "tests/lib/service.h"
#include "tests/lib/stored.h"

#define WAIT_MS 60000

/* ---- the directory ----------------------------------------------------- */

static int64_t
count_of(const struct service_site *x, const char *keyspace, const char *key)
{
    return stored_count(x->fleet.path, keyspace, key);
}

static void
full_log(const struct service_site *x, uint64_t index)
{
    struct filler f;

    filler_open(&f, x->dir.log_fd, index, 50);
    filler_add(&f, "words", "the", 3);
    filler_add(&f, "words", "cat", 1);
    filler_add(&f, "words", "the", -1);
    filler_add(&f, "lines", "all", (int64_t)index + 1);
    filler_seal(&f);
}

static mode_t
mode_of(const struct service_site *x, uint64_t index)
{
    return filler_mode(x->dir.log_fd, index);
}

/* Waits until a worker has emptied the log. */
static void
await_empty(const struct service_site *x, uint64_t index)
{
    const uint64_t end_ms = test_deadline(WAIT_MS);

    while (mode_of(x, index) != LOG_MODE_EMPTY) {
        if (clock_ms() > end_ms)
            fail_msg("log %llu is not merged", (unsigned long long)index);
        (void)poll(NULL, 0, 1); /* paces the looking */
    }
}

static void
drain_logs(struct service_site *x)
{
    fleet_await_drained(&x->fleet, WAIT_MS);
}

/* ---- what it does ------------------------------------------------------ */

#define CASE(name, x)                                                          \
    TEST_IN(name, struct service_site *x, service_site_setup,                  \
            service_site_teardown)

/* ---- few descriptors --------------------------------------------------- */

#define WITH_FILES(n) "-c", "ulimit -n " n " && exec \"$@\"", "sh"

CASE(more_keyspaces_than_descriptors_are_merged_all_the_same, x)
{
    struct daemon worker;
    char program[600], name[16];
    struct filler f;

    daemon_path("countd-worker", program, sizeof program);
    filler_open(&f, x->dir.log_fd, 0, 200);
    for (unsigned i = 0; i < 200; i++) {
        (void)snprintf(name, sizeof name, "ks%u", i % 100);
        filler_add(&f, name, "key", 1);
    }
    filler_seal(&f);
    for (unsigned i = 1; i < 30; i++) /* and each log has one, too */
        full_log(x, i);

    daemon_start(&worker, "/bin/sh", WITH_FILES("128"), program, "-d",
                 x->fleet.path);
    for (unsigned i = 0; i < 30; i++)
        await_empty(x, i);
    assert_int_equal(daemon_stop(&worker), 0);
    /* 64 and 30 are for other things; two batches of 8 logs take the rest. */
    assert_has(daemon_text(&worker), "worker.batch limited to 8 by ");
    daemon_fini(&worker);

    for (unsigned i = 0; i < 100; i++) {
        (void)snprintf(name, sizeof name, "ks%u", i);
        assert_int_equal(count_of(x, name, "key"), 2);
    }
    assert_int_equal(count_of(x, "words", "the"), 58);
    fleet_check(&x->fleet);
}

/* ---- a worker that is stopped ------------------------------------------- */

/* A log that takes a while to apply. */
static void
large_log(const struct service_site *x, uint64_t index)
{
    enum { KEYS = 40000 };
    struct filler f;
    char key[16];

    filler_open(&f, x->dir.log_fd, index, KEYS);
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(key, sizeof key, "%d", i * 7919 % KEYS);
        filler_add(&f, "words", key, 1);
    }
    filler_seal(&f);
}

/* Whether a process is writing to the keyspace "words". */
static bool
is_being_written(const struct service_site *x)
{
    const int fd =
        openat(x->dir.keyspace_fd, "words.mdb", O_RDONLY | O_CLOEXEC);
    bool taken;

    if (fd < 0)
        return false;
    taken = flock(fd, LOCK_EX | LOCK_NB) < 0;
    assert_int_equal(close(fd), 0);
    return taken;
}

/* Stops the first worker while it writes to "words". */
static void
stop_while_writing(struct service_site *x)
{
    struct daemon *d = fleet_daemon(&x->fleet, FLEET_WORKER);
    const uint64_t end_ms = test_deadline(WAIT_MS);

    for (;;) {
        if (is_being_written(x)) {
            daemon_signal(d, SIGSTOP);
            if (is_being_written(x))
                return;
            daemon_signal(d, SIGCONT);
        }
        assert_true(clock_ms() < end_ms);
        if (mode_of(x, 0) == LOG_MODE_EMPTY)
            large_log(x, 0);
        (void)poll(NULL, 0, 1); /* paces the looking */
    }
}

/* The other one says for whom it waits, and ends at a signal. */
CASE(a_worker_that_waits_for_a_stopped_one_says_so_and_can_be_told_to_stop, x)
{
    struct daemon *second = fleet_daemon(&x->fleet, FLEET_WORKER2);

    large_log(x, 0);
    fleet_start(&x->fleet, FLEET_WORKER);
    stop_while_writing(x);
    full_log(x, 1);
    fleet_start(&x->fleet, FLEET_WORKER2);
    daemon_await_words(second, "keyspace=words: waiting for pid=");
    fleet_stop(&x->fleet, FLEET_WORKER2);
    assert_int_equal(mode_of(x, 1), LOG_MODE_FULL);

    daemon_signal(fleet_daemon(&x->fleet, FLEET_WORKER), SIGCONT);
    drain_logs(x);
    fleet_stop(&x->fleet, FLEET_WORKER);
    assert_int_equal(count_of(x, "words", "the"), 2);
    assert_int_equal(count_of(x, "lines", "all"), 2);
    fleet_check(&x->fleet);
}

/* Distinct names as long as they get: the most memory a log can ask for. */
CASE(its_memory_stays_within_the_setting, x)
{
    enum { LOGS = 12, SLOTS = 3000, MEMORY_MB = 16 };
    char keyspace[257], key[257];
    uint64_t memory, most = 0, end_ms;
    struct filler f;

    fleet_options(&x->fleet, "worker.memory=16M", "log.size=4M");
    for (unsigned l = 0; l < LOGS; l++) {
        filler_open(&f, x->dir.log_fd, l, SLOTS);
        for (unsigned i = 0; i < SLOTS; i++) {
            (void)snprintf(keyspace, sizeof keyspace, "wide%u", i % 3);
            (void)snprintf(key, sizeof key, "%0256u", l * SLOTS + i);
            filler_add(&f, keyspace, key, 1);
        }
        filler_seal(&f);
    }
    fleet_start(&x->fleet, FLEET_WORKER);
    end_ms = test_deadline(WAIT_MS);
    while (!fleet_is_drained(&x->fleet) && clock_ms() < end_ms) {
        (void)poll(NULL, 0, 1); /* paces the looking */
        memory = daemon_memory(fleet_daemon(&x->fleet, FLEET_WORKER));
        most = memory > most ? memory : most;
    }
    drain_logs(x);
    memory = daemon_memory(fleet_daemon(&x->fleet, FLEET_WORKER));
    most = memory > most ? memory : most;
    print_message("anonymous memory: at most %llu MB\n",
                  (unsigned long long)(most >> 20));
    fleet_stop(&x->fleet, FLEET_WORKER);

    assert_true(most <= (uint64_t)(MEMORY_MB + 64) << 20);
    assert_int_equal(count_of(x, "wide1", key), INT64_MIN);
    assert_int_equal(count_of(x, keyspace, key), 1);
    fleet_check(&x->fleet);
}
