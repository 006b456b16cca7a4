/* tests/unit/test_board_steps.c - a process is killed before every single store
 * it makes to a board, and what the next one finds; a reader is overtaken in
 * the middle of a read.
 *
 * The sources are built into this test with a step before each store, and a
 * look in each read. */
/* SPDX-License-Identifier: BSD-2-Clause */
static void take_step(void);
static void look_on(void);
#define BOARD_STEP() take_step()
#define BOARD_LOOK() look_on()

#include <time.h>

static int pause_once(const struct timespec *time, struct timespec *left);
#define nanosleep pause_once

#include "common/board/board_file.c"
#include "common/board/board_format.c"
#include "common/board/board_last_read.c"
#include "common/board/board_locks.c"
#include "common/board/board_process.c"
#include "common/board/board_slot.c"

#include <sys/wait.h>

#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"

#define SHARED  4
#define PRIVATE 3

static long steps_left; /* 0: no end */

static void
take_step(void)
{
    if (steps_left > 0 && --steps_left == 0)
        (void)kill(getpid(), SIGKILL);
}

static void (*looking)(
    void); /* what happens in the middle of a read; or NULL */

static void
look_on(void)
{
    void (*const now)(void) = looking;

    looking = NULL; /* once */
    if (now)
        now();
}

/* Pauses between two tries for the table's lock take no time; in the last of
 * them another process gives it up. */
static unsigned pauses_left, pauses;
static int locking_fd;

static int
pause_once(const struct timespec *time, struct timespec *left)
{
    (void)time;
    (void)left;
    pauses++;
    if (pauses_left > 0 && --pauses_left == 0)
        board_lock_drop(locking_fd, BOARD_LOCK_TABLE);
    return 0;
}

struct fixture {
    struct tmpdir dir;
    char path[600];
    struct countd_board *b; /* of the one that finds it */
    unsigned killed;
};

static int
create_board(struct fixture *r, struct countd_board **out)
{
    const struct countd_board_shape s = {.size = sizeof s,
                                         .slots = 2,
                                         .shared_count = SHARED,
                                         .private_count = PRIVATE,
                                         .cells = 2};
    char error[COUNTD_BOARD_ERROR_SIZE];

    return countd_board_create(out, r->path, &s, error);
}

static void
set_up(struct fixture *r)
{
    steps_left = 0;
    tmpdir_make_in_memory(&r->dir);
    snprintf(r->path, sizeof r->path, "%s/board", r->dir.path);
    assert_rc(create_board(r, &r->b), 0);
}

static void
tear_down(struct fixture *r)
{
    if (r->b)
        countd_board_close(r->b);
    tmpdir_remove(&r->dir);
}

#define CASE(name, r) TEST_WITH(name, struct fixture, r, set_up, tear_down)

/* Runs `body` in children that die before their 1st, 2nd ... store, until one
 * gets through; `look` judges what each has left, before it is waited for and
 * so still a zombie, or after. */
static void
kill_everywhere(struct fixture *r, int (*body)(struct fixture *r),
                void (*look)(struct fixture *r))
{
    bool killed = true;

    for (long n = 1; killed; n++) {
        siginfo_t info;
        const pid_t pid = test_fork();
        if (pid == 0) {
            steps_left = n;
            _exit(body(r));
        }
        assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
        killed = info.si_code == CLD_KILLED;
        if (!killed)
            assert_int_equal(info.si_status, 0);
        else
            r->killed++;
        if (n % 2 == 0)
            assert_int_equal(waitpid(pid, NULL, 0), pid);
        look(r);
        if (n % 2 == 1)
            assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    assert_true(r->killed > 4); /* it did store something */
}

/* ---- updates ----------------------------------------------------------- */

/* All shared values are the same, and so are all of cell 0. */
static int
update_row(struct fixture *r)
{
    int64_t shared[SHARED], values[PRIVATE];
    struct countd_board_value pairs[PRIVATE];
    struct countd_board_change change = {.values = pairs, .count = PRIVATE};
    uint64_t g;

    if (countd_board_read(r->b, 1, shared, &g) < 0 ||
        countd_board_read_cell(r->b, 1, 0, values, NULL) < 0)
        return 1;
    for (int i = 0; i < SHARED; i++)
        shared[i]++;
    for (uint32_t i = 0; i < PRIVATE; i++)
        pairs[i] = (struct countd_board_value){i, values[i] + 1};
    if (countd_board_update(r->b, 1, g, shared, &change) < 0 ||
        change.result < 0)
        return 2;
    return 0;
}

static void
both_parts_are_whole_and_can_be_updated(struct fixture *r)
{
    int64_t shared[SHARED], values[PRIVATE];
    uint64_t g;

    for (int round = 0; round < 2; round++) {
        assert_rc(countd_board_read(r->b, 1, shared, &g), 0);
        for (int i = 0; i < SHARED; i++)
            assert_int_equal(shared[i], g); /* one success each generation */
        assert_rc(countd_board_read_cell(r->b, 1, 0, values, NULL), 0);
        for (int i = 1; i < PRIVATE; i++)
            assert_int_equal(values[i], values[0]);
        if (round == 0)
            assert_int_equal(update_row(r), 0);
    }
}

CASE(an_update_killed_at_any_store_is_taken_over, r)
{
    struct countd_board_info info;

    kill_everywhere(r, update_row, both_parts_are_whole_and_can_be_updated);

    countd_board_info(r->b, &info);
    assert_true(info.recovered > 0);
    assert_int_equal(info.processes, 1); /* this one */
}

/* ---- adding, claiming, giving up --------------------------------------- */

static int64_t at_least;

static int
add_to_cell(struct fixture *r)
{
    return countd_board_add(r->b, 0, 0, (struct countd_board_value){1, 1},
                            NULL) == 0
               ? 0
               : 1;
}

static void
sum_is_exact(struct fixture *r)
{
    int64_t values[PRIVATE], sum;

    assert_rc(countd_board_read_cell(r->b, 0, 0, values, NULL), 0);
    assert_in_range(values[1], at_least, at_least + 1);
    assert_rc(
        countd_board_add(r->b, 0, 0, (struct countd_board_value){1, 1}, &sum),
        0);
    assert_int_equal(sum, values[1] + 1);
    at_least = sum;
}

CASE(adding_killed_at_any_store_counts_once_or_not, r)
{
    at_least = 0;
    kill_everywhere(r, add_to_cell, sum_is_exact);
}

static int
claim_and_release(struct fixture *r)
{
    struct countd_board *b;
    char error[COUNTD_BOARD_ERROR_SIZE];
    uint32_t cell;

    if (countd_board_attach(&b, r->path, NULL, 0, error) < 0 ||
        countd_board_claim(b, 0, &cell) < 0 ||
        countd_board_add(b, 0, cell, (struct countd_board_value){2, 5}, NULL) <
            0 ||
        countd_board_claim(b, 0, &cell) < 0 ||
        countd_board_release(b, 0, cell) < 0)
        return 1;
    countd_board_close(b);
    return 0;
}

static void
all_cells_can_be_claimed(struct fixture *r)
{
    int64_t values[PRIVATE];
    uint32_t cell;
    pid_t owner;

    for (int i = 0; i < 2; i++) {
        assert_rc(countd_board_claim(r->b, 0, &cell), 0);
        assert_int_equal(cell, i);
        assert_rc(countd_board_read_cell(r->b, 0, cell, values, &owner), 0);
        assert_int_equal(values[2], 0);
        assert_int_equal(owner, getpid());
    }
    assert_rc(countd_board_release(r->b, 0, 0), 0);
    assert_rc(countd_board_release(r->b, 0, 1), 0);
}

CASE(a_claim_killed_at_any_store_leaves_cells_to_claim, r)
{
    kill_everywhere(r, claim_and_release, all_cells_can_be_claimed);
}

/* ---- taking back ------------------------------------------------------- */

/* Leaves the word of slot 0 to a dead process, once more before each. */
static int
update_what_a_dead_one_left(struct fixture *r)
{
    const pid_t pid = fork();
    const int64_t zero[SHARED] = {0};
    int64_t shared[SHARED];
    uint64_t g;

    if (pid == 0) {
        uint32_t me;

        steps_left = 0;
        g = BOARD_ANY;
        if (board_me(r->b, &me) == 0 &&
            block_take(r->b, board_shared(r->b, 0).word, me, &g) == 0)
            _exit(0);
        _exit(1);
    }
    if (waitpid(pid, NULL, 0) != pid)
        return 1;
    if (countd_board_read(r->b, 0, shared, &g) < 0)
        return 2;
    return countd_board_update(r->b, 0, g, zero, NULL) < 0 ? 3 : 0;
}

static void
slot_0_can_be_updated(struct fixture *r)
{
    int64_t shared[SHARED];
    uint64_t g;

    assert_rc(countd_board_read(r->b, 0, shared, &g), 0);
    assert_rc(countd_board_update(r->b, 0, g, shared, NULL), 0);
}

CASE(taking_back_killed_at_any_store_is_taken_over, r)
{
    kill_everywhere(r, update_what_a_dead_one_left, slot_0_can_be_updated);
}

/* All entries of the table are of the dead, each with a cell or a word. */
static int
register_when_the_table_is_full(struct fixture *r)
{
    uint32_t me;

    for (uint32_t i = 1; i <= BOARD_PROCESSES; i++) {
        struct board_process *e = entry_of(r->b, i);

        atomic_store(&e->pid, 1);
        atomic_store(&e->locked, 1); /* and no process has the lock */
        atomic_store(&e->state, ENTRY_USED);
    }
    for (uint32_t i = 0; i < 2; i++) {
        atomic_store(board_shared(r->b, i).word, board_word(7, 11 + i));
        atomic_store(board_cell(r->b, i, 0).word, board_word(8, 0));
        atomic_store(board_copy(board_cell(r->b, i, 0), 8), 21 + i);
    }
    return board_me(r->b, &me) == 0 ? 0 : 1;
}

static void
nothing_is_left_of_the_dead(struct fixture *r)
{
    const int64_t one[SHARED] = {1, 1, 1, 1};
    int64_t values[PRIVATE];
    uint32_t cell;
    pid_t owner;

    assert_rc(countd_board_update(r->b, 0, 7, one, NULL), 0);
    assert_rc(countd_board_update(r->b, 1, 7, one, NULL), 0);
    /* They have no owner: a number may be another's from now on. */
    for (uint32_t i = 0; i < 2; i++) {
        assert_rc(countd_board_read_cell(r->b, i, 0, values, &owner), 0);
        assert_int_equal(owner, 0);
    }
    assert_rc(countd_board_claim(r->b, 0, &cell), 0);
    assert_rc(countd_board_claim(r->b, 1, &cell), 0);
    countd_board_close(r->b);
    assert_rc(create_board(r, &r->b),
              0); /* afresh: the entries were overwritten */
}

CASE(sweeping_killed_at_any_store_is_done_by_the_next, r)
{
    kill_everywhere(r, register_when_the_table_is_full,
                    nothing_is_left_of_the_dead);
}

/* ---- making it anew ---------------------------------------------------- */

static int
make_anew(struct fixture *r)
{
    struct countd_board *b;

    return create_board(r, &b) == 0 ? 0 : 1;
}

static void
a_new_master_gets_it(struct fixture *r)
{
    struct countd_board *b;
    char error[COUNTD_BOARD_ERROR_SIZE];
    int64_t shared[SHARED];
    uint64_t g;

    assert_rc(create_board(r, &b), 0);
    assert_rc(countd_board_read(b, 0, shared, &g), 0);
    countd_board_close(b);
    assert_rc(countd_board_attach(&b, r->path, NULL, 0, error), -ESRCH);
}

CASE(making_it_killed_anywhere_leaves_it_to_the_next, r)
{
    countd_board_close(r->b);
    r->b = NULL;
    r->killed = 4; /* it has one step only: the retirement */
    kill_everywhere(r, make_anew, a_new_master_gets_it);
}

/* ---- a reader is overtaken --------------------------------------------- */

static struct fixture *overtaken;

static void
update_once(void)
{
    assert_int_equal(update_row(overtaken), 0);
}

static void
update_twice(void)
{
    update_once();
    update_once();
}

/* Old values with a new generation would let an update of what has changed
 * pass. */
CASE(a_reader_that_is_overtaken_has_values_of_its_generation, r)
{
    static void (*const ways[])(void) = {update_once, update_twice};
    int64_t shared[SHARED];
    uint64_t g;

    overtaken = r;
    for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
        looking = ways[i];
        assert_rc(countd_board_read(overtaken->b, 1, shared, &g), 0);
        assert_null(looking);
        for (int j = 0; j < SHARED; j++)
            assert_int_equal(shared[j], g);
    }
}

CASE(the_lock_of_the_table_is_waited_for_and_not_for_ever, r)
{
    locking_fd = open(r->path, O_RDWR | O_CLOEXEC);
    assert_true(locking_fd >= 0);
    assert_rc(board_lock_try(locking_fd, BOARD_LOCK_TABLE), 0);

    pauses = pauses_left = 0;
    assert_rc(board_lock_table(r->b), -EBUSY);
    assert_int_equal(pauses, TABLE_TRIES - 1);
    assert_in_range(TABLE_TRIES, 100, 5000); /* of a millisecond */

    pauses_left = 3;
    assert_rc(board_lock_table(r->b), 0);
    assert_rc(board_lock_try(locking_fd, BOARD_LOCK_TABLE), -EBUSY);
    board_unlock_table(r->b);
    assert_rc(board_lock_try(locking_fd, BOARD_LOCK_TABLE), 0);
    assert_int_equal(close(locking_fd), 0);
}
