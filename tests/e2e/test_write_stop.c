/* tests/e2e/test_write_stop.c - countd-write: when it hands its log on, what
 * signals do, and how it stops. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/e2e/write_fixture.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

/* ---- rotation, signals, stop ------------------------------------------- */

ON_FIXTURE(sigusr2_hands_the_log_on_and_an_empty_one_stays, r)
{
    int fd;

    start_writer(r, "64K", NULL, NULL);
    daemon_signal(&r->writer, SIGUSR2);
    fd = connect_ack(r);
    client_increment(fd, "usr2", "k", 1);
    client_wins(fd, 1);
    assert_int_equal(logs_in_mode(r, LOG_MODE_FULL), 0);
    daemon_signal(&r->writer, SIGUSR2);
    await_logs(r, LOG_MODE_FULL, 1);
    daemon_signal(&r->writer, SIGUSR2);
    client_increment(fd, "usr2", "k", 1);
    client_wins(fd, 1);
    client_close(fd);
    stop_writer(r);

    assert_int_equal(r->records.states[LOG_SEALED], 2);
}

ON_FIXTURE(a_stop_drains_what_has_arrived, r)
{
    const size_t count = 400; /* within the buffers of a socket */
    uint8_t *bytes = test_memory(malloc(count * SIZE));
    int a, s, late;

    /* Each full log waits for the disk, which may be slow. */
    start_writer(r, "64K", "write.drain=1m", NULL);
    a = connect_ack(r);
    s = connect_silent(r);
    for (size_t i = 0; i < count; i++)
        client_message(bytes + i * SIZE, "stop", "k", 1);
    /* It cannot take anything in until it also knows that it is to stop. */
    daemon_signal(&r->writer, SIGSTOP);
    client_send(a, bytes, count * SIZE);
    client_send(s, bytes, count * SIZE);
    late = connect_ack(r); /* not even accepted yet */
    client_send(late, bytes, 10 * SIZE);
    daemon_signal(&r->writer, SIGTERM);
    daemon_signal(&r->writer, SIGCONT);

    client_wins(a, count);
    client_expect_end(a);
    client_wins(late, 10);
    client_expect_end(late);
    client_expect_end(s);
    assert_int_equal(daemon_wait(&r->writer), 0);
    read_logs(r);
    assert_int_equal(r->records.count, 2 * count + 10);
    assert_int_equal(r->records.states[LOG_OPEN], 0);
    client_close(a);
    client_close(s);
    client_close(late);
    free(bytes);
}

ON_FIXTURE(a_stop_does_not_wait_for_ever_for_a_client_that_goes_on, r)
{
    uint8_t bytes[20 * SIZE];
    uint64_t begin_ms;
    int fd;

    start_writer(r, "32M", "write.drain=100ms", NULL);
    fd = connect_silent(r);
    for (int i = 0; i < 20; i++)
        client_message(bytes + i * SIZE, "flood", "k", 1);
    begin_ms = clock_ms();
    daemon_signal(&r->writer, SIGTERM);
    while (client_try_send(fd, bytes, sizeof bytes) == 0)
        assert_in_range(clock_ms() - begin_ms, 0, LIMIT_MS);
    assert_int_equal(daemon_wait(&r->writer), 0);
    client_close(fd);
    read_logs(r);
    assert_int_equal(r->records.states[LOG_OPEN], 0);
}

ON_FIXTURE(every_interval_syncs_without_anybody_waiting, r)
{
    static const char *const ways[] = {"log.sync=always", "log.sync=1ms"};
    uint64_t end_ms;
    int fd;

    for (size_t i = 0; i < 2; i++) {
        start_writer(r, "64K", NULL, ways[i]);
        fd = connect_silent(r);
        client_increment(fd, "sync", "k", 1);
        end_ms = test_deadline(LIMIT_MS);
        while (ask_figure(r, " syncs=") != 1)
            assert_true(clock_ms() < end_ms);
        client_close(fd);
        assert_int_equal(daemon_stop(&r->writer), 0);
        daemon_fini(&r->writer);
    }
}
