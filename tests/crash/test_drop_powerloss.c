/* tests/crash/test_drop_powerloss.c - the power goes while a worker removes the
 * file of a dropped keyspace, and with it the mark that keeps a log from being
 * merged again.
 *
 * This program runs itself under powerloss.so with DROP_CHILD set: the child
 * empties the log and begins its next fill, without a sync of either, and lets
 * the store remove the empty keyspace.  In no state that the disk may hold
 * after a power loss is the file gone while the log is full again.
 *
 *     TEST_SEED  repeats the choice of cuts and states
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log/inspect.h"
#include "common/log/logdir.h"
#include "tests/lib/engines.h"
#include "tests/lib/fault.h"
#include "tests/lib/filler.h"
#include "tests/lib/powercut.h"
#include "tests/lib/stored.h"
#include "tests/lib/tmpdir.h"
#include "worker/dead_fills.h"

#define NAME "dropped"

static int
open_dir(const char *path, const char *name)
{
    char full[700];
    int fd;

    (void)snprintf(full, sizeof full, "%s/%s", path, name);
    fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* A full log whose increment is in a keyspace that was then dropped. */
static void
make_dropped(const char *path)
{
    const int log_fd = open_dir(path, "log");
    const int keyspace_fd = open_dir(path, "keyspace");
    struct store *s = engine_open(keyspace_fd);
    struct log_fill mark;
    struct filler f;

    filler_open(&f, log_fd, 0, 10);
    filler_add(&f, NAME, "k", 7);
    mark = filler_seal(&f);
    assert_rc(stored_add(s, NAME, &mark, "k", 7), 0);
    assert_rc(store_drop(s, (const uint8_t *)NAME, strlen(NAME)), 0);
    store_close(s);
    assert_int_equal(close(keyspace_fd), 0);
    assert_int_equal(close(log_fd), 0);
}

/* Writes the OPEN header of the next fill and does not get to the sync. */
static void
begin_next_fill(int log_fd)
{
    struct log log;

    assert_rc(log_claim(&log, log_fd, 0, LOG_MODE_EMPTY), 0);
    fault_inject("fdatasync", 1, EIO);
    assert_rc(log_begin(&log), -EIO);
    fault_clear();
    log_abandon(&log);
}

static int
run_child(const char *path)
{
    const int log_fd = open_dir(path, "log");
    const int keyspace_fd = open_dir(path, "keyspace");
    struct dead_fills dead;
    const struct store_maintenance t = {.until_ns = UINT64_MAX,
                                        .is_dead_fill = dead_fills_contain,
                                        .ctx = &dead};
    struct store *s = engine_open(keyspace_fd);

    filler_empty(log_fd, 0);
    if (strcmp(getenv("DROP_CHILD"), "open") == 0)
        begin_next_fill(log_fd);
    dead_fills_init(&dead, log_fd);
    (void)store_maintain(s, &t);
    dead_fills_fini(&dead);
    store_close(s);
    assert_int_equal(close(keyspace_fd), 0);
    assert_int_equal(close(log_fd), 0);
    return 0;
}

/* Has this program do run_child() on the directory, under the recorder. */
static void
record_child(struct powercut *c, const char *path, const char *how)
{
    pid_t pid;

    assert_int_equal(setenv("DROP_CHILD", how, 1), 0);
    pid = test_fork();
    if (pid == 0) {
        for (size_t i = 0; c->env[i]; i++)
            (void)putenv(c->env_text[i]);
        (void)execl("/proc/self/exe", "test_drop_powerloss", path, NULL);
        _exit(127);
    }
    assert_int_equal(unsetenv("DROP_CHILD"), 0);
    assert_int_equal(test_wait(pid), 0);
}

/* ---- judging ----------------------------------------------------------- */

struct judged {
    unsigned gone; /* states without the keyspace's file */
    unsigned full; /* states whose log a worker would merge again */
    unsigned lost; /* both: the dropped increment counts again */
};

static void
judge_state(const char *path, struct judged *j)
{
    const int log_fd = open_dir(path, "log");
    struct layout layout;
    struct inspect look;
    struct logdir dir;
    char file[700];
    bool gone;
    int fd;

    (void)snprintf(file, sizeof file, "%s/keyspace/" NAME ".mdb", path);
    gone = access(file, F_OK) < 0;
    assert_rc(layout_init(&layout, MESSAGE_NAME_MAX, MESSAGE_NAME_MAX), 0);
    assert_rc(logdir_open(&dir, log_fd, &layout, 64 << 10), 0);
    assert_true(logdir_recover(&dir) >= 0);
    logdir_close(&dir);
    assert_int_equal(fchmodat(log_fd, "0000000000", 0600, 0), 0);
    fd = openat(log_fd, "0000000000", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_rc(log_inspect(fd, 0, &look), 0);
    assert_rc(look.headers_rc, 0);
    assert_int_equal(close(fd), 0);
    assert_int_equal(close(log_fd), 0);
    j->gone += gone;
    j->full += look.header.state == LOG_SEALED;
    j->lost += gone && look.header.state == LOG_SEALED;
}

static void
try_states(struct powercut *c, struct judged *j)
{
    for (uint64_t cut = 1; cut <= disk_last(c->disk) + 1; cut++)
        for (unsigned i = 0; i < 10; i++) {
            struct tmpdir state;

            tmpdir_make_in_memory(&state);
            disk_build(c->disk, cut, random_next(&c->random), state.path);
            judge_state(state.path, j);
            tmpdir_remove(&state);
        }
}

static void
check_power_loss(const char *how)
{
    struct judged j = {0};
    struct powercut cut;
    struct tmpdir data;
    struct fleet f;

    tmpdir_make_in_memory(&data);
    fleet_init_at(&f, data.path);
    assert_int_equal(mkdirat(data.fd, "log", 0700), 0);
    assert_int_equal(mkdirat(data.fd, "keyspace", 0700), 0);
    make_dropped(data.path);
    powercut_begin(&cut, data.path, random_seed(how));
    powercut_record(&cut, &f, "calls");

    record_child(&cut, data.path, how);

    assert_false(tmpdir_has(&data, "keyspace/" NAME ".mdb"));
    powercut_load(&cut);
    try_states(&cut, &j);
    print_message("%s: gone=%u full=%u lost=%u\n", how, j.gone, j.full, j.lost);
    assert_true(j.gone > 0); /* else nothing was tried */
    assert_true(j.full > 0);
    assert_int_equal(j.lost, 0);
    powercut_end(&cut);
    fleet_fini(&f);
    tmpdir_remove(&data);
}

TEST(a_log_that_was_emptied_stays_empty_once_the_file_is_gone)
{
    check_power_loss("empty");
}

TEST(an_open_header_that_is_not_synced_does_not_give_way_to_a_sealed_one)
{
    check_power_loss("open");
}

int
main(int argc, char **argv)
{
    if (getenv("DROP_CHILD") != NULL && argc == 2)
        return run_child(argv[1]);
    return test_main(argc, argv);
}
