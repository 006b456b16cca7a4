/* tests/unit/test_drain.c - what is held is applied when its keyspace can take
 * it: in order, exactly once, and without taking the time of logs that wait. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/commit_fixture.h"

#include <sys/wait.h>

#define MS UINT64_C(1000000)

#define CASE(name, x)                                                          \
    TEST_IN(name, struct fixture *x, fixture_setup, fixture_teardown)

static struct store_fill
mark(uint8_t log, uint64_t epoch)
{
    return (struct store_fill){.uuid = {log}, .epoch = epoch, .first_ms = 5};
}

/* Holds "one" += sum for a keyspace, under one mark. */
static void
hold(struct fixture *x, const char *name, struct store_fill m, int64_t sum)
{
    const struct store_delta d = {.key = (const uint8_t *)"one",
                                  .key_size = 3,
                                  .sum_high = sum < 0 ? -1 : 0,
                                  .sum_low = (uint64_t)sum};
    const struct store_batch b = {.name = (const uint8_t *)name,
                                  .name_size = strlen(name),
                                  .marks = &m,
                                  .mark_count = 1,
                                  .deltas = &d,
                                  .delta_count = 1};

    assert_rc(held_refresh(x->held), 0);
    assert_rc(held_begin(x->held), 0);
    assert_rc(held_put(x->held, &b, -EBADMSG), 0);
    assert_rc(held_commit(x->held), 0);
    drain_held(&x->drain);
}

static uint64_t
now(void)
{
    return fixture_ns / MS;
}

/* Each step of the store takes a while by the tests' clock. */
static void
take_time(void *ctx)
{
    fixture_ns += *(const uint64_t *)ctx;
}

/* ---- applying ---------------------------------------------------------- */

CASE(without_anything_held_there_is_nothing_to_do, x)
{
    assert_true(drain_run(&x->drain, false) == UINT64_MAX);
    assert_true(drain_run(&x->drain, true) == UINT64_MAX);
    assert_false(tmpdir_has(&x->tmp, HELD_FOLDER));
}

CASE(records_are_applied_in_the_order_in_which_they_were_held, x)
{
    unsigned i;

    for (i = 1; i <= 100; i++) { /* as marks go, the last one counts */
        hold(x, "a", mark(1, i), 1);
        hold(x, "b", mark(1, i), 10);
    }

    drain_dry(x);

    assert_int_equal(count_of(x, "a", "one"), 100);
    assert_int_equal(count_of(x, "b", "one"), 1000);
    assert_int_equal(held_count(x), 0);
    assert_int_equal(x->drain.stats.records, 200);
    assert_true(drain_run(&x->drain, false) == UINT64_MAX);
}

/* In: as after a crash between applying and deleting.  Whoever applied a later
 * fill may have passed the record. */
CASE(what_is_in_already_decides_of_a_record, x)
{
    static const struct {
        const char *text;
        struct store_fill held[3], in[3]; /* epoch 0 ends */
        bool stays;                       /* with all behind it */
    } cases[] = {
#define MARK(log, number) {.uuid = {log}, .epoch = number, .first_ms = 5}
        {"it is in", {MARK(1, 1)}, {MARK(1, 1)}, false},
        {"a later fill is", {MARK(1, 3)}, {MARK(1, 9)}, true},
        {"a later fill of one log is",
         {MARK(1, 2), MARK(2, 1), MARK(3, 1)},
         {MARK(1, 2), MARK(2, 2), MARK(3, 1)},
         true},
        {"one of its logs is", {MARK(1, 1), MARK(2, 1)}, {MARK(1, 1)}, true}};
    enum { COUNT = sizeof cases / sizeof *cases };
    uint64_t left = 0;

    for (size_t i = 0; i < COUNT; i++) {
        const char name[2] = {(char)('d' + i)};
        size_t logs = 0;

        while (logs < 3 && cases[i].held[logs].epoch != 0)
            logs++;
        held_by_another(x, name, cases[i].held, logs);
        hold(x, name, mark(9, 1), 5);
        for (size_t k = 0; k < 3 && cases[i].in[k].epoch != 0; k++)
            assert_rc(stored_add(x->store, name, &cases[i].in[k], "one", 7), 0);
    }
    hold(x, "b", mark(9, 1), 5);

    drain_dry(x);

    for (size_t i = 0; i < COUNT; i++) {
        const char name[2] = {(char)('d' + i)};
        int64_t count = cases[i].stays ? 0 : 5;

        for (size_t k = 0; k < 3 && cases[i].in[k].epoch != 0; k++)
            count += 7;
        if (count_of(x, name, "one") != count)
            fail_msg("%s: %lld, not %lld", cases[i].text,
                     (long long)count_of(x, name, "one"), (long long)count);
        left += cases[i].stays ? 2 : 0;
    }
    assert_int_equal(count_of(x, "b", "one"), 5);
    assert_int_equal(held_count(x), left);
    assert_true(x->drain.stats.damaged > 0);
}

CASE(a_record_that_is_in_partly_goes_on_where_it_was, x)
{
    const struct store_fill m = full_log(x, 0);

    filler_empty(x->dir.log_fd, 0);
    held_by_another(x, "a", &m, 1);
    had_one_key(x, &m);

    drain_dry(x);
    assert_int_equal(count_of(x, "a", "one"), 1);
    assert_int_equal(count_of(x, "a", "two"), 2);
    assert_int_equal(held_count(x), 0);
}

/* ---- what cannot be applied --------------------------------------------- */

CASE(a_sick_keyspace_does_not_hold_up_others, x)
{
    unsigned i;

    refuse("b", -EBADMSG);
    for (i = 1; i <= 3; i++) {
        hold(x, "a", mark(1, i), 1);
        hold(x, "b", mark(1, i), 10);
        hold(x, "c", mark(1, i), 100);
    }

    drain_dry(x);

    assert_int_equal(count_of(x, "a", "one"), 3);
    assert_int_equal(count_of(x, "c", "one"), 300);
    assert_int_equal(held_count(x), 3);

    refuse("b", 0);
    drain_dry(x);
    assert_int_equal(count_of(x, "b", "one"), 30);
    assert_int_equal(held_count(x), 0);
}

CASE(a_sick_keyspace_is_tried_less_and_less_often_up_to_once_a_minute, x)
{
    uint64_t due, wait = DRAIN_RETRY_FIRST_MS;
    unsigned before, i;

    refuse("a", -EBADMSG);
    hold(x, "a", mark(1, 1), 1);
    due = drain_run(&x->drain, false);
    assert_int_equal(store_faults_applies("a"), 1);
    for (i = 0; i < 14; i++) {
        const uint64_t from = now();

        before = store_faults_applies("a");
        while (store_faults_applies("a") == before) {
            assert_true(due <= now() + DRAIN_POLL_MS);
            fixture_ns = due * MS;
            due = drain_run(&x->drain, false);
        }
        assert_true(now() - from >= wait);
        assert_true(now() - from <= wait + DRAIN_POLL_MS);
        wait = 2 * wait < DRAIN_RETRY_MOST_MS ? 2 * wait : DRAIN_RETRY_MOST_MS;
    }
    assert_int_equal(wait, DRAIN_RETRY_MOST_MS);
}

CASE(a_keyspace_that_came_to_be_held_does_not_wait_for_a_sick_one, x)
{
    refuse("a", -EBADMSG);
    hold(x, "a", mark(1, 1), 1);
    fixture_ns = drain_run(&x->drain, false) * MS;
    drain_run(&x->drain, false);

    hold(x, "b", mark(1, 1), 1);
    drain_run(&x->drain, false);

    assert_int_equal(count_of(x, "b", "one"), 1);
}

/* As a backup has it that was made while a keyspace was dropped. */
CASE(what_was_dropped_does_not_come_back_out_of_what_is_held, x)
{
    static const struct store_key keys[] = {{(const uint8_t *)"one", 3},
                                            {(const uint8_t *)"two", 3}};
    const struct store_fill mark = {.uuid = {1}, .epoch = 1, .first_ms = 1};
    uint64_t deleted;

    assert_rc(had(x, "a", &mark), 0);
    held_by_another(x, "a", &mark, 1);
    assert_rc(store_del(x->store, (const uint8_t *)"a", 1, keys, 2, &deleted),
              0);
    assert_int_equal(deleted, 2);

    while (merge_maintain(&x->merge, UINT64_MAX))
        ;
    drain_dry(x);

    assert_int_equal(held_count(x), 0);
    assert_int_equal(count_of(x, "a", "one"), INT64_MIN);
}

/* Fills and merges logs 0 and 1 with one record for each of `names` keyspaces
 * and leaves the next fill of each log begun, as idle logs are. */
static void
merge_names(struct fixture *x, unsigned names)
{
    struct filler f[2];

    for (unsigned log = 0; log < 2; log++)
        filler_open(&f[log], x->dir.log_fd, log, names);
    for (unsigned i = 0; i < names; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "ks%u", i);
        filler_add(&f[i % 2], name, "k", 1);
    }
    for (unsigned log = 0; log < 2; log++)
        filler_seal(&f[log]);
    while (merge_run(&x->merge) == MERGE_DONE)
        ;
    for (unsigned log = 0; log < 2; log++) {
        filler_open(&f[log], x->dir.log_fd, log, names);
        filler_die(&f[log]);
    }
}

/* Takes the worker's next pass over the keyspaces. */
static void
maintain_all(struct fixture *x)
{
    fault_pass_ns(60000 * MS);
    while (merge_maintain(&x->merge, UINT64_MAX))
        ;
}

CASE(dropped_keyspaces_go_while_their_logs_are_idle, x)
{
    enum { NAMES = 300 };

    merge_names(x, NAMES);
    assert_true(tmpdir_has(&x->tmp, "keyspace/merged"));
    assert_int_equal(tmpdir_count(&x->tmp, "keyspace"), 2 * NAMES + 1);
    for (unsigned i = 1; i < NAMES; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "ks%u", i);
        assert_rc(store_drop(x->store, (const uint8_t *)name, strlen(name)), 0);
    }

    maintain_all(x);

    assert_int_equal(tmpdir_count(&x->tmp, "keyspace"), 2 + 1);
    assert_int_equal(count_of(x, "ks0", "k"), 1);
}

CASE(a_keyspace_with_held_records_keeps_its_file, x)
{
    const struct store_fill later = {.uuid = {1}, .epoch = 1, .first_ms = 1};

    merge_names(x, 2);
    assert_rc(store_drop(x->store, (const uint8_t *)"ks1", 3), 0);
    held_by_another(x, "ks1", &later, 1);

    maintain_all(x);
    assert_true(tmpdir_has(&x->tmp, "keyspace/ks1.mdb"));

    drain_dry(x);
    assert_int_equal(count_of(x, "ks1", "one"), 100);
}

CASE(what_another_process_drains_is_left_to_it, x)
{
    int ready[2], go[2];
    pid_t pid;
    char c;

    hold(x, "a", mark(1, 1), 1);
    hold(x, "b", mark(1, 1), 1);
    assert_int_equal(pipe(ready), 0);
    assert_int_equal(pipe(go), 0);
    fixture_close_worker(x); /* LMDB does not bear a fork */
    pid = fork();
    if (pid == 0) {
        fixture_open_worker(x);
        if (held_refresh(x->held) < 0 ||
            held_lock(x->held, (const uint8_t *)"a", 1) < 0)
            _exit(1);
        (void)!write(ready[1], "", 1);
        (void)close(go[1]);
        (void)!read(go[0], &c, 1);
        _exit(0);
    }
    assert_true(pid > 0);
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    fixture_open_worker(x);

    assert_int_equal(drain_run(&x->drain, false), now() + DRAIN_BUSY_MS);
    assert_int_equal(count_of(x, "a", "one"), INT64_MIN);
    assert_int_equal(count_of(x, "b", "one"), 1);

    (void)close(go[0]);
    (void)close(go[1]);
    (void)close(ready[0]);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    drain_dry(x);
    assert_int_equal(count_of(x, "a", "one"), 1);
}

/* ---- time -------------------------------------------------------------- */

CASE(while_logs_wait_it_takes_a_fifth_of_the_time_and_never_nothing, x)
{
    static uint64_t step = 1 * MS;
    uint64_t merged = 0, drained = 0;
    unsigned i;

    for (i = 1; i <= 400; i++)
        hold(x, "a", mark(1, i), 1);
    store_faults_hook(take_time, &step);

    for (i = 0; i < 100; i++) {
        const uint64_t since = fixture_ns;
        const int64_t before = count_of(x, "a", "one");

        drain_run(&x->drain, true);
        drained += fixture_ns - since;
        if (i % 10 == 0)
            assert_true(count_of(x, "a", "one") > before || i > 0);
        drain_merged(&x->drain, 10 * MS);
        merged += 10 * MS;
        assert_true(drained <= merged / 4 + 2 * step);
    }
    assert_true(drained >= merged / 5);
    assert_int_equal(count_of(x, "a", "one"), drained / step);
}

CASE(without_waiting_logs_it_looks_up_after_a_slice_and_when_told_to_stop, x)
{
    static uint64_t step = 1 * MS;
    unsigned i;

    for (i = 1; i <= 100; i++)
        hold(x, "a", mark(1, i), 1);
    store_faults_hook(take_time, &step);

    assert_true(drain_run(&x->drain, false) <= now());
    assert_int_equal(count_of(x, "a", "one"), DRAIN_SLICE_NS / step);
    while (drain_run(&x->drain, false) <= now())
        ;
    assert_int_equal(count_of(x, "a", "one"), 100);
}

static bool
always(void *ctx)
{
    (void)ctx; /* nothing to ask */
    return true;
}

CASE(told_to_stop_it_ends_behind_the_record_under_way, x)
{
    unsigned i;

    for (i = 1; i <= 10; i++)
        hold(x, "a", mark(1, i), 1);
    x->drain.stop = always;

    drain_run(&x->drain, false);

    assert_int_equal(count_of(x, "a", "one"), 1);
    assert_int_equal(held_count(x), 9);
}

/* A pass that could apply nothing took time from nobody but itself. */
CASE(a_pass_in_vain_is_followed_by_a_longer_rest, x)
{
    static uint64_t step = 1000 * MS;
    uint64_t since, due;

    refuse("a", -EBADMSG);
    hold(x, "a", mark(1, 1), 1);
    store_faults_hook(take_time, &step);
    since = now();

    do
        due = drain_run(&x->drain, false);
    while (due <= now());

    assert_true(now() > since);
    assert_true(due - now() >= 4 * (now() - since));
}

/* Names that share a place wait for each other, but for no longer than a sick
 * one is not tried. */
CASE(every_one_of_many_keyspaces_gets_its_turn, x)
{
    enum { NAMES = 120 };
    char name[16];
    unsigned i;

    for (i = 0; i < NAMES; i++) {
        (void)snprintf(name, sizeof name, "k%u", i); /* fits */
        refuse(name, -EBADMSG);
        hold(x, name, mark(1, 1), 1);
    }
    for (i = 0; i < 10; i++)
        fixture_ns = (drain_run(&x->drain, false) + 1) * MS;
    for (i = 0; i < NAMES; i++) {
        (void)snprintf(name, sizeof name, "k%u", i); /* fits */
        if (i % 2)
            refuse(name, 0);
    }

    drain_dry(x);

    assert_int_equal(held_count(x), NAMES / 2);
}

/* ---- any failing call -------------------------------------------------- */

CASE(any_failing_call_loses_and_doubles_nothing, x)
{
    const struct store_fill other = mark(2, 1);
    bool hit = true;
    unsigned n;

    hold(x, "a", other, 0); /* it is there */
    drain_dry(x);
    for (n = 1; hit; n++) {
        assert_true(n < 300);
        hold(x, "a", mark(1, n), 1);
        fixture_close_worker(x);
        fixture_open_worker(x);

        fault_inject(n % 2 ? "disk" : "memory", n / 2 + 1,
                     n % 2 ? EIO : ENOMEM);
        (void)drain_run(&x->drain, false); /* whatever it says */
        hit = fault_hit() || n % 2 == 0;
        fault_clear();
        drain_dry(x);

        assert_int_equal(count_of(x, "a", "one"), n);
        assert_int_equal(held_count(x), 0);
    }
    assert_true(n > 4);
}
