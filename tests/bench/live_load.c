/* tests/bench/live_load.c - see live_load.h. */
#include "tests/bench/live_load.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/wire/frame.h"
#include "tests/bench/times.h"

#define CONNS_MAX    64
#define DEPTH_MAX    64
#define REQUEST_MAX  (FRAME_HEADER + 10 + LIVE_NAME_SIZE)
#define IN_SIZE      ((size_t)16 << 10)
#define FILL_DEPTH   512
#define DUMP_RECEIVE ((size_t)256 << 10)

struct source {
    int fd;
    uint64_t random;
    uint64_t name;
    uint64_t sent, answered;
    uint64_t sent_ns[DEPTH_MAX];
    uint8_t in[IN_SIZE];
    size_t have;
};

static void
check(bool good, const char *what)
{
    if (good)
        return;
    (void)fprintf(stderr, "live_load: %s: %s\n", what, strerror(errno));
    exit(111);
}

static void
conclude(const struct times *t, struct live_figures *out)
{
    out->p50_us = times_percentile_us(t, 50);
    out->p99_us = times_percentile_us(t, 99);
    out->max_us = (double)t->max / 1e3;
}

/* ---- requests and answers ----------------------------------------------- */

static size_t
put_name(uint8_t *at, uint64_t number)
{
    put_be16(at, LIVE_NAME_SIZE);
    memcpy(at + 2, "counter:", 8);
    for (int i = LIVE_NAME_SIZE + 1; i >= 10; i--, number /= 10)
        at[i] = (uint8_t)('0' + number % 10);
    return 2 + LIVE_NAME_SIZE;
}

static size_t
put_request(uint8_t *at, uint8_t opcode, uint64_t name)
{
    uint8_t *body = at + FRAME_HEADER;
    struct frame_header h = {
        .magic = FRAME_REQUEST, .opcode = opcode, .opaque = {1, 2, 3, 4}};

    if (opcode == FRAME_ACQUIRE || opcode == FRAME_RELEASE) {
        put_be32(body, 1);
        body += 4;
    }
    if (opcode == FRAME_ACQUIRE) {
        put_be32(body, INT32_MAX);
        body += 4;
    }
    if (opcode != FRAME_DUMP)
        body += put_name(body, name);
    h.body_size = (uint32_t)(body - at) - FRAME_HEADER;
    frame_put_header(at, &h);
    return (size_t)(body - at);
}

/* Whole answers in `in`: their bytes.  All must be successes. */
static size_t
count_answers(const uint8_t *in, size_t have, uint64_t *count)
{
    struct frame_header h;
    size_t at = 0;

    while (have - at >= FRAME_HEADER) {
        frame_get_header(in + at, &h);
        errno = EPROTO;
        check(h.magic == FRAME_ANSWER && h.status == FRAME_OK,
              "an answer that is no success");
        if (have - at < FRAME_HEADER + h.body_size)
            break;
        at += FRAME_HEADER + h.body_size;
        (*count)++;
    }
    return at;
}

int
live_load_connect(uint16_t port)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(port),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    check(fd >= 0, "socket");
    check(connect(fd, (struct sockaddr *)&to, sizeof to) == 0, "connect");
    check(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0,
          "no delay");
    return fd;
}

static void
send_all(int fd, const uint8_t *bytes, size_t size)
{
    ssize_t n;

    for (; size > 0; bytes += n, size -= (size_t)n) {
        n = send(fd, bytes, size, MSG_NOSIGNAL);
        check(n > 0, "send");
    }
}

/* ---- many connections --------------------------------------------------- */

static void
ask(const struct live_load *l, struct source *s)
{
    uint8_t out[DEPTH_MAX * REQUEST_MAX];
    const uint64_t now = clock_ns();
    uint8_t opcode = FRAME_GET;
    size_t size = 0;

    while (s->sent - s->answered < l->depth) {
        if (l->work == LIVE_PAIRS)
            opcode = s->sent % 2 ? FRAME_RELEASE : FRAME_ACQUIRE;
        if (opcode != FRAME_RELEASE) {
            /* xorshift64 (Marsaglia 2003). */
            s->random ^= s->random << 13;
            s->random ^= s->random >> 7;
            s->random ^= s->random << 17;
            s->name = s->random % l->names;
        }
        size += put_request(out + size, opcode, s->name);
        s->sent_ns[s->sent++ % l->depth] = now;
    }
    send_all(s->fd, out, size);
}

static void
take(const struct live_load *l, struct source *s, struct times *t)
{
    const ssize_t n =
        recv(s->fd, s->in + s->have, IN_SIZE - s->have, MSG_DONTWAIT);
    uint64_t count = 0, now = clock_ns();
    size_t used;

    if (n < 0 && errno == EAGAIN)
        return;
    check(n > 0, "receive");
    s->have += (size_t)n;
    used = count_answers(s->in, s->have, &count);
    s->have -= used;
    if (s->have > 0)
        memmove(s->in, s->in + used, s->have);
    for (; count > 0; count--)
        times_note(t, now - s->sent_ns[s->answered++ % l->depth]);
}

static void
open_sources(const struct live_load *l, uint16_t port, struct source *sources,
             int epoll)
{
    for (unsigned i = 0; i < l->conns; i++) {
        struct source *s = &sources[i];
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = s};

        *s = (struct source){.fd = live_load_connect(port),
                             .random = 88172645463325252u * (i + 1)};
        check(epoll_ctl(epoll, EPOLL_CTL_ADD, s->fd, &e) == 0, "epoll_ctl");
    }
}

void
live_load_run(const struct live_load *l, uint16_t port,
              struct live_figures *out)
{
    static struct source sources[CONNS_MAX];
    static struct times times;
    struct epoll_event events[CONNS_MAX];
    const int epoll = epoll_create1(EPOLL_CLOEXEC);
    uint64_t begin_ns, now_ns;

    errno = EINVAL;
    check(l->conns <= CONNS_MAX && l->depth <= DEPTH_MAX && epoll >= 0, "load");
    times = (struct times){.count = 0};
    open_sources(l, port, sources, epoll);
    begin_ns = clock_ns();
    for (unsigned i = 0; i < l->conns; i++)
        ask(l, &sources[i]);
    do {
        const int n = epoll_wait(epoll, events, CONNS_MAX, 10000);

        check(n > 0, "no answer for ten seconds");
        for (int i = 0; i < n; i++) {
            struct source *s = events[i].data.ptr;

            take(l, s, &times);
            /* Half of them at once: neither side waits for the other. */
            if (s->sent - s->answered <= l->depth / 2)
                ask(l, s);
        }
        now_ns = clock_ns();
    } while (now_ns < begin_ns + l->ms * 1000000);
    for (unsigned i = 0; i < l->conns; i++)
        (void)close(sources[i].fd); /* a socket */
    (void)close(epoll);             /* holds nothing */
    conclude(&times, out);
    out->per_second = (double)times.count * 1e9 / (double)(now_ns - begin_ns) /
                      (l->work == LIVE_PAIRS ? 2 : 1);
}

/* ---- one connection ----------------------------------------------------- */

double
live_load_fill(int fd, uint64_t from, uint64_t to)
{
    static uint8_t out[FILL_DEPTH * REQUEST_MAX], in[IN_SIZE];
    uint64_t sent = from, answered = from;
    const uint64_t begin_ns = clock_ns();
    size_t size, used, have = 0;
    ssize_t n;

    while (answered < to) {
        if (sent - answered <= FILL_DEPTH / 2) {
            for (size = 0; sent < to && sent - answered < FILL_DEPTH; sent++)
                size += put_request(out + size, FRAME_ACQUIRE, sent);
            send_all(fd, out, size);
        }
        n = recv(fd, in + have, IN_SIZE - have, 0);
        check(n > 0, "receive");
        have += (size_t)n;
        used = count_answers(in, have, &answered);
        have -= used;
        memmove(in, in + used, have);
    }
    return (double)(clock_ns() - begin_ns) / 1e9;
}

/* Whole answers of a dump: their bytes.  *end: the last one was there. */
static size_t
count_records(const uint8_t *in, size_t have, uint64_t *records, bool *end)
{
    size_t at = 0;

    while (have - at >= FRAME_HEADER && !*end) {
        const uint32_t body = get_be32(in + at + 4);

        if (have - at < FRAME_HEADER + body)
            break;
        at += FRAME_HEADER + body;
        *end = body == 0;
        *records += body > 0;
    }
    return at;
}

double
live_load_dump(int fd, uint64_t *records)
{
    static uint8_t in[DUMP_RECEIVE];
    const uint64_t begin_ns = clock_ns();
    uint8_t request[FRAME_HEADER];
    size_t have = 0, used;
    bool end = false;
    ssize_t n;

    *records = 0;
    send_all(fd, request, put_request(request, FRAME_DUMP, 0));
    while (!end) {
        n = recv(fd, in + have, sizeof in - have, 0);
        check(n > 0, "receive");
        have += (size_t)n;
        used = count_records(in, have, records, &end);
        have -= used;
        memmove(in, in + used, have);
    }
    return (double)(clock_ns() - begin_ns) / 1e9;
}

void
live_load_probe(int fd, int stop_fd, struct live_figures *out)
{
    static struct times times;
    struct pollfd stop = {.fd = stop_fd, .events = POLLIN};
    uint8_t request[REQUEST_MAX], answer[64];
    const uint64_t begin_ns = clock_ns();
    const size_t size = put_request(request, FRAME_GET, 7);

    times = (struct times){.count = 0};
    while (poll(&stop, 1, 0) == 0) {
        const uint64_t sent_ns = clock_ns();
        size_t have = 0;
        ssize_t n;

        send_all(fd, request, size);
        while (have < FRAME_HEADER + 4) {
            n = recv(fd, answer + have, sizeof answer - have, 0);
            check(n > 0, "receive");
            have += (size_t)n;
        }
        times_note(&times, clock_ns() - sent_ns);
    }
    conclude(&times, out);
    out->per_second =
        (double)times.count * 1e9 / (double)(clock_ns() - begin_ns);
}
