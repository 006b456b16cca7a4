/* tests/unit/test_files.c - who has a file. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/base/files.h"
#include "tests/lib/tmpdir.h"

TEST_IN(the_holder_of_a_flock_is_named, struct tmpdir *d, tmpdir_setup,
        tmpdir_teardown)
{
    int fd, holder;

    tmpdir_put(d, "file", "", 0, 0600);
    fd = openat(d->fd, "file", O_RDONLY | O_CLOEXEC);
    holder = openat(d->fd, "file", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && holder >= 0);
    assert_int_equal(lock_holder(fd), 0);

    assert_int_equal(flock(holder, LOCK_EX), 0);
    assert_int_equal(lock_holder(fd), getpid());
    assert_int_equal(close(holder), 0);
    assert_int_equal(lock_holder(fd), 0);
    assert_int_equal(close(fd), 0);
}
