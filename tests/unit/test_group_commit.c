/* tests/unit/test_group_commit.c - when answers may leave: a commit of a file
 * that only counts, with a real I/O thread, and the protocol of
 * tests/lib/echo.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <string.h>
#include <unistd.h>

#include "common/net/conn_internal.h"
#include "tests/lib/echo.h"
#include "writer/commit.h"

/* Its bytes are those that the echo protocol put behind the gate, counted by
 * group. */
struct file {
    unsigned begun, synced, ended;
    bool due;
    bool nothing; /* begin() says so */
    int rc;       /* of the next syncs */
    sem_t may;    /* syncs of the I/O thread that may go on */
    bool waits;   /* they do */
};

struct fixture {
    struct echo *echo;
    struct io io;
    struct commit commit;
    struct file file;
};

static bool
is_due(const void *ctx)
{
    return ((const struct file *)ctx)->due;
}

static bool
begin(void *ctx)
{
    struct file *f = ctx;

    f->begun += !f->nothing;
    return !f->nothing;
}

static int
sync_file(void *ctx)
{
    struct file *f = ctx;

    while (f->waits && sem_wait(&f->may) < 0)
        ;
    f->synced++;
    return f->rc;
}

static bool
end(void *ctx, int rc)
{
    struct file *f = ctx;

    f->due = false;
    f->ended++;
    return rc == 0;
}

static const struct commit_file counting = {
    .is_due = is_due, .begin = begin, .sync = sync_file, .end = end};

static void
end_turn(void *ctx)
{
    struct fixture *r = ctx;

    commit_turn(&r->commit);
}

static void
set_up(struct fixture *r)
{
    assert_int_equal(sem_init(&r->file.may, 0, 0), 0);
    r->echo = echo_new();
    r->echo->ctx = r;
    r->echo->after = end_turn;
    r->echo->gate = &r->commit.gate;
    assert_rc(io_start(&r->io, r->echo->loop), 0);
    assert_rc(commit_init(&r->commit, &counting, &r->file, &r->io, ECHO_PEERS),
              0);
    echo_start(r->echo);
}

static void
tear_down(struct fixture *r)
{
    for (int i = 0; i < 16; i++)
        assert_int_equal(sem_post(&r->file.may), 0);
    io_stop(&r->io);
    echo_free(r->echo);
    commit_fini(&r->commit);
    assert_int_equal(sem_destroy(&r->file.may), 0);
}

#define CASE(name, r) TEST_WITH(name, struct fixture, r, set_up, tear_down)

/* Lets one sync of the I/O thread go on. */
static void
let_sync(struct fixture *r)
{
    assert_int_equal(sem_post(&r->file.may), 0);
}

/* Until the next turn of the loop has an event of it. */
static void
await_sync(struct fixture *r)
{
    struct pollfd told = {r->io.source.fd, POLLIN, 0};

    assert_int_equal(poll(&told, 1, -1), 1);
}

CASE(an_answer_leaves_when_its_sync_is_done, r)
{
    const int a = echo_join(r->echo, ECHO);

    r->file.waits = true;
    echo_ask(a, 'e', "free,");
    echo_ask(a, 'g', "durable");
    echo_hear(r->echo, a, "free,");
    echo_hear_nothing(r->echo, a);
    assert_int_equal(r->file.begun, 1);
    let_sync(r);
    echo_hear(r->echo, a, "durable");
    assert_int_equal(r->commit.syncs, 1);
}

CASE(who_comes_while_a_sync_runs_is_in_the_next_which_departs_at_once, r)
{
    const int a = echo_join(r->echo, ECHO);
    const int b = echo_join(r->echo, ECHO);
    const int c = echo_join(r->echo, WINS);

    r->file.waits = true;
    echo_ask(a, 'g', "one");
    echo_hear_nothing(r->echo, a);
    echo_ask(b, 'g', "two");
    echo_ask_number(c, 'o', 2);
    echo_hear_nothing(r->echo, b);
    assert_int_equal(r->file.begun, 1);
    let_sync(r);
    echo_hear(r->echo, a, "one");
    echo_hear_nothing(r->echo, b);
    echo_hear_nothing(r->echo, c);
    /* Its sync is under way though no answer came since. */
    assert_int_equal(r->file.begun, 2);
    let_sync(r);
    echo_hear(r->echo, b, "two");
    echo_hear(r->echo, c, "WINWIN");
    assert_int_equal(r->commit.syncs, 2);
}

CASE(the_next_sync_begins_before_answers_are_sent, r)
{
    const int a = echo_join(r->echo, ECHO);

    r->file.waits = true;
    echo_ask(a, 'g', "one");
    echo_turns(r->echo, 2);
    echo_ask(a, 'g', "two");
    echo_turns(r->echo, 2);
    r->echo->after = NULL; /* no turn would begin it */
    let_sync(r);
    echo_hear(r->echo, a, "one");
    assert_int_equal(r->file.begun, 2);
    let_sync(r);
    echo_hear(r->echo, a, "two");
}

static bool
has_failed(struct echo *f)
{
    return ((struct fixture *)f->ctx)->commit.failed;
}

CASE(after_a_failed_sync_no_answer_ever_leaves, r)
{
    const int a = echo_join(r->echo, ECHO);
    const int b = echo_join(r->echo, ECHO);

    r->file.rc = -EIO;
    echo_ask(a, 'g', "one");
    echo_run(r->echo, has_failed);
    echo_hear_nothing(r->echo, a);
    /* The second time, the kernel would say that all is well. */
    r->file.rc = 0;
    r->file.due = true;
    echo_ask(b, 'g', "two");
    echo_hear_nothing(r->echo, b);
    echo_hear_nothing(r->echo, a);
    assert_int_equal(r->file.begun, 1);
}

CASE(what_is_due_is_synced_though_nobody_waits, r)
{
    echo_turns(r->echo, 3);
    assert_int_equal(r->file.begun, 0);
    r->file.due = true;
    echo_turns(r->echo, 1);
    assert_int_equal(r->file.begun, 1);
}

CASE(where_there_is_nothing_to_sync_the_group_waits_on, r)
{
    const int a = echo_join(r->echo, ECHO);

    r->file.nothing = true;
    echo_ask(a, 'g', "one");
    echo_hear_nothing(r->echo, a);
    r->file.nothing = false;
    echo_hear(r->echo, a, "one");
}

CASE(a_stop_waits_for_the_sync, r)
{
    const int a = echo_join(r->echo, ECHO);

    r->file.waits = true;
    echo_ask(a, 'g', "one");
    echo_turns(r->echo, 2);
    echo_stop(r->echo, 0);
    echo_turns(r->echo, 50);
    assert_false(r->echo->stopped);
    let_sync(r);
    await_sync(r);
    /* The time for those who do not read is over in the very turn. */
    loop_arm(r->echo->loop, &r->echo->conns->tick, 1);
    echo_run(r->echo, echo_has_stopped);
    echo_hear_end(r->echo, a, "one");
}
