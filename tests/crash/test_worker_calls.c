/* tests/crash/test_worker_calls.c - SIGKILL and EIO at the system calls of
 * countd-worker.  Those of making and filling a log: tests/unit/test_log_recover.
 *
 * One traced run lists the calls.  Then, for a call and its number, the
 * directory is made afresh, the program runs under strace until that call
 * kills it or fails, a plain worker finishes the job, and every count must be
 * what the logs say: nothing lost, nothing twice, nothing quarantined.
 *
 * All points take minutes, so a sample spread evenly over them is run, fresh
 * at each run; COUNTD_ALL_CALLS=1 runs all.  Memory files are used where there
 * are some: a kill loses nothing that a disk would have kept.
 */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/diag.h"
#include "common/setup/datadir.h"
#include "tests/lib/aside.h"
#include "tests/lib/engines.h"
#include "tests/lib/file.h"
#include "tests/lib/filler.h"
#include "tests/lib/fleet.h"
#include "tests/lib/random.h"
#include "tests/lib/stored.h"

#if defined __SANITIZE_ADDRESS__
#define SANITIZED
#elif defined __has_feature
#if __has_feature(address_sanitizer)
#define SANITIZED
#endif
#endif

/* Points of each kind; a start under a sanitizer takes some 100 ms. */
#ifdef SANITIZED
#define SAMPLE 30
#else
#define SAMPLE 80
#endif
#define CALLS_MAX  128
#define POINTS_MAX 20000
#define WAIT_MS    20000

enum action { KILL, FAIL };

/* A system call by name, and how often it was made before and in all. */
struct call {
    char name[32];
    unsigned before; /* while the program was being loaded */
    unsigned total;
};

struct point {
    const char *name;
    unsigned number;
};

static struct call calls[CALLS_MAX];
static size_t call_count;
static struct point points[POINTS_MAX];
static size_t point_count;
static unsigned killed; /* runs that the fault ended */

/* The fault being tried; teardown says so when it did not go well. */
static char doing[128];

static void remove_pool(void);

static int
say_doing(void **state)
{
    (void)state; /* none */
    remove_pool();
    if (doing[0])
        print_error("it was %s\n", doing);
    doing[0] = 0;
    return 0;
}

#define SAYING(name) TEST_IN(name, void *unused, NULL, say_doing)

/* ---- programs ---------------------------------------------------------- */

struct program {
    const char *argv[16];
    bool at_keyspace_max; /* fills of new keyspaces wait */
};

/* Starts it under strace with `option` and `value` (NULL: without strace).
 * -D makes the program our child, and the tracer its own. */
static pid_t
start_traced(const struct program *p, const char *option, const char *value,
             const char *trace)
{
    const char *argv[32];
    size_t n = 0;
    pid_t pid;
    int fd;

    if (option) {
        argv[n++] = "strace";
        argv[n++] = "-D";
        argv[n++] = "-qq";
        argv[n++] = "-o";
        argv[n++] = trace;
        argv[n++] = option;
        argv[n++] = value;
    }
    for (size_t i = 0; p->argv[i]; i++)
        argv[n++] = p->argv[i];
    argv[n] = NULL;
    pid = test_fork();
    if (pid > 0)
        return pid;
    /* In the child: only its status shows a failure. */
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)setenv("ASAN_OPTIONS", "detect_leaks=0", 1); /* traces, too */
    fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    (void)dup2(fd, 0);
    (void)dup2(fd, 1);
    if (!getenv("COUNTD_TEST_LOUD"))
        (void)dup2(fd, 2);
    (void)execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(126);
}

static bool
is_done(const struct program *p, const struct fleet *f)
{
    return p->at_keyspace_max ? fleet_logs_are_drained(f) : fleet_is_drained(f);
}

/* Waits until all is merged and SIGTERM ends it, or it ends itself.  Returns
 * its status as the shell does. */
static int
finish_traced(const struct program *p, pid_t pid, const struct fleet *f,
              uint64_t patience_ms)
{
    const uint64_t told = clock_ms() + patience_ms;
    const uint64_t deadline = test_deadline(WAIT_MS);
    bool asked = false;
    int status;

    while (waitpid(pid, &status, WNOHANG) != pid) {
        if (!asked && (is_done(p, f) || clock_ms() > told)) {
            (void)kill(pid, SIGTERM); /* it may have ended by now */
            asked = true;
        }
        if (clock_ms() > deadline) {
            (void)kill(pid, SIGKILL);
            (void)waitpid(pid, &status, 0); /* ours */
            fail_msg("it hangs");
        }
        (void)poll(NULL, 0, 1); /* paces the looking */
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* ---- the calls a program makes ----------------------------------------- */

static struct call *
find_call(const char *name, size_t size)
{
    for (size_t i = 0; i < call_count; i++)
        if (strlen(calls[i].name) == size &&
            memcmp(calls[i].name, name, size) == 0)
            return &calls[i];
    assert_true(call_count < CALLS_MAX && size < sizeof calls[0].name);
    memset(&calls[call_count], 0, sizeof calls[0]);
    memcpy(calls[call_count].name, name, size);
    return &calls[call_count++];
}

/* Counts the calls of a trace; those before the first that names the data
 * directory belong to the dynamic loader. */
static void
read_trace(const char *trace, const char *path)
{
    static char line[65536];
    bool loaded = false;
    struct call *c;
    size_t size;
    FILE *in;

    call_count = 0;
    in = fopen(trace, "re");
    assert_non_null(in);
    while (fgets(line, sizeof line, in)) {
        size = strspn(line, "abcdefghijklmnopqrstuvwxyz0123456789_");
        if (size == 0 || line[size] != '(' || strncmp(line, "execve", 6) == 0 ||
            strncmp(line, "exit", 4) == 0)
            continue;
        /* A sanitizer reads the command line, which names it too. */
        loaded =
            loaded || (strncmp(line, "read", 4) != 0 && strstr(line, path));
        c = find_call(line, size);
        c->total++;
        if (!loaded)
            c->before++;
    }
    assert_int_equal(fclose(in), 0);
    assert_true(loaded);
}

/* Calls whose failure is not the program's to handle, or means nothing. */
static bool
cannot_fail(const char *name)
{
    static const char *const names[] = {
        "futex",        "munmap",
        "rt_sigreturn", "restart_syscall",
        "brk", /* libc takes any answer for an address */
#ifdef SANITIZED
        "mmap",         "madvise",
        "mprotect",     "sigaltstack", /* the sanitizer's own */
#endif
    };

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static void
list_points(enum action action)
{
    point_count = 0;
    for (size_t i = 0; i < call_count; i++) {
        if (action == FAIL && cannot_fail(calls[i].name))
            continue;
        for (unsigned n = calls[i].before + 1; n <= calls[i].total; n++) {
            assert_true(point_count < POINTS_MAX);
            points[point_count++] = (struct point){calls[i].name, n};
        }
    }
    assert_true(point_count > 0);
}

/* ---- the directory ----------------------------------------------------- */

struct fixture {
    struct fleet fleet;
    struct datadir dir;
    struct program worker;
    char worker_path[700];
    time_t job_begun; /* by finish_the_job() */
};

#define OLD_BASE 5

/* Workers have room for one more of the four keyspaces that are new. */
static bool crowded;

/* Fills that wait: of "old" and of two keyspaces that are not there, and of an
 * earlier epoch of a log that is full again and has more for it. */
static void
set_aside(const struct fixture *x, const struct filler *f)
{
    static const struct aside_record one[] = {{"old", "a", 1000}},
                                     many[] = {{"old", "m", 7},
                                               {"some", "m", 8},
                                               {"more", "m", 9}},
                                     of_log[] = {{"new", "m", 5000}};
    const struct log_fill first = {.uuid = "held", .epoch = 1, .first_ms = 1};
    const struct log_fill second = {.uuid = "many", .epoch = 1, .first_ms = 2};
    struct log_fill earlier = {.epoch = f->log.header.epoch - 1, .first_ms = 3};

    memcpy(earlier.uuid, f->log.header.uuid, sizeof earlier.uuid);
    (void)aside_put(x->dir.log_fd, false, &first, one, 1, 1);
    (void)aside_put(x->dir.log_fd, false, &second, many, 3, 1);
    (void)aside_put(x->dir.log_fd, false, &earlier, of_log, 1, 1);
}

/* A keyspace that is there already. */
static void
make_old(const struct fixture *x)
{
    const struct log_fill base = {.uuid = "base", .epoch = 1};
    struct store *s = engine_open(x->dir.keyspace_fd);

    assert_rc(stored_add(s, "old", &base, "a", OLD_BASE), 0);
    store_close(s);
}

/* Two full logs, one whose writer died, one whose creator died, an old
 * keyspace, fills that wait. */
static void
make_directory(struct fixture *x)
{
    struct filler f;

    memset(x, 0, sizeof *x);
    fleet_init_in_memory(&x->fleet);
    assert_rc(datadir_open(&x->dir, x->fleet.path, DATADIR_WRITE), 0);
    make_old(x);
    filler_open(&f, x->dir.log_fd, 0, 20);
    set_aside(x, &f);
    filler_add(&f, "old", "a", 1);
    filler_add(&f, "new", "b", 2);
    filler_seal(&f);
    filler_open(&f, x->dir.log_fd, 1, 20);
    filler_add(&f, "old", "a", 10);
    filler_add(&f, "old", "c", -20);
    filler_add(&f, "old", "d", 0);
    filler_seal(&f);
    filler_open(&f, x->dir.log_fd, 2, 20);
    filler_add(&f, "new", "b", 100);
    filler_add(&f, "new", "b", 200);
    filler_die(&f);
    file_put(file_path(x->fleet.path, "log/lock-0000000003"), "half", 4);
    daemon_path("countd-worker", x->worker_path, sizeof x->worker_path);
    x->worker = (struct program){
        .argv = {x->worker_path, "-d", x->fleet.path, "-o", "log.size=64K",
                 "-o", crowded ? "keyspace.max=2" : "archive.keep=36500d"},
        .at_keyspace_max = crowded};
}

static void
remove_directory(struct fixture *x)
{
    datadir_close(&x->dir);
    fleet_fini(&x->fleet);
}

/* Directories made ahead, oldest first.  What a creator leaves is not taken
 * for dead in its first second; most are older when their turn comes. */
#define POOL 32

static struct fixture pool[POOL];
static unsigned pool_at, pool_count;

static struct fixture *
next_directory(void)
{
    if (pool_at == pool_count) {
        pool_at = 0;
        for (pool_count = 0; pool_count < POOL; pool_count++)
            make_directory(&pool[pool_count]);
    }
    return &pool[pool_at++];
}

static void
remove_pool(void)
{
    while (pool_at < pool_count)
        remove_directory(&pool[pool_at++]);
}

static int64_t
count_of(const struct fixture *x, const char *keyspace, const char *key)
{
    return stored_count(x->fleet.path, keyspace, key);
}

/* A plain worker merges what is left and stops cleanly. */
static void
finish_the_job(struct fixture *x)
{
    x->job_begun = time(NULL);
    fleet_start(&x->fleet, FLEET_WORKER);
    fleet_await_drained(&x->fleet, WAIT_MS);
    fleet_stop(&x->fleet, FLEET_WORKER);
}

/* The lock of a dead creator goes once it is a second old; awaited once and
 * not at every point. */
static void
await_lock_gone(struct fixture *x)
{
    const uint64_t deadline = test_deadline(WAIT_MS);

    fleet_start(&x->fleet, FLEET_WORKER);
    while (faccessat(x->dir.log_fd, "lock-0000000003", F_OK, AT_EACCESS) == 0) {
        assert_true(clock_ms() < deadline);
        /* Paces the looking; nothing relies on its length. */
        (void)poll(NULL, 0, 1);
    }
    fleet_stop(&x->fleet, FLEET_WORKER);
}

/* The lone lock may still be there when it was too young for the worker of
 * finish_the_job(), or when that was stopped before it looked. */
#define LONE_SECONDS 3

static void
check_counts(struct fixture *x)
{
    struct stat st;

    assert_int_equal(count_of(x, "old", "a"), OLD_BASE + 1000 + 1 + 10);
    assert_int_equal(count_of(x, "old", "c"), -20);
    assert_int_equal(count_of(x, "old", "d"), INT64_MIN);
    assert_int_equal(count_of(x, "new", "b"), 302);
    assert_int_equal(count_of(x, "new", "m"), 5000);
    assert_int_equal(count_of(x, "old", "m"), 7);
    assert_int_equal(count_of(x, "some", "m"), 8);
    assert_int_equal(count_of(x, "more", "m"), 9);
    if (fstatat(x->dir.log_fd, "lock-0000000003", &st, 0) == 0 &&
        x->job_begun - st.st_ctim.tv_sec > LONE_SECONDS)
        await_lock_gone(x);
    fleet_check(&x->fleet);
}

/* ---- all points -------------------------------------------------------- */

static bool
strace_works(void)
{
    static bool asked, works;
    const struct program p = {.argv = {"true"}};
    int status;
    pid_t pid;

    if (asked)
        return works;
    asked = true;
    pid = start_traced(&p, "-e", "inject=none", "/dev/null");
    (void)waitpid(pid, &status, 0); /* ours */
    pid = start_traced(&p, "-e", "trace=all", "/dev/null");
    works = waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
            WEXITSTATUS(status) == 0;
    return works;
}

static void
trace_calls(const struct program *p, const struct fixture *x)
{
    char file[600];
    pid_t pid;
    int status;

    (void)snprintf(file, sizeof file, "%s/trace", x->fleet.path);
    pid = start_traced(p, "-s", "4096", file);
    status = finish_traced(p, pid, &x->fleet, test_patience(WAIT_MS));
    assert_int_equal(status, 0);
    read_trace(file, x->fleet.path);
}

/* Runs the program with one fault; its status. */
static int
run_point(const struct program *p, const struct fixture *x,
          const struct point *at, enum action action)
{
    char value[128];

    (void)snprintf(value, sizeof value, "inject=%s:%s:when=%u", at->name,
                   action == KILL ? "signal=KILL" : "error=EIO", at->number);
    return finish_traced(p, start_traced(p, "-e", value, "/dev/null"),
                         &x->fleet,
                         action == KILL ? test_patience(WAIT_MS) : 400);
}

/* What may come of a fault: the kill; the documented codes; the dynamic
 * loader's code when one of its calls fails; our SIGTERM before it is
 * expected. */
static bool
may_end_so(int status, enum action action)
{
    if (status == 128 + SIGKILL)
        killed++;
    if (status == 128 + SIGTERM)
        return true;
    if (action == KILL)
        return status == 128 + SIGKILL || status == 0;
    return status == 0 || status == 111 || status == 100 || status == 127;
}

static void
run_worker_point(const struct point *at, enum action action)
{
    struct fixture *x = next_directory();
    int status;

    status = run_point(&x->worker, x, at, action);
    if (!may_end_so(status, action))
        fail_msg("it ended with %d", status);
    finish_the_job(x);
    check_counts(x);
    remove_directory(x);
}

/* Runs a worker for a sample of the points. */
static void
each_point(enum action action, const char *what)
{
    const bool all = getenv("COUNTD_ALL_CALLS") != NULL;
    struct random r = {random_seed(what)};
    size_t step, run = 0;

    killed = 0;
    list_points(action);
    step = all || point_count < SAMPLE ? 1 : point_count / SAMPLE;
    for (size_t i = random_below(&r, step); i < point_count; i += step, run++) {
        /* Shown when the test fails: the fault it was about. */
        (void)snprintf(doing, sizeof doing, "%s %s %u",
                       action == KILL ? "killed at" : "EIO from",
                       points[i].name, points[i].number);
        run_worker_point(&points[i], action);
        doing[0] = 0;
    }
    remove_pool();
    print_message("%s: %zu of %zu points, %u died of it\n", what, run,
                  point_count, killed);
    /* Numbers of calls vary a little between runs, so some are not reached. */
    if (action == KILL)
        assert_true(killed > run / 4 * 3);
}

/* ---- the worker -------------------------------------------------------- */

static void
list_worker_calls(void)
{
    struct fixture x;

    make_directory(&x);
    trace_calls(&x.worker, &x);
    await_lock_gone(&x);
    finish_the_job(&x);
    check_counts(&x);
    remove_directory(&x);
}

static void
try_calls(bool at_keyspace_max, enum action action, const char *what)
{
    if (!strace_works())
        test_skip("strace cannot trace here");
    crowded = at_keyspace_max;
    list_worker_calls();
    each_point(action, what);
}

SAYING(a_kill_at_any_call_of_the_worker_loses_and_doubles_nothing)
{
    try_calls(false, KILL, "worker killed");
}

SAYING(an_error_from_any_call_of_the_worker_loses_and_doubles_nothing)
{
    try_calls(false, FAIL, "worker failing");
}

SAYING(a_kill_at_any_call_of_a_worker_without_room_loses_and_doubles_nothing)
{
    try_calls(true, KILL, "worker without room killed");
}

SAYING(
    an_error_from_any_call_of_a_worker_without_room_loses_and_doubles_nothing)
{
    try_calls(true, FAIL, "worker without room failing");
}

int
main(int argc, char **argv)
{
    diag_init("test_worker_calls", DIAG_ERROR);
    if (!getenv("TMPDIR") && access("/dev/shm", W_OK) == 0)
        assert(setenv("TMPDIR", "/dev/shm", 1) == 0);
    return test_main(argc, argv);
}
