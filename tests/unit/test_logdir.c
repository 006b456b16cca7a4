/* tests/unit/test_logdir.c - the directory of logs: scan, recovery, choosing,
 * creating, and how far the merge is behind. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/pending.h"
#include "tests/unit/log_fixture.h"

#include <signal.h>

#include "common/base/clock.h"
#include "common/log/logdir.h"
#include "tests/lib/daemon.h"

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

/* For a test: closed at its end. */
static struct logdir dir;

static struct logdir
open_dir(const struct tmpdir *d)
{
    struct layout l = small_layout();
    struct logdir opened;

    assert_rc(logdir_open(&opened, d->fd, &l, FILE_SIZE), 0);
    assert_int_equal(opened.slots, SLOTS);
    return opened;
}

static uint64_t
find_oldest(void)
{
    uint64_t ms;

    assert_rc(pending_oldest_ms(&dir, &ms), 0);
    return ms;
}

static int
setup(void **state)
{
    (void)in_memory_setup(state);
    dir = open_dir(*state);
    return 0;
}

static int
teardown(void **state)
{
    logdir_close(&dir);
    return in_memory_teardown(state);
}

#define CASE(name, d) TEST_IN(name, struct tmpdir *d, setup, teardown)

/* ---- scan --------------------------------------------------------------- */

CASE(a_scan_tells_each_log_once_in_order, d)
{
    struct log log;

    create_log(d->fd, 9);
    create_log(d->fd, 0);
    make_full(d->fd, 4, 2);
    assert_rc(log_claim(&log, d->fd, 9, LOG_MODE_EMPTY), 0);
    tmpdir_put(d, "lock-0000000002", "", 0, 0600);

    assert_rc(logdir_scan(&dir), 0);
    assert_int_equal(dir.count, 4);
    assert_int_equal(dir.entries[0].index, 0);
    assert_int_equal(dir.entries[0].mode, 0400);
    assert_true(dir.entries[0].kind == LOGFILE_LOG && !dir.entries[0].locked);
    assert_int_equal(dir.entries[1].index, 2);
    assert_true(dir.entries[1].kind == LOGFILE_LOCK && dir.entries[1].locked);
    assert_int_equal(dir.entries[2].index, 4);
    assert_int_equal(dir.entries[2].mode, 0200);
    assert_true(dir.entries[2].mtime_ms == FIRST_MS);
    assert_int_equal(dir.entries[3].index, 9);
    assert_true(dir.entries[3].kind == LOGFILE_LOG && dir.entries[3].locked);
    assert_int_equal(dir.entries[3].mode, 0600);

    log_abandon(&log);
}

CASE(a_scan_passes_over_what_is_no_log, d)
{
    tmpdir_put(d, "writer", "", 0, 0600);
    tmpdir_put(d, ".probe-1", "", 0, 0600);
    tmpdir_put(d, "bad-0000000000-7", "", 0, 0400);
    tmpdir_put(d, "salvaged-0000000001-7", "", 0, 0400);
    tmpdir_put(d, "README\n\x1b[31m", "", 0, 0600);
    tmpdir_put(d, "00000000001", "", 0, 0600);
    assert_rc(logdir_scan(&dir), 0);
    assert_int_equal(dir.count, 0);
    assert_int_equal(dir.bad, 1);
}

IN_MEMORY(a_log_size_without_room_for_a_slot_is_refused, d)
{
    struct layout l = small_layout();
    struct logdir none;

    assert_rc(logdir_open(&none, d->fd, &l, LOG_SLOTS_AT + SLOT_SIZE - 1),
              -ERANGE);
}

/* ---- recover ------------------------------------------------------------ */

CASE(a_quiet_directory_needs_no_recovery, d)
{
    struct log log;

    create_log(d->fd, 0);
    make_full(d->fd, 1, 3);
    log = begin_with(d->fd, 2, 1);
    assert_rc(logdir_recover(&dir), 0);

    /* Cheap: nothing but looks, and the flock of the owned one. */
    fault_clear();
    assert_rc(logdir_recover(&dir), 0);
    assert_int_equal(fault_calls("fchmod") + fault_calls("fdatasync") +
                         fault_calls("pread") + fault_calls("linkat"),
                     0);
    assert_int_equal(fault_calls("flock"), 1);
    assert_int_equal(fault_calls("openat"), 1);
    log_abandon(&log);
}

CASE(recovery_mends_all_that_the_dead_left, d)
{
    struct log log;

    log = begin_with(d->fd, 0, 3);
    log_abandon(&log);
    create_log(d->fd, 1);
    assert_rc(log_claim(&log, d->fd, 1, LOG_MODE_EMPTY), 0);
    log_abandon(&log);
    tmpdir_put(d, "lock-0000000002", "half", 4, 0600);
    tmpdir_put(d, "0000000003", "damaged", 7, 0600);
    create_log(d->fd, 4);

    fault_clock(2000); /* the creator of 2 did not just begin */
    assert_rc(logdir_recover(&dir), 4);
    assert_int_equal(dir.recovered, 2);
    assert_int_equal(dir.count, 3);
    assert_int_equal(dir.entries[0].mode, LOG_MODE_FULL);
    assert_int_equal(dir.entries[1].mode, LOG_MODE_EMPTY);
    assert_int_equal(dir.bad, 1);
    assert_rc(logdir_recover(&dir), 0);
    assert_int_equal(merge_log(d->fd, 0), 3);
}

#define TURNS_MS 20000 /* of a process that fills and empties a log */

/* A log that another process fills and empties all the time. */
struct turns {
    _Atomic uint64_t there; /* fill whose increments are in a log; 0: none */
    _Atomic uint64_t fills; /* that were emptied */
    _Atomic bool stop;
    pid_t pid;
};

/* A process that looks whether its owner is dead may have it for a moment. */
static struct log
claim_log(int dirfd, mode_t mode)
{
    const uint64_t deadline = test_deadline(TURNS_MS);
    struct log log;

    while (log_claim(&log, dirfd, 0, mode) < 0)
        if (clock_ms() > deadline)
            _exit(2);
    return log;
}

/* `there` is set when increments are appended and cleared before they are
 * emptied: what it says both before and after a look was so all the while. */
static void
take_turns(int dirfd, struct turns *t)
{
    for (uint64_t fill = 1; !t->stop; fill++) {
        struct log log = claim_log(dirfd, LOG_MODE_EMPTY);

        if (log_begin(&log) < 0 || append_messages(&log, 3, 0) < 0)
            _exit(1);
        t->there = fill;
        if (log_seal(&log) < 0 || log_release(&log) < 0)
            _exit(1);
        log = claim_log(dirfd, LOG_MODE_FULL);
        t->there = 0; /* in a moment it is merged */
        if (log_empty(&log) < 0 || log_release(&log) < 0)
            _exit(1);
        t->fills++;
    }
    _exit(0);
}

static struct turns *
start_turns(const struct tmpdir *d)
{
    struct turns *t = map_shared(sizeof *t);
    pid_t pid;

    create_log(d->fd, 0);
    pid = test_fork();
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
            _exit(1);
        take_turns(d->fd, t);
    }
    t->pid = pid;
    return t;
}

static void
end_turns(struct turns *t)
{
    t->stop = true;
    assert_int_equal(test_wait(t->pid), 0);
    assert_int_equal(munmap(t, sizeof *t), 0);
}

CASE(logs_of_the_living_are_not_counted_as_recovered, d)
{
    struct turns *t = start_turns(d);
    const uint64_t deadline = test_deadline(TURNS_MS);
    int seen = 0;

    while (t->fills < 1500 || seen == 0) { /* it came to rest meanwhile */
        seen += logdir_recover(&dir);
        assert_true(clock_ms() < deadline);
    }
    assert_int_equal(dir.recovered, 0);
    end_turns(t);
}

/* A worker must see it without waiting for a writer to come by. */
CASE(the_first_recovery_mends_modes_that_a_power_loss_brought_back, d)
{
    struct log log;

    make_full(d->fd, 0, 3);
    set_state(d->fd, 0, 0400, false);
    log = begin_with(d->fd, 1, 2);
    log_abandon(&log);
    set_state(d->fd, 1, 0400, false);
    create_log(d->fd, 2);

    assert_rc(logdir_recover(&dir), 2);
    assert_int_equal(mode_of(d->fd, 0), LOG_MODE_FULL);
    assert_int_equal(mode_of(d->fd, 1), LOG_MODE_FULL);
    assert_int_equal(mode_of(d->fd, 2), LOG_MODE_EMPTY);
    assert_int_equal(merge_log(d->fd, 0), 3);
    assert_int_equal(merge_log(d->fd, 1), 2);
}

CASE(what_is_no_file_of_ours_stops_nothing, d)
{
    struct log log;

    assert_int_equal(symlinkat("/etc/passwd", d->fd, "0000000000"), 0);
    assert_int_equal(mkdirat(d->fd, "0000000001", 0400), 0);
    assert_int_equal(mkdirat(d->fd, "lock-0000000002", 0700), 0);
    log = begin_with(d->fd, 3, 1);
    log_abandon(&log);

    assert_rc(logdir_recover(&dir), 1);
    assert_true(find_oldest() == FIRST_MS);
    assert_rc(logdir_claim(&dir, LOG_MODE_EMPTY, &log), -EAGAIN);
    assert_rc(logdir_claim(&dir, LOG_MODE_FULL, &log), 0);
    log_abandon(&log);
}

/* ---- choose and create -------------------------------------------------- */

CASE(each_log_is_claimed_the_lowest_first_and_then_none, d)
{
    struct log logs[3], log;
    uint64_t i;

    for (i = 0; i < 3; i++)
        create_log(d->fd, i);
    for (i = 0; i < 3; i++) {
        assert_rc(logdir_claim(&dir, LOG_MODE_EMPTY, &logs[i]), 0);
        assert_int_equal(logs[i].header.index, i);
    }
    assert_rc(logdir_claim(&dir, LOG_MODE_EMPTY, &log), -EAGAIN);
    assert_rc(logdir_claim(&dir, LOG_MODE_FULL, &log), -EAGAIN);
    for (i = 0; i < 3; i++)
        assert_rc(log_release(&logs[i]), 0);
}

CASE(the_lowest_free_index_is_created, d)
{
    create_log(d->fd, 0);
    create_log(d->fd, 2);
    tmpdir_put(d, "lock-0000000001", "", 0,
               0600); /* another process creates it */
    for (uint64_t index = 3; index <= 4; index++) {
        assert_rc(logdir_create(&dir, 5), 0);
        assert_int_equal(mode_of(d->fd, index), LOG_MODE_EMPTY);
    }
    assert_rc(logdir_create(&dir, 5), -EMFILE);
    assert_int_equal(unlinkat(d->fd, "lock-0000000001", 0), 0);
    assert_rc(logdir_create(&dir, 5), 0);
    assert_int_equal(mode_of(d->fd, 1), LOG_MODE_EMPTY);
}

CASE(a_full_disk_is_told_and_leaves_nothing, d)
{
    fault_inject("pwrite", 1, ENOSPC);
    assert_rc(logdir_create(&dir, 5), -ENOSPC);
    fault_clear();
    assert_int_equal(tmpdir_count(d, "."), 0);
}

CASE(creation_that_others_got_in_the_way_of_may_be_tried_again, d)
{
    struct layout l = small_layout();

    fault_inject_from("flock", 1, EWOULDBLOCK);
    assert_rc(log_create(d->fd, 7, &l, SLOTS), -EAGAIN);
    assert_rc(logdir_create(&dir, 5), -EAGAIN); /* not: all in use */
    fault_clear();
}

CASE(logs_of_other_message_sizes_are_refused, d)
{
    struct layout other;
    struct log log;

    create_log(d->fd, 0);
    assert_rc(logdir_check_sizes(&dir), 0);
    assert_rc(layout_init(&other, 16, 32), 0);
    assert_rc(log_create(d->fd, 1, &other, SLOTS), 0);
    assert_rc(logdir_check_sizes(&dir), -EPROTO);

    /* Nor is one taken that the check could not open. */
    assert_int_equal(unlinkat(d->fd, "0000000000", 0), 0);
    assert_rc(logdir_claim(&dir, LOG_MODE_EMPTY, &log), -EAGAIN);
    assert_int_equal(mode_of(d->fd, 1), LOG_MODE_EMPTY);
    assert_false(is_locked(d->fd, 1));
}

/* ---- how far the merge is behind ---------------------------------------- */

CASE(an_increment_counts_from_its_append_until_its_merge, d)
{
    struct log log;

    assert_true(find_oldest() == UINT64_MAX);
    create_log(d->fd, 1);
    tmpdir_put(d, "lock-0000000005", "", 0, 0600);
    assert_true(find_oldest() == UINT64_MAX);
    make_merged(d->fd, 0, 3);
    log = begin_log(d->fd, 0); /* over the slots of the fill before */
    assert_true(find_oldest() == UINT64_MAX);
    assert_rc(append_messages(&log, 3, 0), 0);
    assert_true(find_oldest() == FIRST_MS);
    assert_rc(append_messages(&log, 3, 0), 0);
    assert_true(find_oldest() == FIRST_MS);
    assert_rc(log_seal(&log), 0);
    assert_true(find_oldest() == FIRST_MS);
    assert_rc(log_release(&log), 0);
    assert_true(find_oldest() == FIRST_MS);

    assert_rc(log_claim(&log, d->fd, 0, LOG_MODE_FULL), 0);
    assert_true(find_oldest() == FIRST_MS);
    assert_int_equal(read_count(&log), 6);
    assert_rc(log_empty(&log), 0);
    assert_true(find_oldest() == UINT64_MAX);
    assert_rc(log_release(&log), 0);
    assert_true(find_oldest() == UINT64_MAX);
}

CASE(the_oldest_of_several_logs_counts, d)
{
    struct log log;

    create_log(d->fd, 0);
    create_log(d->fd, 1);
    log = begin_log(d->fd, 0);
    log.header.count = 5; /* so that its increments are later */
    assert_rc(append_messages(&log, 1, 0), 0);
    log.header.count = 1;
    log.header.first_ms = FIRST_MS + 5;
    assert_rc(log_seal(&log), 0);
    assert_rc(log_release(&log), 0);
    assert_true(find_oldest() == FIRST_MS + 5);
    make_full(d->fd, 1, 1);
    assert_true(find_oldest() == FIRST_MS);
}

CASE(a_mode_that_a_power_loss_brought_back_hides_nothing, d)
{
    struct log log;

    create_log(d->fd, 0);
    create_log(d->fd, 1);
    make_full(d->fd, 0, 3);
    set_state(d->fd, 0, 0400, false);
    log = begin_with(d->fd, 1, 2);
    log_abandon(&log);
    set_state(d->fd, 1, 0400, false);
    assert_true(find_oldest() == FIRST_MS);
    assert_true(find_oldest() == FIRST_MS);

    assert_rc(logdir_recover(&dir), 2);
    assert_int_equal(merge_log(d->fd, 0), 3);
    assert_true(find_oldest() == FIRST_MS);
    assert_int_equal(merge_log(d->fd, 1), 2);
    assert_true(find_oldest() == UINT64_MAX);

    /* From here on an empty log is not opened for it. */
    fault_clear();
    assert_true(find_oldest() == UINT64_MAX);
    assert_int_equal(fault_calls("openat"), 0);
}

CASE(a_lost_open_header_hides_nothing, d)
{
    static const uint8_t zeros[LOG_BLOCK_SIZE];
    struct log log;

    log = begin_with(d->fd, 0, 2);
    write_bytes(d->fd, "0000000000", zeros, sizeof zeros,
                (uint64_t)!log.next_block * LOG_BLOCK_SIZE);
    assert_true(find_oldest() == FIRST_MS);
    log_abandon(&log);
}

/* Whatever cannot be judged is an error or an early time, never a late one. */
CASE(a_failing_look_is_never_too_late, d)
{
    static const int errors[] = {EIO, EMFILE, EACCES};
    struct log owned;
    bool hit = true;
    unsigned nth;
    uint64_t ms;
    size_t e;
    int rc;

    create_log(d->fd, 0);
    create_log(d->fd, 1);
    create_log(d->fd, 2);
    owned = begin_with(d->fd, 0, 2);
    for (e = 0; e < LENGTH(errors); e++) {
        for (nth = 1, hit = true; hit; nth++) {
            fault_inject("disk", nth, errors[e]);
            rc = pending_oldest_ms(&dir, &ms);
            hit = fault_hit();
            fault_clear();
            assert_true(rc < 0 || ms == FIRST_MS);
            logdir_close(&dir);
            dir = open_dir(d);
        }
    }
    log_abandon(&owned);
}

CASE(a_log_that_changes_hands_is_never_overlooked, d)
{
    struct turns *t = start_turns(d);
    const uint64_t deadline = test_deadline(TURNS_MS);
    unsigned seen = 0;
    uint64_t before, ms = FIRST_MS;

    create_log(d->fd, 1);
    while (seen < 2000 && ms == FIRST_MS) {
        before = t->there;
        ms = find_oldest();
        if (before == 0 || t->there != before)
            ms = FIRST_MS;
        else
            seen++;
        assert_true(clock_ms() < deadline);
    }
    end_turns(t);
    assert_true(ms == FIRST_MS);
}

/* ---- each system call fails ---------------------------------------------- */

enum act { OPEN, RECOVER, CLAIM, CREATE, SIZES, ACTS };

static void
do_act(enum act act, struct logdir *logs, const struct tmpdir *d)
{
    struct layout l = small_layout();
    struct logdir other;
    struct log log;

    if (act == OPEN && logdir_open(&other, d->fd, &l, FILE_SIZE) == 0)
        logdir_close(&other);
    else if (act == RECOVER)
        (void)logdir_recover(logs);
    else if (act == CLAIM && logdir_claim(logs, LOG_MODE_FULL, &log) == 0)
        log_abandon(&log);
    else if (act == CREATE)
        (void)logdir_create(logs, 100);
    else if (act == SIZES)
        (void)logdir_check_sizes(logs);
}

IN_MEMORY(any_failing_call_leaks_nothing_and_loses_nothing, d)
{
    static const char *const groups[] = {"disk", "memory"};
    struct logdir logs, after;
    unsigned nth, fds;
    struct log log;
    enum act act;
    size_t g;
    bool hit;

    for (act = OPEN; act < ACTS; act++) {
        for (g = 0; g < LENGTH(groups); g++) {
            for (nth = 1, hit = true; hit; nth++) {
                make_full(d->fd, 0, 3);
                log = begin_with(d->fd, 1, 2);
                log_abandon(&log);
                fds = fault_open_fds();
                logs = open_dir(d);

                fault_inject(groups[g], nth, g ? ENOMEM : EIO);
                do_act(act, &logs, d); /* the fault may be passed over */
                hit = fault_hit();
                fault_clear();
                logdir_close(&logs);
                assert_int_equal(fault_open_fds(), fds);

                after = open_dir(d);
                fault_clock(2000); /* the creator of one is dead */
                assert_true(logdir_recover(&after) >= 0);
                logdir_close(&after);
                assert_int_equal(merge_log(d->fd, 0), 3);
                assert_int_equal(merge_log(d->fd, 1), 2);
                assert_int_equal(unlinkat(d->fd, "0000000000", 0), 0);
                assert_int_equal(unlinkat(d->fd, "0000000001", 0), 0);
                (void)unlinkat(d->fd, "0000000002", 0); /* if it was created */
                assert_int_equal(tmpdir_count(d, "."), 0);
            }
        }
    }
}

LOG_TEST_MAIN
