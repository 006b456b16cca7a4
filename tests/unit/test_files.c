/* tests/unit/test_files.c - who has a file. */
#include "tests/lib/test.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/files.h"
#include "tests/lib/tmpdir.h"

/* A child that has taken the flock, until `end` is closed. */
static pid_t
start_holder(const char *path, int *end)
{
    int ready[2], wait[2];
    char byte = 0;
    pid_t pid;

    assert_rc(pipe(ready), 0);
    assert_rc(pipe(wait), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const int fd = open(path, O_RDWR | O_CLOEXEC);

        (void)close(wait[1]); /* else it waits for itself */
        if (fd < 0 || flock(fd, LOCK_EX) < 0 || write(ready[1], "", 1) != 1)
            _exit(1);
        _exit(read(wait[0], &byte, 1) == 0 ? 0 : 1);
    }
    (void)close(wait[0]);
    (void)close(ready[1]);
    assert_int_equal(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    *end = wait[1];
    return pid;
}

TEST(the_holder_of_a_flock_is_named)
{
    struct tmpdir d;
    char path[600];
    pid_t pid;
    int fd, end, status;

    tmpdir_make(&d);
    (void)snprintf(path, sizeof path, "%s/file", d.path);
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(lock_holder(fd), 0);

    pid = start_holder(path, &end);

    assert_int_equal(lock_holder(fd), pid);
    (void)close(end);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_int_equal(lock_holder(fd), 0);
    (void)close(fd);
    tmpdir_remove(&d);
}
