/* tests/e2e/test_library.c - libcountd as its users meet it: waiting for the real
 * daemons, and the transcript library.txt.  Its manual's examples run in
 * test_words.c. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "common/client/lib/countd.h"
#include "tests/lib/service.h"

#define WAIT_MS 20000

static int
setup(void **state)
{
    assert_int_equal(service_setup(state), 0);
    fleet_option(*state, "log.rotate_after=20ms");
    service_start(*state);
    return 0;
}

#define CASE(name, f) TEST_IN(name, struct fleet *f, setup, service_teardown)

static void
open_client(struct fleet *f, struct countd **out)
{
    char write[64], ask[64];
    struct countd_options o = {.size = sizeof o, .write = write, .read = ask};

    snprintf(write, sizeof write, "127.0.0.1:%u", fleet_ack_port(f));
    snprintf(ask, sizeof ask, "127.0.0.1:%u", fleet_ask_port(f));
    assert_rc(countd_open(out, &o), 0);
}

CASE(what_was_waited_for_is_readable, f)
{
    struct countd *c;
    int64_t count;

    open_client(f, &c);
    for (int i = 1; i <= 5; i++) {
        assert_rc(countd_incr(c, countd_name("pages"), countd_name("/a"), 1),
                  0);
        assert_rc(countd_wait_readable(c, countd_name("pages"), WAIT_MS), 0);
        assert_rc(
            countd_get(c, countd_name("pages"), countd_name("/a"), &count), 0);
        assert_int_equal(count, i);
    }
    assert_rc(countd_incr(c, countd_name("other"), countd_name("/b"), 1), 0);
    assert_rc(countd_wait_readable(c, countd_name(""), WAIT_MS), 0);
    assert_rc(countd_get(c, countd_name("other"), countd_name("/b"), &count),
              0);
    assert_int_equal(countd_close(c), 0);
}

CASE(without_a_worker_waiting_ends_at_its_timeout, f)
{
    struct countd *c;

    open_client(f, &c);
    fleet_stop(f, FLEET_WORKER);
    assert_rc(countd_incr(c, countd_name("pages"), countd_name("/a"), 1), 0);
    assert_rc(countd_wait_readable(c, countd_name("pages"), 100), -ETIMEDOUT);
    fleet_start(f, FLEET_WORKER);
    assert_rc(countd_wait_readable(c, countd_name("pages"), WAIT_MS), 0);
    assert_int_equal(countd_close(c), 0);
}
