/* tests/bench/http_ceiling.c - a server that answers every request alike; see
 * http_load.h. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/net/net.h"
#include "tests/bench/http_load.h"

#define IN_SIZE       ((size_t)64 << 10)
#define UNMERGED_SIZE (sizeof kept - 1)
#define EVENTS        1024

static const char kept[] =
    "HTTP/1.1 200 OK\r\nConnection: keep-alive\r\nContent-length: 17\r\n\r\n"
    "aR2011o_cWG00002\n";
static const char last[] =
    "HTTP/1.1 200 OK\r\nContent-length: 17\r\n\r\naR2011o_cWG00002\n";

static const char *reply = kept;
static size_t reply_size = UNMERGED_SIZE;
static char in[IN_SIZE];
static char out[IN_SIZE / 16 * UNMERGED_SIZE];
static int epoll_fd;

static void
die(const char *what)
{
    (void)fprintf(stderr, "ceiling: %s: %s\n", what, strerror(errno));
    _exit(111);
}

/* Requests end in an empty line; what is cut is of the next call, which the
 * load never makes: it sends whole requests, and they fit. */
static void
serve(int fd)
{
    const ssize_t n = recv(fd, in, sizeof in, MSG_DONTWAIT);
    size_t size = 0;
    char *at = in;
    bool ends;

    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        (void)close(fd); /* a socket */
        return;
    }
    ends = memmem(in, (size_t)n, "close", 5) != NULL;
    if (ends) {
        memcpy(out, last, sizeof last - 1);
        size = sizeof last - 1;
    }
    while (!ends && (at = memmem(at, (size_t)(in + n - at), "\r\n\r\n", 4))) {
        memcpy(out + size, reply, reply_size);
        size += reply_size;
        at += 4;
    }
    /* The generator reads all the time: no socket is ever full. */
    if (send(fd, out, size, MSG_NOSIGNAL) != (ssize_t)size || ends)
        (void)close(fd); /* a socket */
}

static void
take(int listen_fd)
{
    struct epoll_event e = {.events = EPOLLIN};
    int fd;

    while ((fd = accept4(listen_fd, NULL, NULL,
                         SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
        e.data.fd = fd;
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0)
            die("accept");
    }
}

static void
run(int listen_fd)
{
    struct epoll_event events[EVENTS], e = {.events = EPOLLIN};

    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    e.data.fd = listen_fd;
    if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listen_fd, &e) < 0)
        die("epoll");
    for (;;) {
        const int n = epoll_wait(epoll_fd, events, EVENTS, -1);

        for (int i = 0; i < n; i++)
            if (events[i].data.fd == listen_fd)
                take(listen_fd);
            else
                serve(events[i].data.fd);
    }
}

pid_t
http_ceiling_start(uint16_t *port, const char *answer, size_t size)
{
    struct net_address any, bound;
    char text[NET_ADDRESS_SIZE];
    pid_t pid;
    int fd;

    if (net_parse("127.0.0.1:0", &any) < 0)
        die("address");
    fd = net_listen(&any, 0, &bound);
    if (fd < 0)
        die("listen");
    net_format(&bound, text);
    *port = (uint16_t)strtoul(strrchr(text, ':') + 1, NULL, 10);
    pid = fork();
    if (pid < 0)
        die("fork");
    if (pid == 0) {
        if (answer) { /* a copy: this process is another one */
            reply = answer;
            reply_size = size;
        }
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* then it must be killed */
        run(fd);
    }
    (void)close(fd); /* the child's */
    return pid;
}
