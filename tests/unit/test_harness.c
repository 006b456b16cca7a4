/* tests/unit/test_harness.c - what the other tests rely on. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/daemon.h"
#include "tests/lib/fault.h"
#include "tests/lib/tmpdir.h"

#define WITH_DIR(name, dir)                                                    \
    TEST_IN(name, struct tmpdir *dir, tmpdir_setup, tmpdir_teardown)

TEST(a_failure_shows_control_bytes)
{
    assert_string_equal(test_visible("a\r\n\t\x1b[1m\x7f\xc3\xa9\n"),
                        "a\\r\n\\t\\x1b[1m\\x7f\xc3\xa9\n");
}

WITH_DIR(only_the_nth_call_fails, dir)
{
    fault_inject("fsync", 2, EIO);
    assert_int_equal(fsync(dir->fd), 0);
    assert_false(fault_hit());
    assert_int_equal(fsync(dir->fd), -1);
    assert_int_equal(errno, EIO);
    assert_true(fault_hit());
    assert_int_equal(fsync(dir->fd), 0);
    assert_int_equal(fault_calls("fsync"), 3);

    fault_clear();
    assert_int_equal(fault_calls("fsync"), 0);
}

WITH_DIR(a_group_counts_every_call_of_it, dir)
{
    struct stat st;

    fault_inject_from("disk", 2, ENOSPC);
    assert_int_equal(fstat(dir->fd, &st), 0);
    assert_int_equal(openat(dir->fd, "x", O_CREAT | O_RDWR, 0600), -1);
    assert_int_equal(errno, ENOSPC);
    assert_int_equal(mkdirat(dir->fd, "y", 0700), -1);
    fault_clear();

    assert_false(tmpdir_has(dir, "x"));
    assert_false(tmpdir_has(dir, "y"));
}

WITH_DIR(a_short_write_writes_its_beginning, dir)
{
    int fd = openat(dir->fd, "x", O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    struct stat st;

    assert_true(fd >= 0);
    fault_short("pwrite", 1, 3);
    assert_int_equal(pwrite(fd, "hello", 5, 0), 3);
    assert_int_equal(pwrite(fd, "lo", 2, 3), 2);
    fault_clear();

    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, 5);
    assert_int_equal(close(fd), 0);
}

TEST(memory_runs_out_when_told)
{
    char *bytes;

    fault_inject("memory", 1, ENOMEM);
    bytes = malloc(16);
    assert_null(bytes);
    bytes = test_memory(malloc(16));
    fault_clear();
    free(bytes);
}

WITH_DIR(a_killed_child_does_not_make_the_call, dir)
{
    int status = 0;
    pid_t pid = test_fork();
    if (pid == 0) {
        fault_kill("mkdirat", 2);
        (void)mkdirat(dir->fd, "one", 0700); /* the parent looks */
        (void)mkdirat(dir->fd, "two", 0700);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);

    assert_true(WIFSIGNALED(status));
    assert_true(tmpdir_has(dir, "one"));
    assert_false(tmpdir_has(dir, "two"));
}

TEST(the_clock_can_be_moved)
{
    uint64_t now = clock_unix_ms();

    fault_clock(3600000);
    assert_true(clock_unix_ms() >= now + 3600000);
    fault_clock(-3600000);
    assert_true(clock_unix_ms() < now);
    fault_clear();
    assert_true(clock_unix_ms() >= now);
}

/* What cmocka prints, and what it cannot print any more. */
static const char failing[] =
    "#!/bin/sh\n"
    "echo '[==========] Running 4 test(s).'\n"
    "printf '[ RUN      ] %s\\n[       OK ] %s\\n' good good\n"
    "echo '[ RUN      ] bad'; seq -f 'daemon says %.0f' 100\n"
    "echo 'ERROR: not what it was:'; echo of several lines\n"
    "echo '[  ERROR   ] --- [   LINE   ] --- a.c:7: error: Failure!'\n"
    "echo '[  FAILED  ] bad'\n"
    "echo '[ RUN      ] worse'; echo 'Assertion x'; echo more; exit 134\n";

WITH_DIR(a_run_names_what_failed_first_and_last, dir)
{
    char program[600], text[8192], *at;
    static const char list[] = "FAILED prog: bad: not what it was: (a.c:7)\n";

    if (access("tests/lib/run", X_OK) < 0)
        test_skip("only in the folder of the sources");
    tmpdir_put(dir, "prog", failing, sizeof failing - 1, 0700);
    (void)snprintf(program, sizeof program, "%s/prog", dir->path);
    assert_int_equal(
        daemon_run(text, sizeof text, "/usr/bin/env", "tests/lib/run", program),
        1);
    at = strchr(text, '\n');
    assert_non_null(at);
    assert_memory_equal(text, "1 of 1 FAILED prog ", 19);
    assert_memory_equal(at + 1, "    FAILED prog: bad: not what it was", 37);
    assert_lacks(text, "good");
    assert_has(text, "\n    daemon says 1\n");
    assert_lacks(text, "daemon says 50\n");
    assert_has(text, "\n    daemon says 100\n");
    at = strstr(text, "1 programs in ");
    assert_non_null(at);
    at = strchr(at, '\n') + 1;
    assert_string_equal(at + strlen(list),
                        "FAILED prog: worse: ended with status 134: "
                        "Assertion x\n1 passed, 3 failed, 0 skipped\n");
    assert_memory_equal(at, list, strlen(list));
}
