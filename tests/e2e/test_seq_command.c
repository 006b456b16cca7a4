/* tests/e2e/test_seq_command.c - countd seq: the transcript seq_command.txt,
 * and a handle of libcountd. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>

#include "common/client/lib/countd.h"
#include "tests/lib/numbers.h"

TEST_IN(a_handle_outlives_a_restart_of_the_server, struct fleet *f,
        numbers_setup, service_teardown)
{
    struct countd_http_options o = {.size = sizeof o};
    struct countd_seq_parts a, b;
    struct countd_number n[3];
    struct countd_http *h;
    char where[40], again[64];

    fleet_start(f, FLEET_WRITE);
    (void)snprintf(where, sizeof where, "127.0.0.1:%u",
                   fleet_writer_port(f, "http"));
    (void)snprintf(again, sizeof again, "http.listen=%s", where);
    o.address = where;
    assert_rc(countd_http_open(&h, &o), 0);
    assert_rc(countd_seq(h, n, 3), 0);
    assert_rc(countd_seq_explain(n[2].text, &a), 0);
    assert_int_equal(a.serial, 3);
    assert_int_equal(a.reserve, 2);
    assert_int_equal(a.server_no, 1);
    daemon_kill(fleet_daemon(f, FLEET_WRITE));
    assert_rc(countd_seq(h, n, 1), -ECONNREFUSED);
    fleet_start_with(f, FLEET_WRITE, again);
    assert_rc(countd_seq(h, n, 1), 0);
    assert_rc(countd_seq_explain(n[0].text, &b), 0);
    assert_true(b.second > a.second);
    countd_http_close(h);
    assert_rc(countd_seq_explain("aR", &b), -EINVAL);
    fleet_stop(f, FLEET_WRITE);
}
