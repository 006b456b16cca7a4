/* tests/unit/test_merge.c - real logs merged into a store, with
 * log/waiting/ beside it. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/commit_fixture.h"

#include <sys/file.h>

#include "common/base/clock.h"
#include "common/log/kept.h"
#include "tests/lib/capture.h"

#define CASE(name, x)                                                          \
    TEST_IN(name, struct fixture *x, fixture_setup, fixture_teardown)

/* ---- the happy path ---------------------------------------------------- */

CASE(full_logs_are_summed_applied_once_and_emptied, x)
{
    full_logs(x, 5);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_counts(x, 5);
    assert_emptied(x, 5);
    assert_int_equal(merge_run(&x->merge), MERGE_IDLE);
    assert_int_equal(x->merge.stats.logs, 5);
    assert_int_equal(x->merge.stats.keyspaces, 3);
    assert_false(tmpdir_has(&x->tmp, "log/" WAITING_FOLDER));
}

CASE(no_more_logs_are_taken_than_a_batch_may_have, x)
{
    full_logs(x, 9);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(count_of(x, "a", "one"), 8);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(count_of(x, "a", "one"), 9);
    assert_int_equal(merge_run(&x->merge), MERGE_IDLE);
}

CASE(a_log_with_nothing_but_zeros_is_emptied_and_makes_no_keyspace, x)
{
    struct filler f;

    filler_open(&f, x->dir.log_fd, 0, SLOTS);
    filler_add(&f, "z", "one", 0);
    filler_seal(&f);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
    assert_int_equal(count_of(x, "z", "one"), INT64_MIN);
    assert_int_equal(x->merge.stats.zeros, 1);
}

/* ---- what is in already ------------------------------------------------ */

/* One batch of a keyspace can hold only logs that it has, or such that it has
 * not. */
CASE(what_keyspaces_have_already_is_not_counted_again, x)
{
    static const struct {
        const char *had[3];   /* keyspaces that have the log */
        unsigned logs, first; /* emptied by the first merge */
    } cases[] = {{{"ab"}, 1, 1}, {{"a", ""}, 2, 1}, {{"ac", "ac", "ac"}, 3, 3}};
    unsigned logs = 0;

    for (unsigned i = 0; i < 3; i++) {
        print_message("case %u\n", i);
        logs += cases[i].logs;
        for (unsigned k = 0; k < cases[i].logs; k++) {
            const struct log_fill mark = full_log(x, k);

            for (const char *at = cases[i].had[k]; *at != '\0'; at++)
                assert_rc(apply_as_dead(x, (const char[2]){*at}, &mark), 0);
        }
        assert_int_equal(merge_run(&x->merge), MERGE_DONE);
        assert_emptied(x, cases[i].first);
        for (unsigned k = cases[i].first; k < cases[i].logs; k++) {
            assert_int_equal(mode_of(x, k), LOG_MODE_FULL);
            assert_false(tmpdir_has(&x->tmp, "log/lock-0000000001"));
            assert_int_equal(merge_run(&x->merge), MERGE_DONE);
        }
        assert_emptied(x, cases[i].logs);
        assert_counts(x, logs);
    }
}

CASE(logs_that_share_no_keyspace_are_merged_together_whatever_is_in, x)
{
    const struct log_fill mark = full_log(x, 0);
    struct filler f;

    assert_rc(apply_as_dead(x, "a", &mark), 0);
    filler_open(&f, x->dir.log_fd, 1, SLOTS);
    filler_add(&f, "z", "one", 7);
    filler_seal(&f);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_counts(x, 1);
    assert_int_equal(count_of(x, "z", "one"), 7);
    assert_int_equal(mode_of(x, 1), LOG_MODE_EMPTY);
}

CASE(a_log_that_is_in_everywhere_is_made_durable_before_it_is_emptied, x)
{
    const struct log_fill mark = full_log(x, 0);

    assert_rc(apply_as_dead(x, "a", &mark), 0);
    assert_rc(apply_as_dead(x, "b", &mark), 0);
    assert_rc(apply_as_dead(x, "c", &mark), 0);
    refuse_keyspace("b", -ENOSPC);

    assert_int_equal(merge_run(&x->merge), MERGE_WAIT);
    assert_int_equal(mode_of(x, 0), LOG_MODE_FULL);

    refuse_keyspace("b", 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
    assert_counts(x, 1);
}

CASE(of_a_log_that_is_in_partly_only_later_keys_are_applied, x)
{
    const struct log_fill mark = full_log(x, 0);

    full_log(x, 1);
    had_one_key(x, &mark);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_counts(x, 2);
    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
}

CASE(a_log_older_than_its_mark_is_quarantined_and_the_others_merged, x)
{
    struct log_fill mark = full_log(x, 0);

    full_log(x, 1);
    mark.epoch += 5;
    assert_rc(stored_add(x->store, "b", &mark, "two", 0), 0);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(mode_of(x, 0), 0);
    assert_true(tmpdir_has(&x->tmp, "log/bad-0000000000-1"));
    assert_counts(x, 1);
    assert_int_equal(mode_of(x, 1), LOG_MODE_EMPTY);
}

CASE(a_second_fill_of_an_epoch_counts_beside_the_first, x)
{
    const struct log_fill mark = full_log(x, 0);
    struct log_fill first = mark;

    first.first_ms--;
    assert_rc(apply_as_dead(x, "a", &first), 0);
    assert_rc(apply_as_dead(x, "b", &mark), 0);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(count_of(x, "a", "one"), 2);
    assert_int_equal(count_of(x, "b", "one"), -10);
    assert_int_equal(count_of(x, "c", "one"), 100);
    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
}

CASE(marks_that_change_meanwhile_are_asked_for_again, x)
{
    full_log(x, 0);
    store_faults_set("a", (struct store_fault){.error = -ESTALE, .times = 1});

    (void)merge_run(&x->merge); /* gives it back */
    assert_int_equal(mode_of(x, 0), LOG_MODE_FULL);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_counts(x, 1);
    assert_int_equal(waiting_count(x), 0);
}

/* ---- keyspaces that cannot --------------------------------------------- */

CASE(a_keyspace_that_refuses_stops_nobody_and_gets_its_records_later, x)
{
    static const int errors[] = {-EBADMSG, -EDQUOT, -EPROTONOSUPPORT, -EIO,
                                 -EACCES};
    int64_t i;

    for (i = 0; i < 5; i++) {
        full_log(x, 0);
        full_log(x, 1);
        refuse_keyspace("a", errors[i]);
        refuse_keyspace("c", i == 4 ? -EDQUOT : 0);

        assert_int_equal(merge_run(&x->merge), MERGE_DONE);

        assert_emptied(x, 2);
        assert_int_equal(count_of(x, "b", "one"), -20 * (i + 1));
        assert_int_equal(count_of(x, "a", "one"), i ? 2 * i : INT64_MIN);
        assert_int_equal(waiting_count(x), i == 4 ? 4 : 2); /* of both logs */

        refuse_keyspace("a", 0);
        refuse_keyspace("c", 0);
        merge_dry(x);
        assert_counts(x, 2 * (i + 1));
        assert_int_equal(waiting_count(x), 0);
    }
    assert_int_equal(x->merge.stats.held, 10);
    assert_int_equal(x->merge.pass.fills, 10);
}

CASE(nothing_is_set_aside_of_a_log_that_stays_full, x)
{
    full_log(x, 0);
    refuse_keyspace("a", -EBADMSG);
    refuse_keyspace("b", -ENOSPC);

    assert_int_equal(merge_run(&x->merge), MERGE_WAIT);

    assert_int_equal(waiting_count(x), 0);
    assert_int_equal(mode_of(x, 0), LOG_MODE_FULL);
    assert_int_equal(count_of(x, "c", "one"), 100);
}

/* As a worker leaves it that dies between setting aside and emptying: the log
 * goes into the keyspace, and the file is removed. */
CASE(records_that_were_set_aside_already_are_not_counted_again, x)
{
    const struct log_fill mark = full_log(x, 0);

    set_aside_by_another(x, "a", &mark);
    refuse_keyspace("a", -EBADMSG);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
    assert_int_equal(waiting_count(x), 1); /* no second time */

    full_log(x, 1);
    refuse_keyspace("a", 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    merge_dry(x);
    assert_int_equal(waiting_count(x), 0);
    assert_counts(x, 2);
}

/* The mark says only the last fill that is in: an earlier one that is still
 * held would be taken for one that is in.  Other logs do not wait for it. */
CASE(records_of_a_later_fill_wait_behind_what_is_held_of_an_earlier_one, x)
{
    full_log(x, 0);
    refuse_keyspace("a", -EBADMSG);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    refuse_keyspace("a", 0);

    full_log(x, 1);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(count_of(x, "a", "one"), 1);
    assert_int_equal(waiting_count(x), 1);
    full_log(x, 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(waiting_count(x), 2);
    assert_int_equal(store_faults_applies("a"), 2);
    merge_dry(x);
    assert_counts(x, 3);

    full_log(x, 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(waiting_count(x), 0);
    assert_counts(x, 4);
}

/* A worker put the first log in and died before it emptied it.  While the
 * keyspace cannot be read it is not known. */
CASE(logs_of_a_keyspace_that_cannot_be_read_wait_each_by_itself, x)
{
    const struct log_fill mark = full_log(x, 0);

    full_log(x, 1);
    assert_rc(apply_as_dead(x, "a", &mark), 0);
    store_faults_set("a", (struct store_fault){.marks = -EBADMSG,
                                               .error = -EBADMSG,
                                               .times = STORE_FAULTS_ALWAYS});
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_emptied(x, 2);
    assert_int_equal(waiting_count(x), 2);

    refuse_keyspace("a", 0);
    merge_dry(x);
    assert_int_equal(waiting_count(x), 0);
    assert_counts(x, 2);
}

/* ---- another process is writing ---------------------------------------- */

CASE(a_keyspace_another_process_writes_to_is_put_off_and_waited_for, x)
{
    full_log(x, 0);
    store_faults_set(
        "a", (struct store_fault){.error = -EAGAIN, .times = 4, .holder = 77});

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_counts(x, 1);
    assert_int_equal(store_faults_applies("a"), 5);
    assert_int_equal(store_faults_applies("b"), 1);
    assert_int_equal(waiting_count(x), 0);
}

CASE(a_process_that_is_not_known_has_no_pid, x)
{
    struct capture c;
    const char *said;

    full_log(x, 0);
    store_faults_set("a", (struct store_fault){.error = -EAGAIN, .times = 45});

    capture_start(&c);
    diag_init("test", DIAG_WARNING);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    diag_init("test", DIAG_ERROR);
    said = capture_stop(&c);

    assert_has(said, "waiting for another process");
    assert_lacks(said, "pid=");
}

static bool
stop_after(void *ctx)
{
    unsigned *left = ctx;

    return *left == 0 || --*left == 0;
}

CASE(told_to_stop_it_gives_the_logs_back, x)
{
    static const struct {
        const char *when;
        int error; /* of "a" */
        unsigned asked;
        int64_t a, b; /* that are in then */
    } cases[] = {{"while it waits", -EAGAIN, 8, INT64_MIN, -10},
                 {"after one keyspace", 0, 2, 2, -10}};

    for (unsigned i = 0; i < 2; i++) {
        unsigned left = cases[i].asked;

        print_message("%s\n", cases[i].when);
        full_log(x, 0);
        refuse_keyspace("a", cases[i].error);
        x->merge.stop = stop_after;
        x->merge.stop_ctx = &left;

        assert_int_equal(merge_run(&x->merge), MERGE_STOPPED);

        assert_int_equal(mode_of(x, 0), LOG_MODE_FULL);
        assert_false(tmpdir_has(&x->tmp, "log/lock-0000000000"));
        assert_int_equal(count_of(x, "a", "one"), cases[i].a);
        assert_int_equal(count_of(x, "b", "one"), cases[i].b);
        assert_int_equal(waiting_count(x), 0);

        x->merge.stop = NULL;
        refuse_keyspace("a", 0);
        assert_int_equal(merge_run(&x->merge), MERGE_DONE);
        assert_counts(x, i + 1);
    }
}

/* ---- the machine cannot now -------------------------------------------- */

CASE(on_a_full_disk_the_log_stays_full_and_is_counted_once_later, x)
{
    unsigned i;

    full_log(x, 0);
    refuse_keyspace("b", -ENOSPC);
    for (i = 0; i < 20; i++)
        assert_int_equal(merge_run(&x->merge), MERGE_WAIT);
    assert_int_equal(mode_of(x, 0), LOG_MODE_FULL);
    assert_int_equal(count_of(x, "a", "one"), 1);
    assert_int_equal(waiting_count(x), 0);
    assert_int_equal(x->merge.stats.records, 0);

    refuse_keyspace("b", 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_counts(x, 1);
    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
    assert_int_equal(x->merge.stats.records, 4);
}

CASE(when_no_more_may_be_held_the_logs_stay_full, x)
{
    fixture_close_worker(x);
    x->config.held_max = 1;
    fixture_open_worker(x);
    full_log(x, 0);
    refuse_keyspace("a", -EBADMSG);

    assert_int_equal(merge_run(&x->merge), MERGE_WAIT);
    assert_int_equal(mode_of(x, 0), LOG_MODE_FULL);
    assert_int_equal(waiting_count(x), 0);

    refuse_keyspace("a", 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_counts(x, 1);
}

CASE(a_log_that_fails_waits_and_the_others_are_merged_meanwhile, x)
{
    struct filler f;

    x->merge.batch.retry_most_ms = 50;
    full_log(x, 0);
    refuse_keyspace("b", -ESTALE);
    assert_int_equal(merge_run(&x->merge), MERGE_LATER);
    assert_true(x->merge.batch.retry_ms <= clock_ms() + 50);
    x->merge.batch.failed.due_ms += 1000000; /* not by the clock */

    filler_open(&f, x->dir.log_fd, 1, SLOTS);
    filler_add(&f, "a", "one", 10);
    filler_seal(&f);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(merge_run(&x->merge), MERGE_LATER);
    assert_int_equal(count_of(x, "a", "one"), 11);
    assert_int_equal(store_faults_applies("b"), 1);
    assert_int_equal(mode_of(x, 0), LOG_MODE_FULL);
    assert_int_equal(mode_of(x, 1), LOG_MODE_EMPTY);

    x->merge.batch.failed.due_ms = 0;
    refuse_keyspace("b", 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(count_of(x, "b", "one"), -10);
    assert_int_equal(merge_run(&x->merge), MERGE_IDLE);
    assert_int_equal(x->merge.batch.failed.wait_ms, 0);
}

/* An owner that was preempted between the unlink of lock-N, which wakes the
 * worker, and the end of its flock, which wakes no process. */
CASE(a_full_log_whose_owner_lingers_is_tried_again_in_10_ms, x)
{
    int fd, i;

    full_log(x, 0);
    fd = openat(x->tmp.fd, "log/0000000000", O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
    for (i = 0; i < 3; i++) { /* the claim that fails, then scans after it */
        assert_int_equal(merge_run(&x->merge), MERGE_LATER);
        assert_true(x->merge.batch.retry_ms <= clock_ms() + BATCH_BUSY_MS);
    }

    assert_int_equal(close(fd), 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_counts(x, 1);
    assert_int_equal(merge_run(&x->merge), MERGE_IDLE);
}

/* ---- damage, the archive ----------------------------------------------- */

static void
damage_log_1(struct fixture *x)
{
    file_write(file_path(x->tmp.path, "log/0000000001"),
               LOG_SLOTS_AT + 2 * 544 + 300, "!", 1);
}

CASE(a_damaged_log_is_quarantined_and_the_others_merged, x)
{
    full_logs(x, 3);
    damage_log_1(x);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(mode_of(x, 1), 0);
    assert_true(tmpdir_has(&x->tmp, "log/bad-0000000001-1"));
    assert_int_equal(count_of(x, "a", "one"), 2);
    assert_int_equal(merge_run(&x->merge), MERGE_IDLE);
}

/* Its names were met before the damage was. */
CASE(nothing_but_a_damaged_log_behind_a_merge_is_no_trouble, x)
{
    enum merge_outcome outcome = MERGE_DONE;
    int turns;

    full_log(x, 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    full_log(x, 1);
    damage_log_1(x);
    for (turns = 0; outcome != MERGE_IDLE; turns++) {
        assert_true(turns < 4);
        outcome = merge_run(&x->merge);
    }

    assert_true(tmpdir_has(&x->tmp, "log/bad-0000000001-1"));
    assert_int_equal(count_of(x, "a", "one"), 1);
}

/* A log of that many minutes that its sums do not fit the least memory. */
CASE(a_log_that_does_not_fit_alone_is_merged_all_the_same, x)
{
    enum { RECORDS = 40000 };
    struct filler f;
    int i;

    fixture_close_worker(x);
    x->config.worker_memory = 1 << 20;
    fixture_open_worker(x);
    filler_open(&f, x->dir.log_fd, 0, RECORDS);
    for (i = 0; i < RECORDS; i++) {
        filler_add(&f, "a", "a key of some length, to fill the memory", 1);
        f.received_ms += 60000;
    }
    filler_seal(&f);
    full_log(x, 1);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
    assert_int_equal(mode_of(x, 1), LOG_MODE_FULL);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(
        count_of(x, "a", "a key of some length, to fill the memory"), RECORDS);
    assert_int_equal(count_of(x, "a", "one"), 1);
}

CASE(a_log_that_cannot_be_read_is_quarantined, x)
{
    struct filler f;
    unsigned i, before;

    filler_open(&f, x->dir.log_fd, 1, 1000);
    for (i = 0; i < 1000; i++)
        filler_add(&f, "a", "one", 1);
    filler_seal(&f);

    /* From the second part of the log on nothing can be read. */
    fault_clear();
    assert_int_equal(batch_take(&x->merge.batch), 1);
    before = fault_calls("pread");
    batch_release_unmerged(&x->merge.batch, false);
    fault_inject_from("pread", before, EIO);
    assert_int_equal(merge_run(&x->merge), MERGE_IDLE);
    assert_true(fault_hit());
    fault_clear();
    full_log(x, 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);

    assert_int_equal(mode_of(x, 1), 0);
    assert_true(tmpdir_has(&x->tmp, "log/bad-0000000001-1"));
    assert_counts(x, 1);
    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
}

CASE(logs_of_other_message_sizes_are_refused_and_given_back, x)
{
    full_log(x, 0);
    fixture_close_worker(x);
    x->config.key_size = 64;
    fixture_open_worker(x);

    assert_int_equal(merge_run(&x->merge), MERGE_REFUSED);

    assert_int_equal(mode_of(x, 0), LOG_MODE_FULL);
    assert_int_equal(count_of(x, "a", "one"), INT64_MIN);
}

static void
archive_on(struct fixture *x)
{
    x->archive = true;
    fixture_close_worker(x);
    fixture_open_worker(x);
}

/* What a log of full_log() is called there. */
static bool
is_archived(struct fixture *x, uint64_t index, bool missing)
{
    const struct archive_name n = {.first_ms = 1700000000000,
                                   .index = index,
                                   .epoch = 1,
                                   .missing = missing};
    char path[ARCHIVE_NAME_SIZE + 16] = "archive/";

    archive_name_put(&n, path + 8);
    return tmpdir_has(&x->tmp, path);
}

CASE(what_is_held_is_archived_too_and_what_stays_full_is_not, x)
{
    archive_on(x);
    full_log(x, 0);
    refuse_keyspace("b", -EBADMSG);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_true(is_archived(x, 0, false));
    assert_int_equal(x->merge.stats.archived, 1);

    full_log(x, 1);
    refuse_keyspace("b", -ENOSPC);
    refuse_keyspace("a", -ENOSPC);
    (void)merge_run(&x->merge); /* whatever it is called */
    assert_int_equal(mode_of(x, 1), LOG_MODE_FULL);
    assert_int_equal(tmpdir_count(&x->tmp, "archive"), 1);
}

CASE(what_cannot_be_archived_is_merged_all_the_same_and_said, x)
{
    archive_on(x);
    full_log(x, 0);
    fault_inject_from("renameat", 1, ENOSPC);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    fault_clear();

    assert_int_equal(count_of(x, "a", "one"), 1);
    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
    assert_int_equal(x->merge.stats.archived, 0);
    assert_int_equal(tmpdir_count(&x->tmp, "archive"), 1);
    assert_true(is_archived(x, 0, true));
}

/* So that few are lost when the clock is set forward by mistake. */
CASE(at_most_64_archived_logs_are_removed_a_second, x)
{
    const uint64_t since_ms = clock_ms();

    archive_on(x);
    for (uint64_t i = 0; i < 400; i++) {
        const struct archive_name n = {.first_ms = 1, .index = i};
        char path[ARCHIVE_NAME_SIZE + 16] = "archive/";

        archive_name_put(&n, path + 8);
        tmpdir_put(&x->tmp, path, "", 0, 0600);
    }
    for (int i = 0; i < 5; i++)
        (void)merge_maintain(&x->merge, clock_ns() + 1000000000);
    assert_in_range(400 - tmpdir_count(&x->tmp, "archive"), 64,
                    64 * (1 + (clock_ms() - since_ms) / 1000));
}

CASE(a_backup_that_runs_finds_what_was_merged_or_that_it_is_not_there, x)
{
    const int log_fd = x->merge.dir->log_fd;
    struct kept kept = {.begun = false};

    assert_rc(kept_begin(&kept, log_fd), 0);
    full_logs(x, 3);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(mode_of(x, 2), LOG_MODE_EMPTY);
    assert_int_equal(tmpdir_count(&x->tmp, "log/" KEPT_FOLDER), 3 + 1);
    assert_true(kept_is_whole(&kept));

    full_log(x, 3);
    fault_inject_from("renameat", 1, ENOSPC);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    fault_clear();
    assert_int_equal(mode_of(x, 3), LOG_MODE_EMPTY);
    assert_false(kept_is_whole(&kept));
    kept_end(&kept, log_fd);
}

/* A backup that copies the store only now finds by the marks in it that it has
 * what was kept: else it would bring back what was deleted. */
CASE(the_file_of_an_empty_keyspace_stays_while_a_backup_runs, x)
{
    const int log_fd = x->merge.dir->log_fd;
    struct kept kept = {.begun = false};

    assert_rc(kept_begin(&kept, log_fd), 0);
    full_log(x, 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_rc(store_drop(x->store, (const uint8_t *)"a", 1), 0);
    for (int i = 0; i < 50; i++)
        (void)merge_maintain(&x->merge, clock_ns() + 1000000000);
    assert_true(tmpdir_has(&x->tmp, "keyspace/a.mdb"));
    kept_end(&kept, log_fd);
    fixture_close_worker(x); /* the next pass comes at once */
    store_close(x->store);
    fixture_open_store(x);
    fixture_open_worker(x);
    for (int i = 0; i < 50; i++)
        (void)merge_maintain(&x->merge, clock_ns() + 1000000000);
    assert_false(tmpdir_has(&x->tmp, "keyspace/a.mdb"));
}

/* ---- any failing call -------------------------------------------------- */

/* Runs until nothing is left to merge and nothing held. */
static void
run_dry(struct fixture *x)
{
    enum merge_outcome outcome;
    unsigned n = 0;

    do {
        assert_true(n++ < 50);
        outcome = merge_run(&x->merge);
        merge_dry(x);
    } while (outcome != MERGE_IDLE || waiting_count(x) > 0);
}

/* Those that neither the store nor the worker has open; both begin anew. */
static unsigned
count_other_fds(struct fixture *x)
{
    unsigned fds;

    fixture_close_worker(x);
    store_close(x->store);
    fds = fault_open_fds();
    fixture_open_store(x);
    fixture_open_worker(x);
    return fds;
}

/* One call fails at a time; afterwards everything is counted exactly once. */
static void
each_failing(struct fixture *x, const char *group, int error, bool hold)
{
    bool hit = true;
    int64_t rounds;
    unsigned fds;

    full_log(x, 0); /* what is opened once is open */
    full_log(x, 1);
    refuse_keyspace("b", hold ? -EBADMSG : 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    refuse_keyspace("b", 0);
    run_dry(x);
    fds = count_other_fds(x);
    for (rounds = 2; hit; rounds++) {
        assert_true(rounds < 600);
        full_log(x, 0);
        full_log(x, 1);
        refuse_keyspace("b", hold ? -EBADMSG : 0);
        if (hold) { /* a fresh one keeps nothing */
            fixture_close_worker(x);
            fixture_open_worker(x);
        }

        fault_inject(group, (unsigned)rounds - 1, error);
        (void)merge_run(&x->merge); /* whatever it says */
        if (hold) {
            refuse_keyspace("b", 0);
            (void)merge_waiting(&x->merge);
        }
        hit = fault_hit();
        fault_clear();
        refuse_keyspace("b", 0);
        run_dry(x);

        assert_int_equal(tmpdir_count(&x->tmp, "log") -
                             tmpdir_has(&x->tmp, "log/merged") -
                             tmpdir_has(&x->tmp, "log/" WAITING_FOLDER),
                         2);
        assert_counts(x, 2 * rounds);
    }
    assert_true(rounds > 3);
    assert_int_equal(count_other_fds(x), fds);
}

CASE(any_failing_call_loses_and_doubles_nothing, x)
{
    each_failing(x, "disk", EIO, false);
}

CASE(any_failing_allocation_loses_and_doubles_nothing, x)
{
    each_failing(x, "memory", ENOMEM, true);
}

CASE(any_failing_call_while_holding_loses_and_doubles_nothing, x)
{
    archive_on(x);
    each_failing(x, "disk", ENOSPC, true);
}

CASE(opening_fails_cleanly_without_memory, x)
{
    unsigned n;
    int rc = -1;

    for (n = 1; rc != 0; n++) {
        struct merge m;
        const unsigned fds = fault_open_fds();

        assert_true(n < 50);
        fault_inject("memory", n, ENOMEM);
        rc = merge_open(&m, &x->config, &x->dir, x->store);
        fault_clear();
        if (rc == 0)
            merge_close(&m);
        else
            assert_rc(rc, -ENOMEM);
        assert_int_equal(fault_open_fds(), fds);
    }
    assert_true(n > 4);
}
