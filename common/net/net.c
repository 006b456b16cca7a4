/* common/net/net.c - see net.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/net/net.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"

#define BACK_OFF_MS  10 /* first wait for a port in use; doubles */
#define BACK_OFF_MAX 320

/* Accepted sockets inherit TCP_NODELAY: one call fewer for each. */
static bool
set_options(int fd)
{
    const int one = 1;

    return setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0 &&
           setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) == 0;
}

/* Binds, and listens; *bound is the address with its port. */
static int
bind_once(const struct net_address *a, int type, struct net_address *bound)
{
    const bool listens = type == SOCK_STREAM;
    int fd, rc;

    fd = socket(a->sa.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    bound->size = sizeof bound->sa;
    if ((!listens || set_options(fd)) &&
        bind(fd, (const struct sockaddr *)&a->sa, a->size) == 0 &&
        (!listens || listen(fd, NET_BACKLOG) == 0) &&
        getsockname(fd, (struct sockaddr *)&bound->sa, &bound->size) == 0)
        return fd;
    rc = -errno;
    (void)close(fd);
    return rc;
}

int
net_bind(const struct net_address *a, int type, uint64_t wait_ms,
         struct net_address *bound)
{
    const uint64_t end_ms = clock_ms() + wait_ms;
    uint64_t now_ms, pause_ms = BACK_OFF_MS;
    int rc;

    for (;;) {
        rc = bind_once(a, type, bound);
        if (rc != -EADDRINUSE)
            return rc;
        now_ms = clock_ms();
        if (now_ms >= end_ms)
            return rc;
        if (pause_ms > end_ms - now_ms)
            pause_ms = end_ms - now_ms;
        (void)poll(NULL, 0, (int)pause_ms); /* cut short: an earlier try */
        if (pause_ms < BACK_OFF_MAX)
            pause_ms *= 2;
    }
}

/* ---- connections ------------------------------------------------------- */

bool
net_is_self(int fd)
{
    struct net_address self = {.size = sizeof self.sa}, peer = self;

    return getsockname(fd, (struct sockaddr *)&self.sa, &self.size) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer.sa, &peer.size) == 0 &&
           self.size == peer.size && memcmp(&self.sa, &peer.sa, self.size) == 0;
}
