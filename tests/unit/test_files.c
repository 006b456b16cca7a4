/* tests/unit/test_files.c - who has a file. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "common/base/files.h"
#include "common/base/state_file.h"
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

/* Reads a file of `size` bytes as a state of 20. */
static int
read_state(struct tmpdir *d, const uint8_t *bytes, size_t size,
           const char *magic)
{
    uint8_t got[20];
    int fd, rc;

    tmpdir_put(d, "state", bytes, size, 0600);
    fd = openat(d->fd, "state", O_RDONLY | O_CLOEXEC);
    rc = state_read(fd, got, sizeof got, magic);
    if (rc == 0)
        assert_memory_equal(got, bytes, sizeof got);
    assert_int_equal(close(fd), 0);
    return rc;
}

TEST_IN(a_state_is_whole_or_damaged, struct tmpdir *d, tmpdir_setup,
        tmpdir_teardown)
{
    uint8_t bytes[21] = "........eight of.";

    state_seal(bytes, 20, "COUNTDN1");
    assert_rc(read_state(d, bytes, 20, "COUNTDN1"), 0);
    assert_rc(read_state(d, bytes, 20, NULL), 0);
    assert_rc(read_state(d, bytes, 20, "COUNTDS1"), -EBADMSG);
    assert_rc(read_state(d, bytes, 21, "COUNTDN1"), -EBADMSG);
    assert_rc(read_state(d, bytes, 0, "COUNTDN1"), -ENOENT);
    for (size_t i = 1; i < 20; i++)
        assert_rc(read_state(d, bytes, i, "COUNTDN1"), -EBADMSG);
    for (size_t i = 0; i < 20; i++) {
        bytes[i] ^= 0x10;
        assert_rc(read_state(d, bytes, 20, "COUNTDN1"), -EBADMSG);
        bytes[i] ^= 0x10;
    }
}
