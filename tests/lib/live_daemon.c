/* tests/lib/live_daemon.c - see live_daemon.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/live_daemon.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "tests/lib/test.h"

int
live_daemon_setup(void **state)
{
    struct live_daemon *r = calloc(1, sizeof *r);

    if (!r)
        return -1;
    tmpdir_make_in_memory(&r->dir);
    *state = r;
    return 0;
}

int
live_daemon_teardown(void **state)
{
    struct live_daemon *r = *state;

    daemon_fini(&r->writer);
    tmpdir_remove(&r->dir);
    free(r);
    return 0;
}

void
live_daemon_start(struct live_daemon *r, ...)
{
    const char *argv[DAEMON_ARGS_MAX + 1] = {
        "-d", r->dir.path,
        "-o", "log.size=64K",
        "-o", "log.count=2",
        "-o", "log.rotate_after=1h",
        "-o", "log.merge_share=0",
        "-o", "write.listen=127.0.0.1:0",
        "-o", "write.ack_listen=127.0.0.1:0",
        "-o", "counter.port=0",
        "-o", "counter.stats_interval=1000000000",
        "-o", "semaphore.enable=true",
        "-o", "semaphore.port=0",
        "-o", "semaphore.gc_interval=1000000000"};
    const struct daemon_how how = {.argv = argv};
    const char *option;
    size_t n = 0;
    va_list list;

    while (argv[n])
        n++;
    va_start(list, r);
    while ((option = va_arg(list, const char *))) {
        if (n + 2 > DAEMON_ARGS_MAX)
            fail_msg("too many options");
        argv[n++] = "-o";
        argv[n++] = option;
    }
    va_end(list);
    (void)daemon_start_how(&r->writer, "countd-write", &how); /* fails itself */
    r->counter = daemon_port(&r->writer, "counter");
    r->semaphore = daemon_port(&r->writer, "semaphore");
    r->ack = daemon_port(&r->writer, "ack");
    r->silent = daemon_port(&r->writer, "silent");
}

void
live_daemon_stop(struct live_daemon *r)
{
    assert_int_equal(daemon_stop(&r->writer), 0);
}

uint64_t
live_daemon_descriptors(uint64_t count)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        fail_msg("getrlimit: %s", strerror(errno));
    if (limit.rlim_cur >= count)
        return count;
    limit.rlim_cur = count;
    if (limit.rlim_max < count)
        limit.rlim_max = count;
    if (setrlimit(RLIMIT_NOFILE, &limit) == 0)
        return count;
    /* Only root may have more than the hard limit. */
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        fail_msg("getrlimit: %s", strerror(errno));
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        fail_msg("setrlimit: %s", strerror(errno));
    return (uint64_t)limit.rlim_cur;
}

int
live_daemon_connect_from(uint16_t port, uint64_t number)
{
    struct sockaddr_in from = {.sin_family = AF_INET};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    if (fd < 0)
        fail_msg("socket: %s", strerror(errno));
    from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + (uint32_t)number / 2000);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on) <
            0 ||
        bind(fd, (struct sockaddr *)&from, sizeof from) < 0 ||
        connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
        fail_msg("connection %llu: %s", (unsigned long long)number,
                 strerror(errno));
    return fd;
}
