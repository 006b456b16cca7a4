/* tests/unit/test_kept.c - log/kept/: it is there as long as a backup uses it,
 * and says whether it has all. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "common/log/kept.h"
#include "tests/lib/tmpdir.h"

IN_TMPDIR(workers_find_it_while_a_backup_runs, d)
{
    struct kept k = {.begun = false};
    int fd;

    assert_rc(kept_open(d->fd), -ENOENT);
    assert_rc(kept_begin(&k, d->fd), 0);
    fd = kept_open(d->fd);
    assert_true(fd >= 0);
    assert_true(kept_is_whole(&k));
    assert_int_equal(close(fd), 0);
    kept_end(&k, d->fd);
    assert_false(tmpdir_has(d, KEPT_FOLDER));
}

IN_TMPDIR(a_worker_removes_what_a_killed_backup_left, d)
{
    struct kept k = {.begun = false};

    assert_rc(kept_begin(&k, d->fd), 0);
    tmpdir_put(d, KEPT_FOLDER "/a-log", "x", 1, 0600);
    assert_int_equal(close(k.whole_fd), 0);
    assert_int_equal(close(k.fd), 0);
    assert_rc(kept_open(d->fd), -ENOENT);
    assert_false(tmpdir_has(d, KEPT_FOLDER));
}

IN_TMPDIR(the_first_backup_to_end_leaves_it_to_the_other, d)
{
    struct kept k = {.begun = false}, other = {.begun = false};

    assert_rc(kept_begin(&k, d->fd), 0);
    assert_rc(kept_begin(&other, d->fd), 0);
    kept_end(&k, d->fd);
    assert_true(kept_is_whole(&other));
    kept_end(&other, d->fd);
    assert_false(tmpdir_has(d, KEPT_FOLDER));
}

IN_TMPDIR(a_backup_that_begins_later_does_not_hide_what_is_missing, d)
{
    struct kept k = {.begun = false}, other = {.begun = false};

    kept_spoil(d->fd); /* there is none */
    assert_rc(kept_begin(&k, d->fd), 0);
    kept_spoil(d->fd);
    assert_rc(kept_begin(&other, d->fd), 0);
    assert_false(kept_is_whole(&k));
    assert_true(kept_is_whole(&other));
    kept_end(&k, d->fd);
    kept_end(&other, d->fd);
}
