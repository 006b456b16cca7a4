/* tests/bench/live_ceiling.c - see live_ceiling.h. */
#include "tests/bench/live_ceiling.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/net/net.h"
#include "common/wire/frame.h"
#include "tests/bench/live_load.h"

#define CONNS_MAX   256 /* descriptors */
#define BUFFER_SIZE ((size_t)64 << 10)
#define RECORD_SIZE (FRAME_HEADER + 10 + LIVE_NAME_SIZE)
#define PIECE       (BUFFER_SIZE / RECORD_SIZE) /* records of one send */

struct conn {
    uint8_t in[BUFFER_SIZE];
    size_t have;
    uint64_t dump; /* bytes still to send of one */
};

struct ceiling {
    int epoll;
    uint64_t records;
    struct conn *conns[CONNS_MAX]; /* by descriptor */
    uint8_t out[2 * BUFFER_SIZE];
    uint8_t piece[BUFFER_SIZE];
};

/* Nothing here may be cleaned up by the benchmark's own exit functions. */
static void
die(const char *what)
{
    (void)fprintf(stderr, "ceiling: %s: %s\n", what, strerror(errno));
    _exit(111);
}

static void
make_piece(struct ceiling *c)
{
    static const struct frame_header h = {.magic = FRAME_ANSWER,
                                          .opcode = FRAME_DUMP,
                                          .body_size = 10 + LIVE_NAME_SIZE,
                                          .opaque = {1, 2, 3, 4}};

    for (size_t i = 0; i < PIECE; i++) {
        frame_put_header(c->piece + i * RECORD_SIZE, &h);
        put_be16(c->piece + i * RECORD_SIZE + FRAME_HEADER + 8, LIVE_NAME_SIZE);
    }
}

static void
drop(struct ceiling *c, int fd)
{
    (void)close(fd); /* a socket */
    free(c->conns[fd]);
    c->conns[fd] = NULL;
}

/* Sends what the socket takes of a dump, and the end of it. */
static void
send_dump(struct ceiling *c, int fd)
{
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
    struct conn *conn = c->conns[fd];
    uint8_t end[FRAME_HEADER] = {FRAME_ANSWER, FRAME_DUMP, [8] = 1, 2, 3, 4};
    ssize_t n = 0;

    while (conn->dump > 0 && n >= 0) {
        const uint64_t sent = c->records * RECORD_SIZE - conn->dump;
        const size_t at = sent % (PIECE * RECORD_SIZE);
        size_t size = PIECE * RECORD_SIZE - at;

        if (size > conn->dump)
            size = (size_t)conn->dump;
        n = send(fd, c->piece + at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0)
            conn->dump -= (uint64_t)n;
    }
    if (conn->dump > 0)
        e.events = EPOLLOUT;
    else if (send(fd, end, sizeof end, MSG_NOSIGNAL | MSG_DONTWAIT) !=
             sizeof end)
        die("the end of a dump");
    if (epoll_ctl(c->epoll, EPOLL_CTL_MOD, fd, &e) < 0)
        die("epoll_ctl");
}

static void
answer(struct ceiling *c, int fd)
{
    struct conn *conn = c->conns[fd];
    struct frame_header h;
    size_t at = 0, size = 0;

    while (conn->have - at >= FRAME_HEADER && conn->dump == 0) {
        frame_get_header(conn->in + at, &h);
        if (conn->have - at < FRAME_HEADER + h.body_size)
            break;
        at += FRAME_HEADER + h.body_size;
        if (h.opcode == FRAME_DUMP) {
            conn->dump = c->records * RECORD_SIZE;
            break;
        }
        h.magic = FRAME_ANSWER;
        h.status = FRAME_OK;
        h.body_size =
            h.opcode == FRAME_GET || h.opcode == FRAME_ACQUIRE ? 4 : 0;
        frame_put_header(c->out + size, &h);
        size += FRAME_HEADER;
        if (h.body_size > 0) {
            put_be32(c->out + size, 1);
            size += 4;
        }
    }
    /* The generator reads all the time: no socket is ever full. */
    if (size > 0 && send(fd, c->out, size, MSG_NOSIGNAL) != (ssize_t)size) {
        drop(c, fd);
        return;
    }
    conn->have -= at;
    if (conn->have > 0)
        memmove(conn->in, conn->in + at, conn->have);
    if (conn->dump > 0)
        send_dump(c, fd);
}

static void
receive(struct ceiling *c, int fd)
{
    struct conn *conn = c->conns[fd];
    const ssize_t n =
        recv(fd, conn->in + conn->have, BUFFER_SIZE - conn->have, 0);

    if (n <= 0) {
        if (n == 0 || errno != EAGAIN)
            drop(c, fd);
        return;
    }
    conn->have += (size_t)n;
    answer(c, fd);
}

static void
take(struct ceiling *c, int listen_fd)
{
    struct epoll_event e = {.events = EPOLLIN};
    const int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    if (fd < 0)
        return;
    if (fd >= CONNS_MAX)
        die("connections");
    c->conns[fd] = calloc(1, sizeof *c->conns[fd]);
    e.data.fd = fd;
    if (!c->conns[fd] || epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &e) < 0)
        die("accept");
}

static void
serve(struct ceiling *c, int listen_fd)
{
    struct epoll_event events[64], e = {.events = EPOLLIN};

    c->epoll = epoll_create1(EPOLL_CLOEXEC);
    e.data.fd = listen_fd;
    if (c->epoll < 0 || epoll_ctl(c->epoll, EPOLL_CTL_ADD, listen_fd, &e) < 0)
        die("epoll");
    for (;;) {
        const int n = epoll_wait(c->epoll, events, 64, -1);

        for (int i = 0; i < n; i++) {
            const int fd = events[i].data.fd;

            if (fd == listen_fd)
                take(c, listen_fd);
            else if (events[i].events & EPOLLOUT)
                send_dump(c, fd);
            else
                receive(c, fd);
        }
    }
}

pid_t
live_ceiling_start(uint16_t *port, uint64_t records)
{
    static struct ceiling c;
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
    *port = (uint16_t)atoi(strrchr(text, ':') + 1);
    (void)fflush(NULL); /* or the child would print it again */
    pid = fork();
    if (pid < 0)
        die("fork");
    if (pid > 0) {
        (void)close(fd); /* the child's */
        return pid;
    }
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        die("prctl");
    c.records = records;
    make_piece(&c);
    serve(&c, fd);
    return 0;
}
