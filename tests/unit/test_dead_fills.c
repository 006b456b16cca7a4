/* tests/unit/test_dead_fills.c - which fills can never be merged again. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/fault.h"
#include "tests/lib/file.h"
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
is_dead(struct fixture *x)
{
    dead_fills_forget(&x->spent);
    return dead_fills_contain(&x->spent, &x->mark);
}

CASE(a_full_log_is_not_spent_and_an_empty_one_is, x)
{
    assert_false(is_dead(x));

    filler_empty(x->tmp.fd, 0);
    assert_true(is_dead(x));
    x->mark.epoch++;
    assert_false(is_dead(x)); /* not filled yet, as far as the header says */
}

CASE(a_fill_is_spent_once_its_log_has_a_later_epoch_in_any_state, x)
{
    struct filler f;

    filler_empty(x->tmp.fd, 0);
    filler_open(&f, x->tmp.fd, 0, 10);
    assert_true(is_dead(x)); /* OPEN: a log that is idle stays so */
    filler_add(&f, "a", "one", 1);
    filler_seal(&f);
    assert_true(is_dead(x));
    x->mark.epoch++;
    assert_false(is_dead(x));
}

/* Changes a byte of a file, or changes it back. */
static void
flip_byte(const struct fixture *x, const char *name, off_t at)
{
    file_flip(file_path(x->tmp.path, "%s", name), at, 1);
}

CASE(a_quarantined_log_keeps_its_fill_and_later_ones_alive, x)
{
    struct log log;

    assert_rc(log_claim(&log, x->tmp.fd, 0, LOG_MODE_FULL), 0);
    assert_rc(log_quarantine(&log), 0);
    assert_true(tmpdir_has(&x->tmp, "bad-0000000000-1"));
    assert_false(is_dead(x));
    x->mark.epoch++;
    assert_false(is_dead(x));
    x->mark.epoch = 0; /* an earlier fill is not what salvage would merge */
    assert_true(is_dead(x));
    x->mark.epoch = 1;
    memset(x->mark.uuid, 0, sizeof x->mark.uuid); /* of another log */
    assert_true(is_dead(x));

    /* It cannot be read: it may be of any log. */
    flip_byte(x, "bad-0000000000-1", 50);
    flip_byte(x, "bad-0000000000-1", 4096 + 50);
    assert_false(is_dead(x));
}

static uint8_t log_bytes[16384]; /* what log 0 has, or is to have */

static size_t
read_log(const struct fixture *x)
{
    return file_read(file_path(x->tmp.path, "0000000000"), log_bytes,
                     sizeof log_bytes);
}

static void
put_headers(void *ctx)
{
    const struct fixture *x = ctx;

    file_write(file_path(x->tmp.path, "0000000000"), 0, log_bytes,
               LOG_SLOTS_AT);
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
    (void)read_log(x);
    filler_empty(x->tmp.fd, 0);
    fault_hook("fdatasync", 1, put_headers, x);
    assert_false(is_dead(x));
    assert_true(fault_hit());
}

CASE(what_is_written_during_the_sync_does_not_count, x)
{
    fault_hook("fdatasync", 1, put_empty, x);
    assert_false(is_dead(x));
    assert_true(fault_hit());
    assert_true(is_dead(x));
}

CASE(what_is_empty_is_on_the_disk_before_that_counts, x)
{
    filler_empty(x->tmp.fd, 0);
    fault_inject("fdatasync", 1, EIO);
    assert_false(is_dead(x));
    assert_true(fault_hit());
    fault_clear();

    assert_true(is_dead(x));
    assert_int_equal(fault_calls("fdatasync"), 1);
    assert_true(dead_fills_contain(&x->spent, &x->mark)); /* known by now */
    assert_int_equal(fault_calls("fdatasync"), 1);
}

CASE(a_log_that_is_gone_is_spent_when_every_log_can_be_read, x)
{
    struct filler f;

    assert_int_equal(unlinkat(x->tmp.fd, "0000000000", 0), 0);
    assert_true(is_dead(x));

    filler_open(&f, x->tmp.fd, 1, 10);
    filler_seal(&f);
    assert_true(is_dead(x));
    tmpdir_put(&x->tmp, "0000000002", "short", 5, 0400);
    assert_false(is_dead(x));
}

CASE(a_log_with_one_good_header_is_not_spent, x)
{
    filler_empty(x->tmp.fd, 0);
    assert_true(is_dead(x));
    for (int block = 0; block < 2; block++) {
        flip_byte(x, "0000000000", block * 4096 + 50);
        assert_false(is_dead(x));
        flip_byte(x, "0000000000", block * 4096 + 50);
    }
    assert_true(is_dead(x));
}

CASE(of_a_log_and_its_copy_both_count, x)
{
    const size_t size = read_log(x);

    filler_empty(x->tmp.fd, 0);
    assert_true(is_dead(x));

    tmpdir_put(&x->tmp, "0000000007", log_bytes, size, 0400);
    assert_false(is_dead(x));
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
        spent = is_dead(x);
        hit = fault_hit() || n % 2 == 0;
        if (n % 2)
            assert_int_equal(spent, !fault_hit());
        fault_clear();
        assert_int_equal(fault_open_fds(), fds);
    }
    assert_true(n > 6);
}
