/* tests/unit/test_fresh.c - as_of_ms never claims too much. */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/store/lmdb/held_files.h"
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

static void
hold(struct fixture *f, const char *keyspace, uint64_t first_ms, uint64_t epoch)
{
    const struct store_mark mark = {.epoch = epoch, .first_ms = first_ms};
    const struct store_delta delta = {
        .key = (const uint8_t *)"k", .key_size = 1, .sum_low = 1};

    assert_rc(heldfile_put(f->datadir.held_fd, f->datadir.hash_key,
                           (const uint8_t *)keyspace, strlen(keyspace), &mark,
                           &delta, 1),
              0);
}

/* One file for keyspaces "m0", "m1" and so on. */
static void
hold_many(struct fixture *f, uint64_t first_ms, uint64_t epoch,
          unsigned keyspaces)
{
    const struct store_mark mark = {.epoch = epoch, .first_ms = first_ms};
    const struct store_delta delta = {
        .key = (const uint8_t *)"k", .key_size = 1, .sum_low = 1};
    const int fd = f->datadir.held_fd;
    struct held_many_base base;
    struct held_out *out;
    char name[16];

    assert_rc(heldfile_many_begin(&out, fd, &mark, keyspaces, &base), 0);
    for (unsigned i = 0; i < keyspaces; i++) {
        (void)snprintf(name, sizeof name, "m%u", i); /* it fits */
        assert_rc(heldfile_many_add(out, (const uint8_t *)name, strlen(name),
                                    &delta, 1),
                  0);
    }
    assert_rc(heldfile_many_end(out, fd, &mark, 0, true), 0);
    assert_rc(heldfile_many_publish(fd, &mark, &base), 0);
}

static int
remove_held(void *ctx, const char *file, const struct heldfile *h)
{
    struct fixture *f = ctx;

    (void)h; /* whichever */
    return heldfile_remove(f->datadir.held_fd, file);
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

    filler_empty(f->datadir.log_fd, 1);
    assert_int_equal(as_of(f, "words"), now - 3001);
    filler_empty(f->datadir.log_fd, 0);
    assert_int_equal(as_of(f, "words"), now - 1001);
    filler_seal(&log);
    filler_empty(f->datadir.log_fd, 2);
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

    assert_rc(heldfile_each(f->datadir.held_fd, remove_held, f), 0);
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

static void
a_held_file_for_many_keyspaces_holds_back_those_it_names(void **state)
{
    struct fixture *f = *state;
    const uint64_t now = clock_unix_ms();

    hold_many(f, now - 5000, 1, 2);
    hold_many(f, now - 7000, 2, 1);

    assert_int_equal(as_of(f, "m0"), now - 7001);
    assert_int_equal(as_of(f, "m1"), now - 5001);
    assert_int_equal(as_of(f, ""), now - 7001);
    expect_now(f, "words");

    /* More than are kept: it may be any. */
    hold_many(f, now - 9000, 3, FRESH_HELD_MAX + 1);
    assert_int_equal(as_of(f, "words"), now - 9001);
    assert_rc(heldfile_each(f->datadir.held_fd, remove_held, f), 0);
    expect_now(f, "words");
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
    filler_empty(f->datadir.log_fd, 0);
    expect_now(f, "words");
}

static void
a_newer_log_does_not_hide_one_of_before_the_clock_was_set_back(void **state)
{
    struct fixture *f = *state;
    const uint64_t before = as_of(f, "words");
    struct filler ahead, newer;

    begin_log(f, &ahead, 0, clock_unix_ms() + 3600000); /* then set back */
    filler_seal(&ahead);
    begin_log(f, &newer, 1, clock_unix_ms() + 5000);
    fault_clock(10000);

    assert_int_equal(as_of(f, "words"), before);
    filler_seal(&newer);
    filler_empty(f->datadir.log_fd, 1);
    assert_int_equal(as_of(f, "words"), before);
    filler_empty(f->datadir.log_fd, 0);
    expect_now(f, "words");
}

static void
a_log_of_before_the_clock_was_set_back_counts_when_its_time_comes_again(
    void **state)
{
    struct fixture *f = *state;
    const uint64_t before = as_of(f, "words");
    struct filler ahead;

    begin_log(f, &ahead, 0, clock_unix_ms() + 5000); /* then set back */
    filler_seal(&ahead);
    assert_int_equal(as_of(f, "words"), before);

    fault_clock(10000);
    assert_int_equal(as_of(f, "words"), before);
    filler_empty(f->datadir.log_fd, 0);
    expect_now(f, "words");
}

/* Its own time tells the reader, where no stamp is in the future. */
static void
a_reader_notices_that_the_clock_was_set_back(void **state)
{
    struct fixture *f = *state;
    const uint64_t first = clock_unix_ms() + 2000;
    struct filler older, newer;

    fault_clock(10000);
    begin_log(f, &older, 0, first);
    filler_seal(&older);
    begin_log(f, &newer, 1, first + 3000);
    filler_seal(&newer);
    assert_int_equal(as_of(f, "words"), first - 1);

    fault_clock(7000); /* set back, by less than the logs are old */
    assert_int_equal(as_of(f, "words"), first - 1);
    filler_empty(f->datadir.log_fd, 0);
    assert_int_equal(as_of(f, "words"), first - 1);
    filler_empty(f->datadir.log_fd, 1);
    expect_now(f, "words");
}

static void
a_look_is_not_good_for_another_clock(void **state)
{
    struct fixture *f = *state;

    assert_true(as_of(f, "words") > 0);
    fault_clock(-3600000);

    fresh_look(&f->fresh, f->now_ms);

    assert_true((uint64_t)fresh_as_of(&f->fresh, (const uint8_t *)"words", 5) <=
                clock_unix_ms());
}

/* Nobody looked while the clock was ahead and came round again. */
static void
an_old_claim_of_a_clock_ahead_is_not_kept(void **state)
{
    struct fixture *f = *state;
    struct filler ahead, later;
    uint64_t first;

    fault_clock(3600000);
    assert_true(as_of(f, "words") > 0);
    fault_clock(0); /* set back */
    begin_log(f, &ahead, 0, clock_unix_ms() + 7200000);
    first = clock_unix_ms() + 1800000;
    begin_log(f, &later, 1, first);
    fault_clock(3700000);

    assert_int_equal(as_of(f, "words"), first - 1);
    filler_die(&ahead);
    filler_die(&later);
}

static void
held_records_of_a_clock_that_was_set_back_are_not_claimed(void **state)
{
    struct fixture *f = *state;

    hold(f, "ahead", clock_unix_ms() + 3600000, 1);
    hold(f, "ahead", clock_unix_ms(), 2);

    assert_int_equal(as_of(f, "ahead"), 0);
    assert_int_equal(as_of(f, ""), 0); /* all keyspaces */
    expect_now(f, "words");

    assert_rc(heldfile_each(f->datadir.held_fd, remove_held, f), 0);
    expect_now(f, "ahead");
}

static int
make_newer(void *ctx, const char *file, const struct heldfile *h)
{
    const uint8_t version[4] = {2};
    struct fixture *f = ctx;
    int fd = openat(f->datadir.held_fd, file, O_WRONLY | O_CLOEXEC);

    (void)h; /* whichever */
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, version, sizeof version, 8), sizeof version);
    assert_int_equal(close(fd), 0);
    return 0;
}

/* Whose they are and how old, only the newer version can tell. */
static void
held_records_of_a_newer_version_hold_back_all_keyspaces(void **state)
{
    struct fixture *f = *state;

    hold(f, "newer", clock_unix_ms() - 1000, 1);
    assert_rc(heldfile_each(f->datadir.held_fd, make_newer, f), 0);

    assert_int_equal(as_of(f, "newer"), 0);
    assert_int_equal(as_of(f, "words"), 0);
    assert_int_equal(as_of(f, ""), 0);

    assert_rc(heldfile_each(f->datadir.held_fd, remove_held, f), 0);
    expect_now(f, "words");
}

/* ---- what a look costs ------------------------------------------------- */

/* System calls of a look one second later. */
static unsigned
calls_of_a_look(struct fixture *f)
{
    unsigned calls;

    fault_clear(); /* counts from here */
    fault_clock(1000);
    (void)as_of(f, "words"); /* what it says is looked at elsewhere */
    calls = fault_calls("disk");
    fault_clear();
    return calls;
}

static void
held_files_are_read_again_only_when_they_are_others(void **state)
{
    struct fixture *f = *state;
    const uint64_t now = clock_unix_ms();
    unsigned without;
    char name[32];

    without = calls_of_a_look(f);
    for (int i = 0; i < 50; i++) {
        (void)snprintf(name, sizeof name, "k%d", i); /* it fits */
        hold(f, name, now - 10000, 1);
    }
    assert_in_range(calls_of_a_look(f), without + 50, UINT_MAX);
    assert_in_range(calls_of_a_look(f), 1, without);
    assert_int_equal(as_of(f, "k7"), now - 10001);

    hold(f, "k7", now - 20000, 2);
    assert_int_equal(as_of(f, "k7"), now - 20001);
    assert_rc(heldfile_each(f->datadir.held_fd, remove_held, f), 0);
    expect_now(f, "k7");
}

/* Within one tick of the kernel's clock the directory keeps its time. */
static void
a_change_right_behind_another_is_seen(void **state)
{
    struct fixture *f = *state;
    const uint64_t now = clock_unix_ms();

    for (uint64_t i = 1; i <= 200; i++) {
        hold(f, "busy", now - 10000 - i, i);
        assert_int_equal(as_of(f, "busy"), now - 10001 - i);
    }
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static const struct CMUnitTest tests[] = {
    CASE(with_nothing_unmerged_it_is_now),
    CASE(an_increment_in_an_open_log_holds_it_back),
    CASE(the_oldest_log_that_is_not_merged_counts),
    CASE(a_quarantined_log_does_not_hold_it_back),
    CASE(records_held_for_one_keyspace_hold_back_that_one_only),
    CASE(held_keyspaces_beyond_those_kept_are_not_forgotten),
    CASE(a_held_file_for_many_keyspaces_holds_back_those_it_names),
    CASE(a_look_is_good_for_some_milliseconds),
    CASE(whatever_fails_it_claims_no_more_than_is_true),
    CASE(before_the_first_look_worked_it_claims_nothing),
    CASE(increments_of_a_clock_that_was_set_back_are_not_claimed),
    CASE(a_newer_log_does_not_hide_one_of_before_the_clock_was_set_back),
    CASE(
        a_log_of_before_the_clock_was_set_back_counts_when_its_time_comes_again),
    CASE(a_reader_notices_that_the_clock_was_set_back),
    CASE(a_look_is_not_good_for_another_clock),
    CASE(an_old_claim_of_a_clock_ahead_is_not_kept),
    CASE(held_records_of_a_clock_that_was_set_back_are_not_claimed),
    CASE(held_records_of_a_newer_version_hold_back_all_keyspaces),
    CASE(held_files_are_read_again_only_when_they_are_others),
    CASE(a_change_right_behind_another_is_seen),
};

TEST_MAIN(tests)
