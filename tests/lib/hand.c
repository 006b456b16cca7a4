/* tests/lib/hand.c - see hand.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/hand.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/test.h"

#define LIMIT_S 20

void
hand_listen(struct hand *h, uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                            .sin_port = htons(port)};
    socklen_t size = sizeof a;
    const int one = 1;

    h->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(h->listen_fd >= 0);
    assert_rc(
        setsockopt(h->listen_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one),
        0);
    assert_rc(bind(h->listen_fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_rc(listen(h->listen_fd, 16), 0);
    assert_rc(getsockname(h->listen_fd, (struct sockaddr *)&a, &size), 0);
    h->port = ntohs(a.sin_port);
    (void)snprintf(h->address, sizeof h->address, "127.0.0.1:%u", h->port);
}

void
hand_init(struct hand *h)
{
    *h = (struct hand){.listen_fd = -1};
    (void)signal(SIGPIPE, SIG_IGN); /* the server's; it looks at write() */
    assert_rc(pipe(h->go), 0);
    hand_listen(h, 0);
}

void
hand_close(struct hand *h)
{
    if (h->listen_fd >= 0)
        (void)close(h->listen_fd);
    h->listen_fd = -1;
}

void
hand_fini(struct hand *h)
{
    hand_let_go(h);
    if (h->listen_fd >= 0)
        (void)shutdown(h->listen_fd, SHUT_RDWR); /* ends accept */
    hand_join(h);
    hand_close(h);
    (void)close(h->go[0]);
    (void)close(h->go[1]);
}

static void *
run_thread(void *ctx)
{
    struct hand *h = ctx;
    const struct timeval limit = {.tv_sec = LIMIT_S};

    for (h->number = 0; h->number < h->connections; h->number++) {
        const int fd = accept(h->listen_fd, NULL, NULL);

        if (fd < 0)
            break;
        (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        h->serve((struct server *)h, fd);
        (void)close(fd); /* a socket */
    }
    return NULL;
}

void
hand_start(struct hand *h, unsigned connections,
           void (*serve)(struct server *s, int fd))
{
    h->connections = connections;
    h->serve = serve;
    assert_rc(pthread_create(&h->thread, NULL, run_thread, h), 0);
    h->running = true;
}

void
hand_join(struct hand *h)
{
    if (h->running)
        assert_rc(pthread_join(h->thread, NULL), 0);
    h->running = false;
}

void
hand_let_go(struct hand *h)
{
    assert_int_equal(write(h->go[1], "g", 1), 1);
}

void
hand_await(struct hand *h)
{
    struct pollfd p = {.fd = h->go[0], .events = POLLIN};
    char byte;

    if (poll(&p, 1, LIMIT_S * 1000) == 1)
        (void)!read(h->go[0], &byte, 1); /* it is there */
}

size_t
hand_get(int fd, void *bytes, size_t size)
{
    size_t have = 0;
    ssize_t n;

    while (have < size) {
        n = read(fd, (char *)bytes + have, size - have);
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    return have;
}

bool
hand_put(int fd, const void *bytes, size_t size)
{
    ssize_t n;

    for (size_t at = 0; at < size; at += (size_t)n) {
        n = write(fd, (const char *)bytes + at, size - at);
        if (n <= 0)
            return false;
    }
    return true;
}
