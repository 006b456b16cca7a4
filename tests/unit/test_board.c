/* tests/unit/test_board.c - boards: what is refused, the contract of reading
 * before updating, masters that come and go. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/board/board_internal.h"
#include "tests/lib/file.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/test.h"
#include "tests/lib/tmpdir.h"

struct fixture {
    struct tmpdir dir;
    char path[600];
    char error[COUNTD_BOARD_ERROR_SIZE];
    struct countd_board *master;
};

static const char *const names[] = {"a", "b", "c", "d", "x", "y"};

static struct countd_board_shape
shape_of(uint32_t slots, uint32_t shared, uint32_t values, uint32_t cells)
{
    return (struct countd_board_shape){.size =
                                           sizeof(struct countd_board_shape),
                                       .slots = slots,
                                       .shared_count = shared,
                                       .private_count = values,
                                       .cells = cells};
}

static int
create_board(struct fixture *r, struct countd_board **out)
{
    struct countd_board_shape s = shape_of(2, 4, 2, 1);

    s.names = names;
    return countd_board_create(out, r->path, &s, r->error);
}

static int
attach_board(struct fixture *r, unsigned flags, struct countd_board **out)
{
    const struct countd_board_shape s = shape_of(2, 4, 2, 1);

    return countd_board_attach(out, r->path, &s, flags, r->error);
}

static void
close_master(struct fixture *r)
{
    if (r->master)
        countd_board_close(r->master);
    r->master = NULL;
}

static void
set_up(struct fixture *r)
{
    tmpdir_make(&r->dir);
    snprintf(r->path, sizeof r->path, "%s/board", r->dir.path);
    assert_rc(create_board(r, &r->master), 0);
}

static void
tear_down(struct fixture *r)
{
    close_master(r);
    tmpdir_remove(&r->dir);
}

#define CASE(name, r) TEST_WITH(name, struct fixture, r, set_up, tear_down)

/* Adds to the first value of a cell. */
static int
add_to_cell(struct countd_board *b, uint32_t slot, uint32_t cell, int64_t value)
{
    const struct countd_board_value added = {.index = 0, .value = value};

    return countd_board_add(b, slot, cell, added, NULL);
}

/* ---- the contract ------------------------------------------------------ */

struct user {
    struct countd_board_last last;
    int64_t shared[4], values[2];
};

static void
user_attach(struct fixture *r, struct user *u)
{
    memset(u, 0, sizeof *u);
    assert_rc(attach_board(r, 0, &u->last.board), 0);
}

static void
user_reads(struct user *u, int64_t s0, int64_t s1, int64_t s2, int64_t s3,
           int64_t p0, int64_t p1)
{
    const int64_t shared[] = {s0, s1, s2, s3}, values[] = {p0, p1};

    assert_rc(countd_board_last_read(&u->last, 0, u->shared, u->values), 0);
    assert_memory_equal(u->shared, shared, sizeof shared);
    assert_memory_equal(u->values, values, sizeof values);
}

static int
user_updates(struct user *u, int64_t slot, const int64_t *shared, size_t n,
             const struct countd_board_pair *pairs, size_t pair_count)
{
    const struct countd_board_last_change change = {shared, n, pairs,
                                                    pair_count};

    return countd_board_last_update(&u->last, slot, &change);
}

#define PAIR(index, value) (const struct countd_board_pair[]){{index, value}}, 1
#define SHARED(a, b, c, d) ((const int64_t[]){a, b, c, d}), 4
#define NO_SHARED          NULL, 0
#define NO_PAIR            NULL, 0

CASE(two_users_take_turns_as_the_contract_says, r)
{
    const struct countd_board_pair both[] = {{0, 66}, {1, 99}};
    struct user a, b;

    user_attach(r, &a);
    user_attach(r, &b);
    user_reads(&a, 0, 0, 0, 0, 0, 0);
    user_reads(&b, 0, 0, 0, 0, 0, 0);

    assert_rc(user_updates(&a, 0, SHARED(1, 2, 3, 4), PAIR(0, 6)), 1);
    assert_rc(user_updates(&b, 0, SHARED(11, 12, 13, 14), PAIR(1, 9)), 0);
    assert_rc(user_updates(&a, 0, SHARED(21, 22, 23, 24), NO_PAIR), 0);
    user_reads(&a, 1, 2, 3, 4, 6, 9);
    user_reads(&b, 1, 2, 3, 4, 6, 9);

    assert_rc(user_updates(&b, 0, SHARED(11, 12, 13, 14), both, 2), 1);
    user_reads(&a, 11, 12, 13, 14, 66, 99);
    assert_rc(user_updates(&a, 0, NO_SHARED, PAIR(0, 7)), 0);
    user_reads(&a, 11, 12, 13, 14, 7, 99);
    assert_rc(user_updates(&a, 0, NO_SHARED, NO_PAIR), 0);

    countd_board_close(a.last.board);
    countd_board_close(b.last.board);
}

CASE(what_the_contract_forbids_has_no_effect_and_its_words, r)
{
    static const int64_t five[5] = {5, 5, 5, 5, 5};
    static const struct {
        int64_t slot;
        size_t shared; /* values; 0: none */
        int64_t index; /* of a private value; 9: none */
        const char *text;
    } all[] = {
        {1, 4, 9, "update for only last read index is allowed"},
        {1, 0, 0, "update for only last read index is allowed"},
        {-1, 4, 9, "wrong index"},
        {2, 4, 9, "wrong index"},
        {0, 4, -1, "wrong private index"},
        {0, 4, 2, "wrong private index"},
        {0, 3, 9, "values size mismatch slot size"},
        {0, 5, 9, "values size mismatch slot size"},
    };
    struct user u;

    user_attach(r, &u);
    /* Nothing has been read. */
    assert_rc(user_updates(&u, 0, SHARED(1, 1, 1, 1), NO_PAIR), -EINVAL);
    assert_string_equal(u.last.text, all[0].text);

    user_reads(&u, 0, 0, 0, 0, 0, 0);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const struct countd_board_pair pair = {all[i].index, 1};

        assert_rc(user_updates(&u, all[i].slot, all[i].shared ? five : NULL,
                               all[i].shared, &pair, all[i].index != 9),
                  -EINVAL);
        assert_string_equal(u.last.text, all[i].text);
    }
    for (int64_t slot = -1; slot <= 2; slot += 3) {
        assert_rc(countd_board_last_read(&u.last, slot, u.shared, u.values),
                  -EINVAL);
        assert_string_equal(u.last.text, "wrong index");
    }

    user_reads(&u, 0, 0, 0, 0, 0, 0);
    assert_int_equal(u.last.generation, 0);
    countd_board_close(u.last.board);
}

/* The word of a slot, in the middle of an update by this very process. */
CASE(a_locked_row_is_refused_with_a_warning_and_private_values_written, r)
{
    struct board_block k;
    struct user u;
    uint32_t me;

    assert_int_equal(setenv("IPC_LEADERBOARD_MAX_SPINLOCK_ATTEMPTS", "300", 1),
                     0);
    user_attach(r, &u);
    assert_int_equal(unsetenv("IPC_LEADERBOARD_MAX_SPINLOCK_ATTEMPTS"), 0);
    user_reads(&u, 0, 0, 0, 0, 0, 0);
    k = board_shared(u.last.board, 0);
    assert_rc(board_register(u.last.board, &me), 0);
    atomic_store(k.word, board_word(0, me));

    assert_rc(user_updates(&u, 0, SHARED(1, 1, 1, 1), PAIR(1, 3)), 0);

    assert_string_equal(
        u.last.text,
        "failed to acquire spin lock for row 0 after 301 attempts");
    assert_true(atomic_load(k.word) == board_word(0, me));
    user_reads(&u, 0, 0, 0, 0, 0, 3); /* readers do not wait */
    atomic_store(k.word, 0);
    countd_board_close(u.last.board);
}

CASE(an_update_whose_private_values_are_locked_is_still_one, r)
{
    struct board_block k;
    struct user u;
    uint32_t me;

    assert_int_equal(setenv("COUNTD_BOARD_ATTEMPTS", "1", 1), 0);
    user_attach(r, &u);
    assert_int_equal(unsetenv("COUNTD_BOARD_ATTEMPTS"), 0);
    user_reads(&u, 0, 0, 0, 0, 0, 0);
    k = board_cell(u.last.board, 0, 0);
    assert_rc(board_register(u.last.board, &me), 0);
    atomic_store(k.word, board_word(0, me));

    assert_rc(user_updates(&u, 0, SHARED(1, 1, 1, 1), PAIR(1, 3)), 1);

    assert_string_equal(
        u.last.text, "failed to acquire spin lock for row 0 after 2 attempts");
    assert_rc(user_updates(&u, 0, SHARED(2, 2, 2, 2), PAIR(1, 3)), 0);
    user_reads(&u, 1, 1, 1, 1, 0, 0);
    atomic_store(k.word, 0);
    countd_board_close(u.last.board);
}

/* ---- explicit generations, cells --------------------------------------- */

CASE(rows_are_handled_alternately_by_their_generations, r)
{
    const int64_t ones[4] = {1, 1, 1, 1}, twos[4] = {2, 2, 2, 2};
    int64_t got[4];
    uint64_t g0, g1;

    assert_rc(countd_board_read(r->master, 0, got, &g0), 0);
    assert_rc(countd_board_read(r->master, 1, got, &g1), 0);
    assert_rc(countd_board_update(r->master, 0, g0, ones, NULL), 0);
    assert_rc(countd_board_update(r->master, 1, g1, twos, NULL), 0);

    assert_rc(countd_board_update(r->master, 1, g1, ones, NULL), -ESTALE);
    assert_rc(countd_board_update(r->master, 1, g1 + 1, ones, NULL), 0);
    assert_rc(countd_board_update(r->master, 1, UINT64_MAX, twos, NULL),
              -ESTALE);
    assert_rc(countd_board_read(r->master, 1, got, &g1), 0);
    assert_memory_equal(got, ones, sizeof ones);
    assert_int_equal(g1, 2);
}

CASE(shared_and_private_outcomes_are_told_apart, r)
{
    const int64_t ones[4] = {1, 1, 1, 1};
    const struct countd_board_value values_of[] = {{0, 6}, {0, 7}, {2, 7}};
    struct countd_board_change six = {.values = values_of, .count = 1},
                               bad = {.values = values_of + 1, .count = 2},
                               none = {.count = 0};
    int64_t got[4], values[2];
    uint64_t g;

    assert_rc(countd_board_update(r->master, 0, 9, ones, &six), -ESTALE);
    assert_rc(six.result, 0);
    assert_rc(countd_board_update(r->master, 0, 0, ones, &bad), -EINVAL);
    assert_rc(bad.result, -EINVAL);
    six.cell = 1;
    assert_rc(countd_board_update(r->master, 0, 0, ones, &six), -EINVAL);
    assert_rc(six.result, -EINVAL);
    assert_rc(countd_board_update(r->master, 2, 0, ones, &none), -EINVAL);
    assert_rc(none.result, -EINVAL);

    assert_rc(countd_board_read(r->master, 0, got, &g), 0);
    assert_int_equal(g, 0);
    assert_int_equal(got[0], 0);
    assert_rc(countd_board_read_cell(r->master, 0, 0, values, NULL), 0);
    assert_int_equal(values[0], 6);
}

CASE(adding_returns_the_sum_and_never_wraps, r)
{
    const struct countd_board_value high = {1, INT64_MAX - 1};
    struct countd_board_change change = {.values = &high, .count = 1};
    int64_t sum = -1, values[2];

    assert_rc(countd_board_add(r->master, 1, 0,
                               (struct countd_board_value){0, -5}, &sum),
              0);
    assert_int_equal(sum, -5);
    assert_rc(countd_board_update(r->master, 1, 0, NULL, &change), 0);
    assert_rc(countd_board_add(r->master, 1, 0,
                               (struct countd_board_value){1, 1}, &sum),
              0);
    assert_true(sum == INT64_MAX);

    assert_rc(countd_board_add(r->master, 1, 0,
                               (struct countd_board_value){1, 1}, &sum),
              -ERANGE);
    assert_rc(countd_board_add(r->master, 1, 0,
                               (struct countd_board_value){2, 1}, &sum),
              -EINVAL);

    assert_rc(countd_board_read_cell(r->master, 1, 0, values, NULL), 0);
    assert_int_equal(values[0], -5);
    assert_true(values[1] == INT64_MAX);
}

/* Runs `body` in a child with a handle of its own; its return is the exit
 * status. */
static int
in_child(struct fixture *r, int (*body)(struct countd_board *b))
{
    const pid_t pid = test_fork();
    struct countd_board *b;
    int status;

    if (pid == 0) {
        if (attach_board(r, 0, &b) < 0)
            _exit(99);
        _exit(body(b));
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int
add_is_refused(struct countd_board *b)
{
    return add_to_cell(b, 0, 0, 1) == -EPERM ? 0 : 1;
}

static int
claim_and_die(struct countd_board *b)
{
    uint32_t cell;

    return countd_board_claim(b, 0, &cell) == 0 &&
                   add_to_cell(b, 0, cell, 41) == 0
               ? 0
               : 1;
}

static int
die_in_update(struct countd_board *b)
{
    uint32_t me;

    if (board_register(b, &me) < 0)
        return 1;
    atomic_store(board_shared(b, 0).word, board_word(0, me));
    return 0;
}

CASE(a_dead_writer_is_seen_however_few_attempts_are_allowed, r)
{
    struct user u;

    assert_int_equal(setenv("COUNTD_BOARD_ATTEMPTS", "1", 1), 0);
    user_attach(r, &u);
    assert_int_equal(unsetenv("COUNTD_BOARD_ATTEMPTS"), 0);
    user_reads(&u, 0, 0, 0, 0, 0, 0);
    assert_int_equal(in_child(r, die_in_update), 0);

    assert_rc(user_updates(&u, 0, SHARED(1, 2, 3, 4), NO_PAIR), 1);

    assert_string_equal(u.last.text, "");
    countd_board_close(u.last.board);
}

CASE(a_claimed_cell_is_its_owners, r)
{
    int64_t values[2];
    uint32_t cell = 9;
    pid_t owner;

    assert_rc(add_to_cell(r->master, 0, 0, 7), 0);
    assert_rc(countd_board_claim(r->master, 0, &cell), 0);
    assert_int_equal(cell, 0);
    assert_rc(countd_board_claim(r->master, 0, &cell), -ENOSPC);
    assert_rc(countd_board_read_cell(r->master, 0, 0, values, &owner), 0);
    assert_int_equal(values[0], 0);
    assert_int_equal(owner, getpid());
    assert_rc(add_to_cell(r->master, 0, 0, 3), 0);

    assert_int_equal(in_child(r, add_is_refused), 0);

    assert_rc(countd_board_release(r->master, 0, 0), 0);
    assert_rc(countd_board_read_cell(r->master, 0, 0, values, &owner), 0);
    assert_int_equal(values[0], 3);
    assert_int_equal(owner, 0);
}

CASE(the_cell_of_a_dead_owner_is_claimed_anew, r)
{
    int64_t values[2];
    uint32_t cell;
    pid_t owner;

    assert_int_equal(in_child(r, claim_and_die), 0);
    assert_rc(countd_board_read_cell(r->master, 0, 0, values, &owner), 0);
    assert_true(owner < 0);
    assert_int_equal(values[0], 41);
    assert_rc(add_to_cell(r->master, 0, 0, 1), -EPERM);

    assert_rc(countd_board_claim(r->master, 0, &cell), 0);

    assert_rc(countd_board_read_cell(r->master, 0, 0, values, &owner), 0);
    assert_int_equal(values[0], 0);
    assert_int_equal(owner, getpid());
}

CASE(closing_gives_up_what_was_claimed, r)
{
    struct countd_board *b;
    int64_t values[2];
    uint32_t cell;
    pid_t owner;

    assert_rc(attach_board(r, 0, &b), 0);
    assert_rc(countd_board_claim(b, 1, &cell), 0);
    assert_rc(add_to_cell(b, 1, cell, 8), 0);
    countd_board_close(b);

    assert_rc(countd_board_read_cell(r->master, 1, cell, values, &owner), 0);
    assert_int_equal(owner, 0);
    assert_int_equal(values[0], 8);
}

CASE(a_forked_child_writes_as_itself, r)
{
    uint32_t cell;
    pid_t pid;

    assert_rc(countd_board_claim(r->master, 0, &cell), 0);
    pid = test_fork();
    if (pid == 0) {
        const int64_t ones[4] = {1, 1, 1, 1};

        /* With its parent's handle: what is claimed is not the child's. */
        if (add_to_cell(r->master, 0, cell, 1) != -EPERM)
            _exit(1);
        if (countd_board_update(r->master, 1, 0, ones, NULL) != 0)
            _exit(2);
        countd_board_close(r->master);
        _exit(0);
    }
    assert_int_equal(test_wait(pid), 0);
    assert_int_equal(countd_board_master_alive(r->master), 1);
    assert_rc(add_to_cell(r->master, 0, cell, 1), 0);
}

/* ---- life -------------------------------------------------------------- */

/* A process that says what became of its claim, and stays until the test closes
 * its end, whatever becomes of that. */
struct far {
    int report[2], until[2];
    char said;
};

static pid_t
start_far(struct fixture *r, const char *(*body)(struct fixture *r),
          struct far *f)
{
    char byte;
    pid_t pid;

    assert_int_equal(pipe2(f->report, O_CLOEXEC), 0);
    assert_int_equal(pipe2(f->until, O_CLOEXEC), 0);
    pid = test_fork();
    if (pid == 0) {
        (void)close(f->until[1]);
        if (write(f->report[1], body(r), 1) == 1 &&
            read(f->until[0], &byte, 1) < 0)
            abort();
        _exit(0);
    }
    assert_int_equal(close(f->report[1]), 0);
    assert_int_equal(close(f->until[0]), 0);
    assert_int_equal(read(f->report[0], &f->said, 1), 1);
    return pid;
}

static void
end_far(struct far *f)
{
    assert_int_equal(close(f->until[1]), 0);
    assert_int_equal(close(f->report[0]), 0);
}

static const char *
claim_0(struct fixture *r)
{
    static struct countd_board *b;
    uint32_t cell;

    return attach_board(r, 0, &b) == 0 && countd_board_claim(b, 0, &cell) == 0
               ? "1"
               : "0";
}

static int
life_in(struct countd_board *b)
{
    struct countd_board_owner owner;
    int64_t values[2];

    assert_rc(countd_board_read_owned(b, 0, 0, values, &owner), 0);
    assert_true(owner.pid > 0);
    return owner.life;
}

static const char *
claim_in_namespaces(struct fixture *r)
{
    if (unshare(CLONE_NEWUSER | CLONE_NEWPID) < 0)
        return "-";
    if (fork() > 0) {
        (void)wait(NULL);
        _exit(0);
    }
    return claim_0(r); /* as process 1 there */
}

CASE(an_owner_in_other_namespaces_is_alive_until_it_ends, r)
{
    struct countd_board *reader = NULL;
    uint32_t cell;
    struct far f;
    pid_t pid;

    pid = start_far(r, claim_in_namespaces, &f);
    if (f.said != '-') {
        assert_int_equal(f.said, '1');
        assert_rc(attach_board(r, COUNTD_BOARD_READ_ONLY, &reader), 0);
        assert_int_equal(life_in(r->master), COUNTD_BOARD_ALIVE);
        assert_int_equal(life_in(reader), COUNTD_BOARD_ALIVE);
        assert_rc(countd_board_claim(r->master, 0, &cell), -ENOSPC);
    }
    end_far(&f);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    if (f.said == '-')
        test_skip("no user namespaces");

    assert_int_equal(life_in(r->master), COUNTD_BOARD_DEAD);
    assert_int_equal(life_in(reader), COUNTD_BOARD_DEAD);
    assert_rc(countd_board_claim(r->master, 0, &cell), 0);
    countd_board_close(reader);
}

/* The process that says so is its child, which has all its open files. */
static const char *
claim_and_leave_a_child(struct fixture *r)
{
    const char *said = claim_0(r);

    if (fork() > 0)
        (void)kill(getpid(), SIGSTOP);
    return said;
}

CASE(a_child_that_outlives_its_parent_owns_nothing_of_it, r)
{
    struct far f;
    pid_t pid;

    pid = start_far(r, claim_and_leave_a_child, &f);
    assert_int_equal(f.said, '1');
    assert_int_equal(life_in(r->master), COUNTD_BOARD_ALIVE);

    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);

    assert_int_equal(life_in(r->master), COUNTD_BOARD_DEAD);
    end_far(&f);
}

/* As on a file system without locks, or by an older library. */
CASE(an_owner_that_has_no_lock_is_unknown_and_keeps_its_cell, r)
{
    struct countd_board_info info;
    int64_t values[2];
    uint32_t cell;
    pid_t owner;

    assert_int_equal(in_child(r, claim_and_die), 0);
    atomic_store(&r->master->header->table[0].locked, 0);

    assert_int_equal(life_in(r->master), COUNTD_BOARD_UNKNOWN);
    assert_rc(countd_board_read_cell(r->master, 0, 0, values, &owner), 0);
    assert_true(owner > 0);
    assert_rc(countd_board_claim(r->master, 0, &cell), -ENOSPC);
    countd_board_info(r->master, &info);
    assert_int_equal(info.processes, 2); /* and this one */
}

/* ---- masters ----------------------------------------------------------- */

CASE(a_board_has_one_master_and_is_made_anew_after_it, r)
{
    struct countd_board *again = NULL, *old;
    struct user u;
    int64_t shared[4];
    uint64_t g;

    user_attach(r, &u);
    assert_rc(create_board(r, &again), -EBUSY);
    assert_has(r->error, "is owned by some other process");
    user_reads(&u, 0, 0, 0, 0, 0, 0);
    assert_rc(user_updates(&u, 0, SHARED(1, 2, 3, 4), NO_PAIR), 1);

    close_master(r);
    assert_rc(countd_board_master_alive(u.last.board), 0);
    assert_rc(attach_board(r, 0, &old), -ESRCH);
    assert_has(r->error, "is abandoned, cannot attach to it");
    assert_rc(
        attach_board(r, COUNTD_BOARD_ORPHAN | COUNTD_BOARD_READ_ONLY, &old), 0);
    assert_rc(countd_board_read(old, 0, shared, &g), 0);
    assert_int_equal(shared[3], 4);
    assert_rc(countd_board_update(old, 0, g, shared, NULL), -EROFS);
    countd_board_close(old);

    assert_rc(create_board(r, &r->master), 0);
    assert_rc(countd_board_read(r->master, 0, shared, &g), 0);
    assert_int_equal(shared[3], 0);
    /* A process that has the old one gets an error, and reads no page that has
     * gone. */
    assert_rc(countd_board_read(u.last.board, 0, shared, &g), -ENOTCONN);
    assert_rc(countd_board_update(u.last.board, 0, 1, shared, NULL), -ENOTCONN);
    assert_rc(add_to_cell(u.last.board, 0, 0, 1), -ENOTCONN);
    assert_rc(countd_board_master_alive(u.last.board), -ENOTCONN);
    assert_int_equal(board_load(board_copy(board_shared(u.last.board, 0), 1)),
                     1);
    countd_board_close(u.last.board);
}

CASE(a_board_that_is_not_there_or_empty_is_abandoned, r)
{
    struct countd_board *b;

    close_master(r);
    assert_int_equal(unlink(r->path), 0);
    assert_rc(attach_board(r, 0, &b), -ENOENT);
    assert_has(r->error, "(file not exists)");
    tmpdir_put(&r->dir, "board", "", 0, 0600);
    assert_rc(attach_board(r, 0, &b), -ESRCH);
}

/* ---- refusals ---------------------------------------------------------- */

CASE(a_board_of_another_shape_is_refused_by_what_differs, r)
{
    static const struct {
        uint32_t slots, shared, values, cells;
        const char *text;
    } all[] = {
        {3, 4, 2, 1, "number of slots mismatch: it has 2, 3 are expected"},
        {2, 5, 2, 1, "slot size mismatch: shared integers: it has 4, 5"},
        {2, 3, 3, 1, "slot size mismatch: shared integers: it has 4, 3"},
        {2, 4, 1, 1, "slot size mismatch: private integers: it has 2, 1"},
        {2, 4, 2, 2, "slot size mismatch: cells: it has 1, 2"},
    };
    struct countd_board *b;

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const struct countd_board_shape s =
            shape_of(all[i].slots, all[i].shared, all[i].values, all[i].cells);

        assert_rc(countd_board_attach(&b, r->path, &s, 0, r->error), -EPROTO);
        assert_has(r->error, all[i].text);
    }
}

CASE(impossible_shapes_make_no_file, r)
{
    static const uint32_t all[][4] = {
        {0, 4, 2, 1},   {2, 0, 2, 1},    {COUNTD_BOARD_SLOTS_MAX + 1, 1, 0, 0},
        {2, 4, 2, 0},   {2, 4, 0, 1},    {2, COUNTD_BOARD_VALUES_MAX + 1, 0, 0},
        {2, 1, 257, 1}, {2, 1, 1, 1025}, {COUNTD_BOARD_SLOTS_MAX, 256, 256, 9},
    };
    struct countd_board *b;

    close_master(r);
    assert_int_equal(unlink(r->path), 0);
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const struct countd_board_shape s =
            shape_of(all[i][0], all[i][1], all[i][2], all[i][3]);

        assert_rc(countd_board_create(&b, r->path, &s, r->error), -EINVAL);
    }
    assert_int_equal(tmpdir_count(&r->dir, "."), 0);
}

CASE(a_file_that_is_no_board_is_not_overwritten, r)
{
    static const char text[] = "a letter to my mother";
    struct countd_board *b;
    char got[64];

    close_master(r);
    tmpdir_put(&r->dir, "board", text, sizeof text, 0600);

    assert_rc(create_board(r, &b), -EBADMSG);
    assert_has(r->error, "is not a board");
    assert_rc(attach_board(r, 0, &b), -EBADMSG);

    assert_int_equal(file_read(r->path, got, sizeof got), sizeof text);
    assert_string_equal(got, text);
    assert_int_equal(tmpdir_count(&r->dir, "."), 1);
}

CASE(every_bit_of_the_header_and_the_names_counts, r)
{
    struct countd_board *b;

    for (off_t at = 0; at < BOARD_NAMES_AT + 6 * COUNTD_BOARD_NAME_SIZE; at++) {
        if (at == 128)
            at = BOARD_NAMES_AT; /* between is what changes */
        for (unsigned bit = 0; bit < 8; bit++) {
            file_flip(r->path, at, (uint8_t)(1u << bit));
            assert_rc(attach_board(r, 0, &b), -EBADMSG);
            assert_true(strlen(r->error) > strlen(r->path) + 10);
            file_flip(r->path, at, (uint8_t)(1u << bit));
        }
    }
    assert_rc(attach_board(r, 0, &b), 0);
    countd_board_close(b);
}

/* Fields that are wrong with a checksum that is right. */
CASE(sizes_that_do_not_fit_are_refused, r)
{
    struct countd_board *b;
    struct board_header *h = r->master->header;
    uint32_t *const fields[] = {&h->header_size,   &h->slots, &h->shared_count,
                                &h->private_count, &h->cells, &h->stride,
                                &h->processes};
    const uint8_t *names_at = (uint8_t *)h + BOARD_NAMES_AT;

    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        for (uint32_t bit = 0; bit < 32; bit++) {
            *fields[i] ^= UINT32_C(1) << bit;
            h->crc = board_crc(h, offsetof(struct board_header, crc));
            assert_rc(countd_board_attach(&b, r->path, NULL, 0, r->error),
                      -EBADMSG);
            *fields[i] ^= UINT32_C(1) << bit;
        }
    board_format_seal(h, names_at);
    assert_rc(attach_board(r, 0, &b), 0);
    countd_board_close(b);
}

CASE(a_board_of_another_length_is_refused, r)
{
    struct countd_board *b;
    char bytes[32768];
    const size_t size = file_read(r->path, bytes, sizeof bytes);
    const size_t sizes[] = {1, 100, size - 1, size + 1};

    close_master(r);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(unlink(r->path), 0);
        tmpdir_put(&r->dir, "board", bytes, sizes[i], 0600);
        assert_rc(attach_board(r, COUNTD_BOARD_ORPHAN, &b), -EBADMSG);
    }
    assert_has(r->error, "wrong size");
}
