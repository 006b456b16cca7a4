/* tests/unit/test_log_race.c - many processes that take, fill, merge, recover
 * and create the same commit logs at once, and some of which die: each log has
 * one owner, and each increment is counted once. */
#include "tests/unit/log_fixture.h"

#include <signal.h>
#include <stdatomic.h>

#include "common/log/log_create.h"
#include "common/log/log_owner.h"
#include "common/log/log_recover.h"

#define RACERS      8
#define RACE_LOGS   3
#define RACE_ROUNDS 1000

struct race {
    _Atomic int owner[RACE_LOGS];
    _Atomic uint64_t mark[RACE_LOGS]; /* epoch merged */
    _Atomic unsigned appended, merged;
    _Atomic unsigned wrong; /* two owners, odd codes */
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

static void
race_owned(struct race *r, uint64_t index, bool owned)
{
    if (atomic_exchange(&r->owner[index], owned) == owned)
        race_wrong(r, "two owners", index, 0);
}

/* One in eight dies, as far as anybody can see, and leaves all as it is. */
static bool
dies(unsigned *seed)
{
    return rand_r(seed) % 8 == 0;
}

static int
race_write(int dirfd, struct race *r, uint64_t index, unsigned *seed)
{
    uint32_t count = 1 + (uint32_t)rand_r(seed) % 4;
    struct log log;
    int rc;

    rc = log_claim(&log, dirfd, index, LOG_MODE_EMPTY);
    if (rc < 0)
        return rc;
    race_owned(r, index, true);
    rc = log_begin(&log);
    if (rc == 0)
        rc = append(&log, count, 0);
    if (rc == 0)
        rc = log_sync(&log);
    if (rc == 0)
        r->appended += count;
    if (rc == 0 && !dies(seed))
        rc = log_seal(&log);
    race_owned(r, index, false);
    if (rc < 0 || log.header.state == LOG_OPEN || dies(seed)) {
        log_abandon(&log);
        return rc;
    }
    return log_release(&log);
}

static int
race_merge(int dirfd, struct race *r, uint64_t index, unsigned *seed)
{
    struct log log;
    int rc;

    rc = log_claim(&log, dirfd, index, LOG_MODE_FULL);
    if (rc < 0)
        return rc;
    race_owned(r, index, true);
    rc = read_count(&log);
    if (rc >= 0 && r->mark[index] != log.header.epoch) {
        r->merged += (unsigned)rc;
        r->mark[index] = log.header.epoch;
    }
    if (rc >= 0)
        rc = dies(seed) ? 1 : log_empty(&log);
    race_owned(r, index, false);
    if (rc != 0 || dies(seed)) {
        log_abandon(&log);
        return rc < 0 ? rc : 0;
    }
    return log_release(&log);
}

static void
race(int dirfd, struct race *r, unsigned seed)
{
    const char *what;
    uint64_t index;
    int round, rc;

    for (round = 0; round < RACE_ROUNDS; round++) {
        index = (uint64_t)rand_r(&seed) % RACE_LOGS;
        switch (rand_r(&seed) % 3) {
        case 0:
            what = "write";
            rc = race_write(dirfd, r, index, &seed);
            break;
        case 1:
            what = "merge";
            rc = race_merge(dirfd, r, index, &seed);
            break;
        default:
            what = "recover";
            rc = log_recover(dirfd, index, NULL);
        }
        if (rc != 0 && rc != -EBUSY && rc != -ESTALE)
            race_wrong(r, what, index, rc);
    }
}

IN_MEMORY(eight_processes_race_for_logs_and_each_has_one_owner, d)
{
    struct race *r = share(sizeof *r);
    pid_t pids[RACERS];
    unsigned i, seed = 1;
    uint64_t index;

    for (index = 0; index < RACE_LOGS; index++)
        create(d->fd, index);
    for (i = 0; i < RACERS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            race(d->fd, r, i + 1);
            _exit(0);
        }
    }
    for (i = 0; i < RACERS; i++)
        assert_exits_well(pids[i]);
    assert_none_wrong(r);

    for (index = 0; index < RACE_LOGS; index++) {
        assert_rc(log_recover(d->fd, index, NULL), 0);
        if (mode_of(d->fd, index) == LOG_MODE_FULL)
            while (race_merge(d->fd, r, index, &seed) == 0 &&
                   mode_of(d->fd, index) != LOG_MODE_EMPTY)
                assert_rc(log_recover(d->fd, index, NULL), 0);
    }
    assert_true(r->appended > 0);
    assert_int_equal(r->merged, r->appended);
    assert_none_wrong(r);
    assert_int_equal(tmpdir_count(d, "."), RACE_LOGS);
    assert_int_equal(munmap(r, sizeof *r), 0);
}

/* One that goes round between any two calls of who opens it, as may be on a
 * busy machine: it is in other hands, not out of reach. */
IN_MEMORY(a_log_whose_mode_never_stands_still_is_busy, d)
{
    unsigned busy = 0;
    struct stat st;
    pid_t pid;
    int i, rc;

    create(d->fd, 0);
    pid = fork();
    assert_true(pid >= 0);
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
    create(d->fd, 0);
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
            r->appended++;
        else if (rc != -EEXIST && rc != -EAGAIN)
            race_wrong(r, "create", index, rc);
        rc = log_recover(dirfd, index, NULL);
        if (rc != 0 && rc != -EBUSY && rc != -ENOENT)
            race_wrong(r, "recover", index, rc);
    }
}

IN_MEMORY(eight_processes_race_to_create_and_each_log_is_made_once, d)
{
    struct race *r = share(sizeof *r);
    pid_t pids[RACERS];
    uint64_t index;
    unsigned i;

    for (i = 0; i < RACERS; i++) {
        pids[i] = fork();
        assert_true(pids[i] >= 0);
        if (pids[i] == 0) {
            race_create(d->fd, r);
            _exit(0);
        }
    }
    for (i = 0; i < RACERS; i++)
        assert_exits_well(pids[i]);
    assert_none_wrong(r);
    for (index = 0; index < 50; index++) {
        if (log_recover(d->fd, index, NULL) == -ENOENT)
            continue;
        assert_int_equal(mode_of(d->fd, index), LOG_MODE_EMPTY);
        make_full(d->fd, index, 1);
    }
    assert_int_equal(tmpdir_count(d, "."), r->appended);
    assert_true(r->appended > 0 && r->appended <= 50);
    assert_int_equal(munmap(r, sizeof *r), 0);
}

LOG_TEST_MAIN
