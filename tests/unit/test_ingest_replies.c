/* tests/unit/test_ingest_replies.c - when increments are acknowledged: behind
 * which sync, and not when it fails. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/unit/ingest_fixture.h"

#include <errno.h>
#include <sys/socket.h>

/* ---- replies ----------------------------------------------------------- */

/* It takes nothing more, either. */
static void
fail_call(struct fixture *r, const char *call)
{
    uint8_t message[SIZE], reply[3];
    int fd;

    start_ingest(r, 100, 4);
    fd = connect_pair(r, LISTENER_ACK);
    put_numbered(message, 0);
    client_send(fd, message, SIZE);
    fault_inject(call, 1, EIO);
    run_until(r, has_failed, 0);
    fault_clear();
    assert_rc(client_try_read(fd, reply, 3, 0), -EAGAIN);
    client_send(fd, message, SIZE);
    run_until(r, pushes_back, 0);
    assert_int_equal(r->ingest.messages, 1);
    close_all(r);
    client_close(fd);
}

ON_FIXTURE(a_failed_sync_is_not_acknowledged_and_ends_the_writer, r)
{
    fail_call(r, "fdatasync");
}

ON_FIXTURE(a_failed_append_is_not_acknowledged_and_ends_the_writer, r)
{
    fail_call(r, "disk");
}

ON_FIXTURE(a_group_that_a_client_waits_for_grows_no_further_while_a_sync_runs,
           r)
{
    enum { MOST = LOGS_GROUP / 544, SLICE = (256 << 10) / SIZE, ONCE = 100 };
    static uint8_t bytes[ONCE * SIZE];
    size_t count = 2;
    int silent, ack;

    for (size_t i = 0; i < ONCE; i++)
        client_message(bytes + i * SIZE, "space", "flood", 1);
    start_ingest(r, 3 * MOST, 2);
    silent = connect_pair(r, LISTENER_SILENT);
    ack = connect_pair(r, LISTENER_ACK);
    client_send(silent, bytes, SIZE);
    run_until(r, has_taken, 1);
    assert_true(logs_file.begin(&r->logs)); /* this test ends it */
    client_send(ack, bytes, SIZE);
    run_until(r, has_taken, 2);
    for (; count < 2 * MOST && !pushes_back(r); count += ONCE) {
        client_send(silent, bytes, sizeof bytes);
        run_until(r, has_turned, 0);
    }
    assert_in_range(r->ingest.messages, MOST, MOST + SLICE);
    assert_true(pushes_back(r));
    assert_rc(logs_file.sync(&r->logs), 0);
    assert_true(logs_file.end(&r->logs, 0));
    run_until(r, has_replied, 1);
    client_wins(ack, 1);
    run_until(r, has_taken, count);
    client_close(silent);
    client_close(ack);
    finish_ingest(r);

    assert_int_equal(records_sum(&r->records, "space", "flood", NULL), count);
}
