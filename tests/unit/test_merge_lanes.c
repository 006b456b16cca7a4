/* tests/unit/test_merge_lanes.c - a merge of many keyspaces by several threads
 * (store_lane, worker/parallel.h) does what one thread does: each record counts
 * once, sick keyspaces are held, logs that do not agree are merged apart. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/worker_fixture.h"

#include "common/store/lmdb/lmdb_store.h"

#define LANES     4
#define KEYSPACES 100
#define BIG_KEYS  300 /* more than a lane takes */

static void
open_lanes(struct fixture *x)
{
    struct lmdb_options options = engine_lmdb_options(x->dir.keyspace_fd);

    options.open_max = 64;
    options.txn_memory = 4 << 20;
    options.lanes = LANES;
    assert_rc(lmdb_store_open(&x->store, &options), 0);
}

/* A worker with a store of lanes instead of the fixture's. */
static int
set_up(void **state)
{
    struct fixture *x;

    (void)fixture_setup(state);
    x = *state;
    fixture_close_worker(x);
    store_close(x->store);
    open_lanes(x);
    fixture_open_worker(x);
    return 0;
}

#define CASE(name, x) TEST_IN(name, struct fixture *x, set_up, fixture_teardown)

static const char *
name_of(unsigned i, char name[24])
{
    (void)snprintf(name, 24, "keyspace-%u", i);
    return name;
}

/* A full log with `one` in each keyspace, and many keys in the first. */
static struct log_fill
log_of_all(struct fixture *x, uint64_t index)
{
    char name[24], key[16];
    struct filler f;

    filler_open(&f, x->dir.log_fd, index, KEYSPACES + BIG_KEYS);
    for (unsigned i = 0; i < KEYSPACES; i++)
        filler_add(&f, name_of(i, name), "one", 1);
    for (unsigned i = 0; i < BIG_KEYS; i++) {
        (void)snprintf(key, sizeof key, "key-%u", i);
        filler_add(&f, "keyspace-0", key, 1);
    }
    return filler_seal(&f);
}

/* Between these two others can read, as another process would: LMDB must not
 * have a file open twice, so the worker's are closed meanwhile. */
static void
begin_reading(struct fixture *x)
{
    fixture_close_worker(x);
    store_close(x->store);
    x->store = engine_open(x->dir.keyspace_fd);
}

static void
end_reading(struct fixture *x)
{
    store_close(x->store);
    open_lanes(x);
    fixture_open_worker(x);
}

static void
expect_counts(struct fixture *x, int64_t count, unsigned but)
{
    char name[24];

    begin_reading(x);
    for (unsigned i = 0; i < KEYSPACES; i++)
        if (i != but)
            assert_int_equal(count_of(x, name_of(i, name), "one"), count);
    assert_int_equal(count_of(x, "keyspace-0", "key-299"), count);
    end_reading(x);
}

CASE(each_record_of_many_keyspaces_counts_once, x)
{
    log_of_all(x, 0);
    log_of_all(x, 1);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(x->merge.stats.keyspaces, KEYSPACES);
    assert_int_equal(x->merge.stats.keys, KEYSPACES + BIG_KEYS);
    assert_int_equal(x->merge.stats.logs, 2);
    expect_counts(x, 2, KEYSPACES);
}

CASE(logs_that_one_lane_tells_apart_are_merged_one_after_the_other, x)
{
    struct log_fill mark;
    char name[24];

    log_of_all(x, 0);
    mark = log_of_all(x, 1);
    for (unsigned i = 50; i < 60; i++) /* in several lanes */
        assert_rc(stored_add(x->store, name_of(i, name), &mark, "one", 1), 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(x->merge.stats.logs, 1);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(x->merge.stats.logs, 2);
    expect_counts(x, 2, KEYSPACES);
}

CASE(a_sick_keyspace_is_held_and_delays_no_other, x)
{
    tmpdir_put(&x->tmp, "keyspace/keyspace-7.mdb", "no keyspace", 11, 0600);
    log_of_all(x, 0);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(x->merge.stats.held, 1);
    assert_int_equal(x->merge.stats.logs, 1);
    expect_counts(x, 1, 7);
    log_of_all(x, 1);
    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    expect_counts(x, 2, 7);
}

static bool
stop_after_some(void *ctx)
{
    int *left = ctx;

    return --*left < 0;
}

CASE(a_merge_that_is_stopped_goes_on_where_it_was, x)
{
    int left = 5; /* keyspaces of the lane that asks */

    log_of_all(x, 0);
    x->merge.stop = stop_after_some;
    x->merge.stop_ctx = &left;
    assert_int_equal(merge_run(&x->merge), MERGE_STOPPED);
    assert_int_equal(x->merge.stats.logs, 0);
    x->merge.stop = NULL;
    while (merge_run(&x->merge) == MERGE_DONE)
        ;
    assert_int_equal(x->merge.stats.logs, 1);
    expect_counts(x, 1, KEYSPACES);
}

/* ---- quick batches ------------------------------------------------------ */

#define QUICK_LOG 5

/* A log that becomes full while a batch of log 0 is applied. */
struct arrival {
    struct fixture *x;
    unsigned calls;     /* before it comes */
    unsigned keyspaces; /* that have a record in it */
    bool dies;          /* its writer dies before it is sealed */
    bool seen;          /* it was empty while log 0 was not */
    int left;           /* calls before the merge is stopped; -1: it is not */
};

static bool
bring_log(void *ctx)
{
    struct arrival *a = ctx;
    char name[24];
    struct filler f;

    if (a->calls > 0 && --a->calls == 0) {
        filler_open(&f, a->x->dir.log_fd, QUICK_LOG, KEYSPACES);
        for (unsigned i = 0; i < a->keyspaces; i++)
            filler_add(&f, name_of(i, name), "one", 1);
        if (a->dies)
            filler_die(&f);
        else
            filler_seal(&f);
    } else if (a->calls == 0 && mode_of(a->x, QUICK_LOG) == LOG_MODE_EMPTY &&
               mode_of(a->x, 0) != LOG_MODE_EMPTY) {
        a->seen = true;
    }
    if (a->left < 0)
        return false;
    return a->left == 0 || --a->left == 0;
}

/* Merges log 0 of all keyspaces, pausing after each, while `a` comes. */
static enum merge_outcome
merge_with(struct fixture *x, struct arrival *a)
{
    a->x = x;
    log_of_all(x, 0);
    x->merge.slice_ns = 0;
    x->merge.stop = bring_log;
    x->merge.stop_ctx = a;
    return merge_run(&x->merge);
}

CASE(a_log_of_few_keyspaces_does_not_wait_for_a_batch_of_many, x)
{
    struct arrival a = {.calls = 5, .keyspaces = MERGE_QUICK_NAMES, .left = -1};

    assert_int_equal(merge_with(x, &a), MERGE_DONE);
    assert_true(a.seen);
    assert_int_equal(mode_of(x, 0), LOG_MODE_EMPTY);
    assert_int_equal(x->merge.stats.logs, 2);
    assert_int_equal(x->merge.stats.keyspaces, KEYSPACES + MERGE_QUICK_NAMES);
    assert_int_equal(x->merge.stats.records,
                     KEYSPACES + BIG_KEYS + MERGE_QUICK_NAMES);

    begin_reading(x);
    assert_int_equal(count_of(x, "keyspace-63", "one"), 2);
    assert_int_equal(count_of(x, "keyspace-64", "one"), 1);
    end_reading(x);
}

CASE(a_log_that_a_quick_batch_recovers_is_counted_once, x)
{
    struct arrival a = {.calls = 5, .keyspaces = 2, .dies = true, .left = -1};

    assert_int_equal(merge_with(x, &a), MERGE_DONE);
    assert_true(a.seen);
    assert_int_equal(x->merge.stats.recovered, 1);

    assert_int_equal(merge_run(&x->merge), MERGE_IDLE);
    assert_int_equal(x->merge.stats.recovered, 1);
}

CASE(a_log_of_many_keyspaces_waits_for_the_batch_before, x)
{
    struct arrival a = {
        .calls = 5, .keyspaces = MERGE_QUICK_NAMES + 1, .left = -1};

    assert_int_equal(merge_with(x, &a), MERGE_DONE);
    assert_false(a.seen);
    assert_int_equal(mode_of(x, QUICK_LOG), LOG_MODE_FULL);
    assert_int_equal(x->merge.stats.logs, 1);

    assert_int_equal(merge_run(&x->merge), MERGE_DONE);
    assert_int_equal(mode_of(x, QUICK_LOG), LOG_MODE_EMPTY);
    assert_int_equal(x->merge.stats.keyspaces,
                     KEYSPACES + MERGE_QUICK_NAMES + 1);
}

/* Also in the middle of a quick batch. */
CASE(wherever_it_is_stopped_each_record_counts_once, x)
{
    enum { ROUNDS = 40 };
    int stopped = 0;

    for (int round = 1; round <= ROUNDS; round++) {
        struct arrival a = {
            .calls = 3, .keyspaces = KEYSPACES / 2, .left = round * 2 + 2};

        stopped += merge_with(x, &a) == MERGE_STOPPED;
        x->merge.stop = NULL;
        while (merge_run(&x->merge) == MERGE_DONE)
            ;
    }
    assert_in_range(stopped, ROUNDS / 4, ROUNDS - 1); /* the others ended */
    assert_int_equal(x->merge.stats.logs, 2 * ROUNDS);
    begin_reading(x);
    assert_int_equal(count_of(x, "keyspace-0", "key-7"), ROUNDS);
    assert_int_equal(count_of(x, "keyspace-49", "one"), 2 * ROUNDS);
    assert_int_equal(count_of(x, "keyspace-50", "one"), ROUNDS);
    end_reading(x);
}
