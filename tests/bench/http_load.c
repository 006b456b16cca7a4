/* tests/bench/http_load.c - see http_load.h. */
#include "tests/bench/http_load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/bench/times.h"

#define CONNS_MAX   1024
#define DEPTH_MAX   64
#define REQUEST_MAX 512
#define IN_SIZE     ((size_t)32 << 10)

struct source {
    int fd;
    uint64_t sent, answered;
    uint64_t sent_ns[DEPTH_MAX];
    char in[IN_SIZE + 1];
    size_t have;
};

struct run {
    const struct http_load *l;
    uint16_t port;
    int epoll;
    char
        request[DEPTH_MAX * REQUEST_MAX]; /* as many as are ever sent at once */
    size_t size;                          /* of one */
    struct times times;
};

static void
check(bool good, const char *what)
{
    if (good)
        return;
    (void)fprintf(stderr, "http_load: %s: %s\n", what, strerror(errno));
    exit(111);
}

/* ---- connections -------------------------------------------------------- */

static void
open_source(struct run *r, struct source *s)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(r->port),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = s};
    const int on = 1;

    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    s->have = 0;
    check(s->fd >= 0, "socket");
    check(connect(s->fd, (struct sockaddr *)&to, sizeof to) == 0, "connect");
    check(setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0,
          "no delay");
    check(epoll_ctl(r->epoll, EPOLL_CTL_ADD, s->fd, &e) == 0, "epoll_ctl");
}

static void
ask(struct run *r, struct source *s)
{
    const unsigned depth = r->l->depth;
    const uint64_t now = clock_ns();
    size_t size = 0;
    ssize_t n;

    for (; s->sent - s->answered < depth; size += r->size)
        s->sent_ns[s->sent++ % depth] = now;
    for (size_t at = 0; at < size; at += (size_t)n) {
        n = send(s->fd, r->request + at, size - at, MSG_NOSIGNAL);
        check(n > 0, "send");
    }
}

/* Whole answers in `in`, which must be 200 or 304: their bytes. */
static size_t
count_answers(const char *in, size_t have, uint64_t *count)
{
    static const char length[] = "Content-length: ";
    size_t at = 0;

    for (;;) {
        const char *head = in + at, *value;
        const char *end = memmem(head, have - at, "\r\n\r\n", 4);
        size_t size;

        if (!end)
            return at;
        errno = EPROTO;
        check(memcmp(head, "HTTP/1.1 200 ", 13) == 0 ||
                  memcmp(head, "HTTP/1.1 304 ", 13) == 0,
              "an answer that is not a success");
        size = (size_t)(end + 4 - head);
        value = memmem(head, size, length, sizeof length - 1);
        if (value)
            size += strtoul(value + sizeof length - 1, NULL, 10);
        if (have - at < size)
            return at;
        at += size;
        (*count)++;
    }
}

static void
take(struct run *r, struct source *s)
{
    const ssize_t n =
        recv(s->fd, s->in + s->have, IN_SIZE - s->have, MSG_DONTWAIT);
    uint64_t count = 0, now = clock_ns();
    size_t used;

    if (n < 0 && errno == EAGAIN)
        return;
    check(n > 0, "receive");
    s->have += (size_t)n;
    s->in[s->have] = '\0';
    used = count_answers(s->in, s->have, &count);
    s->have -= used;
    if (s->have > 0)
        memmove(s->in, s->in + used, s->have);
    for (; count > 0; count--)
        times_note(&r->times, now - s->sent_ns[s->answered++ % r->l->depth]);
}

/* The next request, on this connection or another one. */
static void
go_on(struct run *r, struct source *s)
{
    if (r->l->close && s->answered == s->sent) {
        (void)close(s->fd); /* a socket; it leaves epoll, too */
        open_source(r, s);
    }
    /* Half of them at once: neither side waits for the other. */
    if (s->sent - s->answered <= r->l->depth / 2)
        ask(r, s);
}

static size_t
format_request(const struct run *r, char *to)
{
    const struct http_load *l = r->l;
    char length[64] = "";
    int size;

    if (l->body)
        (void)snprintf(length, sizeof length, "Content-Length: %zu\r\n",
                       strlen(l->body));
    size = snprintf(
        to, REQUEST_MAX, "%s %s HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n%s%s%s\r\n%s",
        l->body ? "POST" : "GET", l->target, r->port,
        l->close ? "Connection: close\r\n" : "", l->headers ? l->headers : "",
        length, l->body ? l->body : "");
    errno = EMSGSIZE;
    check(size > 0 && size < REQUEST_MAX, "request");
    return (size_t)size;
}

void
http_load_run(const struct http_load *l, uint16_t port,
              struct http_figures *out)
{
    static struct source sources[CONNS_MAX];
    static struct run r;
    struct epoll_event events[CONNS_MAX];
    uint64_t begin_ns, now_ns;

    errno = EINVAL;
    check(l->conns <= CONNS_MAX && l->depth <= DEPTH_MAX, "load");
    r = (struct run){
        .l = l, .port = port, .epoll = epoll_create1(EPOLL_CLOEXEC)};
    check(r.epoll >= 0, "epoll");
    for (unsigned i = 0; i < l->depth; i++)
        r.size = format_request(&r, r.request + i * r.size);
    memset(sources, 0, sizeof sources);
    begin_ns = clock_ns();
    for (unsigned i = 0; i < l->conns; i++) {
        open_source(&r, &sources[i]);
        ask(&r, &sources[i]);
    }
    do {
        const int n = epoll_wait(r.epoll, events, CONNS_MAX, 10000);

        check(n > 0, "no answer for ten seconds");
        for (int i = 0; i < n; i++) {
            take(&r, events[i].data.ptr);
            go_on(&r, events[i].data.ptr);
        }
        now_ns = clock_ns();
    } while (now_ns < begin_ns + l->ms * 1000000);
    for (unsigned i = 0; i < l->conns; i++)
        (void)close(sources[i].fd); /* a socket */
    (void)close(r.epoll);           /* holds nothing */
    *out = (struct http_figures){.per_second = (double)r.times.count * 1e9 /
                                               (double)(now_ns - begin_ns),
                                 .p50_us = times_percentile_us(&r.times, 50),
                                 .p99_us = times_percentile_us(&r.times, 99),
                                 .max_us = (double)r.times.max / 1e3};
}
