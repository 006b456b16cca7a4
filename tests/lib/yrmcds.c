/* tests/lib/yrmcds.c - see yrmcds.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/yrmcds.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/lib/client.h"
#include "tests/lib/test.h"

#define START_MS 20000
#define NOBODY   65534

static const char *const places[] = {"/usr/sbin/yrmcdsd",
                                     "/usr/local/sbin/yrmcdsd"};

static const char *
find_program(void)
{
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++)
        if (access(places[i], X_OK) == 0)
            return places[i];
    return NULL;
}

bool
yrmcds_installed(void)
{
    return find_program() != NULL;
}

static void
write_settings(struct yrmcds *y, unsigned buckets)
{
    char text[1024];
    int size;

    y->port = daemon_free_port();
    size = snprintf(text, sizeof text,
                    "virtual_ip = 127.0.0.1\nbind_ip = 127.0.0.2\n"
                    "port = %u\nrepl_port = %u\ntemp_dir = \"%s\"\n"
                    "workers = 10\ncounter.enable = true\ncounter.port = %u\n"
                    "counter.buckets = %u\n"
                    "counter.stat_interval = 1000000000\n",
                    daemon_free_port(), daemon_free_port(), y->dir.path,
                    y->port, buckets);
    if (size < 0 || (size_t)size >= sizeof text)
        fail_msg("the settings of yrmcds do not fit");
    tmpdir_put(&y->dir, "yrmcds.conf", text, (size_t)size, 0644);
    if (getuid() == 0)
        tmpdir_chown(&y->dir, NOBODY);
}

/* It listens before it serves, and forgets what comes in between. */
static bool
is_serving(uint16_t port)
{
    static const uint8_t noop[12] = {0x90};
    uint8_t answer[sizeof noop];
    const int fd = client_try_connect(port);
    bool good = false;

    if (fd < 0)
        return false;
    if (client_try_send(fd, noop, sizeof noop) == 0)
        good = client_try_read(fd, answer, sizeof answer, 200) ==
               (long)sizeof answer;
    client_close(fd);
    return good;
}

void
yrmcds_start(struct yrmcds *y, unsigned buckets)
{
    const uint64_t deadline = test_deadline(START_MS);
    char path[600];
    const char *const argv[] = {"-f", path, NULL};
    /* Were it to change its user itself, it would outlive us. */
    const struct daemon_how how = {
        .argv = argv, .not_ready = true, .uid = getuid() == 0 ? NOBODY : 0};

    tmpdir_make_in_memory(&y->dir);
    write_settings(y, buckets);
    (void)snprintf(path, sizeof path, "%s/yrmcds.conf", y->dir.path);
    (void)daemon_start_how(&y->daemon, find_program(), &how); /* fails itself */
    while (!is_serving(y->port)) {
        if (!daemon_alive(&y->daemon) || clock_ms() > deadline)
            fail_msg("yrmcds does not serve");
        (void)poll(NULL, 0, 5); /* cut short: an earlier look */
    }
}

void
yrmcds_end(struct yrmcds *y)
{
    if (y->port == 0)
        return;
    daemon_kill(&y->daemon);
    daemon_fini(&y->daemon);
    tmpdir_remove(&y->dir);
    y->port = 0;
}
