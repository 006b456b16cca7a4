/* tests/lib/capture.c - see capture.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/capture.h"

#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/test.h"

void
capture_start(struct capture *c)
{
    c->saved = dup(STDERR_FILENO);
    c->fd = memfd_create("stderr", MFD_CLOEXEC);
    assert_true(c->saved >= 0 && c->fd >= 0);
    assert_true(dup2(c->fd, STDERR_FILENO) >= 0);
}

const char *
capture_stop(struct capture *c)
{
    ssize_t n;

    assert_true(dup2(c->saved, STDERR_FILENO) >= 0);
    n = pread(c->fd, c->text, sizeof c->text - 1, 0);
    assert_true(n >= 0);
    c->text[n] = '\0';
    assert_int_equal(close(c->fd), 0);
    assert_int_equal(close(c->saved), 0);
    return c->text;
}
