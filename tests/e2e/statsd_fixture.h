/* tests/e2e/statsd_fixture.h - countd-write, the built program, with ports for
 * StatsD and Graphite lines.
 *
 * Datagrams to a loopback address are in the socket's buffer, or dropped, when
 * send() returns, and a clean stop reads the buffer: no test waits for more. */
/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef COUNTD_TESTS_E2E_STATSD_FIXTURE_H
#define COUNTD_TESTS_E2E_STATSD_FIXTURE_H

#include "tests/e2e/write_fixture.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#define C "statsd" /* the keyspace of counters */

#define OPTIONS_MAX 12

/* Starts the writer with these settings, NULL-terminated, and ports for lines.
 */
static inline void
begin_with(struct fixture *r, const char *const *options)
{
    static const char *const ports[] = {
        "statsd.listen=127.0.0.1:0", "statsd.tcp_listen=127.0.0.1:0",
        "graphite.listen=127.0.0.1:0", "write.listen=127.0.0.1:0",
        "write.ack_listen=127.0.0.1:0"};
    const char *argv[2 * OPTIONS_MAX + 16] = {"-d", r->data};
    size_t count = 2;

    for (size_t i = 0; i < sizeof ports / sizeof ports[0]; i++) {
        argv[count++] = "-o";
        argv[count++] = ports[i];
    }
    for (; *options; options++) {
        argv[count++] = "-o";
        argv[count++] = *options;
    }
    assert_int_equal(daemon_start_how(&r->writer, "countd-write",
                                      &(const struct daemon_how){.argv = argv}),
                     0);
}

#define BEGIN(r, ...) begin_with(r, (const char *const[]){__VA_ARGS__, NULL})

static inline int
connect_udp(const struct daemon *writer)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port =
                                       htons(daemon_port(writer, "statsd")),
                                   .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

static inline void
send_lines(int fd, const char *datagram)
{
    assert_int_equal(send(fd, datagram, strlen(datagram), 0), strlen(datagram));
}

static inline int64_t
sum_counted(const struct fixture *r, const char *keyspace, const char *key)
{
    return records_sum(&r->records, keyspace, key, NULL);
}

static inline int64_t
sum_told(const struct fixture *r, const char *key)
{
    return sum_counted(r, "countd.statsd", key);
}

#endif
