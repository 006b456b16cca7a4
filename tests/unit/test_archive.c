/* tests/unit/test_archive.c - the folder of merged logs: what is put there is
 * durable, goes when its time is over, and gives way when the disk is full. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/log/archive.h"
#include "tests/lib/fault.h"
#include "tests/lib/filler.h"
#include "tests/lib/tmpdir.h"

#define MINUTE UINT64_C(60000)
#define FIRST  UINT64_C(1700000000000)

struct place {
    struct tmpdir tmp;
    int log_fd;
    struct archive archive;
};

static void
set_up(struct place *p)
{
    int fd;

    tmpdir_make(&p->tmp);
    assert_int_equal(mkdirat(p->tmp.fd, "log", 0700), 0);
    assert_int_equal(mkdirat(p->tmp.fd, "archive", 0700), 0);
    p->log_fd = openat(p->tmp.fd, "log", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fd = openat(p->tmp.fd, "archive", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(p->log_fd >= 0 && fd >= 0);
    assert_rc(archive_open(&p->archive, fd, 10 * MINUTE), 0);
}

static void
tear_down(struct place *p)
{
    fault_clear();
    assert_int_equal(close(p->archive.fd), 0);
    archive_close(&p->archive);
    assert_int_equal(close(p->log_fd), 0);
    tmpdir_remove(&p->tmp);
}

#define CASE(name, p) TEST_WITH(name, struct place, p, set_up, tear_down)

/* A full log whose increment was received that many minutes after FIRST, claimed
 * as by a worker. */
static struct log
full_log(struct place *p, uint64_t index, uint64_t minutes)
{
    struct filler f;
    struct log log;

    filler_open(&f, p->log_fd, index, 4);
    f.received_ms = FIRST + minutes * MINUTE;
    filler_add(&f, "a", "one", 1);
    filler_seal(&f);
    assert_rc(log_claim(&log, p->log_fd, index, LOG_MODE_FULL), 0);
    return log;
}

static void
let_go(struct log *log)
{
    assert_rc(log_empty(log), 0);
    assert_rc(log_release(log), 0);
}

static int
add_log(struct place *p, uint64_t index, uint64_t minutes)
{
    struct log log = full_log(p, index, minutes);
    const int rc = archive_add(&p->archive, &log);

    let_go(&log);
    return rc;
}

/* As add_log(), while a call fails, or all of them. */
static int
add_failing(struct place *p, uint64_t index, uint64_t minutes, const char *call,
            int error, bool lasting)
{
    struct log log = full_log(p, index, minutes);
    int rc;

    (lasting ? fault_inject_from : fault_inject)(call, 1, error);
    rc = archive_add(&p->archive, &log);
    assert_true(fault_hit());
    fault_clear();
    let_go(&log);
    return rc;
}

static bool
has_log(struct place *p, uint64_t index, uint64_t minutes, bool missing)
{
    const struct archive_name n = {.first_ms = FIRST + minutes * MINUTE,
                                   .index = index,
                                   .epoch = 1,
                                   .missing = missing};
    char path[ARCHIVE_NAME_SIZE + 16] = "archive/";

    archive_name_put(&n, path + 8);
    return tmpdir_has(&p->tmp, path);
}

/* ---- names -------------------------------------------------------------- */

CASE(names_are_read_as_they_are_written_and_no_others, p)
{
    static const char good[] = "1700000000000-0000000007-00000000000000000003";
    static const char *const bad[] = {"", ".zip", "", "x", "%t"};
    struct archive_name n;
    char text[ARCHIVE_NAME_SIZE];

    (void)snprintf(text, sizeof text, "%s.gz", good);
    assert_rc(archive_name_parse(text, &n), 0);
    assert_int_equal(n.first_ms, FIRST);
    assert_int_equal(n.index, 7);
    assert_int_equal(n.epoch, 3);
    assert_false(n.missing);
    (void)snprintf(text, sizeof text, "%s.missing", good);
    assert_rc(archive_name_parse(text, &n), 0);
    assert_true(n.missing);
    (void)snprintf(text, sizeof text, "%s.packed", good);
    assert_rc(archive_name_parse(text, &n), 0);
    assert_true(n.old && !n.missing);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        (void)snprintf(text, sizeof text, "%s%s", good, bad[i]);
        assert_rc(archive_name_parse(text, &n), -EINVAL);
        (void)snprintf(text, sizeof text, "%s%s.gz", bad[i], good + 1);
        assert_rc(archive_name_parse(text, &n), -EINVAL);
    }
    (void)snprintf(text, sizeof text, "%s.gz",
                   "1700000000000-0000000007-99999999999999999999");
    assert_rc(archive_name_parse(text, &n), -EINVAL);
}

/* ---- putting ------------------------------------------------------------ */

CASE(a_log_has_its_name_only_when_all_of_it_is_durable, p)
{
    assert_rc(add_failing(p, 1, 0, "fdatasync", EIO, false), -EIO);
    assert_false(has_log(p, 1, 0, false));
    assert_true(has_log(p, 1, 0, true));
    assert_int_equal(tmpdir_count(&p->tmp, "archive"), 1);
    fault_inject("fsync", 1, EIO);
    assert_rc(archive_sync(&p->archive), -EIO);
}

#define PART_2 "archive/%t1700000000000-0000000002-00000000000000000001.gz"

/* A worker that was killed leaves a part; the log comes again. */
CASE(what_a_killed_worker_left_is_written_anew, p)
{
    tmpdir_put(&p->tmp, PART_2, "part", 4, 0600);
    assert_rc(add_log(p, 2, 0), 0);
    assert_true(has_log(p, 2, 0, false));
    assert_int_equal(tmpdir_count(&p->tmp, "archive"), 1);
}

static void
remove_part(void *ctx)
{
    const struct place *p = ctx;

    assert_int_equal(unlinkat(p->tmp.fd, PART_2, 0), 0);
}

/* It has the flock of a file that a worker has just made, and removes its name
 * when the worker has given that up and made another. */
CASE(a_purge_that_takes_a_worker_for_dead_loses_no_log, p)
{
    struct log log = full_log(p, 2, 0);

    fault_hook("renameat", 1, remove_part, p);
    assert_rc(archive_add(&p->archive, &log), 0);
    assert_true(fault_hit());
    fault_clear();
    let_go(&log);
    assert_true(has_log(p, 2, 0, false));
    assert_int_equal(tmpdir_count(&p->tmp, "archive"), 1);
}

/* ---- its time is over --------------------------------------------------- */

CASE(logs_go_when_their_time_is_over_and_not_before, p)
{
    for (uint64_t i = 0; i < 5; i++)
        assert_rc(add_log(p, i, 2 * i), 0);
    tmpdir_put(&p->tmp, "archive/mine", "", 0, 0600);

    assert_int_equal(
        archive_remove_expired(&p->archive, FIRST + 10 * MINUTE - 1), 0);
    assert_int_equal(tmpdir_count(&p->tmp, "archive"), 6);
    assert_int_equal(archive_remove_expired(&p->archive, FIRST + 10 * MINUTE),
                     1);
    assert_int_equal(archive_remove_expired(&p->archive, FIRST + 15 * MINUTE),
                     2);
    assert_false(has_log(p, 2, 4, false));
    assert_true(has_log(p, 3, 6, false));
    assert_rc(add_log(p, 5, 9), 0); /* one that came meanwhile */
    assert_int_equal(archive_remove_expired(&p->archive, FIRST + 18 * MINUTE),
                     2);
    assert_int_equal(archive_remove_expired(&p->archive, FIRST + 19 * MINUTE),
                     1);
    assert_int_equal(archive_remove_expired(&p->archive, FIRST + 90 * MINUTE),
                     0);
    assert_true(tmpdir_has(&p->tmp, "archive/mine"));
    assert_int_equal(tmpdir_count(&p->tmp, "archive"), 1);
}

/* ---- a full disk -------------------------------------------------------- */

CASE(on_a_full_disk_the_oldest_logs_make_room, p)
{
    assert_rc(add_failing(p, 9, 0, "fdatasync", EIO, false), -EIO);
    for (uint64_t i = 0; i < 4; i++)
        assert_rc(add_log(p, i, i + 1), 0);

    assert_rc(add_failing(p, 4, 5, "pwrite", ENOSPC, false), 0);

    assert_int_equal(p->archive.removed_early, 1);
    assert_true(has_log(p, 9, 0, true)); /* it takes no space */
    assert_false(has_log(p, 0, 1, false));
    for (uint64_t i = 1; i < 5; i++)
        assert_true(has_log(p, i, i + 1, false));
}

CASE(a_disk_that_stays_full_costs_a_few_logs_and_the_gap_is_shown, p)
{
    for (uint64_t i = 0; i < ARCHIVE_ROOM + 4; i++)
        assert_rc(add_log(p, i, i), 0);

    assert_rc(add_failing(p, 40, 40, "pwrite", ENOSPC, true), -ENOSPC);

    assert_int_equal(p->archive.removed_early, ARCHIVE_ROOM);
    assert_false(has_log(p, 40, 40, false));
    assert_true(has_log(p, 40, 40, true));
    assert_int_equal(tmpdir_count(&p->tmp, "archive"), 4 + 1);
}

/* Nothing but logs of later times is there: these stay. */
CASE(a_newer_log_makes_no_room_for_an_older_one, p)
{
    assert_rc(add_log(p, 0, 50), 0);
    assert_rc(add_failing(p, 1, 1, "pwrite", ENOSPC, true), -ENOSPC);
    assert_true(has_log(p, 0, 50, false));
}

CASE(any_failing_call_leaves_a_whole_log_or_says_that_it_is_missing, p)
{
    bool hit = true;

    for (unsigned n = 1; hit; n++) {
        struct log log = full_log(p, n, 0);
        const unsigned fds = fault_open_fds();
        int rc;

        assert_true(n < 100);
        fault_inject("disk", n, EIO);
        rc = archive_add(&p->archive, &log);
        hit = fault_hit();
        fault_clear();
        let_go(&log);
        assert_int_equal(fault_open_fds() + 2, fds); /* those of the log */
        assert_true(has_log(p, n, 0, rc < 0));
        assert_int_equal(has_log(p, n, 0, false), rc == 0);
    }
}
