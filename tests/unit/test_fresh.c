/* tests/unit/test_fresh.c - as_of_ms never claims too much. */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/held.h"
#include "reader/fresh.h"
#include "tests/lib/fault.h"
#include "tests/lib/filler.h"
#include "tests/lib/tmpdir.h"

struct fixture {
    struct tmpdir dir;
    struct datadir datadir;
    struct layout layout;
    struct fresh fresh;
    uint64_t now_ms; /* monotonic, as the loop would say; the test's own */
};

static int
setup(void **state)
{
    static struct fixture f;

    f = (struct fixture){.now_ms = 1000};
    tmpdir_make(&f.dir);
    assert_rc(datadir_open(&f.datadir, f.dir.path, DATADIR_WRITE), 0);
    assert_rc(layout_init(&f.layout, 256, 256), 0);
    assert_rc(fresh_init(&f.fresh, &f.datadir, &f.layout, 1 << 20), 0);
    *state = &f;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *f = *state;

    fault_clear();
    fresh_fini(&f->fresh);
    datadir_close(&f->datadir);
    tmpdir_remove(&f->dir);
    return 0;
}

/* As of a new look. */
static uint64_t
as_of(struct fixture *f, const char *keyspace)
{
    f->now_ms += 1000;
    fresh_look(&f->fresh, f->now_ms);
    return (uint64_t)fresh_as_of(&f->fresh, (const uint8_t *)keyspace,
                                 strlen(keyspace));
}

static void
expect_now(struct fixture *f, const char *keyspace)
{
    const uint64_t before = clock_unix_ms();
    const uint64_t got = as_of(f, keyspace);

    assert_in_range(got, before, clock_unix_ms());
}

/* Log `index` with two increments, the first received at `first_ms`. */
static void
begin_log(struct fixture *f, struct filler *log, uint64_t index,
          uint64_t first_ms)
{
    filler_open(log, f->datadir.log_fd, index, 10);
    log->received_ms = first_ms;
    filler_add(log, "words", "the", 1);
    log->received_ms = first_ms + 500;
    filler_add(log, "words", "cat", 1);
}

/* As a worker does when all of it is merged. */
static void
empty_log(struct fixture *f, uint64_t index)
{
    struct log log;

    assert_rc(log_claim(&log, f->datadir.log_fd, index, LOG_MODE_FULL), 0);
    assert_rc(log_empty(&log), 0);
    assert_rc(log_release(&log), 0);
}

static void
hold(struct fixture *f, const char *keyspace, uint64_t first_ms, uint64_t epoch)
{
    const struct store_mark mark = {.epoch = epoch};
    const struct store_delta delta = {
        .key = (const uint8_t *)"k", .key_size = 1, .sum_low = 1};

    assert_rc(held_put(f->datadir.held_fd, f->datadir.hash_key,
                       (const uint8_t *)keyspace, strlen(keyspace), &mark,
                       first_ms, &delta, 1),
              0);
}

static int
remove_held(void *ctx, const char *file, const struct held *h)
{
    struct fixture *f = ctx;

    (void)h; /* whichever */
    return held_remove(f->datadir.held_fd, file);
}

/* ---- logs -------------------------------------------------------------- */

static void
with_nothing_unmerged_it_is_now(void **state)
{
    struct fixture *f = *state;
    struct filler log;

    expect_now(f, "words");

    filler_open(&log, f->datadir.log_fd, 0, 10); /* open, and empty */
    expect_now(f, "words");
    filler_die(&log);
}

static void
an_increment_in_an_open_log_holds_it_back(void **state)
{
    struct fixture *f = *state;
    const uint64_t first = clock_unix_ms() - 5000;
    struct filler log;

    begin_log(f, &log, 0, first);

    assert_int_equal(as_of(f, "words"), first - 1);
    assert_int_equal(as_of(f, "another"), first - 1);
    filler_die(&log);
    assert_int_equal(as_of(f, "words"), first - 1);
}

static void
the_oldest_log_that_is_not_merged_counts(void **state)
{
    struct fixture *f = *state;
    const uint64_t now = clock_unix_ms();
    struct filler log;

    begin_log(f, &log, 0, now - 3000);
    filler_seal(&log);
    begin_log(f, &log, 1, now - 7000);
    filler_seal(&log);
    begin_log(f, &log, 2, now - 1000);
    assert_int_equal(as_of(f, "words"), now - 7001);

    empty_log(f, 1);
    assert_int_equal(as_of(f, "words"), now - 3001);
    empty_log(f, 0);
    assert_int_equal(as_of(f, "words"), now - 1001);
    filler_seal(&log);
    empty_log(f, 2);
    expect_now(f, "words");
}

static void
a_quarantined_log_does_not_hold_it_back(void **state)
{
    struct fixture *f = *state;
    struct filler filler;
    struct log log;

    begin_log(f, &filler, 0, clock_unix_ms() - 5000);
    filler_seal(&filler);
    assert_rc(log_claim(&log, f->datadir.log_fd, 0, LOG_MODE_FULL), 0);
    assert_rc(log_quarantine(&log), 0);

    expect_now(f, "words");
}

/* ---- held records ------------------------------------------------------ */

static void
records_held_for_one_keyspace_hold_back_that_one_only(void **state)
{
    struct fixture *f = *state;
    const uint64_t now = clock_unix_ms();

    hold(f, "broken", now - 4000, 1);
    hold(f, "broken", now - 9000, 2);
    hold(f, "full", now - 2000, 1);

    assert_int_equal(as_of(f, "broken"), now - 9001);
    assert_int_equal(as_of(f, "full"), now - 2001);
    assert_int_equal(as_of(f, ""), now - 9001); /* all keyspaces */
    expect_now(f, "words");

    assert_rc(held_each(f->datadir.held_fd, remove_held, f), 0);
    expect_now(f, "broken");
}

static void
held_keyspaces_beyond_those_kept_are_not_forgotten(void **state)
{
    struct fixture *f = *state;
    const uint64_t now = clock_unix_ms();
    char name[32];

    for (int i = 0; i < FRESH_HELD_MAX + 20; i++) {
        (void)snprintf(name, sizeof name, "k%d", i); /* it fits */
        hold(f, name, now - 10000 - (uint64_t)i, 1);
    }

    for (int i = 0; i < FRESH_HELD_MAX + 20; i++) {
        (void)snprintf(name, sizeof name, "k%d", i); /* as above */
        assert_true(as_of(f, name) < now - 10000 - (uint64_t)i);
    }
}

/* ---- when it is looked, and when that fails ---------------------------- */

static void
a_look_is_good_for_some_milliseconds(void **state)
{
    struct fixture *f = *state;
    const uint64_t first = clock_unix_ms() - 5000;
    const uint64_t before = as_of(f, "words");
    struct filler log;

    begin_log(f, &log, 0, first);
    filler_seal(&log);

    fresh_look(&f->fresh, f->now_ms + FRESH_AGE_MS - 1);
    assert_int_equal(fresh_as_of(&f->fresh, NULL, 0), before);
    fresh_look(&f->fresh, f->now_ms + 200);
    assert_int_equal(fresh_as_of(&f->fresh, NULL, 0), first - 1);
}

static void
whatever_fails_it_claims_no_more_than_is_true(void **state)
{
    struct fixture *f = *state;
    const uint64_t now = clock_unix_ms();
    struct filler open;
    bool hit = true;
    uint64_t got;

    begin_log(f, &open, 0, now - 6000);
    filler_seal(&open);
    begin_log(f, &open, 1, now - 5000);
    hold(f, "broken", now - 8000, 1);

    for (unsigned n = 1; hit; n++) {
        fault_inject("disk", n, EIO);
        got = as_of(f, "broken");
        hit = fault_hit();
        fault_clear();
        assert_true(hit ? got < now - 8000 : got == now - 8001);
        assert_true(as_of(f, "words") == now - 6001);
    }
    for (unsigned n = 1; n < 30; n++) {
        fault_inject("disk", n, EIO);
        assert_true(as_of(f, "words") < now - 6000);
        fault_clear();
    }
    filler_die(&open);
}

static void
before_the_first_look_worked_it_claims_nothing(void **state)
{
    struct fixture *f = *state;

    fault_inject_from("disk", 1, EIO);
    assert_int_equal(as_of(f, "words"), 0);
    fault_clear();

    expect_now(f, "words");
}

static void
increments_of_a_clock_that_was_set_back_are_not_claimed(void **state)
{
    struct fixture *f = *state;
    struct filler log;
    uint64_t before;

    before = as_of(f, "words");
    begin_log(f, &log, 0, clock_unix_ms() + 3600000); /* then set back */

    assert_int_equal(as_of(f, "words"), before);
    fault_clock(-1800000);
    assert_int_equal(as_of(f, "words"), 0); /* that claim is future now */

    filler_seal(&log);
    empty_log(f, 0);
    expect_now(f, "words");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static const struct CMUnitTest tests[] = {
    CASE(with_nothing_unmerged_it_is_now),
    CASE(an_increment_in_an_open_log_holds_it_back),
    CASE(the_oldest_log_that_is_not_merged_counts),
    CASE(a_quarantined_log_does_not_hold_it_back),
    CASE(records_held_for_one_keyspace_hold_back_that_one_only),
    CASE(held_keyspaces_beyond_those_kept_are_not_forgotten),
    CASE(a_look_is_good_for_some_milliseconds),
    CASE(whatever_fails_it_claims_no_more_than_is_true),
    CASE(before_the_first_look_worked_it_claims_nothing),
    CASE(increments_of_a_clock_that_was_set_back_are_not_claimed),
};

TEST_MAIN(tests)
