/* tests/unit/test_apply.c - what is applied is there exactly once, whatever
 * happens in between. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/setup/reserve.h"
#include "common/store/lmdb/keyspace.h"
#include "tests/lib/counted.h"
#include "tests/lib/engines.h"
#include "tests/lib/stored.h"

#define CASE(name, d) TEST_IN(name, struct tmpdir *d, in_memory, remove_dir)

CASE(a_log_that_is_in_is_committed_again_and_counts_once, d)
{
    struct store *s = open_store(d, 1 << 24, true);
    struct model m = {.counters = NULL};
    struct store_applied applied;
    struct log_batch log;

    rng = 1;
    log_make(&log, 1, 7, 500, 400);
    assert_rc(apply_logs(s, &log, 1), 0);
    model_apply(&m, &log.keys);

    assert_rc(apply_deltas(s, KS, &log.mark, 1, log.keys.deltas, log.keys.count,
                           &applied),
              0);

    assert_int_equal(applied.keys, 0);
    assert_int_equal(applied.commits, 1); /* it is durable now, too */
    compare_all(s, &m);
    check_clean(s);
    store_close(s);
    batch_free(&log.keys);
    free(m.counters);
}

CASE(marks_without_records_are_kept, d)
{
    const struct log_fill mark = {.uuid = "abcdefghijklmno", .epoch = 3};
    struct store *s = open_store(d, 1 << 24, true);
    struct store_applied applied;

    /* No keyspace comes of nothing. */
    assert_rc(apply_deltas(s, KS, &mark, 1, NULL, 0, &applied), 0);
    assert_int_equal(tmpdir_count(d, "."), 0);
    assert_rc(apply_one(s, "pages", "k", 1), 0);

    assert_rc(apply_deltas(s, KS, &mark, 1, NULL, 0, &applied), 0);

    assert_int_equal(mark_state(s, &mark), STORE_MARK_DONE);
    store_close(s);
}

/* Applies the log in a child until the file may not grow any more, which may be
 * in the middle of it; *info: how far it came.  Returns the handle of the next
 * process. */
static struct store *
apply_in_part(const struct tmpdir *d, const struct log_batch *log, rlim_t size,
              struct store_mark_info *info, bool *failed)
{
    const struct rlimit limit = {.rlim_cur = size, .rlim_max = size};
    struct store *s;
    pid_t child;
    int status;

    tmpdir_empty(d); /* of the last round */
    child = test_fork();
    if (child == 0) {
        (void)signal(SIGXFSZ, SIG_IGN);
        assert_rc(setrlimit(RLIMIT_FSIZE, &limit), 0);
        s = open_store(d, 1, true);
        _exit(apply_logs(s, log, 1) == 0 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    *failed = WEXITSTATUS(status) != 0;
    s = open_store(d, 1 << 24, true);
    assert_rc(stored_marks(s, KS_NAME, &log->mark, 1, info), 0);
    return s;
}

/* What a store takes that wants nothing. */
static int
take_totals(void *ctx, const struct store_totals *t, const uint8_t *history,
            size_t history_size)
{
    (void)ctx;
    (void)t;
    (void)history;
    (void)history_size;
    return 0;
}

static int
take_row(void *ctx, const uint8_t *key, size_t size,
         const struct store_row *row)
{
    (void)ctx;
    (void)key;
    (void)size;
    (void)row;
    return 0;
}

CASE(a_log_that_is_in_partly_goes_on_there_after_its_keyspace_is_vacated, d)
{
    static const struct store_taker taker = {
        .begin = take_totals, .row = take_row, .rank = take_row};
    struct store_mark_info before, after;
    rlim_t size = 100000;
    struct log_batch log;
    struct store_totals t;
    struct store *s;
    bool failed;

    rng = 17;
    log_make(&log, 1, 17, 3000, 20000);
    while (s = apply_in_part(d, &log, size += 50000, &before, &failed),
           before.state != STORE_MARK_PARTIAL) {
        assert_true(size < 900000);
        store_close(s);
    }
    assert_rc(store_move(s, KS, &taker, NULL), -EINPROGRESS);
    assert_rc(reserve_make(d->fd), 0);

    assert_rc(store_vacate(s, KS, d->fd), 0);

    assert_rc(stored_marks(s, KS_NAME, &log.mark, 1, &after), 0);
    assert_int_equal(after.state, STORE_MARK_PARTIAL);
    assert_true(after.progress == before.progress);
    assert_rc(apply_logs(s, &log, 1), 0);
    assert_rc(stored_totals(s, KS_NAME, &t), 0);
    assert_true(t.keys > 0 && t.keys < log.keys.count); /* the rest of it */
    assert_rc(stored_marks(s, KS_NAME, &log.mark, 1, &after), 0);
    assert_int_equal(after.state, STORE_MARK_DONE);
    check_clean(s);
    store_close(s);
    batch_free(&log.keys);
}

CASE(a_failed_commit_leaves_a_state_to_go_on_from, d)
{
    unsigned partial = 0, failures = 0;

    for (rlim_t size = 100000; size < 900000; size += 50000) {
        struct model m = {.counters = NULL};
        struct store_mark_info info;
        struct log_batch logs[2];
        struct store *s;
        bool failed;

        rng = size;
        log_make(&logs[0], 1, size, 3000, 20000);
        log_make(&logs[1], 2, size, 3000, 20000);
        s = apply_in_part(d, logs, size, &info, &failed);
        failures += failed;
        partial += info.state == STORE_MARK_PARTIAL;

        /* The first log may be in by half; both are applied together now. */
        assert_rc(apply_logs(s, logs, 2), 0);
        for (unsigned i = 0; i < 2; i++) {
            model_apply(&m, &logs[i].keys);
            batch_free(&logs[i].keys);
        }
        compare_all(s, &m);
        check_clean(s);
        store_close(s);
        free(m.counters);
    }
    assert_true(failures > 0 && partial > 0);
}

/* In a child: applies and says nothing. */
static void
apply_in_child(const struct tmpdir *d, const struct log_batch *logs, size_t n,
               size_t txn_memory)
{
    struct store *s = open_store(d, txn_memory, true);

    for (size_t i = 0; i < n; i++)
        if (apply_logs(s, &logs[i], 1) != 0)
            _exit(1);
    store_close(s);
    _exit(0);
}

CASE(a_killed_worker_is_taken_up_where_it_was, d)
{
    struct model m = {.counters = NULL};
    unsigned killed = 0;

    for (unsigned round = 0; round < 40; round++) {
        struct log_batch logs[3];
        struct store *s;
        pid_t child;
        int status;

        rng = round;
        for (uint8_t i = 0; i < 3; i++)
            log_make(&logs[i], i, round, 1500, 9000);
        child = test_fork();
        if (child == 0)
            apply_in_child(d, logs, 3, 1 << 16);
        (void)usleep((useconds_t)(1000 + below(20000))); /* any moment */
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, &status, 0), child);
        killed += WIFSIGNALED(status) ? 1 : 0;

        s = open_store(d, 1 << 24, true);
        assert_rc(apply_logs(s, logs, 3), 0);
        for (unsigned i = 0; i < 3; i++) {
            model_apply(&m, &logs[i].keys);
            batch_free(&logs[i].keys);
        }
        if (round % 8 == 7) {
            compare_all(s, &m);
            check_clean(s);
        }
        store_close(s);
    }
    assert_true(killed > 0);
    free(m.counters);
}

CASE(workers_that_race_count_each_log_once, d)
{
    struct model m = {.counters = NULL};
    struct log_batch logs[6];
    struct store *s;
    pid_t children[3];

    rng = 5;
    for (uint8_t i = 0; i < 6; i++) {
        log_make(&logs[i], i, 1, 4000, 9000);
        model_apply(&m, &logs[i].keys);
    }

    /* All of them apply all logs: a worst case of what may happen. */
    for (size_t i = 0; i < 3; i++) {
        children[i] = test_fork();
        if (children[i] == 0)
            apply_in_child(d, logs, 6, 1 << (16 + 4 * i));
    }
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(test_wait(children[i]), 0);

    s = open_store(d, 1 << 24, true);
    compare_all(s, &m);
    check_clean(s);
    store_close(s);
    for (size_t i = 0; i < 6; i++)
        batch_free(&logs[i].keys);
    free(m.counters);
}

/* The totals of the view that is kept, or of a new one. */
static int
unmerged_totals(struct store *s, struct store_totals *out)
{
    struct store_query q = {
        .op = STORE_TOTAL, .name = (const uint8_t *)KS_NAME, .name_size = 5};
    const int rc = store_read(s, &q, NULL, 0);

    *out = q.totals;
    return rc;
}

/* In a child: keeps one view, says its sum when asked, then takes another. */
static void
read_in_child(const struct tmpdir *d, int ask, int answer)
{
    struct store *s = open_store(d, 0, false);
    struct store_totals t[2];
    char c;

    if (unmerged_totals(s, &t[0]) < 0 || write(answer, "r", 1) != 1 ||
        read(ask, &c, 1) != 1 || unmerged_totals(s, &t[0]) < 0)
        _exit(1);
    store_read_end(s);
    if (unmerged_totals(s, &t[1]) < 0)
        _exit(1);
    if (write(answer, t, sizeof t) != (ssize_t)sizeof t)
        _exit(1);
    store_close(s);
    _exit(0);
}

CASE(a_view_stays_as_it_was_while_others_merge, d)
{
    struct model before = {.counters = NULL}, after = {.counters = NULL};
    struct store_totals got[2];
    struct log_batch logs[4];
    int ask[2], answer[2];
    struct store *s;
    pid_t child;
    char c;

    rng = 6;
    for (uint8_t i = 0; i < 4; i++) {
        log_make(&logs[i], i, 1, 20000, 100000);
        model_apply(&after, &logs[i].keys);
    }
    model_apply(&before, &logs[0].keys);
    s = open_store(d, 1 << 26, true);
    assert_rc(apply_logs(s, &logs[0], 1), 0);
    store_close(s);
    assert_true(pipe(ask) == 0 && pipe(answer) == 0);
    child = test_fork();
    if (child == 0)
        read_in_child(d, ask[0], answer[1]);
    assert_int_equal(read(answer[0], &c, 1), 1);

    /* This makes the map grow, which the reader must follow. */
    s = open_store(d, 1 << 26, true);
    for (size_t i = 1; i < 4; i++)
        assert_rc(apply_logs(s, &logs[i], 1), 0);
    assert_int_equal(write(ask[1], "?", 1), 1);
    assert_int_equal(read(answer[0], got, sizeof got), sizeof got);
    assert_int_equal(test_wait(child), 0);

    assert_int_equal(got[0].keys, before.count);
    assert_true(got[0].sum == before.sum);
    assert_int_equal(got[1].keys, after.count);
    assert_true(got[1].sum == after.sum);
    compare_all(s, &after);
    store_close(s);
    for (size_t i = 0; i < 4; i++)
        batch_free(&logs[i].keys);
    for (size_t i = 0; i < 2; i++)
        assert_true(close(ask[i]) == 0 && close(answer[i]) == 0);
    free(before.counters);
    free(after.counters);
}

/* Two logs whose records cancel out: one is freed, then the worker dies.  The
 * other is merged again, alone. */
CASE(a_batch_that_sums_to_zero_is_marked_for_each_of_its_logs, d)
{
    struct store *s = open_store(d, 1 << 24, true);
    const struct log_fill logs[2] = {{.uuid = {1}, .epoch = 1},
                                     {.uuid = {2}, .epoch = 1}};
    struct store_mark_info infos[2];
    struct store_delta sum = delta("k", 0);
    struct store_applied applied;

    assert_rc(stored_marks(s, KS_NAME, logs, 2, infos), 0);
    assert_rc(apply_deltas(s, KS, logs, 2, &sum, 1, &applied), 0);

    assert_rc(stored_marks(s, KS_NAME, logs, 2, infos), 0);
    assert_int_equal(infos[0].state, STORE_MARK_DONE);
    assert_int_equal(infos[1].state, STORE_MARK_DONE);
    store_close(s);
}

/* ---- memory ---------------------------------------------------------------- */

#define LANES         8u
#define LANE_KEYS     20000u
#define COMMIT_MEMORY ((size_t)8 << 20)

static size_t
count_allocated(void)
{
    const struct mallinfo2 m = mallinfo2();

    return m.uordblks + m.hblkhd;
}

/* Large commits close their environments, so what is left is the lanes' own. */
CASE(lanes_together_keep_no_more_memory_than_a_commit_has, d)
{
    static struct store_delta deltas[LANE_KEYS];
    static char keys[LANE_KEYS][8];
    struct lmdb_options options = engine_lmdb_options(d->fd);
    struct store *s;
    size_t before;

    for (size_t i = 0; i < LANE_KEYS; i++) {
        (void)snprintf(keys[i], sizeof keys[i], "%07zu", i);
        deltas[i] = delta(keys[i], 1);
    }
    options.txn_memory = COMMIT_MEMORY;
    options.retain_memory = 1 << 20;
    options.lanes = LANES;
    assert_rc(lmdb_store_open(&s, &options), 0);
    before = count_allocated();
    for (unsigned i = 0; i < 4 * LANES; i++) { /* in all lanes */
        char name[8];

        (void)snprintf(name, sizeof name, "ks%u", i);
        assert_rc(stored_apply(s, name, NULL, deltas, LANE_KEYS), 0);
    }
    print_message("%zu then %zu bytes\n", before, count_allocated());
    assert_true(count_allocated() < before + COMMIT_MEMORY + COMMIT_MEMORY / 2);
    store_close(s);
}

/* ---- a process that is writing ------------------------------------------ */

/* In a child: stops inside a write transaction. */
static void
stop_while_writing(const struct tmpdir *d)
{
    struct store *s = open_store(d, 1 << 20, true);
    struct keyspace *k;
    MDB_txn *txn;

    if (keyspace_get(lmdb_of(s), KS, KEYSPACE_FIND, &k) < 0 ||
        keyspace_write(lmdb_of(s), k, &txn) < 0)
        _exit(1);
    (void)raise(SIGSTOP);
    keyspace_abort(k, txn);
    store_close(s);
    _exit(0);
}

CASE(nobody_waits_for_a_process_that_stopped_while_writing, d)
{
    struct store *s = open_store(d, 1 << 20, true);
    const struct log_fill mark = {.uuid = {1}, .epoch = 1};
    const struct store_delta k = delta("k", 5);
    struct store_applied applied;
    struct tmpdir to;
    pid_t child;
    int status;

    assert_rc(apply_one(s, KS_NAME, "k", 1), 0);
    store_close(s);
    child = test_fork();
    if (child == 0)
        stop_while_writing(d);
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));

    s = open_store(d, 1 << 20, true);
    assert_rc(apply_deltas(s, KS, &mark, 1, &k, 1, &applied), -EAGAIN);
    assert_int_equal(applied.holder, child);
    assert_int_equal(get_one(s, KS_NAME, "k"), 1); /* who reads, reads */
    assert_int_equal(mark_state(s, &mark), STORE_MARK_NONE);
    check_clean(s);
    tmpdir_make_in_memory(&to);
    assert_rc(store_copy(s, KS, to.fd), 0);
    tmpdir_remove(&to);

    assert_int_equal(kill(child, SIGCONT), 0);
    assert_int_equal(test_wait(child), 0);
    assert_rc(apply_deltas(s, KS, &mark, 1, &k, 1, &applied), 0);
    assert_int_equal(get_one(s, KS_NAME, "k"), 6);
    store_close(s);
}
