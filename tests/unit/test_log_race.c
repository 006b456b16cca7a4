/* tests/unit/test_log_race.c - many processes that create, recover and open the
 * same commit logs at once.  tests/crash/test_race has those that fill and
 * merge them. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/log_fixture.h"

#include <signal.h>

#include "common/log/log_owner.h"
#include "common/log/log_recover.h"

#define RACERS 8

struct race {
    _Atomic unsigned created;
    _Atomic unsigned wrong; /* odd codes */
    const char *what;       /* the first of them was doing */
    uint64_t index;
    int rc;
};

static void
race_wrong(struct race *r, const char *what, uint64_t index, int rc)
{
    if (r->wrong++ > 0)
        return;
    r->what = what;
    r->index = index;
    r->rc = rc;
}

static void
assert_none_wrong(const struct race *r)
{
    if (r->wrong == 0)
        return;
    print_error("wrong: %u, and first of all %s, log %u\n", r->wrong, r->what,
                (unsigned)r->index);
    assert_rc(r->rc, 0);
    assert_int_equal(r->wrong, 0);
}

/* It changes hands between any two calls of a process that opens it, as may be
 * on a busy machine: it is in other hands, not out of reach. */
IN_MEMORY(a_log_whose_mode_never_stands_still_is_busy, d)
{
    unsigned busy = 0;
    struct stat st;
    pid_t pid;
    int i, rc;

    create_log(d->fd, 0);
    pid = test_fork();
    if (pid == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        _exit(1);
    while (pid == 0)
        if (fchmodat(d->fd, "0000000000", LOG_MODE_FULL, 0) < 0 ||
            fchmodat(d->fd, "0000000000", LOG_MODE_EMPTY, 0) < 0)
            _exit(1);
    for (i = 0; i < 50000; i++) {
        rc = log_owner_open_locked(d->fd, "0000000000", &st);
        if (rc >= 0)
            assert_int_equal(close(rc), 0);
        else
            assert_rc(rc, -EBUSY);
        busy += rc < 0;
    }
    print_message("%u of %d times it was busy\n", busy, i);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

IN_MEMORY(a_log_whose_mode_allows_nothing_is_out_of_reach, d)
{
    struct stat st;

    if (geteuid() == 0)
        return; /* the same test runs as nobody */
    create_log(d->fd, 0);
    assert_int_equal(fchmodat(d->fd, "0000000000", 0, 0), 0);
    assert_rc(log_owner_open_locked(d->fd, "0000000000", &st), -EACCES);
}

static void
race_create(int dirfd, struct race *r)
{
    struct layout l = small_layout();
    uint64_t index;
    int rc;

    for (index = 0; index < 50; index++) {
        rc = log_create(dirfd, index, &l, SLOTS);
        if (rc == 0)
            r->created++;
        else if (rc != -EEXIST && rc != -EAGAIN)
            race_wrong(r, "create", index, rc);
        rc = log_recover(dirfd, index, NULL);
        if (rc != 0 && rc != -EBUSY && rc != -ENOENT)
            race_wrong(r, "recover", index, rc);
    }
}

IN_MEMORY(eight_processes_race_to_create_and_each_log_is_made_once, d)
{
    struct race *r = map_shared(sizeof *r);
    pid_t pids[RACERS];
    uint64_t index;
    unsigned i;

    for (i = 0; i < RACERS; i++) {
        pids[i] = test_fork();
        if (pids[i] == 0) {
            race_create(d->fd, r);
            _exit(0);
        }
    }
    for (i = 0; i < RACERS; i++)
        assert_int_equal(test_wait(pids[i]), 0);
    assert_none_wrong(r);
    for (index = 0; index < 50; index++) {
        if (log_recover(d->fd, index, NULL) == -ENOENT)
            continue;
        assert_int_equal(mode_of(d->fd, index), LOG_MODE_EMPTY);
        make_full(d->fd, index, 1);
    }
    assert_int_equal(tmpdir_count(d, "."), r->created);
    assert_true(r->created > 0 && r->created <= 50);
    assert_int_equal(munmap(r, sizeof *r), 0);
}

LOG_TEST_MAIN
