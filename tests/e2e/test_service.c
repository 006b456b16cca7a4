/* tests/e2e/test_service.c - countd under a service manager: the transcript
 * service.txt, and what their manager learns when they serve. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/lib/daemon.h"
#include "tests/lib/tmpdir.h"

/* A service manager's socket; its variable is in `env`. */
static int
listen_for_ready(const struct tmpdir *dir, char *env, size_t env_size)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const int fd =
        socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const int size =
        snprintf(at.sun_path, sizeof at.sun_path, "%s/notify", dir->path);

    if (size < 0 || (size_t)size >= sizeof at.sun_path)
        test_skip("TMPDIR is too long for a Unix socket");
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    snprintf(env, env_size, "NOTIFY_SOCKET=%s", at.sun_path);
    return fd;
}

/* Behind the sockets that are to be kept, whose descriptors are dropped here,
 * is one datagram, and no other. */
static void
expect_ready_once(int fd)
{
    char text[128];
    ssize_t size;

    do
        size = recv(fd, text, sizeof text, 0);
    while (size > 10 && strncmp(text, "FDSTORE=1\n", 10) == 0);
    assert_int_equal(size, 8);
    assert_memory_equal(text, "READY=1\n", 8);
    assert_int_equal(recv(fd, text, sizeof text, 0), -1);
    assert_int_equal(errno, EAGAIN);
}

/* The ready descriptor is written after the datagram was sent. */
TEST_IN(each_program_tells_the_service_manager_once, struct tmpdir *dir,
        tmpdir_setup, tmpdir_teardown)
{
    static const char *const programs[] = {"countd-worker", "countd-write",
                                           "countd-read", "countd"};
    char variable[700], data[600];
    const char *const env[] = {variable, NULL};
    const char *argv[] = {"serve",
                          "-d",
                          data,
                          "-o",
                          "log.size=64K",
                          "-o",
                          "write.listen=127.0.0.1:0",
                          "-o",
                          "write.ack_listen=127.0.0.1:0",
                          "-o",
                          "read.listen=127.0.0.1:0",
                          NULL};
    const int fd = listen_for_ready(dir, variable, sizeof variable);

    snprintf(data, sizeof data, "%s/data", dir->path);
    for (size_t i = 0; i < sizeof programs / sizeof programs[0]; i++) {
        const bool serves = strcmp(programs[i], "countd") == 0;
        const struct daemon_how how = {.argv = serves ? argv : argv + 1,
                                       .env = env};
        struct daemon d;

        assert_int_equal(daemon_start_how(&d, programs[i], &how), 0);
        expect_ready_once(fd);
        assert_int_equal(daemon_stop(&d), 0);
        daemon_fini(&d);
        assert_int_equal(recv(fd, data, 0, 0), -1); /* nor at its end */
    }
    assert_int_equal(close(fd), 0);
}

TEST_IN(one_who_cannot_be_told_stops_no_program, struct tmpdir *dir,
        tmpdir_setup, tmpdir_teardown)
{
    static const char *const names[] = {"", "relative", "@", "/does/not/exist"};
    char variable[64];
    const char *const env[] = {variable, NULL};
    const char *argv[] = {"-d", dir->path, "-o", "log.size=64K", NULL};
    const struct daemon_how how = {.argv = argv, .env = env};
    struct daemon d;

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(variable, sizeof variable, "NOTIFY_SOCKET=%s", names[i]);
        assert_int_equal(daemon_start_how(&d, "countd-worker", &how), 0);
        if (i > 0)
            assert_has(daemon_text(&d), "NOTIFY_SOCKET that this daemon is");
        assert_int_equal(daemon_stop(&d), 0);
        daemon_fini(&d);
    }
}
