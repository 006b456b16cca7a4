/* common/net.c - see net.h. */
#include "common/net.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "common/clock.h"

#define BACKLOG      4096 /* the kernel cuts it to net.core.somaxconn */
#define ACCEPT_BATCH 64   /* connections taken per event */
#define RETRY_MS     100  /* look again when descriptors ran out */
#define BACK_OFF_MS  10   /* first wait for a port in use; doubles */
#define BACK_OFF_MAX 320

static int
parse_port(const char *text, in_port_t *port)
{
    unsigned long value = 0;
    size_t i;

    for (i = 0; text[i] >= '0' && text[i] <= '9' && i < 6; i++)
        value = value * 10 + (unsigned long)(text[i] - '0');
    if (i == 0 || text[i] != '\0' || value > 65535)
        return -EINVAL;
    *port = htons((uint16_t)value);
    return 0;
}

static int
parse_v6(const char *host, in_port_t port, struct net_address *out)
{
    struct sockaddr_in6 sa = {.sin6_family = AF_INET6, .sin6_port = port};

    if (inet_pton(AF_INET6, host, &sa.sin6_addr) != 1)
        return -EINVAL;
    memset(out, 0, sizeof *out);
    memcpy(&out->sa, &sa, sizeof sa);
    out->size = sizeof sa;
    return 0;
}

static int
parse_v4(const char *host, in_port_t port, struct net_address *out)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = port};

    if (strcmp(host, "localhost") == 0)
        host = "127.0.0.1";
    if (inet_pton(AF_INET, host, &sa.sin_addr) != 1)
        return -EINVAL;
    memset(out, 0, sizeof *out);
    memcpy(&out->sa, &sa, sizeof sa);
    out->size = sizeof sa;
    return 0;
}

int
net_parse(const char *text, struct net_address *out)
{
    const char *colon = strrchr(text, ':');
    char host[NET_ADDRESS_SIZE];
    in_port_t port;
    size_t size;

    if (!colon || parse_port(colon + 1, &port) < 0)
        return -EINVAL;
    size = (size_t)(colon - text);
    if (size == 0 || size >= sizeof host)
        return -EINVAL;
    memcpy(host, text, size);
    host[size] = '\0';
    if (host[0] != '[')
        return parse_v4(host, port, out);
    if (host[size - 1] != ']')
        return -EINVAL;
    host[size - 1] = '\0';
    return parse_v6(host + 1, port, out);
}

void
net_format(const struct net_address *a, char text[NET_ADDRESS_SIZE])
{
    char host[INET6_ADDRSTRLEN] = "?";
    struct sockaddr_in6 v6;
    struct sockaddr_in v4;

    /* inet_ntop cannot fail: the family is known and the buffer fits. */
    if (a->sa.ss_family == AF_INET6) {
        memcpy(&v6, &a->sa, sizeof v6);
        (void)inet_ntop(AF_INET6, &v6.sin6_addr, host, sizeof host);
        snprintf(text, NET_ADDRESS_SIZE, "[%s]:%u", host,
                 (unsigned)ntohs(v6.sin6_port));
        return;
    }
    memcpy(&v4, &a->sa, sizeof v4);
    (void)inet_ntop(AF_INET, &v4.sin_addr, host, sizeof host);
    snprintf(text, NET_ADDRESS_SIZE, "%s:%u", host,
             (unsigned)ntohs(v4.sin_port));
}

bool
net_is_loopback(const struct net_address *a)
{
    struct sockaddr_in6 v6;
    struct sockaddr_in v4;

    if (a->sa.ss_family == AF_INET6) {
        memcpy(&v6, &a->sa, sizeof v6);
        if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr))
            return v6.sin6_addr.s6_addr[12] == 127;
        return IN6_IS_ADDR_LOOPBACK(&v6.sin6_addr);
    }
    memcpy(&v4, &a->sa, sizeof v4);
    return ntohl(v4.sin_addr.s_addr) >> 24 == 127;
}

/* One try: socket, bind, and the address it got; listens when `bound` is
 * given. */
static int
bind_once(const struct net_address *a, struct net_address *bound)
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
    if (bound == NULL)
        return fd;
    if (listen(fd, BACKLOG) < 0) {
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
    (void)close(fd); /* nobody has connected yet */
    return rc;
}

/* bind_once() until the address is free. */
static int
bind_patiently(const struct net_address *a, uint64_t wait_ms,
               struct net_address *bound)
{
    const uint64_t end_ms = clock_ms() + wait_ms;
    uint64_t now_ms, pause_ms = BACK_OFF_MS;
    int rc;

    for (;;) {
        rc = bind_once(a, bound);
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

int
net_listen(const struct net_address *a, uint64_t wait_ms,
           struct net_address *bound)
{
    return bind_patiently(a, wait_ms, bound);
}

int
net_probe(const struct net_address *a, uint64_t wait_ms)
{
    const int fd = bind_patiently(a, wait_ms, NULL);

    if (fd < 0)
        return fd;
    (void)close(fd); /* nobody could connect */
    return 0;
}

/* Waits until the connection stands or is refused. */
static int
finish_connect(int fd, uint64_t end_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int error = 0, n;
    socklen_t size = sizeof error;
    uint64_t now_ms;

    do {
        now_ms = clock_ms();
        if (now_ms > end_ms)
            return -ETIMEDOUT;
        n = poll(&p, 1, (int)(end_ms - now_ms));
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    if (n == 0)
        return -ETIMEDOUT;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) < 0)
        return -errno;
    return -error;
}

/* A client that tries a port of the ephemeral range again and again can meet
 * itself: both ends are then this socket, and it answers what it is sent. */
static int
refuse_self(int fd)
{
    struct sockaddr_storage self, peer;
    socklen_t self_size = sizeof self, peer_size = sizeof peer;

    memset(&self, 0, sizeof self);
    memset(&peer, 0, sizeof peer);
    if (getsockname(fd, (struct sockaddr *)&self, &self_size) < 0)
        return -errno;
    if (getpeername(fd, (struct sockaddr *)&peer, &peer_size) < 0)
        return -errno;
    if (self_size == peer_size && memcmp(&self, &peer, self_size) == 0)
        return -ECONNREFUSED;
    return 0;
}

int
net_connect(const struct net_address *a, uint64_t timeout_ms)
{
    const int one = 1;
    int fd, rc;

    if (timeout_ms > INT32_MAX)
        timeout_ms = INT32_MAX;
    fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    if (connect(fd, (const struct sockaddr *)&a->sa, a->size) < 0) {
        rc = -errno;
        if (rc == -EINPROGRESS)
            rc = finish_connect(fd, clock_ms() + timeout_ms);
        if (rc < 0)
            goto close_fd;
    }
    rc = refuse_self(fd);
    if (rc < 0)
        goto close_fd;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) < 0) {
        rc = -errno;
        goto close_fd;
    }
    return fd;

close_fd:
    (void)close(fd); /* never used */
    return rc;
}

/* ---- the listener ------------------------------------------------------ */

static void
pause_accepting(struct listener *l)
{
    l->paused = true;
    /* Cannot fail: the descriptor is registered and no memory is needed. */
    (void)loop_change(l->loop, &l->source, 0);
}

void
listener_resume(struct listener *l)
{
    if (!l->paused || l->open >= l->max)
        return;
    l->paused = false;
    loop_disarm(l->loop, &l->retry);
    /* As above. */
    (void)loop_change(l->loop, &l->source, EPOLLIN);
}

static void
retry_due(struct loop_timer *timer)
{
    listener_resume(LOOP_OWNER(timer, struct listener, retry));
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
    struct listener *l = LOOP_OWNER(source, struct listener, source);
    int fd, i;

    (void)events; /* whatever woke us, accept4 tells */
    for (i = 0; i < ACCEPT_BATCH && l->source.fd >= 0; i++) {
        if (l->open >= l->max) {
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
             * them, so a timer looks again beside listener_closed(). */
            pause_accepting(l);
            if (loop_arm(l->loop, &l->retry, loop_now_ms(l->loop) + RETRY_MS) <
                0)
                listener_resume(l);
            return;
        }
        l->open++;
        l->accepted(l, fd);
    }
}

int
listener_start(struct listener *l, struct loop *loop, int fd, size_t max)
{
    assert(l->accepted);
    assert(max > 0);
    l->loop = loop;
    l->open = 0;
    l->max = max;
    l->paused = false;
    l->source.fd = -1;
    l->source.ready = accept_ready;
    l->retry = (struct loop_timer){.slot = -1, .due = retry_due};
    return loop_add(loop, &l->source, fd, EPOLLIN);
}

void
listener_stop(struct listener *l)
{
    const int fd = l->source.fd;

    if (fd < 0)
        return;
    loop_disarm(l->loop, &l->retry);
    loop_remove(l->loop, &l->source);
    l->paused = false;
    (void)close(fd); /* a listening socket has nothing to lose */
}

void
listener_closed(struct listener *l)
{
    assert(l->open > 0);
    l->open--;
    listener_resume(l);
}
