/* tests/unit/test_dirstream.c - the names in a folder. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/dirstream.h"
#include "tests/lib/fault.h"
#include "tests/lib/tmpdir.h"

#define FILES 300 /* more than one read of the kernel gives */

static int
setup(void **state)
{
    static struct tmpdir tmp;
    char name[16];

    tmpdir_make(&tmp);
    assert_int_equal(mkdirat(tmp.fd, "in", 0700), 0);
    for (int i = 0; i < FILES; i++) {
        snprintf(name, sizeof name, "in/%03d", i);
        assert_int_equal(mkdirat(tmp.fd, name, 0700), 0);
    }
    *state = &tmp;
    return 0;
}

static int
teardown(void **state)
{
    fault_clear();
    tmpdir_remove(*state);
    return 0;
}

#define CASE(name, d) TEST_IN(name, struct tmpdir *d, setup, teardown)

/* Reads up to `max` names, each of which has to be a new one. */
static int
count_names(DIR *dir, bool seen[FILES], int max)
{
    const char *name;
    int count = 0, number, rc;

    while (count < max) {
        rc = dirstream_next(dir, &name);
        assert_true(rc >= 0);
        if (rc == 0)
            break;
        assert_int_equal(sscanf(name, "%3d", &number), 1);
        assert_false(seen[number]);
        seen[number] = true;
        count++;
    }
    return count;
}

CASE(each_name_comes_once_without_the_dots, d)
{
    bool seen[FILES] = {false}, again[FILES] = {false};
    DIR *dir;

    assert_rc(dirstream_open(d->fd, "in", &dir), 0);
    assert_int_equal(count_names(dir, seen, FILES + 1), FILES);
    assert_int_equal(count_names(dir, seen, 1), 0);

    rewinddir(dir);
    assert_int_equal(count_names(dir, again, FILES + 1), FILES);
    assert_int_equal(closedir(dir), 0);
}

CASE(two_streams_of_one_descriptor_do_not_disturb_each_other, d)
{
    const int fd = openat(d->fd, "in", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool seen[2][FILES] = {{false}};
    DIR *one, *two;

    assert_true(fd >= 0);
    assert_rc(dirstream_open(fd, ".", &one), 0);
    assert_int_equal(count_names(one, seen[0], 10), 10);
    assert_rc(dirstream_open(fd, ".", &two), 0);
    assert_int_equal(count_names(two, seen[1], FILES + 1), FILES);
    assert_int_equal(count_names(one, seen[0], FILES), FILES - 10);
    assert_int_equal(closedir(one), 0);
    assert_int_equal(closedir(two), 0);
    assert_int_equal(close(fd), 0);
}

CASE(what_cannot_be_opened_says_why, d)
{
    DIR *dir = NULL;

    tmpdir_put(d, "file", "", 0, 0600);
    assert_rc(dirstream_open(d->fd, "none", &dir), -ENOENT);
    assert_rc(dirstream_open(d->fd, "file", &dir), -ENOTDIR);
    assert_rc(dirstream_open(-1, ".", &dir), -EBADF);
    fault_inject("openat", 1, EMFILE);
    assert_rc(dirstream_open(d->fd, ".", &dir), -EMFILE);
    assert_null(dir);
}

CASE(an_error_is_not_the_end, d)
{
    const char *name;
    DIR *dir;

    assert_rc(dirstream_open(d->fd, "in", &dir), 0);
    /* The stream's descriptor is no folder any more. */
    assert_true(dup2(STDERR_FILENO, dirfd(dir)) >= 0);
    assert_true(dirstream_next(dir, &name) < 0);
    assert_int_equal(closedir(dir), 0);
}
