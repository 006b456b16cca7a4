/* tests/unit/test_commit_fails.c - LMDB cannot write a meta page: what it then
 * leaves in the file is not taken for damage. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/store/lmdb/keyspace.h"
#include "tests/lib/counted.h"
#include "tests/lib/engines.h"
#include "tests/lib/stored.h"

#define KEYS      25000u
#define KEY_SIZE  200u
#define ROUNDS    6
#define META_ENDS 8192 /* of both meta pages */

static unsigned fails_in; /* writes of a meta page; 0: never */
/* What the writes of a meta page do: 'w' writes, 'f' fails, 'l' does its work
 * and fails.  The first is a commit's; with the second LMDB puts the old number
 * back; the third is pages_undo_commit()'s.  NULL: all write. */
static const char *writes;
static unsigned writes_for; /* ends with the nth commit; 0: never */
static unsigned since;      /* writes of a meta page since the last commit's */

static unsigned dies_in; /* writes of a meta page, and syncs; 0: never */

static void
approach_death(void)
{
    if (dies_in > 0 && --dies_in == 0)
        (void)raise(SIGKILL); /* does not return */
}

int
fdatasync(int fd)
{
    approach_death();
    return (int)syscall(SYS_fdatasync, fd);
}

/* LMDB's calls come here, too. */
ssize_t
pwrite(int fd, const void *bytes, size_t size, off_t at)
{
    if (at < META_ENDS)
        approach_death();
    if (fails_in > 0 && at < META_ENDS && --fails_in == 0) {
        errno = EIO;
        return -1;
    }
    if (writes != NULL && at < META_ENDS) {
        char how;

        /* LMDB commits through a descriptor whose writes are synced. */
        since = (fcntl(fd, F_GETFL) & O_DSYNC) != 0 ? 0 : since + 1;
        assert_true(since < 3);
        how = writes[since];
        if (since == 0 && writes_for > 0 && --writes_for == 0) {
            writes = NULL;
            how = 'w';
        }

        if (how != 'f')
            (void)syscall(SYS_pwrite64, fd, bytes, size, at); /* 'l': it lies */
        if (how != 'w') {
            errno = EIO;
            return -1;
        }
        return (ssize_t)size;
    }
    return syscall(SYS_pwrite64, fd, bytes, size, at);
}

/* The last of the keys of a large merge has this count. */
static void
expect_last(struct store *s, uint64_t count)
{
    char key[KEY_SIZE + 1];

    (void)snprintf(key, sizeof key, "key-%0*u", (int)KEY_SIZE - 4, KEYS - 1);
    assert_int_equal(get_one(s, KS_NAME, key), count);
    check_clean(s);
}

/* A large merge is a commit, and one of nothing behind it. */
TEST_IN(a_large_merge_whose_second_commit_fails_is_readable, struct tmpdir *d,
        in_memory, remove_dir)
{
    struct store *s = open_store(d, 1 << 28, true);
    struct store_applied applied;

    /* Until pages of the file are used again: what is behind its end as of the
     * commit before is not looked at. */
    for (unsigned i = 1; i < ROUNDS; i++)
        assert_rc(apply_keys(s, 0, KEYS, KEY_SIZE, &applied), 0);
    fails_in = 2;
    assert_rc(apply_keys(s, 0, KEYS, KEY_SIZE, &applied), 0);
    assert_int_equal(fails_in, 0);
    assert_int_equal(applied.commits, 1);
    store_close(s);

    s = open_store(d, 1 << 28, true);
    expect_last(s, ROUNDS);
    store_close(s);
}

static int
apply_log(struct store *s, uint64_t epoch)
{
    struct store_applied applied;

    return apply_keys(s, epoch, 300, 9, &applied);
}

/* The process whose commit failed ends at once; returns what the next one says
 * when it merges the log again. */
static int
apply_after_death(const struct tmpdir *d, const char *how, unsigned rounds)
{
    struct store *s = open_store(d, 1 << 22, true);
    int rc;

    for (unsigned i = 1; i <= rounds; i++)
        assert_rc(apply_log(s, i), 0);
    /* Until it is closed, what repairs the file fails as well. */
    writes = how;
    rc = apply_log(s, rounds + 1);
    assert_true(rc < 0);
    writes = NULL;
    store_close(s);

    s = open_store(d, 1 << 22, true);
    rc = apply_log(s, rounds + 1);
    if (rc == 0) {
        assert_int_equal(get_one(s, KS_NAME, "key-00007"), rounds + 1);
        check_clean(s);
        assert_rc(apply_log(s, rounds + 2), 0);
        assert_int_equal(get_one(s, KS_NAME, "key-00007"), rounds + 2);
        check_clean(s);
    }
    store_close(s);
    tmpdir_empty(d);
    return rc;
}

TEST_IN(a_process_that_ends_before_it_repairs_leaves_a_good_file,
        struct tmpdir *d, in_memory, remove_dir)
{
    static const char *const all[] = {"fww", "lww", "ffw", "lfw"};

    for (unsigned rounds = 1; rounds <= ROUNDS; rounds++)
        for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++)
            assert_rc(apply_after_death(d, all[i], rounds), 0);
}

/* What only the process that failed can know is refused by all others. */
TEST_IN(a_root_that_was_not_put_back_is_refused_until_it_is_repaired,
        struct tmpdir *d, in_memory, remove_dir)
{
    struct store *s, *other;

    assert_rc(apply_after_death(d, "fwf", ROUNDS), -EBADMSG);

    s = open_store(d, 1 << 22, true);
    for (unsigned i = 1; i <= ROUNDS; i++)
        assert_rc(apply_log(s, i), 0);
    writes = "fwf";
    assert_rc(apply_log(s, ROUNDS + 1), -EIO);
    writes = NULL;
    other = open_store(d, 1 << 22, false);
    assert_int_equal(get_one(other, KS_NAME, "key-00007"), -EBADMSG);
    store_close(other);
    assert_rc(apply_log(s, ROUNDS + 1), 0);
    store_close(s);

    s = open_store(d, 1 << 22, false);
    assert_int_equal(get_one(s, KS_NAME, "key-00007"), ROUNDS + 1);
    check_clean(s);
    store_close(s);
}

/* Each is repaired at once: the process knows only the last that failed. */
TEST_IN(commits_to_several_keyspaces_may_fail_one_after_the_other,
        struct tmpdir *d, in_memory, remove_dir)
{
    static const char *const names[] = {"one", "two", "three"};
    struct store *s = open_store(d, 1 << 22, true);

    for (unsigned round = 1; round <= ROUNDS; round++)
        for (unsigned i = 0; i < 3; i++)
            assert_rc(apply_one(s, names[i], "k", 1), 0);
    for (unsigned i = 0; i < 3; i++) {
        writes = "fwf";
        writes_for = 2;
        assert_rc(apply_one(s, names[i], "k", 1), -EIO);
        writes = NULL;
    }
    for (unsigned i = 0; i < 3; i++) {
        assert_rc(apply_one(s, names[i], "k", 1), 0);
        assert_int_equal(get_one(s, names[i], "k"), ROUNDS + 1);
    }
    store_close(s);
}

static void
drop_it(struct store *s)
{
    assert_rc(store_drop(s, KS), -EIO);
}

static void
delete_a_key(struct store *s)
{
    const struct store_key key = {(const uint8_t *)"key-00008", 9};
    uint64_t deleted = 0;

    assert_rc(stored_del(s, KS_NAME, &key, 1, &deleted), -EIO);
}

static uint64_t
next_year(void)
{
    return clock_unix_ms() + UINT64_C(366) * 86400000;
}

static void
compact_it(struct store *s)
{
    const struct store_maintenance t = {.until_ns = UINT64_MAX};

    lmdb_of(s)->options.now_ms = next_year;
    while (store_maintain(s, &t))
        continue;
}

/* Nothing is merged that would repair it. */
TEST_IN(what_a_commit_of_other_work_left_is_repaired_at_once, struct tmpdir *d,
        in_memory, remove_dir)
{
    void (*const all[])(struct store *) = {drop_it, delete_a_key, compact_it};
    const uint32_t now = (uint32_t)(clock_unix_ms() / 60000);
    const struct store_delta dated = stored_delta("dated", 5, now, 1);
    struct store *s = open_store(d, 1 << 22, true), *other;

    lmdb_of(s)->options.history = engine_rules(ENGINE_TIERS);
    for (unsigned i = 1; i <= ROUNDS; i++)
        assert_rc(apply_log(s, i), 0);
    assert_rc(stored_apply(s, KS_NAME, NULL, &dated, 1), 0);
    for (unsigned i = 0; i < sizeof all / sizeof all[0]; i++) {
        writes = "fwf";
        writes_for = 2;
        all[i](s);
        writes = NULL;
        other = open_store(d, 1 << 22, false);
        assert_int_equal(get_one(other, KS_NAME, "key-00007"), ROUNDS);
        check_clean(other);
        store_close(other);
        assert_int_equal(writes_for, 0); /* it came to the second commit */
    }
    store_close(s);
}

/* Applies a log that is a commit of more than 8 MB, and one of nothing. */
static int
apply_large(const struct tmpdir *d, uint64_t epoch)
{
    struct store *s = open_store(d, 1 << 28, true);
    struct store_applied applied;
    const int rc = apply_keys(s, epoch, KEYS, KEY_SIZE, &applied);

    if (rc == 0)
        expect_last(s, epoch);
    store_close(s);
    return rc;
}

TEST_IN(a_kill_in_either_commit_of_a_large_merge_loses_and_doubles_nothing,
        struct tmpdir *d, in_memory, remove_dir)
{
    unsigned killed = 0;
    int status = 1;

    assert_rc(apply_large(d, 1), 0);
    while (status != 0) {
        const uint64_t epoch = killed + 2;
        const pid_t child = test_fork();
        if (child == 0) {
            dies_in = killed + 1;
            _exit(apply_large(d, epoch) == 0 ? 0 : 1);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_true(status == 0 ||
                    (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
        assert_rc(apply_large(d, epoch), 0);
        killed += status != 0;
    }
    assert_true(killed >= 4); /* a sync and a meta page, twice */
}
