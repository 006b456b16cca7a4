/* tests/unit/test_board_race.c - many processes and threads on one board. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/board/countd_board.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/daemon.h"
#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"

#define ATTACH_MS  30000 /* until another board is there */
#define UPDATES_MS 30000 /* for some updates */
#define WRITERS    4
#define UPDATES    1000000
#define SHARED     5 /* a sum, the last writer, two of it, a checksum */
#define GENERATION 0

/* Shared by the processes beside the board. */
struct between {
    _Atomic uint64_t updated, torn, failed;
    atomic_bool stop;
};

struct fixture {
    struct tmpdir dir;
    char path[600];
    struct countd_board *b;
    struct between *between;
};

static int
create_board(struct fixture *r)
{
    const struct countd_board_shape s = {.size = sizeof s,
                                         .slots = 3,
                                         .shared_count = SHARED,
                                         .private_count = 4,
                                         .cells = 2};
    char error[COUNTD_BOARD_ERROR_SIZE];

    return countd_board_create(&r->b, r->path, &s, error);
}

static void
set_up(struct fixture *r)
{
    tmpdir_make_in_memory(&r->dir);
    snprintf(r->path, sizeof r->path, "%s/board", r->dir.path);
    assert_rc(create_board(r), 0);
    r->between = mmap(NULL, sizeof *r->between, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(r->between != MAP_FAILED);
}

static void
tear_down(struct fixture *r)
{
    countd_board_close(r->b);
    assert_int_equal(munmap(r->between, sizeof *r->between), 0);
    tmpdir_remove(&r->dir);
}

#define CASE(name, r) TEST_WITH(name, struct fixture, r, set_up, tear_down)

static int64_t
row_checksum(const int64_t *shared, uint64_t generation)
{
    uint64_t sum = generation * 0x9e3779b97f4a7c15u;

    for (int i = 0; i < SHARED - 1; i++)
        sum = (sum ^ (uint64_t)shared[i]) * 0xff51afd7ed558ccdu;
    return (int64_t)(sum >> 1);
}

static bool
is_whole(const int64_t *shared, uint64_t generation)
{
    return generation == 0 ||
           shared[SHARED - 1] == row_checksum(shared, generation);
}

/* One reading and one try. */
static int
try_once(struct countd_board *b, struct between *t, int64_t who)
{
    int64_t shared[SHARED];
    uint64_t g;
    int rc;

    rc = countd_board_read(b, 1, shared, &g);
    if (rc < 0)
        return rc;
    if (!is_whole(shared, g) || shared[GENERATION] != (int64_t)g)
        atomic_fetch_add(&t->torn, 1);
    shared[GENERATION]++;
    shared[1] = who;
    shared[2] = -shared[2] + who;
    shared[3] ^= shared[GENERATION];
    shared[SHARED - 1] = row_checksum(shared, g + 1);
    return countd_board_update(b, 1, g, shared, NULL);
}

/* Updates `count` times (0: until `stop` is set), and attaches anew when the
 * board is retired: there is another one before the deadline. */
static void
update_many(struct fixture *r, int64_t who, uint64_t count)
{
    struct between *t = r->between;
    char error[COUNTD_BOARD_ERROR_SIZE];
    struct countd_board *b = NULL;
    uint64_t updated = 0, deadline = test_deadline(ATTACH_MS);
    int rc;

    while (!atomic_load(&t->stop) && atomic_load(&t->failed) == 0 &&
           (count == 0 || updated < count)) {
        if (!b && countd_board_attach(&b, r->path, NULL, 0, error) < 0) {
            atomic_fetch_add(&t->failed, clock_ms() >= deadline);
            continue;
        }
        rc = try_once(b, t, who);
        updated += rc == 0;
        atomic_fetch_add(&t->updated, rc == 0);
        if (rc == -ENOTCONN) {
            countd_board_close(b);
            b = NULL;
            deadline = test_deadline(ATTACH_MS);
        } else if (rc < 0 && rc != -ESTALE) {
            atomic_fetch_add(&t->failed, 1);
        }
    }
    if (b)
        countd_board_close(b);
}

static pid_t
start_process(struct fixture *r, int64_t who, uint64_t count)
{
    const pid_t pid = test_fork();
    if (pid == 0) {
        update_many(r, who, count);
        _exit(0);
    }
    return pid;
}

static void
start_all(struct fixture *r, pid_t pids[WRITERS], uint64_t count)
{
    for (int i = 0; i < WRITERS; i++)
        pids[i] = start_process(r, i + 1, count);
}

static void
await_all(struct fixture *r, const pid_t pids[WRITERS])
{
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(waitpid(pids[i], NULL, 0), pids[i]);
    assert_int_equal(r->between->failed, 0);
    assert_int_equal(r->between->torn, 0);
}

CASE(a_generation_has_one_winner_and_no_reading_is_torn, r)
{
    const uint64_t count = UPDATES / test_slow();
    int64_t shared[SHARED];
    pid_t pids[WRITERS];
    uint64_t g;

    start_all(r, pids, count);
    await_all(r, pids);

    assert_int_equal(r->between->updated, WRITERS * count);
    assert_rc(countd_board_read(r->b, 1, shared, &g), 0);
    assert_int_equal(g, WRITERS * count);
    assert_int_equal(shared[GENERATION], WRITERS * count);
}

/* ---- threads: what the sanitizer sees ---------------------------------- */

static void *
work_in_thread(void *arg)
{
    struct fixture *r = arg;
    int64_t values[4];

    update_many(r, 1, 5000);
    for (int i = 0; i < 5000; i++) {
        if (countd_board_add(r->b, 0, 0, (struct countd_board_value){0, 1},
                             NULL) < 0 ||
            countd_board_add(r->b, 0, 0, (struct countd_board_value){1, -1},
                             NULL) < 0 ||
            countd_board_read_cell(r->b, 0, 0, values, NULL) < 0)
            atomic_fetch_add(&r->between->failed, 1);
        if (values[0] + values[1] < 0 || values[0] + values[1] > WRITERS)
            atomic_fetch_add(&r->between->torn, 1);
    }
    return NULL;
}

CASE(threads_share_boards_and_handles, r)
{
    pthread_t threads[WRITERS];
    int64_t values[4];

    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work_in_thread, r),
                         0);
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);

    assert_int_equal(r->between->failed, 0);
    assert_int_equal(r->between->torn, 0);
    assert_rc(countd_board_read_cell(r->b, 0, 0, values, NULL), 0);
    assert_int_equal(values[0], WRITERS * 5000);
    assert_int_equal(values[1], -WRITERS * 5000);
}

/* ---- killed writers, restarted masters --------------------------------- */

static void
await_updates(const struct fixture *r, uint64_t more)
{
    const uint64_t until = atomic_load(&r->between->updated) + more;
    const uint64_t deadline = test_deadline(UPDATES_MS);

    while (atomic_load(&r->between->updated) < until) {
        if (clock_ms() >= deadline)
            atomic_fetch_add(&r->between->failed, 1); /* ends them all */
        assert_int_equal(r->between->failed, 0);
        (void)usleep(100); /* paces the looking */
    }
}

CASE(killed_writers_stop_nobody, r)
{
    pid_t pids[WRITERS];

    start_all(r, pids, 0);
    for (int i = 0; i < 200; i++) {
        const int k = i % WRITERS;

        await_updates(r, 50);
        assert_int_equal(kill(pids[k], SIGKILL), 0);
        assert_int_equal(waitpid(pids[k], NULL, 0), pids[k]);
        pids[k] = start_process(r, k + 1, 0);
    }
    atomic_store(&r->between->stop, true);
    await_all(r, pids);
}

CASE(a_master_restarts_under_load, r)
{
    pid_t pids[WRITERS];

    start_all(r, pids, 0);
    for (int i = 0; i < 50; i++) {
        await_updates(r, 200);
        countd_board_close(r->b);
        /* A forked child has the descriptor of one before, and no lock. */
        assert_rc(create_board(r), 0);
    }
    await_updates(r, 200);
    atomic_store(&r->between->stop, true);
    await_all(r, pids);
}
