/* tests/unit/test_notify.c - the service manager is told once, if there is
 * one. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/net/notify.h"
#include "common/setup/config.h"
#include "tests/lib/fault.h"
#include "tests/lib/tmpdir.h"

struct manager {
    struct tmpdir dir;
    int fd;
};

/* Listens at a path, or at an abstract name (@), and says so in the
 * environment. */
static void
listen_at(struct manager *m, const char *name)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};

    if (strlen(name) >= sizeof at.sun_path)
        test_skip("TMPDIR is too long for a Unix socket");
    if (m->fd >= 0)
        assert_int_equal(close(m->fd), 0);
    memcpy(at.sun_path, name, strlen(name));
    if (name[0] == '@')
        at.sun_path[0] = '\0';
    m->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(m->fd >= 0);
    assert_int_equal(bind(m->fd, (const struct sockaddr *)&at,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
                                      strlen(name))),
                     0);
    assert_int_equal(setenv("NOTIFY_SOCKET", name, 1), 0);
}

static int
setup(void **state)
{
    static struct manager m;

    tmpdir_make(&m.dir);
    m.fd = -1;
    *state = &m;
    return 0;
}

static int
teardown(void **state)
{
    struct manager *m = *state;

    if (m->fd >= 0)
        assert_int_equal(close(m->fd), 0);
    assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
    tmpdir_remove(&m->dir);
    return 0;
}

#define WITH_DIR(name, m) TEST_IN(name, struct manager *m, setup, teardown)

static void
expect_ready_once(const struct manager *m)
{
    char text[64];

    /* A datagram is there when sendto() returns. */
    assert_int_equal(recv(m->fd, text, sizeof text, 0), 8);
    assert_memory_equal(text, "READY=1\n", 8);
    assert_int_equal(recv(m->fd, text, sizeof text, 0), -1);
    assert_int_equal(errno, EAGAIN);
    assert_null(getenv("NOTIFY_SOCKET"));
}

WITH_DIR(a_socket_gets_one_datagram_however_the_daemon_is_ready, m)
{
    char path[600], name[64];

    snprintf(path, sizeof path, "%s/notify", m->dir.path);
    listen_at(m, path);
    notify_ready();
    notify_ready();
    expect_ready_once(m);
    assert_int_equal(unlinkat(m->dir.fd, "notify", 0), 0);
    listen_at(m, path);
    config_ready(-1, NULL, 0); /* without a ready descriptor, too */
    expect_ready_once(m);
    snprintf(name, sizeof name, "@countd-test-%d", (int)getpid());
    listen_at(m, name);
    notify_ready();
    expect_ready_once(m);
}

WITH_DIR(one_who_cannot_be_told_stops_nobody, m)
{
    static char longest[200];
    const char *const names[] = {"", "relative", "@", "/does/not/exist",
                                 longest};
    char path[600];

    memset(longest, '/', sizeof longest - 1);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_int_equal(setenv("NOTIFY_SOCKET", names[i], 1), 0);
        notify_ready(); /* a warning at most */
    }
    snprintf(path, sizeof path, "%s/notify", m->dir.path);
    listen_at(m, path);
    fault_inject("socket", 1, EMFILE);
    notify_ready();
    fault_clear();
    assert_null(getenv("NOTIFY_SOCKET"));
}
