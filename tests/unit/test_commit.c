/* tests/unit/test_commit.c - a keyspace whose disk fails in the middle of a
 * commit: whatever LMDB's call it was, and whether it did its work before it
 * failed or not, each log counts once.
 *
 * The calls LMDB makes are seen here because this program defines them: a
 * shared library takes pwrite from the program when that has one. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "tests/lib/counted.h"
#include "tests/lib/stored.h"

/* Failing calls do nothing, or the first of them does its work. */
enum how { BEFORE, AFTER };

static struct {
    bool armed;
    unsigned left;
    enum how how;
    unsigned hits;
    unsigned most; /* times it may fail */
    bool syncs;    /* only they count, and fail */
} fault;

/* Counts a call; true when it is to fail. */
static bool
is_to_fail(bool sync)
{
    if (!fault.armed || fault.hits == fault.most || (fault.syncs && !sync))
        return false;
    if (fault.left > 1) {
        fault.left--;
        return false;
    }
    fault.hits++;
    return true;
}

static long
run_call(bool sync, long number, int fd, long a, long b, long c)
{
    const bool fail = is_to_fail(sync);
    long done = 0;

    if (!fail || (fault.how == AFTER && fault.hits == 1))
        done = syscall(number, (long)fd, a, b, c);
    if (!fail)
        return done;
    errno = EIO;
    return -1;
}

ssize_t
pwrite(int fd, const void *bytes, size_t size, off_t at)
{
    return run_call(false, SYS_pwrite64, fd, (long)bytes, (long)size, at);
}

ssize_t
writev(int fd, const struct iovec *parts, int count)
{
    return run_call(false, SYS_writev, fd, (long)parts, count, 0);
}

int
fdatasync(int fd)
{
    return (int)run_call(true, SYS_fdatasync, fd, 0, 0, 0);
}

#define KEYS 300

static int
apply_log(struct store *s, uint64_t epoch)
{
    struct store_applied applied;

    return apply_keys(s, epoch, KEYS, 9, &applied);
}

/* Each of `keys` keys has been counted `logs` times, and the file is sound. */
static void
assert_keys(struct store *s, uint64_t keys, uint64_t logs)
{
    struct store_totals t;

    assert_rc(stored_totals(s, KS_NAME, &t), 0);
    assert_int_equal(t.keys, keys);
    assert_true(t.sum == keys * logs);
    check_clean(s);
}

static void
assert_counts(struct store *s, uint64_t logs)
{
    assert_keys(s, KEYS, logs);
}

static void
arm_fault(unsigned nth, enum how how, unsigned most)
{
    fault.armed = true;
    fault.left = nth;
    fault.how = how;
    fault.hits = 0;
    fault.most = most;
}

/* Lets every call of a commit fail in turn, `most` times in a row, and the apply
 * with it.  Returns how many had happened, though they failed. */
static void
fail_each_call(const struct tmpdir *d, enum how how, unsigned most,
               unsigned *failed, unsigned *happened)
{
    struct store *s = open_store(d, 1 << 22, true);
    struct store_totals t;
    uint64_t epoch = 1;
    bool hit = true;

    *failed = *happened = 0;
    assert_rc(apply_log(s, epoch), 0);
    for (unsigned n = 1; hit; n++) {
        int rc;

        epoch++;
        arm_fault(n, how, most);
        rc = apply_log(s, epoch);
        hit = fault.hits > 0;
        fault.armed = false;

        assert_int_equal(rc < 0, hit);
        *failed += hit;
        assert_rc(stored_totals(s, KS_NAME, &t), 0);
        *happened += hit && t.sum == KEYS * epoch;
        assert_rc(apply_log(s, epoch), 0);
        assert_counts(s, epoch);
        assert_true(n < 1000);
    }
    store_close(s);

    /* Another process sees the same. */
    s = open_store(d, 1 << 22, true);
    assert_counts(s, epoch);
    store_close(s);
}

#define CASE(name, d)                                                          \
    TEST_IN(name, struct tmpdir *d, tmpdir_setup, tmpdir_teardown)

/* The calls of a commit are pages, their sync and the meta page.  Where that is
 * written and LMDB cannot write the old one back, a commit happened though it
 * failed. */
TEST(a_call_that_fails_loses_and_doubles_nothing)
{
    static const struct {
        enum how how;
        unsigned most, failed_min, happened_min;
    } ways[] = {{BEFORE, 1, 3, 0},
                {AFTER, 1, 3, 0},
                {AFTER, 2, 3, 1},
                {BEFORE, 1000, 3, 0},
                {AFTER, 1000, 3, 0}};

    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        unsigned failed, happened;
        struct tmpdir d;

        tmpdir_make(&d);
        fail_each_call(&d, ways[i].how, ways[i].most, &failed, &happened);
        if (failed < ways[i].failed_min || happened < ways[i].happened_min)
            fail_msg("way %zu: %u failed, %u happened", i, failed, happened);
        tmpdir_remove(&d);
    }
}

#define LARGE_KEYS 25000u
#define LARGE_SIZE 200

/* A commit of nothing follows a large one, which is durable by then. */
CASE(what_follows_a_large_commit_may_fail, d)
{
    struct store *s = open_store(d, 1 << 28, true);
    struct store_applied applied;

    assert_rc(apply_keys(s, 1, LARGE_KEYS, LARGE_SIZE, &applied), 0);
    fault.syncs = true;
    for (unsigned nth = 1; nth <= 3; nth++) {
        arm_fault(nth, BEFORE, 1);
        assert_rc(apply_keys(s, 1 + nth, LARGE_KEYS, LARGE_SIZE, &applied),
                  nth == 1 ? -EIO : 0);
        fault.armed = false;
        assert_int_equal(fault.hits, 1);

        assert_rc(apply_keys(s, 1 + nth, LARGE_KEYS, LARGE_SIZE, &applied), 0);
        assert_keys(s, LARGE_KEYS, 1 + nth);
    }
    fault.syncs = false;
    store_close(s);
}

/* Repeats a call until it says that it is done; returns how often it failed. */
static unsigned
fail_each_time(struct store *s, enum how how, unsigned most, unsigned nth,
               int (*call)(struct store *s), bool *hit)
{
    unsigned failed = 0;
    int rc;

    arm_fault(nth, how, most);
    rc = call(s);
    *hit = fault.hits > 0;
    fault.armed = false;
    assert_true(rc == 0 || *hit);
    while (rc < 0) {
        failed++;
        assert_true(failed < 10);
        rc = call(s);
    }
    return failed;
}

static int
drop_all(struct store *s)
{
    return store_drop(s, KS);
}

static int
delete_one(struct store *s)
{
    const struct store_key key = {.key = (const uint8_t *)"key-00007",
                                  .key_size = 9};
    uint64_t deleted = 0;

    return stored_del(s, KS_NAME, &key, 1, &deleted);
}

/* Whatever failed, once a call says 0 its work is done, for others as well, and
 * what comes after it counts. */
static void
take_away_with_faults(const struct tmpdir *d, int (*call)(struct store *s),
                      uint64_t keys_left, enum how how, unsigned most)
{
    struct store *s = open_store(d, 1 << 22, true);
    static uint64_t epoch; /* marks stay from one of these to the next */
    struct store_totals t;
    unsigned failed = 0;
    bool hit = true;

    for (unsigned n = 1; hit; n++) {
        assert_rc(drop_all(s), 0);
        assert_rc(apply_log(s, ++epoch), 0);

        failed += fail_each_time(s, how, most, n, call, &hit);

        store_close(s);
        s = open_store(d, 1 << 22, true);
        assert_rc(stored_totals(s, KS_NAME, &t), 0);
        assert_int_equal(t.keys, keys_left);
        assert_true(t.sum == keys_left);
        check_clean(s);
        assert_rc(apply_log(s, epoch), 0); /* it was in, and stays so */
        assert_rc(stored_totals(s, KS_NAME, &t), 0);
        assert_int_equal(t.keys, keys_left);
        assert_true(n < 1000);
    }
    assert_true(failed > 0);
    store_close(s);
}

CASE(a_drop_and_a_deletion_that_fail_can_be_repeated, d)
{
    struct store *s = open_store(d, 1 << 22, true);

    assert_rc(apply_one(s, KS_NAME, "first", 1), 0);
    store_close(s);
    for (unsigned most = 1; most <= 1000; most += 999) {
        take_away_with_faults(d, drop_all, 0, BEFORE, most);
        take_away_with_faults(d, drop_all, 0, AFTER, most);
        take_away_with_faults(d, delete_one, KEYS - 1, BEFORE, most);
        take_away_with_faults(d, delete_one, KEYS - 1, AFTER, most);
    }
}
