/* tests/e2e/test_board_command.c - countd board, and the example. */
#include "tests/lib/test.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/daemon.h"
#include "tests/lib/expect.h"
#include "tests/lib/tmpdir.h"

struct fixture {
    struct tmpdir dir;
    struct daemon master;
    char path[600];
};

static void
start_master(struct fixture *r)
{
    daemon_start(&r->master, "countd", "board", "create", r->path, "-n", "2",
                 "-s", "2", "-p", "2", "--names", "a,b,x,y", NULL);
}

static int
setup(void **state)
{
    static struct fixture r;

    memset(&r, 0, sizeof r);
    r.master.output = -1;
    tmpdir_make(&r.dir);
    snprintf(r.path, sizeof r.path, "%s/board", r.dir.path);
    start_master(&r);
    *state = &r;
    return 0;
}

static int
teardown(void **state)
{
    struct fixture *r = *state;

    daemon_fini(&r->master);
    tmpdir_remove(&r->dir);
    return 0;
}

#define CASE(name, r) TEST_IN(name, struct fixture *r, setup, teardown)

static int
run(const char *const *argv)
{
    const struct daemon_how how = {.argv = argv};

    return expect_run("countd", &how);
}
#define BOARD(...) run((const char *const[]){"board", __VA_ARGS__, NULL})

CASE(a_slot_is_read_and_updated_by_its_generation, r)
{
    const char *path = r->path;

    expect_text(BOARD("update", path, "0", "--gen", "0", "--shared", "1,-2",
                      "--private", "0=6"),
                0, "");
    expect_text(BOARD("read", path, "0", "--tsv"), 0,
                "0\t1\tshared\t-\t0\ta\t1\n"
                "0\t1\tshared\t-\t1\tb\t-2\n"
                "0\t-\tcell 0\t-\t0\tx\t6\n"
                "0\t-\tcell 0\t-\t1\ty\t0\n");

    /* Stale: the private part is written all the same. */
    expect(BOARD("update", path, "0", "--gen", "0", "--shared", "7,7",
                 "--private", "1=9"),
           1, "stale");
    expect(BOARD("read", path, "0", "--json"), 0,
           "\"generation\": 1, \"part\": \"shared\", \"owner\": null, "
           "\"index\": 0, \"name\": \"a\", \"value\": 1}");
    expect(BOARD("dump", path, "--tsv"), 0, "0\t-\tcell 0\t-\t1\ty\t9\n1\t0\t");

    expect_text(BOARD("add", path, "1", "1", "-5"), 0, "-5\n");
    expect_text(BOARD("add", path, "1", "1", "7", "--json"), 0,
                "{\"sum\": 2}\n");
}

CASE(misuse_is_told_from_failure_and_changes_nothing, r)
{
    const char *path = r->path;

    expect(BOARD("update", path, "0", "--gen", "0", "--shared", "1"), 100,
           "values size mismatch slot size");
    expect(BOARD("update", path, "0", "--shared", "1,1"), 100, "--gen");
    expect(BOARD("update", path, "0", "--gen", "0", "--shared", "1,1",
                 "--private", "2=1"),
           100, "wrong private index");
    expect(BOARD("update", path, "0", "--gen", "0", "--shared", "1,x"), 100,
           "--shared");
    expect(BOARD("update", path, "2", "--gen", "0", "--shared", "1,1"), 100,
           "slot");
    expect(BOARD("read", path, "2"), 100, "slot");
    expect(BOARD("add", path, "0", "2", "1"), 100, "index");
    expect(BOARD("fly", path), 100, "usage");
    expect(BOARD("create", path), 100, "-n SLOTS");
    expect(BOARD("add", path, "0", "0", "9223372036854775807"), 0, "");
    expect(BOARD("add", path, "0", "0", "1"), 100, "bounds");

    expect(BOARD("read", path, "0", "--tsv"), 0,
           "0\t0\tshared\t-\t0\ta\t0\n0\t0\tshared\t-\t1\tb\t0\n");
    expect(BOARD("info", path), 0, "busy\t0\nabandoned\t0\ndamaged\t0\n");
}

CASE(owned_abandoned_and_damaged_boards_say_so, r)
{
    expect(BOARD("create", r->path, "-n", "1", "-s", "1"), 111, "is owned by");
    expect(BOARD("info", r->path, "--json"), 0, "\"master_alive\": true");
    assert_int_equal(daemon_stop(&r->master), 0);
    expect(BOARD("read", r->path, "0"), 111, "is abandoned");
    expect(BOARD("info", r->path), 0, "master_alive\tno");

    start_master(r);
    expect(BOARD("add", r->path, "0", "0", "3"), 0, "3");
    daemon_kill(&r->master);
    expect(BOARD("add", r->path, "0", "0", "3"), 111, "is abandoned");
    expect(BOARD("dump", r->path, "--tsv"), 0, "0\t-\tcell 0\t-\t0\tx\t3\n");

    tmpdir_put(&r->dir, "other", "no board", 8, 0600);
    snprintf(r->path, sizeof r->path, "%s/other", r->dir.path);
    expect(BOARD("info", r->path), 111, "is not a board");
    expect(BOARD("create", r->path, "-n", "1", "-s", "1"), 111,
           "was not overwritten");
}

/* ---- the example ------------------------------------------------------- */

/* Starts it; what it prints is read from *out until `rows` are led. */
static pid_t
start_leader(const char *path, int *in, FILE **out)
{
    char program[600];
    int down[2], up[2];
    pid_t pid;

    daemon_path("tests/e2e/example_leader", program, sizeof program);
    assert_int_equal(pipe(down), 0);
    assert_int_equal(pipe(up), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (dup2(down[0], 0) < 0 || dup2(up[1], 1) < 0 || close(down[1]) < 0)
            _exit(126);
        (void)execl(program, program, path, (char *)NULL);
        _exit(127);
    }
    assert_int_equal(close(down[0]), 0);
    assert_int_equal(close(up[1]), 0);
    *in = down[1];
    *out = fdopen(up[0], "r");
    return pid;
}

/* Starts a dump whose output is longer than a pipe; its first line is read. */
static pid_t
start_dump(const char *path, FILE **out)
{
    char program[PATH_MAX], line[256];
    int ends[2];
    pid_t pid;

    daemon_path("countd", program, sizeof program);
    assert_int_equal(pipe(ends), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        if (dup2(ends[1], 1) < 0 || dup2(ends[1], 2) < 0 || close(ends[0]) < 0)
            _exit(126);
        (void)execl(program, program, "board", "dump", "--tsv", path,
                    (char *)NULL);
        _exit(127);
    }
    assert_int_equal(close(ends[1]), 0);
    *out = fdopen(ends[0], "r");
    assert_non_null(*out);
    assert_non_null(fgets(line, sizeof line, *out));
    return pid;
}

CASE(a_board_that_is_cut_short_during_a_dump_is_an_error, r)
{
    char path[640], line[512] = "", last[512] = "";
    struct daemon master;
    FILE *out;
    pid_t pid;
    int status;

    (void)snprintf(path, sizeof path, "%s/large", r->dir.path);
    daemon_start(&master, "countd", "board", "create", path, "-n", "50000",
                 "-s", "4", NULL);
    pid = start_dump(path, &out);
    assert_int_equal(truncate(path, 4096), 0);
    while (fgets(line, sizeof line, out))
        memcpy(last, line, sizeof last);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 111);
    assert_non_null(strstr(last, "/large) was cut short while it was open"));
    assert_int_equal(fclose(out), 0);
    daemon_kill(&master);
    daemon_fini(&master);
}

static void
expect_rows(FILE *out, int term)
{
    char line[64], wanted[64];

    for (int row = 0; row < 2; row++) {
        snprintf(wanted, sizeof wanted, "row %d term %d\n", row, term);
        assert_non_null(fgets(line, sizeof line, out));
        assert_string_equal(line, wanted);
    }
}

CASE(a_row_has_one_leader_until_that_dies, r)
{
    FILE *out[3];
    char line[64];
    int in[3], status;
    pid_t pids[3];

    pids[0] = start_leader(r->path, &in[0], &out[0]);
    expect_rows(out[0], 1);
    /* It leads: another has nothing to lead. */
    pids[1] = start_leader(r->path, &in[1], &out[1]);
    assert_int_equal(close(in[1]), 0);
    assert_null(fgets(line, sizeof line, out[1]));
    assert_int_equal(waitpid(pids[1], &status, 0), pids[1]);
    assert_int_equal(status, 0);

    assert_int_equal(kill(pids[0], SIGKILL), 0);
    assert_int_equal(waitpid(pids[0], &status, 0), pids[0]);
    pids[2] = start_leader(r->path, &in[2], &out[2]);
    expect_rows(out[2], 2);

    assert_int_equal(close(in[2]), 0);
    assert_int_equal(waitpid(pids[2], &status, 0), pids[2]);
    assert_int_equal(status, 0);
    assert_int_equal(close(in[0]), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(fclose(out[i]), 0);
}
