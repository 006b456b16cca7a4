/* tests/e2e/test_write_start.c - what countd-write refuses at the start, and
 * with what words. */
#include "tests/e2e/write_fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/live_client.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true
#else
#define SANITIZED false
#endif

/* ---- what it refuses --------------------------------------------------- */

static const char *
writer_path(void)
{
    static char path[600];

    daemon_path("countd-write", path, sizeof path);
    return path;
}

static void
expect_refusal(const struct fixture *r, int status, const char *listen,
               const char *more, const char *text)
{
    char output[4096];

    assert_int_equal(daemon_run(output, sizeof output, "countd-write", "-d",
                                r->data, "-o", listen, "-o",
                                "write.ack_listen=127.0.0.1:0", "-o", more,
                                NULL),
                     status);
    if (!strstr(output, text))
        fail_msg("nothing about \"%s\" in:\n%s", text, output);
}

ON_FIXTURE(too_little_address_space_names_the_setting_to_lower, r)
{
    static const char script[] =
        "ulimit -v 2000000; COUNTD_CONF= exec \"$1\" -d \"$2\" "
        "-o write.listen= -o write.ack_listen= -o http.listen= "
        "-o counter.port=0";
    char output[4096];

    if (SANITIZED)
        test_skip("a sanitizer needs the address space");
    assert_int_equal(daemon_run(output, sizeof output, "/bin/sh", "-c", script,
                                "sh", writer_path(), r->data, NULL),
                     111);
    if (!strstr(output, "lower counter.max_memory, or raise ulimit -v"))
        fail_msg("no setting is named in:\n%s", output);
}

ON_FIXTURE(a_second_writer_is_refused, r)
{
    char text[64];
    int fd;

    start(r, "64K", NULL, NULL);
    (void)snprintf(text, sizeof text, "pid=%ld", (long)r->writer.pid);
    expect_refusal(r, 111, "write.listen=127.0.0.1:0", "log.size=64K", text);

    /* And does no harm to the first. */
    fd = ack(r);
    client_increment(fd, "first", "k", 1);
    client_wins(fd, 1);
    client_close(fd);
    stop(r);
    assert_int_equal(r->records.count, 1);
}

/* `calls` all fail from the `nth` on; nobody sees why but by what it says. */
ON_FIXTURE(a_call_that_fails_at_the_start_is_named, r)
{
    static const struct {
        const char *calls, *nth, *text;
    } rows[] = {
        {"?eventfd,?eventfd2", "1", "make an eventfd"},
        {"?clone,?clone3", "1", "create a thread"},
        {"fcntl", "2", "open the logs in data_dir="},
        {"epoll_create1", "1", "event loop"},
        {"epoll_ctl", "2", "watch an eventfd"},
    };
    char output[4096], inject[96];
    size_t i;

    if (daemon_run(NULL, 0, "/usr/bin/env", "strace", "-qq", "-o", "/dev/null",
                   "true", NULL) != 0)
        test_skip("strace cannot trace here");
    for (i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        (void)snprintf(inject, sizeof inject, "inject=%s:error=EMFILE:when=%s+",
                       rows[i].calls, rows[i].nth); /* fits */
        assert_int_equal(daemon_run(output, sizeof output, "/usr/bin/env",
                                    "ASAN_OPTIONS=detect_leaks=0", "strace",
                                    "-qq", "-f", "-o", "/dev/null", "-e",
                                    inject, writer_path(), "-d", r->data, "-o",
                                    "write.listen=127.0.0.1:0", "-o",
                                    "write.ack_listen=", NULL),
                         111);
        if (!strstr(output, rows[i].text) ||
            !strstr(output, "Too many open files"))
            fail_msg("nothing about \"%s\" in:\n%s", rows[i].text, output);
    }
}

/* It waits for the second port while the first is bound. */
ON_FIXTURE(signals_at_the_start_wait_until_it_serves, r)
{
    struct sockaddr_in here = {.sin_family = AF_INET,
                               .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof here;
    char listen_at[64];
    const char *argv[] = {"-d", r->data,   "-o", "write.listen=localhost:0",
                          "-o", listen_at, "-o", "log.size=64K",
                          NULL};
    const struct daemon_how how = {.argv = argv, .not_ready = true};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&here, size), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&here, &size), 0);
    assert_int_equal(listen(fd, 1), 0);
    (void)snprintf(listen_at, sizeof listen_at, "write.ack_listen=localhost:%u",
                   ntohs(here.sin_port)); /* fits */
    assert_int_equal(daemon_start_how(&r->writer, "countd-write", &how), 0);
    await_output(r, "write.ack_listen=localhost:"); /* is that port */
    daemon_signal(&r->writer, SIGUSR2);
    daemon_signal(&r->writer, SIGTERM);
    assert_int_equal(close(fd), 0);
    assert_int_equal(daemon_wait(&r->writer), 0);
}

ON_FIXTURE(a_port_in_use_is_refused_with_what_to_do, r)
{
    struct tmpdir other;
    char listen[64];

    start(r, "64K", NULL, NULL);
    (void)snprintf(listen, sizeof listen, "write.listen=127.0.0.1:%u",
                   daemon_port(&r->writer, "silent")); /* fits */
    tmpdir_make(&other);
    (void)snprintf(r->data, sizeof r->data, "%s", other.path); /* fits */
    expect_refusal(r, 111, listen, "log.size=64K", "is in use");
    /* What it had claimed is free again. */
    assert_int_equal(logs_in_mode(r, LOG_MODE_OWNED), 0);
    tmpdir_remove(&other);
    (void)snprintf(r->data, sizeof r->data, "%s", r->dir.path); /* fits */
    stop(r);
}

ON_FIXTURE(a_live_port_in_use_is_refused_with_what_to_do, r)
{
    struct tmpdir other;
    char port[64];

    start(r, "64K", "counter.port=0", NULL);
    tmpdir_make(&other);
    (void)snprintf(r->data, sizeof r->data, "%s", other.path); /* fits */
    (void)snprintf(port, sizeof port, "counter.port=%u",
                   daemon_port(&r->writer, "counter")); /* fits */
    expect_refusal(r, 111, "write.listen=127.0.0.1:0", port,
                   "set counter.port to a free port, or counter.enable to "
                   "false");
    assert_int_equal(logs_in_mode(r, LOG_MODE_OWNED), 0);
    tmpdir_remove(&other);
    (void)snprintf(r->data, sizeof r->data, "%s", r->dir.path); /* fits */
    stop(r);
}

ON_FIXTURE(live_ports_alone_are_something_to_do, r)
{
    struct live_client client;

    daemon_start(&r->writer, "countd-write", "-d", r->data, "-o",
                 "write.listen=", "-o", "write.ack_listen=", "-o",
                 "counter.enable=off", "-o", "semaphore.enable=on", "-o",
                 "semaphore.port=0", "-o", "log.size=64K", NULL);
    assert_int_equal(r->writer.port_count, 1);
    live_client_open(&client, daemon_port(&r->writer, "semaphore"));
    assert_int_equal(live_client_acquire(&client, "s", 2, 5), LIVE_CLIENT_OK);
    assert_int_equal(live_client_get(&client, "s"), 3);
    live_client_close(&client);
    stop(r);
    await_output(r, "semaphore: objects=1 created=1 ");
}

ON_FIXTURE(an_address_others_can_reach_needs_the_networks_that_may, r)
{
    expect_refusal(r, 100, "write.listen=0.0.0.0:0", "log.size=64K",
                   "write.listen=0.0.0.0:0 can be reached from other machines: "
                   "say which networks may connect, with a line such as "
                   "write.allow = 10.0.0.0/8");
    expect_refusal(r, 100, "write.listen=[::]:0", "log.size=64K",
                   "write.allow = 10.0.0.0/8");
    expect_refusal(r, 100, "write.listen=127.0.0.1:0", "live.address=0.0.0.0",
                   "live.allow = 10.0.0.0/8");
    expect_refusal(r, 100, "write.listen=127.0.0.1:0",
                   "write.allow=127.0.0.1/8",
                   "write.allow: 127.0.0.1/8 has bits set behind its prefix");
}

/* The silent port for both families shows an IPv4 peer as a mapped one. */
ON_FIXTURE(a_peer_of_a_network_that_is_listed_is_served, r)
{
    int fd;

    daemon_start(&r->writer, "countd-write", "-d", r->data, "-o",
                 "log.size=64K", "-o", "write.listen=[::]:0", "-o",
                 "write.ack_listen=0.0.0.0:0", "-o", "counter.enable=false",
                 "-o", "write.allow=10.0.0.0/8 127.0.0.0/8", NULL);
    fd = silent(r);
    client_increment(fd, "silent", "k", 1);
    client_close(fd);
    fd = ack(r);
    client_increment(fd, "ack", "k", 1);
    client_wins(fd, 1);
    client_close(fd);
    stop(r);
    assert_int_equal(r->records.count, 2);
}

ON_FIXTURE(a_peer_of_another_network_is_closed_and_counted, r)
{
    start(r, "64K", "counter.port=0", "write.allow=10.0.0.0/8 fd00::/8");
    for (int i = 0; i < 3; i++)
        client_expect_end(i < 2 ? ack(r) : silent(r));
    await_output(r, "ack: a connection from 127.0.0.1:");
    await_output(r, "is closed: write.allow does not have its network");
    daemon_signal(&r->writer, SIGUSR1);
    await_output(r, "port=ack open=0 connections=0");
    await_output(r, " not_allowed=2 ");
    await_output(r, " not_allowed=1 ");
    stop(r);
    assert_int_equal(r->records.count, 0);
}

ON_FIXTURE(other_message_sizes_are_refused_with_what_to_do, r)
{
    start(r, "64K", NULL, NULL);
    stop(r);
    expect_refusal(r, 100, "write.listen=127.0.0.1:0", "message.key_size=100",
                   "message.key_size=256");
}

ON_FIXTURE(with_all_ports_off_there_is_nothing_to_do, r)
{
    char output[4096];

    assert_int_equal(daemon_run(output, sizeof output, "countd-write", "-d",
                                r->data, "-o", "write.listen=", "-o",
                                "write.ack_listen=", "-o",
                                "counter.enable=false", NULL),
                     100);
    assert_non_null(strstr(output, "write.listen"));
    assert_non_null(strstr(output, "counter.enable"));
}

ON_FIXTURE(a_port_can_be_turned_off, r)
{
    int fd;

    start(r, "64K", "write.listen=", "counter.enable=false");
    assert_int_equal(r->writer.port_count, 1);
    fd = ack(r);
    client_increment(fd, "one", "k", 1);
    client_wins(fd, 1);
    client_close(fd);
    stop(r);
}
