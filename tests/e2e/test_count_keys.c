/* tests/e2e/test_count_keys.c - requests with one Idempotency-Key that come at
 * once, on one connection and on two; the transcript count_keys.txt has the
 * others. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/e2e/keyed_fixture.h"

#include <stdio.h>
#include <string.h>

CASE(the_second_waits_with_the_first_and_both_are_answered, f)
{
    static char two[2][512], both[4096];
    size_t size = 0;
    int fd, other;

    fleet_start(f, FLEET_WRITE);
    fd = fleet_http(f);
    other = fleet_http(f);
    for (int i = 0; i < 50; i++) {
        char key[16];
        struct reply r[3];

        (void)snprintf(key, sizeof key, "key-%d", i);
        size = format_request(two[0], sizeof two[0], key, "p\ta\n");
        memcpy(both, two[0], size);
        memcpy(both + size, two[0], size);
        client_send(fd, both, 2 * size);
        client_send(other, two[0], size);
        r[0] = read_reply(fd);
        r[1] = read_reply(fd);
        r[2] = read_reply(other);
        for (int j = 0; j < 3; j++) {
            assert_int_equal(r[j].status, 200);
            assert_int_equal(r[j].counted, 1);
        }
        assert_true(r[1].replayed);
        assert_int_equal(r[0].replayed + r[2].replayed, 1);
    }
    client_close(fd);
    client_close(other);
    fleet_stop(f, FLEET_WRITE);
    fleet_start(f, FLEET_WORKER);
    expect_export(f, "p", "p\ta\t50\n");
    fleet_stop_all(f);
}
