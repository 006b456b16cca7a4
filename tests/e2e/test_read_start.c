/* tests/e2e/test_read_start.c - how countd-read starts, refuses to and ends:
 * the transcript read_start.txt, and what needs sockets of the test. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/net/net.h"
#include "common/setup/datadir.h"
#include "tests/lib/client.h"
#include "tests/lib/daemon.h"
#include "tests/lib/expect.h"
#include "tests/lib/tmpdir.h"

#define ANY_PORT "-o", "read.listen=127.0.0.1:0"

static struct tmpdir dir;

/* A data directory as a writer leaves it. */
static int
setup(void **state)
{
    struct datadir made;

    (void)state; /* there is one directory */
    tmpdir_make(&dir);
    assert_rc(datadir_open(&made, dir.path, DATADIR_WRITE), 0);
    datadir_close(&made);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    tmpdir_remove(&dir);
    return 0;
}

#define CASE(name) TEST_IN(name, void *unused, setup, teardown)

/* No rows are an answer. */
static void
expect_answer(int fd)
{
    struct client_rows r;

    client_range(fd, "none", 0, 1, &r);
    assert_int_equal(r.rows, 0);
    client_rows_free(&r);
}

CASE(a_port_in_use_is_reported_at_once_and_may_be_free_later)
{
    char where[NET_ADDRESS_SIZE], setting[NET_ADDRESS_SIZE + 16];
    const char *const argv[] = {"-d", dir.path, "-o", setting, NULL};
    const struct daemon_how how = {.argv = argv, .not_ready = true};
    struct daemon d;
    uint16_t port;
    int fd = client_listen(&port);

    snprintf(where, sizeof where, "127.0.0.1:%u", port);
    snprintf(setting, sizeof setting, "read.listen=%s", where);

    assert_int_equal(daemon_start_how(&d, "countd-read", &how), 0);
    daemon_await_words(
        &d, "is in use by another process: stop it, or set read.listen "
            "to a free port; trying for 3 s");
    assert_has(daemon_text(&d), where);
    assert_int_equal(close(fd), 0);

    daemon_await_words(&d, "serving read=127.0.0.1:");
    assert_has(strstr(daemon_text(&d), "serving read="), where);
    fd = client_connect((uint16_t)strtoul(where + 10, NULL, 10));
    expect_answer(fd);
    client_close(fd);
    assert_int_equal(daemon_stop(&d), 0);
    daemon_fini(&d);
}

/* A host leaves the last eighth of the places to others. */
static int
connect_from(const char *host, unsigned port)
{
    struct net_address a = {
        .size = sizeof a.v4,
        .v4 = {.sin_family = AF_INET,
               .sin_port = htons((uint16_t)port),
               .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}}};
    const int fd = client_connect_from(host, &a);

    assert_true(fd >= 0);
    return fd;
}

CASE(few_descriptors_mean_fewer_connections)
{
    enum { MAX = 256 - 64 - 3 * (256 / 4 / 3) };
    enum { HERE = MAX - MAX / 6 }; /* the rest is sure for HTTP */
    static int fds[HERE + 1];
    char reader[512];
    struct daemon d;
    uint8_t bytes[512];

    daemon_path("countd-read", reader, sizeof reader);
    daemon_start(&d, "/bin/sh", "-c", "ulimit -n 256 && exec \"$0\" \"$@\"",
                 reader, "-d", dir.path, ANY_PORT);
    snprintf((char *)bytes, sizeof bytes,
             "connections limited to %d by descriptors=256", MAX);
    assert_has(daemon_text(&d), (const char *)bytes);

    for (int i = 0; i < HERE; i++) {
        fds[i] = connect_from(i % 2 ? "127.0.0.1" : "127.0.0.2",
                              daemon_port(&d, "read"));
        expect_answer(fds[i]);
    }
    /* One more waits until another goes. */
    fds[HERE] = connect_from("127.0.0.2", daemon_port(&d, "read"));
    client_send(fds[HERE], bytes, client_range_request(bytes, "none", 0, 1));
    assert_rc(client_try_read(fds[HERE], bytes, 1, 0), -EAGAIN);
    client_close(fds[0]);
    client_read(fds[HERE], bytes, 24);
    expect_answer(fds[HERE]);

    for (int i = 1; i <= HERE; i++)
        client_close(fds[i]);
    assert_int_equal(daemon_stop(&d), 0);
    daemon_fini(&d);
}

CASE(figures_are_told_and_who_is_malformed_or_speaks_http)
{
    const char post[600] = "POST / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    const uint8_t wrong[272] = {0};
    struct client_rows r;
    struct daemon d;
    uint8_t byte;
    int fd;

    daemon_start(&d, "countd-read", "-d", dir.path, ANY_PORT);
    fd = client_connect(daemon_port(&d, "read"));
    client_send(fd, post, sizeof post);
    assert_int_equal(client_read(fd, &byte, 1), 0);
    client_close(fd);
    daemon_await_words(&d, "read: a connection from 127.0.0.1:");
    fd = client_connect(daemon_port(&d, "read"));
    client_send(fd, wrong, sizeof wrong);
    client_reply(fd, &r);
    assert_int_equal(r.rows, -EINVAL);
    client_expect_end(fd);
    client_close(fd);
    daemon_await_words(&d, "read: malformed input from 127.0.0.1:");
    fd = client_connect(daemon_port(&d, "read"));
    expect_answer(fd);
    daemon_signal(&d, SIGUSR1);
    daemon_await_words(&d, "requests=1 unreadable=0");
    daemon_await_words(
        &d, "connections=3 received=1144 sent=48 malformed=1 browsers=1");
    client_close(fd);
    assert_int_equal(daemon_stop(&d), 0);
    daemon_fini(&d);
}
