/* tests/unit/test_commit.c - a keyspace whose disk fails in the middle of a
 * commit: whatever LMDB's call it was, and whether it did its work before it
 * failed or not, each log counts once.
 *
 * The calls LMDB makes are seen here because this program defines them: a
 * shared library takes pwrite from the program when that has one. */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/store/lmdb/lmdb.h"
#include "tests/lib/tmpdir.h"

/* Failing calls do nothing, or the first of them does its work. */
enum how { BEFORE, AFTER };

static struct {
    bool armed;
    unsigned left;
    enum how how;
    unsigned hits;
    unsigned most; /* times it may fail */
} fault;

/* Counts a call; true when it is to fail. */
static bool
fails(void)
{
    if (!fault.armed || fault.hits == fault.most)
        return false;
    if (fault.left > 1) {
        fault.left--;
        return false;
    }
    fault.hits++;
    return true;
}

ssize_t
pwrite(int fd, const void *bytes, size_t size, off_t at)
{
    const bool fail = fails();
    ssize_t done = (ssize_t)size;

    if (!fail || (fault.how == AFTER && fault.hits == 1))
        done = syscall(SYS_pwrite64, fd, bytes, size, at);
    if (!fail)
        return done;
    errno = EIO;
    return -1;
}

ssize_t
writev(int fd, const struct iovec *parts, int count)
{
    const bool fail = fails();
    ssize_t done = 0;

    if (!fail || (fault.how == AFTER && fault.hits == 1))
        done = syscall(SYS_writev, fd, parts, (long)count);
    if (!fail)
        return done;
    errno = EIO;
    return -1;
}

int
fdatasync(int fd)
{
    const bool fail = fails();
    int done = 0;

    if (!fail || (fault.how == AFTER && fault.hits == 1))
        done = (int)syscall(SYS_fdatasync, fd);
    if (!fail)
        return done;
    errno = EIO;
    return -1;
}

static const uint8_t hash_key[16];
static const uint8_t *const ks = (const uint8_t *)"pages";
#define KS   ks, 5
#define KEYS 300

static struct lmdb *
open_store(const struct tmpdir *d)
{
    const struct lmdb_options options = {
        .keyspace_fd = d->fd,
        .hash_key = hash_key,
        .keyspace_size = 256,
        .key_size = 256,
        .writable = true,
        .open_max = 4,
        .txn_memory = 1 << 22,
    };
    struct lmdb *s;

    assert_rc(lmdb_store_open((struct store **)(void *)&s, &options), 0);
    return s;
}

/* Applies log `epoch`, one to each key, as a worker does: what the mark says
 * is in is left out. */
static int
apply_log(struct lmdb *s, uint64_t epoch)
{
    const struct store_mark mark = {.uuid = "a log", .epoch = epoch};
    struct store_delta deltas[KEYS];
    struct lmdb_mark_info info;
    struct store_applied applied;
    char keys[KEYS][16];
    int rc;

    rc = lmdb_marks(s, KS, &mark, 1, &info);
    if (rc < 0 || info.state == STORE_MARK_DONE)
        return rc;
    for (unsigned i = 0; i < KEYS; i++) {
        deltas[i] = (struct store_delta){
            .key = (const uint8_t *)keys[i],
            .key_size =
                (uint16_t)snprintf(keys[i], sizeof keys[i], "key-%05u", i),
            .sum_low = 1,
        };
    }
    return lmdb_apply(s, KS, &mark, &info, 1, deltas, KEYS, &applied);
}

static void
fault_text(void *ctx, const char *text)
{
    (void)ctx;
    print_error("%s\n", text);
}

/* Every key has been counted `logs` times, and the file is sound. */
static void
assert_counts(struct lmdb *s, uint64_t logs)
{
    struct store_check_result r;
    struct store_totals t;
    struct lmdb_view *v;

    assert_rc(lmdb_view_open(s, KS, &v), 0);
    assert_rc(lmdb_view_totals(v, &t), 0);
    lmdb_view_close(v);
    assert_int_equal(t.keys, KEYS);
    assert_int_equal(t.sum_low, KEYS * logs);
    assert_rc(lmdb_check(s, KS, fault_text, NULL, &r), 0);
    assert_int_equal(r.faults, 0);
}

/* Lets every call of a commit fail in turn, `most` times in a row.  Returns
 * how many commits said they failed and how many said they did not. */
static void
fail_each_call(const struct tmpdir *d, enum how how, unsigned most,
               unsigned *failed, unsigned *saved)
{
    struct lmdb *s = open_store(d);
    uint64_t epoch = 1;
    bool hit = true;

    *failed = *saved = 0;
    assert_rc(apply_log(s, epoch), 0);
    for (unsigned n = 1; hit; n++) {
        int rc;

        epoch++;
        fault.armed = true;
        fault.left = n;
        fault.how = how;
        fault.hits = 0;
        fault.most = most;
        rc = apply_log(s, epoch);
        hit = fault.hits > 0;
        fault.armed = false;

        assert_true(rc == 0 || hit);
        *failed += rc < 0 ? 1 : 0;
        *saved += rc == 0 && hit ? 1 : 0;
        assert_rc(apply_log(s, epoch), 0);
        assert_counts(s, epoch);
        assert_true(n < 1000);
    }
    lmdb_close(s);

    /* Another process sees the same. */
    s = open_store(d);
    assert_counts(s, epoch);
    lmdb_close(s);
}

static void
a_call_that_fails_loses_and_doubles_nothing(void **state)
{
    unsigned failed, saved;

    fail_each_call(*state, BEFORE, 1, &failed, &saved);

    assert_true(failed >= 3); /* pages, their sync, the meta page */
}

static void
a_call_that_fails_after_its_work_doubles_nothing(void **state)
{
    unsigned failed, saved;

    fail_each_call(*state, AFTER, 1, &failed, &saved);
}

static void
a_commit_that_happened_though_it_failed_is_noticed(void **state)
{
    unsigned failed, saved;

    /* The meta page is written, and LMDB cannot write the old one back. */
    fail_each_call(*state, AFTER, 2, &failed, &saved);

    assert_true(saved >= 1);
}

static void
a_disk_that_fails_for_good_is_an_error_every_time(void **state)
{
    unsigned failed, saved;

    fail_each_call(*state, BEFORE, 1000, &failed, &saved);
    assert_int_equal(saved, 0);
}

static void
an_outcome_that_cannot_be_made_durable_is_no_success(void **state)
{
    unsigned failed, saved;

    fail_each_call(*state, AFTER, 1000, &failed, &saved);
    assert_int_equal(saved, 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, tmpdir_setup, tmpdir_teardown)

static const struct CMUnitTest tests[] = {
    T(a_call_that_fails_loses_and_doubles_nothing),
    T(a_call_that_fails_after_its_work_doubles_nothing),
    T(a_commit_that_happened_though_it_failed_is_noticed),
    T(a_disk_that_fails_for_good_is_an_error_every_time),
    T(an_outcome_that_cannot_be_made_durable_is_no_success),
};

TEST_MAIN(tests)
