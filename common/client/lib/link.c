/* common/client/lib/link.c - see link.h: link_connect() and link_run() are the
 * main parts. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/lib/link.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"

#define SOCKET_WAIT_MS 100 /* for a place among those that wait */

/* Keeps the directory's path from the root. */
static int
set_directory(struct link *l, const char *directory)
{
    const size_t size = strlen(directory);
    size_t used = 0;

    if (size == 0)
        return -EINVAL;
    if (directory[0] != '/') {
        if (!getcwd(l->directory, sizeof l->directory))
            return errno == ERANGE ? -ENAMETOOLONG : -errno;
        used = strlen(l->directory);
        if (used + 1 < sizeof l->directory)
            l->directory[used++] = '/';
    }
    if (used + size >= sizeof l->directory)
        return -ENAMETOOLONG;
    memcpy(l->directory + used, directory, size + 1);
    return 0;
}

int
link_init(struct link *l, const char *address, const char *directory,
          const char *socket, unsigned timeout_ms)
{
    int rc;

    *l = (struct link){.fd = -1, .count = 1, .timeout_ms = timeout_ms};
    if (!address) {
        l->socket = socket;
        return set_directory(l, directory);
    }
    rc = net_resolve(address, l->addresses, LINK_ADDRESSES_MAX);
    l->count = rc < 0 ? 0 : (size_t)rc;
    return rc < 0 ? rc : 0;
}

void
link_drop(struct link *l)
{
    if (l->fd < 0)
        return;
    l->connecting = false;
    (void)close(l->fd); /* a socket: nothing is lost by a failure */
    l->fd = -1;
}

/* Connects to the socket in the directory, at once or not.  Its errors are
 * those of a port: others mean something else to the callers. */
static int
start_socket(struct link *l)
{
    const uint64_t until_ms = clock_ms() + SOCKET_WAIT_MS;
    int rc;

    l->tried++;
    /* A full backlog cannot be waited for. */
    while ((rc = local_connect(l->directory, l->socket)) == -EAGAIN &&
           clock_ms() < until_ms)
        (void)poll(NULL, 0, 1); /* cut short, it only looks sooner */
    switch (rc) {
    case -ENOENT:
    case -ENOTDIR:
        return -ECONNREFUSED;
    case -EACCES:
        return -EPERM;
    case -EAGAIN:
        return -ETIMEDOUT;
    default:
        break;
    }
    if (rc < 0)
        return rc;
    l->fd = rc;
    return 0;
}

/* Opens a socket to the next address.  0, -EINPROGRESS or why not. */
static int
start_connect(struct link *l)
{
    const struct net_address *a;
    const int one = 1;
    int rc;

    if (l->socket)
        return start_socket(l);
    a = &l->addresses[l->tried++];
    l->fd =
        socket(a->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (l->fd < 0)
        return -errno;
    /* Speed only; a kernel without it still carries the bytes. */
    (void)setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(l->fd, (const struct sockaddr *)&a->sa, a->size) < 0) {
        rc = -errno;
        return rc == -EINTR ? -EINPROGRESS : rc;
    }
    return 0;
}

/* What became of the connect that is under way. */
static int
check_connect(const struct link *l)
{
    struct pollfd p = {.fd = l->fd, .events = POLLOUT};
    socklen_t size = sizeof(int);
    int error = 0;
    int n;

    n = poll(&p, 1, 0);
    if (n < 0)
        return errno == EINTR ? -EINPROGRESS : -errno;
    if (n == 0)
        return clock_ms() < l->deadline_ms ? -EINPROGRESS : -ETIMEDOUT;
    if (getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        return -errno;
    return -error;
}

int
link_connect(struct link *l)
{
    int rc;

    if (l->fd >= 0 && !l->connecting)
        return 0;
    if (l->fd < 0) {
        l->tried = 0;
        l->deadline_ms = clock_ms() + l->timeout_ms;
        rc = start_connect(l);
    } else {
        rc = -EINPROGRESS;
    }
    for (;;) {
        /* On one machine it stands at once, though connect() does not say. */
        if (rc == -EINPROGRESS)
            rc = check_connect(l);
        if (rc == 0 && net_is_self(l->fd))
            rc = -ECONNREFUSED;
        l->connecting = rc == -EINPROGRESS;
        if (rc == 0 || rc == -EINPROGRESS)
            return rc;
        link_drop(l);
        if (l->tried == l->count || rc == -ETIMEDOUT)
            return rc;
        rc = start_connect(l);
    }
}

int
link_connect_until(struct link *l, uint64_t deadline_ms)
{
    int rc;

    while ((rc = link_connect(l)) == -EINPROGRESS) {
        if (link_passed(deadline_ms))
            return -ETIMEDOUT;
        /* link_connect() determines what came of it. */
        (void)link_wait(l->fd, POLLOUT,
                        l->deadline_ms < deadline_ms ? l->deadline_ms
                                                     : deadline_ms);
    }
    return rc;
}

int
link_wait(int fd, short events, uint64_t deadline_ms)
{
    struct pollfd p = {.fd = fd, .events = events};
    uint64_t now, left;
    int n, error;

    for (;;) {
        now = clock_ms();
        left = deadline_ms > now ? deadline_ms - now : 0;
        if (left > INT_MAX)
            left = INT_MAX;
        n = poll(&p, 1, deadline_ms == UINT64_MAX ? -1 : (int)left);
        error = errno;
        if (n > 0)
            return 0;
        if (n == 0 && left < INT_MAX)
            return -ETIMEDOUT;
        if (n < 0 && error != EINTR)
            return -error;
    }
}

uint64_t
link_deadline(int timeout_ms)
{
    return timeout_ms < 0 ? UINT64_MAX : clock_ms() + (uint64_t)timeout_ms;
}

bool
link_passed(uint64_t deadline_ms)
{
    return deadline_ms != UINT64_MAX && clock_ms() >= deadline_ms;
}

/* ---- a request and its answers ------------------------------------------- */

static void
send_some(struct link_exchange *x)
{
    ssize_t n;

    while (!x->mute && x->sent < x->send_size) {
        n = send(x->link->fd, x->send + x->sent, x->send_size - x->sent,
                 MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            x->sent += (size_t)n;
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR) {
            x->mute = true;
        }
    }
}

static int
take_received(struct link_exchange *x)
{
    const ssize_t n = x->take(x->ctx, x->receive, x->received);

    if (n < 0)
        return (int)n;
    x->received -= (size_t)n;
    if (x->done)
        return x->received == 0 ? 0 : -EPROTO;
    if (n > 0)
        memmove(x->receive, x->receive + n, x->received);
    return x->received < x->receive_size ? 0 : -EPROTO;
}

static int
receive_some(struct link_exchange *x)
{
    const ssize_t n = recv(x->link->fd, x->receive + x->received,
                           x->receive_size - x->received, MSG_DONTWAIT);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -ENOTCONN;
    if (n == 0)
        return -ENOTCONN;
    x->received += (size_t)n;
    return take_received(x);
}

int
link_run(struct link_exchange *x)
{
    int rc = link_connect_until(x->link, x->deadline_ms);

    while (rc == 0 && !x->done) {
        send_some(x);
        rc = link_wait(x->link->fd,
                       x->send_size > x->sent && !x->mute ? POLLIN | POLLOUT
                                                          : POLLIN,
                       x->deadline_ms);
        if (rc == 0)
            rc = receive_some(x);
    }
    return rc;
}
