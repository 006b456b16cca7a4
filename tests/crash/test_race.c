/* tests/crash/test_race.c - eight processes race for a handful of logs.
 *
 * Writers fill and seal, workers empty, and all of them recover what they
 * find; some die by SIGKILL between two steps.  At each claim the winner looks
 * whether it is alone: an owner's pid stands in a shared table.
 *
 *     TEST_SEED
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/log/inspect.h"
#include "common/log/log_recover.h"
#include "common/log/slot.h"
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/log/log.h"
#include "tests/lib/daemon.h"
#include "tests/lib/fault.h"
#include "tests/lib/filler.h"
#include "tests/lib/random.h"
#include "tests/lib/tmpdir.h"

#define RACERS     8
#define LOGS       3
#define SLOTS      8
#define RACE_MS    4000
#define LIMIT_MS   60000 /* more, for what must have happened */
#define CLAIMS_MIN 100
#define MEMORY_MAX (1 << 20)

/* Shared by all; what a racer finds wrong it writes here. */
struct table {
    atomic_int owner[LOGS]; /* pid of the one that owns the log, or 0 */
    _Atomic uint64_t next;  /* next increment to write: its own number */
    _Atomic uint64_t claims, seals, deaths, recovered;
    atomic_bool stop;
    uint64_t until; /* when the race is over */
    atomic_int wrong;
    char why[256];
    atomic_uchar appended[MEMORY_MAX]; /* increments durably in a log */
    atomic_uchar counted[MEMORY_MAX];  /* times a worker took them */
};

static struct table *table;
static struct layout layout;
static int log_dir;
static int self; /* racer, from 0 */
static struct random chance;

static void
blame_racer(const char *what, uint64_t index, int rc)
{
    if (atomic_fetch_add(&table->wrong, 1) == 0)
        (void)snprintf(table->why, sizeof table->why,
                       "racer %d, log %llu: %s (%d %s)", self,
                       (unsigned long long)index, what, rc,
                       rc < 0 ? strerror(-rc) : ""); /* for people */
    atomic_store(&table->stop, true);
}

static void
expect_rc(int rc, const char *what, uint64_t index)
{
    if (rc < 0)
        blame_racer(what, index, rc);
}

/* I1, I2 of the protocol: flock, link and mode 0600 belong to one owner. */
static void
enter_log(const struct log *log, uint64_t index)
{
    char name[LOG_NAME_SIZE], lock[LOG_LOCK_SIZE];
    struct stat a, b;
    int before;

    log_name(index, name);
    log_lock_name(index, lock);
    before = atomic_exchange(&table->owner[index], (int)getpid());
    if (before != 0)
        blame_racer("owned twice", index, 0);
    if (fstatat(log_dir, name, &a, AT_SYMLINK_NOFOLLOW) < 0 ||
        fstatat(log_dir, lock, &b, AT_SYMLINK_NOFOLLOW) < 0)
        blame_racer("owned without name or lock", index, -errno);
    else if (a.st_ino != b.st_ino || (a.st_mode & 07777) != LOG_MODE_OWNED)
        blame_racer("owned, but lock or mode say otherwise", index, 0);
    if (log->header.index != index)
        blame_racer("another log's header", index, 0);
    atomic_fetch_add(&table->claims, 1);
}

static void
leave_log(uint64_t index)
{
    atomic_store(&table->owner[index], 0);
}

/* Dies as a crash does, holding whatever it holds. */
static void
maybe_die(uint64_t index)
{
    if (!random_chance(&chance, 3))
        return;
    atomic_fetch_add(&table->deaths, 1);
    leave_log(index);              /* just before: the flock goes with us */
    (void)kill(getpid(), SIGKILL); /* does not return */
}

static void
fill_log(struct log *log, uint64_t index)
{
    uint8_t slots[SLOTS * (MESSAGE_SIZE_MAX + 64)];
    uint64_t numbers[SLOTS];
    unsigned count = 1 + (unsigned)random_below(&chance, SLOTS), i;
    struct message m = {.keyspace = (const uint8_t *)"k",
                        .key = (const uint8_t *)"k",
                        .keyspace_size = 1,
                        .key_size = 1};
    struct slot_stamp stamp = {.received_ms = clock_unix_ms()};

    expect_rc(log_begin(log), "begin", index);
    maybe_die(index);
    for (i = 0; i < count; i++) {
        numbers[i] = atomic_fetch_add(&table->next, 1);
        if (numbers[i] >= MEMORY_MAX) {
            atomic_store(&table->stop, true);
            numbers[i] = 0;
        }
        m.increment = (int64_t)numbers[i];
        filler_put_slot(log, &m, i, &stamp,
                        slots + (size_t)i * layout.slot_size);
    }
    expect_rc(
        log_append(log, slots, count, stamp.received_ms, stamp.received_ms),
        "append", index);
    maybe_die(index);
    expect_rc(fdatasync(log->fd), "sync", index);
    for (i = 0; i < count; i++)
        atomic_store(&table->appended[numbers[i]], 1);
    maybe_die(index);
    expect_rc(log_seal(log), "seal", index);
    atomic_fetch_add(&table->seals, 1);
    maybe_die(index);
}

/* Counts all slots, then marks the log empty.  Nothing dies between the two:
 * that this is one step is the store's part, not the log's. */
static void
drain_log(struct log *log, uint64_t index)
{
    uint8_t slots[SLOTS * (MESSAGE_SIZE_MAX + 64)];
    uint32_t count = log->header.count, i;
    struct slot_stamp stamp;
    struct message m;
    int rc;

    if (log->header.state != LOG_SEALED || count == 0 || count > SLOTS) {
        blame_racer("a full log that is not", index, 0);
        return;
    }
    maybe_die(index);
    expect_rc(inspect_read(log->fd, slots, (size_t)count * layout.slot_size,
                           LOG_SLOTS_AT),
              "read", index);
    for (i = 0; i < count; i++) {
        rc = slot_parse(&log->header, slots + (size_t)i * layout.slot_size, i,
                        &m, &stamp);
        expect_rc(rc, "slot", index);
        if (rc == 0)
            atomic_fetch_add(&table->counted[(uint64_t)m.increment], 1);
    }
    expect_rc(log_empty(log), "empty", index);
    maybe_die(index);
}

static void
race_others(void)
{
    uint64_t index = random_below(&chance, LOGS);
    bool writer = self % 2 == 0;
    struct log log;
    int rc;

    if (random_chance(&chance, 30)) {
        rc = log_recover(log_dir, index, NULL);
        if (rc < 0 && rc != -EBUSY)
            blame_racer("recover", index, rc);
        atomic_fetch_add(&table->recovered, rc == 0);
        return;
    }
    rc = log_claim(&log, log_dir, index,
                   writer ? LOG_MODE_EMPTY : LOG_MODE_FULL);
    if (rc == -EBUSY || rc == -ESTALE)
        return;
    if (rc < 0) {
        blame_racer("claim", index, rc);
        return;
    }
    enter_log(&log, index);
    if (writer)
        fill_log(&log, index);
    else
        drain_log(&log, index);
    leave_log(index);
    expect_rc(log_release(&log), "release", index);
}

static pid_t racers[RACERS];

/* For some time, and on a slow disk until enough has happened. */
static bool
is_on(void)
{
    const uint64_t now_ms = clock_ms();

    if (atomic_load(&table->stop) || now_ms >= table->until + LIMIT_MS)
        return false;
    return now_ms < table->until || atomic_load(&table->claims) <= CLAIMS_MIN ||
           atomic_load(&table->deaths) == 0;
}

static void
run_racer(int number, uint64_t seed)
{
    pid_t pid = fork();

    if (pid < 0)
        fail_msg("fork: %s", strerror(errno));
    if (pid > 0) {
        racers[number] = pid;
        return;
    }
    self = number;
    chance.state = seed;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        _exit(125);
    while (is_on())
        race_others();
    _exit(fault_open_fds() > 64); /* a leak */
}

/* Keeps eight running until the time is over; the killed are replaced. */
static void
run_race(struct random *random)
{
    int running = 0, status, i;

    table->until = clock_ms() + RACE_MS;
    for (i = 0; i < RACERS; i++, running++)
        run_racer(i, random_next(random));
    while (running > 0) {
        siginfo_t info = {0};

        if (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT) < 0)
            fail_msg("wait: %s", strerror(errno));
        if (waitpid(info.si_pid, &status, 0) != info.si_pid)
            fail_msg("wait: %s", strerror(errno));
        running--;
        if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
            blame_racer("a racer ended badly", 0, WEXITSTATUS(status));
        if (WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
            blame_racer("a racer crashed", 0, WTERMSIG(status));
        if (WIFSIGNALED(status) && is_on()) {
            /* One of the same kind, or in the end all would be workers. */
            for (i = 0; racers[i] != info.si_pid; i++)
                ;
            run_racer(i, random_next(random));
            running++;
        }
    }
}

/* Takes the increments that are left in logs at the end. */
static void
take_the_rest(void)
{
    struct log log;
    int rc;

    for (uint64_t i = 0; i < LOGS; i++) {
        assert_rc(log_recover(log_dir, i, NULL), 0);
        rc = log_claim(&log, log_dir, i, LOG_MODE_FULL);
        if (rc == -ESTALE)
            continue;
        assert_rc(rc, 0);
        chance.state = 1; /* unused: no racer dies here */
        drain_log(&log, i);
        assert_rc(log_release(&log), 0);
    }
}

IN_TMPDIR(a_log_has_one_owner_and_gives_each_increment_once, dir)
{
    struct random random = {random_seed(__func__)};
    uint64_t lost = 0, doubled = 0;

    table = mmap(NULL, sizeof *table, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(table != MAP_FAILED);
    log_dir = dir->fd;
    assert_rc(layout_init(&layout, 256, 256), 0);
    for (uint64_t i = 0; i < LOGS; i++)
        assert_rc(log_create(log_dir, i, &layout, SLOTS), 0);

    run_race(&random);
    if (atomic_load(&table->wrong) == 0)
        take_the_rest();

    printf("%llu claims, %llu seals, %llu recoveries, %llu deaths\n",
           (unsigned long long)table->claims, (unsigned long long)table->seals,
           (unsigned long long)table->recovered,
           (unsigned long long)table->deaths);
    if (atomic_load(&table->wrong) > 0)
        fail_msg("%d wrong: %s", atomic_load(&table->wrong), table->why);
    for (uint64_t i = 0; i < table->next && i < MEMORY_MAX; i++) {
        lost += table->appended[i] > table->counted[i];
        doubled += table->counted[i] > 1;
    }
    assert_int_equal(lost, 0);
    assert_int_equal(doubled, 0);
    assert_true(table->claims > CLAIMS_MIN);
    assert_true(table->deaths > 0);
    assert_int_equal(munmap(table, sizeof *table), 0);
}
