/* tests/bench/ceiling.c - see ceiling.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/bench/ceiling.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/bench.h"
#include "tests/lib/client.h"
#include "tests/lib/test.h"

#define EVENTS_MAX 1024
#define OUT_SIZE   ((size_t)1 << 20)

struct server {
    const struct ceiling *c;
    int epoll;
    int listeners[2];
    uint8_t *out; /* answers, one after the other */
    size_t out_size;
};

static void
watch_fd(const struct server *s, int fd, void *ptr)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = ptr};

    must(epoll_ctl(s->epoll, EPOLL_CTL_ADD, fd, &e), "epoll");
}

static void
accept_conns(const struct server *s, const int *listener)
{
    struct ceiling_conn *conn;
    int fd;

    while ((fd = accept4(*listener, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
        conn = need(1, sizeof *conn);
        conn->fd = fd;
        conn->is_silent = listener == &s->listeners[1];
        watch_fd(s, fd, conn);
    }
}

static void
close_conn(struct ceiling_conn *conn)
{
    (void)close(conn->fd); /* a socket; it leaves epoll, too */
    free(conn);
}

/* The generator reads all the time: no socket is ever full for long. */
static void
answer_conn(const struct server *s, struct ceiling_conn *conn)
{
    uint64_t left = s->c->answer ? conn->owed * s->c->answer_size : 0;
    ssize_t n = 1;

    for (; left > 0 && n > 0; left -= n > 0 ? (uint64_t)n : 0)
        n = send(conn->fd, s->out, left < s->out_size ? left : s->out_size,
                 MSG_NOSIGNAL);
    conn->owed = 0;
    if (n < 0 || conn->ends)
        close_conn(conn);
}

/* False when it has ended. */
static bool
receive_requests(const struct server *s, struct ceiling_conn *conn)
{
    const ssize_t n = recv(conn->fd, conn->in + conn->have,
                           CEILING_IN_SIZE - conn->have, MSG_DONTWAIT);
    size_t used;

    if (n < 0 && errno == EAGAIN)
        return true;
    if (n <= 0) {
        close_conn(conn);
        return false;
    }
    conn->have += (size_t)n;
    conn->in[conn->have] = '\0';
    used = s->c->take(s->c, conn);
    conn->have -= used;
    if (conn->have > 0)
        memmove(conn->in, conn->in + used, conn->have);
    return true;
}

static void
serve_turn(const struct server *s)
{
    struct ceiling_conn *ready[EVENTS_MAX];
    struct epoll_event events[EVENTS_MAX];
    const int n = epoll_wait(s->epoll, events, EVENTS_MAX, -1);
    uint64_t owed = 0;
    size_t count = 0;

    for (int i = 0; i < n; i++) {
        struct ceiling_conn *conn = events[i].data.ptr;

        if (events[i].data.ptr == &s->listeners[0] ||
            events[i].data.ptr == &s->listeners[1]) {
            accept_conns(s, events[i].data.ptr);
        } else if (receive_requests(s, conn)) {
            owed += conn->owed;
            if (s->c->sync)
                ready[count++] = conn;
            else
                answer_conn(s, conn);
        }
    }
    if (s->c->sync)
        s->c->sync(s->c, owed);
    while (count > 0)
        answer_conn(s, ready[--count]);
}

static void
serve_forever(struct server *s)
{
    const struct ceiling *c = s->c;

    s->out = need(1, OUT_SIZE);
    for (; c->answer && s->out_size + c->answer_size <= OUT_SIZE;
         s->out_size += c->answer_size)
        memcpy(s->out + s->out_size, c->answer, c->answer_size);
    if (c->open)
        c->open(c);
    s->epoll = (int)must(epoll_create1(EPOLL_CLOEXEC), "epoll");
    for (int i = 0; i < 2; i++)
        if (s->listeners[i] > 0)
            watch_fd(s, s->listeners[i], &s->listeners[i]);
    for (;;)
        serve_turn(s);
}

pid_t
ceiling_start(const struct ceiling *c, uint16_t *port, uint16_t *silent_port)
{
    struct server s = {.c = c, .listeners = {client_listen(port)}};
    pid_t pid;

    if (silent_port)
        s.listeners[1] = client_listen(silent_port);
    pid = bench_fork();
    if (pid == 0)
        serve_forever(&s);
    (void)close(s.listeners[0]); /* the child's */
    if (silent_port)
        (void)close(s.listeners[1]);
    return pid;
}
