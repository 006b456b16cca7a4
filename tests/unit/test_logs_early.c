/* tests/unit/test_logs_early.c - when a log is handed on before its time; real
 * logs, which the test merges. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/logs_fixture.h"

#define OTHER 7 /* a log that is not the writer's */
#define GONE  0 /* as a mode: there is no such log */

static bool
has_waited(struct fixture *r)
{
    return loop_now_ms(r->loop) >= r->want;
}

static void
set_up_early(struct fixture *r)
{
    set_up(r);
    r->config.log_count = 4;
    r->config.log_merge_share = 10;
    r->config.log_sync_ms = CONFIG_SYNC_ALWAYS;
    r->syncs = true;
    start_logs(r);
}

static void
tear_down_early(struct fixture *r)
{
    assert_int_equal(r->failed, 0);
    logs_close(&r->logs);
    tear_down(r);
}

#define CASE(name, r)                                                          \
    TEST_WITH(name, struct fixture, r, set_up_early, tear_down_early)

/* The log that was retired last is OTHER, `age_ms` ago, and has this mode. */
static void
set_previous(struct fixture *r, mode_t mode, uint64_t age_ms)
{
    struct logs_early *e = &r->logs.early;
    char name[LOG_NAME_SIZE];
    int fd;

    log_name(OTHER, name);
    (void)unlinkat(r->data.log_fd, name, 0);
    if (mode != GONE) {
        fd = openat(r->data.log_fd, name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        assert_true(fd >= 0);
        assert_int_equal(fchmod(fd, mode), 0);
        assert_int_equal(close(fd), 0);
    }
    e->index = OTHER;
    e->is_merged = false;
    e->retired_ms = loop_now_ms(r->loop) - age_ms;
    e->sealed_ms =
        UINT64_MAX; /* its end is not behind it: took 1 ms at least */
}

/* ---- the rule ------------------------------------------------------------ */

CASE(a_log_goes_when_the_one_before_is_merged_and_its_share_has_passed, r)
{
    static const struct {
        mode_t mode;
        uint64_t share, took_ms, age_ms, wait_ms;
    } rows[] = {
        {LOG_MODE_EMPTY, 10, 1, 5, 20}, /* 25 ms between two */
        {LOG_MODE_EMPTY, 10, 1, 25, 0},
        {GONE, 10, 8, 30, 50}, /* what it took is not known: the last one's */
        {GONE, 10, 8, 80, 0},
        {GONE, 100, 40, 30, 10},
        {GONE, 1, 40, 3999, 1},
        {LOG_MODE_FULL, 10, 1, 5,
         2}, /* looked at again: a quarter of its age */
        {LOG_MODE_FULL, 10, 1, 80, 20},
        {LOG_MODE_OWNED, 10, 1, 8000, 64},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        set_previous(r, rows[i].mode, rows[i].age_ms);
        r->config.log_merge_share = rows[i].share;
        r->logs.early.took_ms = rows[i].took_ms;
        assert_int_equal(logs_early_wait(&r->logs), rows[i].wait_ms);
        assert_int_equal(r->logs.early.is_merged,
                         rows[i].mode == GONE ||
                             rows[i].mode == LOG_MODE_EMPTY);
    }
}

CASE(a_log_that_is_being_sealed_is_not_merged_and_one_in_use_again_is, r)
{
    set_previous(r, LOG_MODE_EMPTY, 100);
    r->logs.early.sealed_ms = 0;
    assert_int_equal(logs_early_wait(&r->logs), 25);

    set_previous(r, GONE, 100);
    r->logs.early.index = r->logs.spares[0].header.index;
    assert_int_equal(logs_early_wait(&r->logs), 0);
    set_previous(r, GONE, 100);
    r->logs.early.index = r->logs.current.header.index;
    assert_int_equal(logs_early_wait(&r->logs), 0);

    /* Without a spare the next log would have to wait. */
    set_previous(r, GONE, 100);
    r->logs.spare_count--;
    while (r->logs.spare_count > 0)
        log_abandon(&r->logs.spares[r->logs.spare_count--]);
    assert_int_equal(logs_early_wait(&r->logs), 25);
    log_abandon(&r->logs.spares[0]);
}

CASE(what_a_merge_takes_is_learned_and_a_stopped_worker_forgotten, r)
{
    struct logs_early *e = &r->logs.early;
    char name[LOG_NAME_SIZE];
    struct stat st;
    int logs;

    log_name(OTHER, name);
    set_previous(r, LOG_MODE_EMPTY, 100);
    assert_int_equal(fstatat(r->data.log_fd, name, &st, 0), 0);
    e->sealed_ms = (uint64_t)st.st_ctim.tv_sec * 1000 +
                   (uint64_t)st.st_ctim.tv_nsec / 1000000 - 11;
    e->took_ms = 4;
    (void)logs_early_wait(&r->logs);
    assert_int_equal(e->took_ms, 8); /* half of the way up */

    /* The next log was retired before the end of this one was looked for. */
    set_previous(r, LOG_MODE_FULL, 8000);
    e->sealed_ms = loop_unix_ms(r->loop) - 8000;
    logs_early_retired(&r->logs, OTHER);
    assert_int_equal(e->took_ms, 4004);
    assert_int_equal(e->sealed_ms, 0);

    for (logs = 0; e->took_ms > 20; logs++) {
        set_previous(r, LOG_MODE_EMPTY, 100);
        (void)logs_early_wait(&r->logs);
    }
    assert_int_equal(logs, 4);
}

CASE(while_merges_leave_files_logs_go_by_their_age, r)
{
    const int log_fd = r->data.log_fd;

    set_previous(r, GONE, 100);
    assert_int_equal(logs_early_wait(&r->logs), 0);
    assert_int_equal(mkdirat(log_fd, "waiting", 0700), 0);
    set_previous(r, GONE, 100);
    assert_int_equal(logs_early_wait(&r->logs), 0); /* only seen */

    assert_int_equal(
        utimensat(log_fd, "waiting", (struct timespec[2]){{1, 1}, {1, 1}}, 0),
        0);
    set_previous(r, GONE, 100);
    assert_true(logs_early_wait(&r->logs) == UINT64_MAX);
    set_previous(r, GONE, 100);
    assert_int_equal(logs_early_wait(&r->logs), 0);
}

/* ---- the timer ----------------------------------------------------------- */

static void
merge_log(struct fixture *r, uint64_t index)
{
    struct log log;

    assert_rc(log_claim(&log, r->data.log_fd, index, LOG_MODE_FULL), 0);
    assert_rc(log_empty(&log), 0);
    assert_rc(log_release(&log), 0);
}

CASE(one_log_after_the_other_is_handed_on_while_they_are_merged, r)
{
    uint64_t index;

    for (uint64_t i = 1; i <= 5; i++) {
        index = r->logs.current.header.index;
        put_at_once(r, 1);
        run_until(r, has_sealed, i);
        if (i < 5)
            merge_log(r, index);
        run_until(r, has_spare, 0);
    }

    /* The last one is not merged: the next stays. */
    put_at_once(r, 1);
    run_until(r, has_waited, loop_now_ms(r->loop) + 100);
    assert_int_equal(r->logs.stats.sealed, 5);
    assert_int_equal(r->logs.current.header.count, 1);
    merge_log(r, index);
    run_until(r, has_sealed, 6);
}

CASE(the_age_of_a_log_the_share_and_an_archive_forbid_it, r)
{
    r->logs.early.retired_ms = loop_now_ms(r->loop);
    r->config.log_rotate_after_ms = 20;
    logs_arm_early(&r->logs);
    assert_int_equal(r->logs.early.timer.deadline_ms, 0);
    r->config.log_rotate_after_ms = 60000;
    r->config.log_merge_share = 0;
    logs_arm_early(&r->logs);
    assert_int_equal(r->logs.early.timer.deadline_ms, 0);
    r->config.log_count = 4;
    r->config.log_merge_share = 10;
    r->config.archive_keep_ms = 1;
    logs_arm_early(&r->logs);
    assert_int_equal(r->logs.early.timer.deadline_ms, 0);
    r->config.archive_keep_ms = 0;
    logs_arm_early(&r->logs);
    assert_int_not_equal(r->logs.early.timer.deadline_ms, 0);
}
