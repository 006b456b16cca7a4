/* tests/e2e/test_counter_load.c - live objects in large numbers and under
 * pressure: thousands of connections, memory that runs out. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "tests/lib/client.h"
#include "tests/lib/live_client.h"
#include "tests/lib/service.h"

#define CLIENTS  20000
#define SPARE    400 /* descriptors for everything else */
#define LIMIT_MS 20000
#define MIB      ((uint64_t)1 << 20)

static size_t
name_of(char name[48], const char *prefix, uint32_t number)
{
    return (size_t)snprintf(name, 48, "%s-%08u-of-many", prefix, number);
}

/* ---- connections -------------------------------------------------------- */

/* Connects from one of several addresses, by `number`: the search for a free
 * port gets slow when thousands of one address are taken. */
static int
connect_from(uint16_t port, uint64_t number)
{
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + (uint32_t)number / 2000);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(
        setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    return fd;
}

/* Takes one of "crowd" and one of its own. */
static void
ask_two(int fd, uint32_t number)
{
    uint8_t bytes[160];
    char name[48];
    size_t size, n;

    n = name_of(name, "seat", number);
    size = live_client_put_acquire(bytes, number, "crowd", 5, 1, CLIENTS);
    size += live_client_put_acquire(bytes + size, number, name, n, 1, 1);
    client_send(fd, bytes, size);
}

static void
expect_two(int fd, uint32_t number)
{
    uint8_t bytes[32], wanted[32];

    put_be32(wanted, UINT32_C(0x91020000));
    put_be32(wanted + 4, 4);
    put_be32(wanted + 8, number);
    put_be32(wanted + 12, 1);
    memcpy(wanted + 16, wanted, 16);
    assert_int_equal(client_read(fd, bytes, sizeof bytes), sizeof bytes);
    assert_memory_equal(bytes, wanted, sizeof bytes);
}

#define CASE(name, f)                                                          \
    TEST_IN(name, struct fleet *f, service_setup_live, service_teardown)

CASE(twenty_thousand_connections_hold_something_each, f)
{
    const uint64_t got = client_descriptors(CLIENTS + SPARE);
    const uint32_t count =
        (uint32_t)(got >= CLIENTS + SPARE ? CLIENTS : got - SPARE);
    int *fds = test_memory(calloc(count, sizeof *fds));
    struct live_client observer;
    uint64_t memory;

    fleet_start_with(f, FLEET_WRITE, "counter.max_connections=20001",
                     "write.max_connections=64", "semaphore.max_connections=8");
    live_client_open(&observer, fleet_writer_port(f, "counter"));
    live_client_noop(&observer);
    memory = daemon_memory(fleet_daemon(f, FLEET_WRITE));
    for (uint32_t i = 0; i < count; i++) {
        fds[i] = connect_from(fleet_writer_port(f, "counter"), i);
        ask_two(fds[i], i);
    }
    for (uint32_t i = 0; i < count; i++)
        expect_two(fds[i], i);

    assert_int_equal(live_client_get(&observer, "crowd"), count);
    live_client_await_stat(&observer, "curr_connections", count + 1);
    memory = daemon_memory(fleet_daemon(f, FLEET_WRITE)) - memory;
    print_message("%u connections, %llu bytes each with two holdings\n", count,
                  (unsigned long long)memory / count);
    if (test_slow() == 1)
        assert_in_range(memory, 0, count * UINT64_C(1024) + MIB);
    for (uint32_t i = 0; i < count; i++)
        if (i % 3)
            client_close(fds[i]);
        else
            client_reset(fds[i]);
    live_client_await(&observer, "crowd", 0);
    live_client_await_stat(&observer, "curr_connections", 1);
    live_client_close(&observer);
    free(fds);
    fleet_stop(f, FLEET_WRITE);
    if (count < CLIENTS)
        test_skip("fewer than 20,000 connections: the limit of open files "
                  "forbids more");
}

/* ---- memory ------------------------------------------------------------- */

CASE(used_up_memory_is_reported_and_a_sweep_makes_room, f)
{
    const uint64_t end_ms = test_deadline(LIMIT_MS);
    static char name[60000];
    struct live_client a, b;
    uint32_t taken = 0;
    int status;

    fleet_start_with(f, FLEET_WRITE, "counter.max_memory=16M",
                     "counter.buckets=1000", "semaphore.buckets=1000",
                     "semaphore.gc_interval=1");
    live_client_open(&a, fleet_writer_port(f, "semaphore"));
    live_client_open(&b, fleet_writer_port(f, "semaphore"));
    memset(name, 'y', sizeof name);
    do {
        (void)snprintf(name, 16, "%015u", taken++);
        status = live_client_acquire_bytes(&a, name, sizeof name, 1, 5);
    } while (status == LIVE_CLIENT_OK);
    assert_int_equal(status, LIVE_CLIENT_NO_MEMORY);
    assert_in_range(taken, 50, 16 * MIB / sizeof name);

    live_client_drop(&a);
    while ((status = live_client_acquire_bytes(&b, name, sizeof name, 1, 5)) !=
           LIVE_CLIENT_OK) {
        assert_int_equal(status, LIVE_CLIENT_NO_MEMORY);
        assert_true(clock_ms() < end_ms);
    }
    live_client_close(&b);
    fleet_stop(f, FLEET_WRITE);
    assert_has(daemon_text(fleet_daemon(f, FLEET_WRITE)),
               "counter.max_memory=16777216 is used up: new "
               "names are refused, 1 so far; of 0 counters ");
}
