/* tests/e2e/test_write_start.c - what countd-write refuses at the start, and
 * with what words: the transcript write_start.txt, and what needs sockets of
 * the test. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/e2e/write_fixture.h"

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* It waits for the second port while the first is bound. */
ON_FIXTURE(signals_at_the_start_wait_until_it_serves, r)
{
    char listen_at[64];
    const char *argv[] = {"-d", r->data,   "-o", "write.listen=localhost:0",
                          "-o", listen_at, "-o", "log.size=64K",
                          NULL};
    const struct daemon_how how = {.argv = argv, .not_ready = true};
    uint16_t port;
    const int fd = client_listen(&port);

    (void)snprintf(listen_at, sizeof listen_at, "write.ack_listen=localhost:%u",
                   port);
    assert_int_equal(daemon_start_how(&r->writer, "countd-write", &how), 0);
    daemon_await_words(&r->writer,
                       "write.ack_listen=localhost:"); /* is that port */
    daemon_signal(&r->writer, SIGUSR2);
    daemon_signal(&r->writer, SIGTERM);
    assert_int_equal(close(fd), 0);
    assert_int_equal(daemon_wait(&r->writer), 0);
}

ON_FIXTURE(a_peer_of_another_network_is_closed_and_counted, r)
{
    start_writer(r, "64K", "counter.port=0", "write.allow=10.0.0.0/8 fd00::/8");
    for (int i = 0; i < 3; i++)
        client_expect_end(i < 2 ? connect_ack(r) : connect_silent(r));
    daemon_await_words(&r->writer, "ack: a connection from 127.0.0.1:");
    daemon_await_words(&r->writer,
                       "is closed: write.allow does not have its network");
    daemon_signal(&r->writer, SIGUSR1);
    daemon_await_words(&r->writer, "port=ack open=0 connections=0");
    daemon_await_words(&r->writer, " not_allowed=2 ");
    daemon_await_words(&r->writer, " not_allowed=1 ");
    stop_writer(r);
    assert_int_equal(r->records.count, 0);
}
