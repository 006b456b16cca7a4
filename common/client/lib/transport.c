/* common/client/lib/transport.c - see transport.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "common/client/lib/transport.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

static void
send_some(struct transport *t)
{
    ssize_t n;

    while (!t->mute && t->sent < t->send_size) {
        n = send(t->link->fd, t->send + t->sent, t->send_size - t->sent,
                 MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) {
            t->sent += (size_t)n;
        } else if (errno == EAGAIN) {
            return;
        } else if (errno != EINTR) {
            t->mute = true;
        }
    }
}

static int
take_received(struct transport *t)
{
    const ssize_t n = t->take(t->ctx, t->receive, t->received);

    if (n < 0)
        return (int)n;
    t->received -= (size_t)n;
    if (t->done)
        return t->received == 0 ? 0 : -EPROTO;
    if (n > 0)
        memmove(t->receive, t->receive + n, t->received);
    return t->received < t->receive_size ? 0 : -EPROTO;
}

static int
receive_some(struct transport *t)
{
    const ssize_t n = recv(t->link->fd, t->receive + t->received,
                           t->receive_size - t->received, MSG_DONTWAIT);

    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -ENOTCONN;
    if (n == 0)
        return -ENOTCONN;
    t->received += (size_t)n;
    return take_received(t);
}

int
transport_run(struct transport *t)
{
    int rc = link_connect_until(t->link, t->deadline_ms);

    while (rc == 0 && !t->done) {
        send_some(t);
        rc = link_wait(t->link->fd,
                       t->send_size > t->sent && !t->mute ? POLLIN | POLLOUT
                                                          : POLLIN,
                       t->deadline_ms);
        if (rc == 0)
            rc = receive_some(t);
    }
    return rc;
}
