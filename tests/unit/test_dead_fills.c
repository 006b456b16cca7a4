/* tests/unit/test_dead_fills.c - which fills can never be merged again. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/fault.h"
#include "tests/lib/filler.h"
#include "tests/lib/tmpdir.h"
#include "worker/dead_fills.h"

struct fixture {
    struct tmpdir tmp;
    struct dead_fills spent;
    struct log_fill mark; /* of log 0, which is full */
};

static void
set_up(struct fixture *x)
{
    struct filler f;

    tmpdir_make_in_memory(&x->tmp);
    dead_fills_init(&x->spent, x->tmp.fd);
    filler_open(&f, x->tmp.fd, 0, 10);
    filler_add(&f, "a", "one", 1);
    x->mark = filler_seal(&f);
}

static void
tear_down(struct fixture *x)
{
    fault_clear();
    dead_fills_fini(&x->spent);
    tmpdir_remove(&x->tmp);
}

#define CASE(name, x) TEST_WITH(name, struct fixture, x, set_up, tear_down)

static bool
ask(struct fixture *x)
{
    dead_fills_forget(&x->spent);
    return dead_fills_contain(&x->spent, &x->mark);
}

CASE(a_full_log_is_not_spent_and_an_empty_one_is, x)
{
    assert_false(ask(x));

    filler_empty(x->tmp.fd, 0);
    assert_true(ask(x));
    x->mark.epoch++;
    assert_false(ask(x)); /* not filled yet, as far as the header says */
}

CASE(a_fill_is_spent_once_its_log_has_a_later_epoch_in_any_state, x)
{
    struct filler f;

    filler_empty(x->tmp.fd, 0);
    filler_open(&f, x->tmp.fd, 0, 10);
    assert_true(ask(x)); /* OPEN: a log that is idle stays so */
    filler_add(&f, "a", "one", 1);
    filler_seal(&f);
    assert_true(ask(x));
    x->mark.epoch++;
    assert_false(ask(x));
}

/* Changes a byte of a file, or changes it back. */
static void
flip(const struct fixture *x, const char *name, off_t at)
{
    const int fd = openat(x->tmp.fd, name, O_RDWR | O_CLOEXEC);
    char byte;

    assert_true(fd >= 0);
    assert_int_equal(pread(fd, &byte, 1, at), 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, at), 1);
    assert_int_equal(close(fd), 0);
}

CASE(a_quarantined_log_keeps_its_fill_and_later_ones_alive, x)
{
    struct log log;

    assert_rc(log_claim(&log, x->tmp.fd, 0, LOG_MODE_FULL), 0);
    assert_rc(log_quarantine(&log), 0);
    assert_true(tmpdir_has(&x->tmp, "bad-0000000000-1"));
    assert_false(ask(x));
    x->mark.epoch++;
    assert_false(ask(x));
    x->mark.epoch = 0; /* an earlier fill is not what salvage would merge */
    assert_true(ask(x));
    x->mark.epoch = 1;
    memset(x->mark.uuid, 0, sizeof x->mark.uuid); /* of another log */
    assert_true(ask(x));

    /* It cannot be read: it may be of any log. */
    flip(x, "bad-0000000000-1", 50);
    flip(x, "bad-0000000000-1", 4096 + 50);
    assert_false(ask(x));
}

static uint8_t headers[8192];

/* What the log 0 has, or is to have, as `headers`. */
static void
copy_headers(struct fixture *x, bool out)
{
    const int fd = openat(x->tmp.fd, "0000000000",
                          (out ? O_WRONLY : O_RDONLY) | O_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(out ? pwrite(fd, headers, sizeof headers, 0)
                         : pread(fd, headers, sizeof headers, 0),
                     sizeof headers);
    assert_int_equal(close(fd), 0);
}

static void
put_headers(void *ctx)
{
    copy_headers(ctx, true);
}

static void
put_empty(void *ctx)
{
    struct fixture *x = ctx;

    filler_empty(x->tmp.fd, 0);
}

/* After a sync that failed the page cache shows a header that the disk does not
 * have, and a later fdatasync says nothing about it. */
CASE(what_the_disk_does_not_have_does_not_count, x)
{
    copy_headers(x, false);
    filler_empty(x->tmp.fd, 0);
    fault_hook("fdatasync", 1, put_headers, x);
    assert_false(ask(x));
    assert_true(fault_hit());
}

CASE(what_is_written_during_the_sync_does_not_count, x)
{
    fault_hook("fdatasync", 1, put_empty, x);
    assert_false(ask(x));
    assert_true(fault_hit());
    assert_true(ask(x));
}

CASE(what_is_empty_is_on_the_disk_before_that_counts, x)
{
    filler_empty(x->tmp.fd, 0);
    fault_inject("fdatasync", 1, EIO);
    assert_false(ask(x));
    assert_true(fault_hit());
    fault_clear();

    assert_true(ask(x));
    assert_int_equal(fault_calls("fdatasync"), 1);
    assert_true(dead_fills_contain(&x->spent, &x->mark)); /* known by now */
    assert_int_equal(fault_calls("fdatasync"), 1);
}

CASE(a_log_that_is_gone_is_spent_when_every_log_can_be_read, x)
{
    struct filler f;

    assert_int_equal(unlinkat(x->tmp.fd, "0000000000", 0), 0);
    assert_true(ask(x));

    filler_open(&f, x->tmp.fd, 1, 10);
    filler_seal(&f);
    assert_true(ask(x));
    tmpdir_put(&x->tmp, "0000000002", "short", 5, 0400);
    assert_false(ask(x));
}

CASE(a_log_with_one_good_header_is_not_spent, x)
{
    filler_empty(x->tmp.fd, 0);
    assert_true(ask(x));
    for (int block = 0; block < 2; block++) {
        flip(x, "0000000000", block * 4096 + 50);
        assert_false(ask(x));
        flip(x, "0000000000", block * 4096 + 50);
    }
    assert_true(ask(x));
}

CASE(of_a_log_and_its_copy_both_count, x)
{
    uint8_t bytes[16384];
    ssize_t n;
    int fd;

    fd = openat(x->tmp.fd, "0000000000", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    n = read(fd, bytes, sizeof bytes);
    assert_true(n > 8192);
    assert_int_equal(close(fd), 0);
    filler_empty(x->tmp.fd, 0);
    assert_true(ask(x));

    tmpdir_put(&x->tmp, "0000000007", bytes, (size_t)n, 0400);
    assert_false(ask(x));
}

CASE(any_failing_call_says_not_spent, x)
{
    bool hit = true;
    unsigned n;

    filler_empty(x->tmp.fd, 0);
    for (n = 1; hit; n++) {
        const unsigned fds = fault_open_fds();
        bool spent;

        assert_true(n < 100);
        dead_fills_fini(&x->spent);
        dead_fills_init(&x->spent, x->tmp.fd);
        fault_inject(n % 2 ? "disk" : "memory", n / 2 + 1,
                     n % 2 ? EIO : ENOMEM);
        spent = ask(x);
        hit = fault_hit() || n % 2 == 0;
        if (n % 2)
            assert_int_equal(spent, !fault_hit());
        fault_clear();
        assert_int_equal(fault_open_fds(), fds);
    }
    assert_true(n > 6);
}
