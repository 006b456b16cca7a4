/* tests/unit/test_ingest_stop.c - increments at the limits (connections, empty
 * logs), and a stop that loses none. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/base/bytes.h"
#include "tests/unit/ingest_fixture.h"

#include <string.h>
#include <sys/socket.h>

/* ---- limits ------------------------------------------------------------ */

/* As a worker does, once the writer has let it go. */
static void
empty_first_log(struct fixture *r)
{
    struct log log;

    while (log_claim(&log, r->data.log_fd, 0, LOG_MODE_FULL) < 0)
        run_until(r, pushes_back, 0);
    assert_rc(log_empty(&log), 0);
    assert_rc(log_release(&log), 0);
}

/* ---- stopping ---------------------------------------------------------- */

ON_FIXTURE(the_time_that_a_stop_waits_for_a_log_is_not_of_its_drain_time, r)
{
    int fd;

    start_ingest(r, 10, 2);
    fd = connect_and_send(r, LISTENER_ACK, 30);
    run_until(r, pushes_back, 0);
    conns_stop(r->conns, 1000, on_stopped, r);
    empty_first_log(r);
    /* Time goes by, and only then the logs are seen to have room. */
    fault_pass_ns(UINT64_C(999) * 1000000);
    run_until(r, has_taken, 30);
    run_until(r, has_finished, 0);
    finish_ingest(r);

    client_wins(fd, 30);
    client_expect_end(fd);
    client_close(fd);
    assert_int_equal(r->records.count, 20);
}

/* As long as it waits for one the time to drain stands still, but it goes on
 * for no more than four times that time. */
ON_FIXTURE(a_stop_that_never_gets_a_log_ends, r)
{
    uint64_t began_ms;
    int fd;

    start_ingest(r, 10, 2);
    fd = connect_and_send(r, LISTENER_ACK, 30);
    run_until(r, pushes_back, 0);
    began_ms = loop_now_ms(r->loop);
    conns_stop(r->conns, 100, on_stopped, r);
    run_until(r, has_finished, 0);
    assert_true(loop_now_ms(r->loop) >= began_ms + 400);
    client_wins(fd, 20);
    client_close(fd);
    finish_ingest(r);

    assert_int_equal(r->records.count, 20);
}

/* Only the beginning of a connection is refused. */
ON_FIXTURE(a_later_number_of_printable_bytes_is_counted, r)
{
    static const char bytes[] = "GET / HT";
    const int64_t number = get_le64s((const uint8_t *)bytes);
    uint8_t messages[2 * SIZE];
    int fd;

    start_ingest(r, 100, 4);
    fd = connect_pair(r, LISTENER_ACK);
    client_message(messages, "space", "first", 1);
    client_message(messages + SIZE, "space", "second", number);
    client_send(fd, messages, sizeof messages);
    run_until(r, has_replied, 2);
    client_wins(fd, 2);
    client_close(fd);
    finish_ingest(r);

    assert_int_equal(records_sum(&r->records, "space", "second", NULL), number);
}
