/* tests/bench/load.c - see load.h. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/bench/load.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/bench/bench.h"
#include "tests/lib/client.h"
#include "tests/lib/test.h"

#define IN_SIZE    ((size_t)512 << 10)
#define EVENTS_MAX 1024
#define TIMEOUT_MS 10000

struct conn {
    int fd;
    unsigned index;
    bool is_blocked; /* EPOLLOUT is asked for */
    uint64_t sent, answered;
    uint64_t *sent_ns; /* of those under way, a ring of `depth` */
    uint8_t *in, *out;
    size_t have, out_at, out_size;
};

struct run {
    const struct load *l;
    uint16_t port;
    int epoll;
    uint64_t end_ns; /* no requests after it */
    uint64_t sent, answered;
    bool is_over; /* no more are sent */
    struct times *times;
};

size_t
load_put_same(const struct load *l, unsigned conn, uint64_t sent, uint8_t *to)
{
    (void)conn; /* all are alike */
    (void)sent;
    memcpy(to, l->request, l->request_max);
    return l->request_max;
}

size_t
load_take_same(const struct load *l, const uint8_t *in, size_t have,
               uint64_t *answers)
{
    (void)in; /* their number says it */
    *answers += have / l->reply_size;
    return have / l->reply_size * l->reply_size;
}

static void
open_conn(struct run *r, struct conn *c)
{
    struct epoll_event e = {.events = r->l->take ? EPOLLIN : EPOLLOUT,
                            .data.ptr = c};

    c->fd = client_connect(r->port);
    c->have = 0;
    must(epoll_ctl(r->epoll, EPOLL_CTL_ADD, c->fd, &e), "epoll");
}

static void
note_answers(struct run *r, struct conn *c, uint64_t count)
{
    const uint64_t now_ns = clock_ns();

    r->answered += count;
    for (; count > 0; count--)
        times_note(r->times, now_ns - c->sent_ns[c->answered++ % r->l->depth]);
}

static void
make_requests(struct run *r, struct conn *c)
{
    const struct load *l = r->l;
    const uint64_t now_ns = clock_ns();

    r->is_over |= l->ms > 0 && now_ns >= r->end_ns;
    while (c->sent - c->answered < l->depth && !r->is_over) {
        c->out_size += l->put(l, c->index, c->sent, c->out + c->out_size);
        c->sent_ns[c->sent++ % l->depth] = now_ns;
        r->is_over |= ++r->sent == l->count;
    }
}

/* Sends what the socket takes. */
static void
send_requests(struct run *r, struct conn *c)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
    const ssize_t n = send(c->fd, c->out + c->out_at, c->out_size - c->out_at,
                           MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n < 0 && errno != EAGAIN)
        must(n, "send");
    c->out_at += n > 0 ? (size_t)n : 0;
    if (c->out_at == c->out_size)
        c->out_at = c->out_size = 0;
    if (!r->l->take && c->out_size == 0)
        note_answers(r, c, c->sent - c->answered);
    if (r->l->take && c->is_blocked != (c->out_size > 0)) {
        c->is_blocked = c->out_size > 0;
        e.events |= c->is_blocked ? EPOLLOUT : 0;
        must(epoll_ctl(r->epoll, EPOLL_CTL_MOD, c->fd, &e), "epoll");
    }
}

static void
take_answers(struct run *r, struct conn *c)
{
    const ssize_t n =
        recv(c->fd, c->in + c->have, IN_SIZE - c->have, MSG_DONTWAIT);
    uint64_t count = 0;
    size_t used;

    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0)
        fail_msg("the server has closed a connection");
    c->have += (size_t)n;
    used = r->l->take(r->l, c->in, c->have, &count);
    c->have -= used;
    if (c->have > 0)
        memmove(c->in, c->in + used, c->have);
    note_answers(r, c, count);
}

static void
serve_conn(struct run *r, struct conn *c, uint32_t events)
{
    const struct load *l = r->l;

    if (events & EPOLLIN)
        take_answers(r, c);
    if (l->close && c->sent > 0 && c->answered == c->sent) {
        (void)close(c->fd); /* a socket; it leaves epoll, too */
        open_conn(r, c);
    }
    /* Half of them at once: neither side waits for the other. */
    if (c->out_size == 0 &&
        c->sent - c->answered <= (l->whole ? 0 : l->depth / 2))
        make_requests(r, c);
    if (c->out_size > 0)
        send_requests(r, c);
    else if (!l->take) /* over: there is nothing to wait for */
        must(epoll_ctl(r->epoll, EPOLL_CTL_DEL, c->fd, NULL), "epoll");
}

static void
wait_for_events(struct run *r)
{
    struct epoll_event events[EVENTS_MAX];
    const int n = epoll_wait(r->epoll, events, EVENTS_MAX, TIMEOUT_MS);

    if (n == 0)
        fail_msg("no answer for ten seconds");
    must(n, "epoll");
    for (int i = 0; i < n; i++)
        if (events[i].data.ptr)
            serve_conn(r, events[i].data.ptr, events[i].events);
        else
            r->is_over = true;
}

double
load_run(const struct load *l, uint16_t port, struct times *t)
{
    struct epoll_event e = {.events = EPOLLIN};
    struct conn *conns = need(l->conns, sizeof *conns);
    struct run r = {.l = l, .port = port, .times = t};
    uint64_t begin_ns, end_ns;

    assert_true(l->depth <= LOAD_DEPTH_MAX);
    r.epoll = (int)must(epoll_create1(EPOLL_CLOEXEC), "epoll");
    if (l->until > 0)
        must(epoll_ctl(r.epoll, EPOLL_CTL_ADD, l->until, &e), "epoll");
    *t = (struct times){.count = 0};
    for (unsigned i = 0; i < l->conns; i++) {
        struct conn *c = &conns[i];

        c->index = i;
        c->sent_ns = need(l->depth, sizeof *c->sent_ns);
        c->out = need(l->depth, l->request_max);
        c->in = l->take ? need(IN_SIZE, 1) : NULL;
        open_conn(&r, c);
    }
    begin_ns = clock_ns();
    r.end_ns = begin_ns + l->ms * 1000000;
    for (unsigned i = 0; i < l->conns; i++)
        serve_conn(&r, &conns[i], 0);
    while (!r.is_over || r.answered < r.sent)
        wait_for_events(&r);
    end_ns = clock_ns();
    for (unsigned i = 0; i < l->conns; i++) {
        client_close(conns[i].fd);
        free(conns[i].in);
        free(conns[i].out);
        free(conns[i].sent_ns);
    }
    free(conns);
    (void)close(r.epoll);
    return (double)r.answered * 1e9 / (double)(end_ns - begin_ns);
}
