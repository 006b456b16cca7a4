/* tests/unit/test_pending_set.c - waiting for the logs of now, whatever the
 * clock says meanwhile. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/client/cmd/cmd_data.h"
#include "common/log/log.h"
#include "common/log/pending.h"
#include "common/setup/datadir.h"
#include "tests/lib/fault.h"
#include "tests/lib/filler.h"
#include "tests/lib/tmpdir.h"

#define FIRST_MS 1700000000123

struct fixture {
    struct tmpdir dir;
    struct datadir datadir;
    struct logdir logs;
    struct pending_set fills;
};

static void
set_up(struct fixture *f)
{
    struct layout layout;

    *f = (struct fixture){.fills = {.count = 0}};
    tmpdir_make(&f->dir);
    assert_rc(datadir_open(&f->datadir, f->dir.path, DATADIR_WRITE), 0);
    assert_rc(layout_init(&layout, 256, 256), 0);
    assert_rc(logdir_open(&f->logs, f->datadir.log_fd, &layout, 1 << 20), 0);
}

static void
tear_down(struct fixture *f)
{
    fault_clear();
    pending_set_fini(&f->fills);
    logdir_close(&f->logs);
    datadir_close(&f->datadir);
    tmpdir_remove(&f->dir);
}

#define CASE(name, f) TEST_WITH(name, struct fixture, f, set_up, tear_down)

static void
begin_log(struct fixture *f, struct filler *log, uint64_t index,
          uint64_t first_ms)
{
    filler_open(log, f->datadir.log_fd, index, 10);
    log->received_ms = first_ms;
    filler_add(log, "words", "the", 1);
}

static size_t
count_left(struct fixture *f)
{
    assert_rc(pending_set_drop_merged(&f->fills, &f->logs), 0);
    return f->fills.count;
}

CASE(a_log_is_left_until_it_is_merged, f)
{
    struct filler log;
    struct log merging;

    begin_log(f, &log, 3, FIRST_MS);
    assert_rc(pending_set_note(&f->fills, &f->logs), 0);
    assert_int_equal(count_left(f), 1);
    filler_seal(&log);
    assert_int_equal(count_left(f), 1);
    assert_rc(log_claim(&merging, f->datadir.log_fd, 3, LOG_MODE_FULL), 0);
    assert_int_equal(count_left(f), 1);
    assert_rc(log_empty(&merging), 0);
    assert_rc(log_release(&merging), 0);
    assert_int_equal(count_left(f), 0);
}

CASE(what_comes_later_is_not_waited_for, f)
{
    struct filler old, later, again;

    begin_log(f, &old, 0, FIRST_MS);
    filler_seal(&old);
    assert_rc(pending_set_note(&f->fills, &f->logs), 0);
    begin_log(f, &later, 1, FIRST_MS - 5000); /* the clock was set back */
    assert_int_equal(count_left(f), 1);
    filler_empty(f->datadir.log_fd, 0);
    begin_log(f, &again, 0, FIRST_MS - 4000);

    assert_int_equal(count_left(f), 0);

    filler_die(&later);
    filler_die(&again);
}

CASE(a_time_in_whole_seconds_is_the_same_fill, f)
{
    const struct timespec times[2] = {{.tv_sec = FIRST_MS / 1000},
                                      {.tv_sec = FIRST_MS / 1000}};
    struct filler log;

    begin_log(f, &log, 0, FIRST_MS);
    assert_rc(pending_set_note(&f->fills, &f->logs), 0);
    filler_seal(&log);
    assert_int_equal(utimensat(f->datadir.log_fd, "0000000000", times, 0), 0);

    assert_int_equal(count_left(f), 1);
}

/* As after a restore that did not keep it: while a worker has the log, its
 * header says another time than the mtime that it was noted by. */
CASE(a_full_log_of_another_mtime_is_left_while_a_worker_has_it, f)
{
    struct log merging;
    struct filler log;

    begin_log(f, &log, 0, FIRST_MS);
    filler_seal(&log);
    assert_int_equal(utimensat(f->datadir.log_fd, "0000000000", NULL, 0), 0);
    assert_rc(pending_set_note(&f->fills, &f->logs), 0);
    assert_rc(log_claim(&merging, f->datadir.log_fd, 0, LOG_MODE_FULL), 0);

    assert_int_equal(count_left(f), 1);
    assert_rc(log_quarantine(&merging), 0);
    assert_int_equal(count_left(f), 0);
}

/* Noted while its headers could not be read, it may be any fill: the one that
 * shows itself next is waited for, and no other. */
CASE(a_log_that_could_not_be_told_is_the_fill_seen_next, f)
{
    static const uint8_t zeros[LOG_SLOTS_AT];
    uint8_t headers[LOG_SLOTS_AT];
    struct filler log, again;
    int fd;

    begin_log(f, &log, 0, FIRST_MS);
    fd = openat(f->datadir.log_fd, "0000000000", O_RDWR | O_CLOEXEC);
    assert_int_equal(pread(fd, headers, sizeof headers, 0), sizeof headers);
    assert_int_equal(pwrite(fd, zeros, sizeof zeros, 0), sizeof zeros);
    assert_rc(pending_set_note(&f->fills, &f->logs), 0);
    assert_int_equal(count_left(f), 1);
    assert_int_equal(pwrite(fd, headers, sizeof headers, 0), sizeof headers);
    assert_int_equal(close(fd), 0);

    assert_int_equal(count_left(f), 1);
    filler_seal(&log);
    assert_int_equal(count_left(f), 1);
    filler_empty(f->datadir.log_fd, 0);
    begin_log(f, &again, 0, FIRST_MS + 1);
    assert_int_equal(count_left(f), 0);
    filler_die(&again);
}

CASE(without_memory_nothing_is_called_merged, f)
{
    struct filler log;

    begin_log(f, &log, 0, FIRST_MS);
    fault_inject("memory", 1, ENOMEM);
    assert_rc(pending_set_note(&f->fills, &f->logs), -ENOMEM);
    fault_clear();
    filler_die(&log);
}

/* Stamped with a time that is still to come, and passes in the wait. */
CASE(waiting_for_the_logs_does_not_end_because_the_clock_catches_up, f)
{
    struct filler log;

    begin_log(f, &log, 0, clock_unix_ms() + 20); /* then set back */
    filler_seal(&log);

    assert_rc(wait_logs(&f->datadir, &f->logs, 100), -EAGAIN);

    filler_empty(f->datadir.log_fd, 0);
    assert_rc(wait_logs(&f->datadir, &f->logs, 60000), 0);
}
