/* tests/e2e/test_write.c - countd-write, the built program, alone: what its
 * clients get and what its logs hold. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/e2e/write_fixture.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "tests/lib/live_client.h"

/* ---- the protocol ------------------------------------------------------ */

ON_FIXTURE(a_half_close_gets_the_wins_owed_and_the_end, r)
{
    uint8_t bytes[3 * SIZE];
    int fd;

    start_writer(r, "64K", NULL, NULL);
    fd = connect_ack(r);
    for (int i = 0; i < 3; i++)
        client_message(bytes + i * SIZE, "half", "abc", 1);
    client_send(fd, bytes, 2 * SIZE + 260);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    client_wins(fd, 2);
    client_expect_end(fd);
    client_close(fd);
    stop_writer(r);

    assert_int_equal(r->records.count, 2);
    daemon_await_words(&r->writer, "partial_disconnects=1");
}

ON_FIXTURE(many_small_logs_keep_every_message_once, r)
{
    const size_t count = 3000;
    uint8_t *bytes = test_memory(malloc(count * SIZE));
    char key[16];
    size_t times;
    int fds[4], c;

    start_writer(r, "16K", NULL, "log.max=2000");
    for (c = 0; c < 4; c++)
        fds[c] = connect_ack(r);
    for (size_t i = 0; i < count; i++) {
        (void)snprintf(key, sizeof key, "%zu", i);
        client_message(bytes + i * SIZE, "small", key, (int64_t)i);
    }
    for (size_t i = 0; i < count; i += 100)
        client_send(fds[i / 100 % 4], bytes + i * SIZE, 100 * SIZE);
    for (size_t i = 0; i < count; i += 100)
        client_wins(fds[i / 100 % 4], 100);
    for (c = 0; c < 4; c++)
        client_close(fds[c]);
    free(bytes);
    stop_writer(r);

    assert_int_equal(r->records.count, count);
    for (size_t i = 0; i < count; i += 97) {
        (void)snprintf(key, sizeof key, "%zu", i);
        assert_int_equal(records_sum(&r->records, "small", key, &times), i);
        assert_int_equal(times, 1);
    }
    /* (16384 - 8192) / 544 = 15 slots. */
    assert_int_equal(r->records.states[LOG_SEALED], 3000 / 15);
}

/* Each client sends and closes at once, without looking. */
ON_FIXTURE(senders_that_close_at_once_lose_nothing, r)
{
    uint8_t bytes[50 * SIZE];
    int fd;

    start_writer(r, "8M", NULL, "log.sync=never");
    for (int i = 0; i < 50; i++)
        client_message(bytes + i * SIZE, "dash", "k", 1);
    for (int i = 0; i < 200; i++) {
        fd = connect_silent(r);
        client_send(fd, bytes, sizeof bytes);
        client_close(fd);
    }
    stop_writer(r);

    assert_int_equal(records_sum(&r->records, "dash", "k", NULL), 10000);
    daemon_await_words(&r->writer, "partial_disconnects=0");
}

/* ---- bad clients ------------------------------------------------------- */

/* The client has megabytes in flight behind the malformed message and reads
 * only when all is sent: a reset would eat the answer. */
ON_FIXTURE(no_reset_overtakes_fail, r)
{
    const size_t count = 10000;
    uint8_t *bytes = test_memory(malloc(count * SIZE)), reply[64];
    int fd;

    start_writer(r, "1M", NULL, NULL);
    for (size_t i = 0; i < count; i++)
        client_message(bytes + i * SIZE, "ks", "k", 1);
    bytes[3 * SIZE + 8] = 0;
    fd = connect_ack(r);
    client_send(fd, bytes, count * SIZE);
    free(bytes);
    assert_int_equal(shutdown(fd, SHUT_WR), 0);
    assert_int_equal(client_read(fd, reply, sizeof reply), 13);
    assert_memory_equal(reply, "WINWINWINFAIL", 13);
    client_close(fd);
    stop_writer(r);

    assert_int_equal(r->records.count, 3);
}

ON_FIXTURE(a_client_that_never_reads_costs_no_memory, r)
{
    const size_t chunk = 4000, chunks = 250; /* a million messages */
    uint8_t *bytes = test_memory(malloc(chunk * SIZE));
    uint64_t before, after;
    size_t i;
    int deaf, fd;

    start_writer(r, "32M", NULL, "log.max=64");
    deaf = connect_ack(r);
    fd = connect_ack(r);
    for (i = 0; i < chunk; i++)
        client_message(bytes + i * SIZE, "deaf", "k", 1);
    client_send(deaf, bytes, chunk * SIZE);
    client_increment(fd, "other", "k", 1);
    client_wins(fd, 1);
    before = daemon_memory(&r->writer);
    for (i = 1; i < chunks / (test_slow() > 1 ? 10 : 1); i++) {
        client_send(deaf, bytes, chunk * SIZE);
        client_increment(fd, "other", "k", 1);
        client_wins(fd, 1);
    }
    after = daemon_memory(&r->writer);
    if (test_slow() == 1)
        assert_in_range(after, 0, before + (UINT64_C(1) << 20));

    /* It still gets all of them. */
    client_wins(deaf, i * chunk);
    client_close(deaf);
    client_close(fd);
    free(bytes);
    assert_int_equal(daemon_stop(&r->writer), 0);
}

/* ---- counters and semaphores ------------------------------------------- */

ON_FIXTURE(a_stop_ends_live_connections_at_once, r)
{
    struct live_client client;

    start_writer(r, "64K", "counter.port=0", "write.drain=0ms");
    live_client_open(&client, daemon_port(&r->writer, "counter"));
    assert_int_equal(live_client_acquire(&client, "a", 1, 1), LIVE_CLIENT_OK);
    daemon_signal(&r->writer, SIGTERM);
    live_client_expect_end(&client);
    live_client_drop(&client);
    assert_int_equal(daemon_wait(&r->writer), 0);
    daemon_await_words(&r->writer, "live=counter objects=1 created=1 ");
    daemon_await_words(&r->writer, "port=counter open=0 connections=1 ");
    daemon_await_words(&r->writer, " noop=0 get=0 acquire=1 ");
}

ON_FIXTURE(without_a_log_live_requests_go_on, r)
{
    uint8_t bytes[40 * SIZE], reply[3];
    struct live_client client;
    int fd;

    daemon_start(&r->writer, "countd-write", "-d", r->data, "-o",
                 "log.size=16K", "-o", "log.count=2", "-o", "log.max=2", "-o",
                 "write.listen=", "-o", "write.ack_listen=127.0.0.1:0", "-o",
                 "write.drain=0ms");
    for (int i = 0; i < 40; i++)
        client_message(bytes + i * SIZE, "cap", "k", 1);
    fd = connect_ack(r);
    client_send(fd, bytes, sizeof bytes);
    client_wins(fd, 30);
    assert_rc(client_try_read(fd, reply, 3, 50), -EAGAIN);

    live_client_open(&client, daemon_port(&r->writer, "counter"));
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(live_client_acquire(&client, "a", 1, 1),
                         LIVE_CLIENT_OK);
        assert_int_equal(live_client_acquire(&client, "a", 1, 1),
                         LIVE_CLIENT_FULL);
        assert_int_equal(live_client_release(&client, "a", 1), LIVE_CLIENT_OK);
    }
    live_client_close(&client);
    client_close(fd);
    assert_int_equal(daemon_stop(&r->writer), 0);
}

/* ---- web pages ----------------------------------------------------------- */

/* A request of any method with a head of `head` bytes; its body is whatever the
 * page likes: it makes the head a whole number of messages. */
static size_t
put_forged_request(uint8_t *bytes, const char *method, size_t head)
{
    size_t size = (head + CLIENT_MESSAGE_SIZE - 1) / CLIENT_MESSAGE_SIZE *
                  CLIENT_MESSAGE_SIZE;
    const int line = snprintf((char *)bytes, size, "%s / HTTP/1.1", method);

    assert_in_range(line, 10, size);
    memset(bytes + line, 'x', size - (size_t)line);
    client_message(bytes + size, "forged", "by a page", 1);
    client_message(bytes + size + CLIENT_MESSAGE_SIZE, "forged", "again", 1);
    return size + 2 * CLIENT_MESSAGE_SIZE;
}

/* The first bytes one by one, then the rest; the server may have closed. */
static void
send_forged(uint16_t port, const uint8_t *bytes, size_t size, size_t first)
{
    const int on = 1, fd = client_connect(port);
    size_t at = 0;
    uint8_t byte;

    assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on),
                     0);
    while (at < first && client_try_send(fd, bytes + at, 1) == 0)
        at++;
    (void)client_try_send(fd, bytes + at, size - at);
    assert_true(client_try_read(fd, &byte, 1, 20000) <= 0);
    client_close(fd);
}

ON_FIXTURE(a_web_page_can_forge_nothing_on_any_port, r)
{
    static const char *const listeners[] = {"counter", "semaphore", "ack",
                                            "silent"};
    static const char *const methods[] = {"POST", "COUNT", "A", "#",
                                          "ANY-TOKEN-AT-ALL"};
    static const size_t heads[] = {10, 520, 1000, 16384, 65536};
    static const size_t firsts[] = {0, 7, 20};
    static uint8_t bytes[65536 + 3 * CLIENT_MESSAGE_SIZE];
    char said[128];

    start_writer(r, "64K", "semaphore.enable=on", NULL);
    for (size_t i = 0; i < 4; i++) {
        for (size_t m = 0; m < 5; m++)
            for (size_t h = 0; h < 5; h++)
                for (size_t f = 0; f < 3; f++)
                    send_forged(daemon_port(&r->writer, listeners[i]), bytes,
                                put_forged_request(bytes, methods[m], heads[h]),
                                firsts[f]);
        (void)snprintf(said, sizeof said,
                       "%s: a connection from 127.0.0.1:", listeners[i]);
        daemon_await_words(&r->writer, said);
    }
    daemon_signal(&r->writer, SIGUSR1);
    daemon_await_words(&r->writer, "malformed=0 browsers=75");
    stop_writer(r);

    assert_int_equal(r->records.count, 0);
}

/* With the smallest names a message is ten bytes, and any ten are one. */
ON_FIXTURE(the_smallest_messages_cannot_be_forged, r)
{
    static const char hello[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
                                "0123456789012345678901234567890123456789";
    static const char turn[] = "\x00\x03\x00\x08\x21\x12\xa4\x42random number"
                               "\x00\x19\x00\x04\x11\x00\x00\x00";
    static const char line[] = "COUNT /abc HTTP/1.1\r\nHost: a.example\r\n\r\n";

    start_writer(r, "64K", "message.keyspace_size=1", "message.key_size=1");
    for (size_t i = 0; i < 2; i++) {
        const uint16_t port =
            daemon_port(&r->writer, i == 0 ? "ack" : "silent");

        for (size_t first = 0; first < 12; first++) {
            send_forged(port, (const uint8_t *)hello, sizeof hello - 1, first);
            send_forged(port, (const uint8_t *)turn, sizeof turn - 1, first);
            send_forged(port, (const uint8_t *)line, sizeof line - 1, first);
        }
    }
    daemon_signal(&r->writer, SIGUSR1);
    daemon_await_words(&r->writer, "messages=0 ");
    daemon_await_words(&r->writer, "malformed=0 browsers=36 ");
    assert_int_equal(daemon_stop(&r->writer), 0);
}

ON_FIXTURE(who_sends_what_is_malformed_is_named, r)
{
    uint8_t bytes[CLIENT_MESSAGE_SIZE] = {1};
    int fd;

    start_writer(r, "64K", NULL, NULL);
    fd = connect_silent(r);
    client_send(fd, bytes, sizeof bytes);
    client_expect_end(fd);
    client_close(fd);
    daemon_await_words(&r->writer, "silent: malformed input from 127.0.0.1:");
    fd = client_connect(daemon_port(&r->writer, "ack"));
    client_send(fd, "version\r\n", 9);
    client_expect_end(fd);
    client_close(fd);
    daemon_await_words(&r->writer, "sends text, not increments; it is closed");
    daemon_signal(&r->writer, SIGUSR1);
    daemon_await_words(&r->writer,
                       "port=silent open=0 connections=1 received=520 sent=0 "
                       "malformed=1 browsers=0");
    stop_writer(r);
}
