/* tests/e2e/test_serve_command.c - countd serve: the transcript
 * serve_command.txt, and the end of orphans. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/serve_fixture.h"

/* They wish for SIGTERM when serve ends; the kernel forgets that when they
 * become another user. */
WITH_EMPTY(no_daemon_outlives_a_killed_serve, s)
{
    assert_int_equal(fchmod(s->dir.fd, 0711), 0);
    serve_fixture_serve(s, geteuid() == 0 ? "user=65534" : NULL);
    /* Orphans become ours, so that their end can be waited for. */
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    daemon_kill(&s->serve);
    for (int i = 0; i < SITE_DAEMONS; i++)
        assert_int_equal(test_wait(s->children[i]), 0);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 0), 0);
}
