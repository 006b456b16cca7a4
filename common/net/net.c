/* common/net/net.c - see net.h. */
#include "common/net/net.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/base/clock.h"

#define ACCEPT_BATCH 64  /* connections taken per event */
#define RETRY_MS     100 /* look again when descriptors ran out */
#define BACK_OFF_MS  10  /* first wait for a port in use; doubles */
#define BACK_OFF_MAX 320

/* Listens; *bound is the address with its port. */
static int
listen_once(const struct net_address *a, struct net_address *bound)
{
    const int one = 1;
    int fd, rc;

    fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    /* Accepted sockets inherit TCP_NODELAY: one call fewer for each. */
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) < 0 ||
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) < 0 ||
        bind(fd, (const struct sockaddr *)&a->sa, a->size) < 0) {
        rc = -errno;
        goto close_fd;
    }
    if (listen(fd, NET_BACKLOG) < 0) {
        rc = -errno;
        goto close_fd;
    }
    bound->size = sizeof bound->sa;
    if (getsockname(fd, (struct sockaddr *)&bound->sa, &bound->size) < 0) {
        rc = -errno;
        goto close_fd;
    }
    return fd;

close_fd:
    (void)close(fd);
    return rc;
}

int
net_listen(const struct net_address *a, uint64_t wait_ms,
           struct net_address *bound)
{
    const uint64_t end_ms = clock_ms() + wait_ms;
    uint64_t now_ms, pause_ms = BACK_OFF_MS;
    int rc;

    for (;;) {
        rc = listen_once(a, bound);
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
    struct sockaddr_storage self, peer;
    socklen_t self_size = sizeof self, peer_size = sizeof peer;

    memset(&self, 0, sizeof self);
    memset(&peer, 0, sizeof peer);
    return getsockname(fd, (struct sockaddr *)&self, &self_size) == 0 &&
           getpeername(fd, (struct sockaddr *)&peer, &peer_size) == 0 &&
           self_size == peer_size && memcmp(&self, &peer, self_size) == 0;
}

/* ---- the listener ------------------------------------------------------ */

static void
pause_accepting(struct acceptor *l)
{
    l->paused = true;
    /* Cannot fail: the descriptor is registered and no memory is needed. */
    (void)loop_change(l->loop, &l->source, 0);
}

static void
resume_accepting(struct acceptor *l)
{
    if (!l->paused || !l->allowed)
        return;
    l->paused = false;
    loop_disarm(l->loop, &l->retry);
    /* Cannot fail: the descriptor is registered and no memory is needed. */
    (void)loop_change(l->loop, &l->source, EPOLLIN);
}

void
acceptor_allow(struct acceptor *l, bool allowed)
{
    l->allowed = allowed;
    resume_accepting(l);
}

static void
retry_due(struct loop_timer *timer)
{
    resume_accepting(LOOP_OWNER(timer, struct acceptor, retry));
}

/* True for errors of the one connection that was in the queue. */
static bool
is_passing(int error)
{
    return error == ECONNABORTED || error == EINTR || error == EPROTO ||
           error == EPERM || error == ENETDOWN || error == ENETUNREACH ||
           error == EHOSTDOWN || error == EHOSTUNREACH || error == ENONET ||
           error == ENOPROTOOPT || error == EOPNOTSUPP;
}

static void
accept_ready(struct loop_source *source, uint32_t events)
{
    struct acceptor *l = LOOP_OWNER(source, struct acceptor, source);
    int fd, i;

    (void)events; /* accept4() reports errors, too */
    for (i = 0; i < ACCEPT_BATCH && l->source.fd >= 0; i++) {
        if (!l->allowed) {
            pause_accepting(l);
            return;
        }
        fd = accept4(l->source.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) {
            if (errno == EAGAIN || errno == EWOULDBLOCK)
                return;
            if (is_passing(errno))
                continue;
            /* No descriptors or no memory.  Others of the process may hold
             * them, so a timer looks again. */
            pause_accepting(l);
            if (loop_arm(l->loop, &l->retry, loop_now_ms(l->loop) + RETRY_MS) <
                0)
                resume_accepting(l);
            return;
        }
        l->accepted(l, fd);
    }
}

int
acceptor_start(struct acceptor *l, struct loop *loop, int fd)
{
    assert(l->accepted);
    l->loop = loop;
    l->allowed = true;
    l->paused = false;
    l->source.fd = -1;
    l->source.ready = accept_ready;
    l->retry = (struct loop_timer){.slot = -1, .due = retry_due};
    return loop_add(loop, &l->source, fd, EPOLLIN);
}

void
acceptor_stop(struct acceptor *l)
{
    const int fd = l->source.fd;

    if (fd < 0)
        return;
    loop_disarm(l->loop, &l->retry);
    loop_remove(l->loop, &l->source);
    l->paused = false;
    (void)close(fd); /* a listening socket has nothing to lose */
}
