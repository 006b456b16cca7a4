/* tests/bench/bench_quota.c - durable /apply of countd-write, beside a server
 * that writes 24 bytes for each request and syncs once for all that had come.
 *
 *   bench_quota [--quick] [BUILD_DIR]      (or $BUILD)
 *
 *   50 x 16   50 connections, 16 requests under way on each
 *   50 x 1    the same with one
 *   1 x 1     one request after the other
 *   senders   50 x 16 while 200 connections send increments that nobody
 *             answers, as fast as they are taken: the ceiling writes them to
 *             a file without a look; they and their sender have CPUs that the
 *             rest then has not
 *
 * The servers take turns on the same disk, each with a fresh directory.
 * Printed: medians of the rounds, smallest and largest, and the median of the
 * rounds' ratios; times are those of single requests.  Prints, judges nothing.
 */
#include "tests/lib/test.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/net/net.h"
#include "tests/bench/await_logs.h"
#include "tests/bench/report.h"
#include "tests/bench/series.h"
#include "tests/lib/client.h"
#include "tests/lib/daemon.h"
#include "tests/lib/tmpdir.h"

#define PEERS_MAX   64
#define DEPTH_MAX   16
#define SENDERS     200
#define TIMES_MAX   4000000
#define RECORD      24
#define BUFFER_SIZE 65536
#define LOG_SIZE    ((size_t)16 << 20) /* then from its beginning again */

static const char request[] = "POST /apply?amt=1 HTTP/1.1\r\n"
                              "Host: localhost\r\n\r\n";
static const char answer[] = "HTTP/1.1 200 OK\r\n"
                             "Connection: keep-alive\r\n"
                             "Content-length: 21\r\n\r\n"
                             "1234567 999999999999\n";

#define REQUEST_SIZE (sizeof request - 1)
#define ANSWER_SIZE  (sizeof answer - 1)

static void
die(const char *what)
{
    (void)fprintf(stderr, "bench_quota: %s: %s\n", what, strerror(errno));
    _exit(111);
}

/* ---- the ceiling -------------------------------------------------------- */

struct ceiling {
    int epoll, listener, file;
    int silent, log;      /* listener of the senders; what they sent */
    bool is_silent[1024]; /* by descriptor */
    size_t owed[1024];    /* answers */
    size_t part[1024];    /* bytes of a request that came */
    uint8_t records[PEERS_MAX * DEPTH_MAX * RECORD];
    uint64_t at, log_at;
};

static void
take_peer(struct ceiling *c, int listener)
{
    struct epoll_event e = {.events = EPOLLIN};
    const int one = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);

    if (fd < 0 || fd >= 1024)
        die("accept");
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one,
                     sizeof one); /* faster */
    e.data.fd = fd;
    if (epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &e) < 0)
        die("epoll_ctl");
    c->owed[fd] = c->part[fd] = 0;
    c->is_silent[fd] = listener == c->silent;
}

/* Requests that have come; 0 as well when the peer has gone. */
static size_t
receive(struct ceiling *c, int fd)
{
    static uint8_t in[BUFFER_SIZE];
    const ssize_t n = recv(fd, in, sizeof in, 0);
    size_t size;

    if (n <= 0) {
        if (n == 0 || errno != EAGAIN)
            (void)close(fd); /* the generator's end */
        return 0;
    }
    if (c->is_silent[fd]) {
        if (pwrite(c->log, in, (size_t)n, (off_t)c->log_at) < 0)
            die("write");
        c->log_at = (c->log_at + (size_t)n) % LOG_SIZE;
        return 0;
    }
    size = c->part[fd] + (size_t)n;
    c->owed[fd] += size / REQUEST_SIZE;
    c->part[fd] = size % REQUEST_SIZE;
    return size / REQUEST_SIZE;
}

static void
send_all(struct ceiling *c, const int *fds, size_t count)
{
    static char out[DEPTH_MAX * ANSWER_SIZE];

    for (size_t i = 0; i < DEPTH_MAX; i++)
        memcpy(out + i * ANSWER_SIZE, answer, ANSWER_SIZE);
    for (size_t i = 0; i < count; i++) {
        const size_t size = c->owed[fds[i]] * ANSWER_SIZE;

        c->owed[fds[i]] = 0;
        if (size > 0 && send(fds[i], out, size, MSG_NOSIGNAL) != (ssize_t)size)
            die("send");
    }
}

static void
serve(struct ceiling *c)
{
    struct epoll_event events[PEERS_MAX];
    int fds[PEERS_MAX];

    for (;;) {
        const int n = epoll_wait(c->epoll, events, PEERS_MAX, -1);
        size_t came = 0, count = 0;

        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == c->listener ||
                events[i].data.fd == c->silent) {
                take_peer(c, events[i].data.fd);
                continue;
            }
            fds[count++] = events[i].data.fd;
            came += receive(c, events[i].data.fd);
        }
        if (came == 0)
            continue;
        if (pwrite(c->file, c->records, came * RECORD, (off_t)c->at) < 0 ||
            fdatasync(c->file) < 0)
            die("write");
        c->at += came * RECORD;
        send_all(c, fds, count);
    }
}

static int
open_in(const char *folder, const char *name)
{
    char path[600];
    int fd;

    (void)snprintf(path, sizeof path, "%s/%s", folder, name); /* fits */
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        die("open");
    return fd;
}

/* Like countd-write's, its file is zero ahead of what it writes. */
static void
run_ceiling(const char *folder, int listener, int silent)
{
    static struct ceiling c;
    static uint8_t zeros[1 << 20];
    struct epoll_event e = {.events = EPOLLIN, .data.fd = listener};
    struct epoll_event f = {.events = EPOLLIN, .data.fd = silent};

    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* only a convenience */
    c.file = open_in(folder, "file");
    c.log = open_in(folder, "log");
    c.listener = listener;
    c.silent = silent;
    c.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (c.epoll < 0 || epoll_ctl(c.epoll, EPOLL_CTL_ADD, listener, &e) < 0 ||
        epoll_ctl(c.epoll, EPOLL_CTL_ADD, silent, &f) < 0)
        die("start");
    for (int i = 0; i < 64; i++)
        if (write(c.file, zeros, sizeof zeros) < 0)
            die("write");
    if (fsync(c.file) < 0)
        die("fsync");
    serve(&c);
}

static int
listen_on(uint16_t *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof a;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&a, sizeof a) < 0 ||
        listen(fd, 1024) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &size) < 0)
        die("listen");
    *port = ntohs(a.sin_port);
    return fd;
}

static pid_t
start_ceiling(const char *folder, uint16_t *port, uint16_t *silent_port)
{
    const int fd = listen_on(port), silent = listen_on(silent_port);
    const pid_t pid = fork();

    if (pid < 0)
        die("fork");
    if (pid == 0)
        run_ceiling(folder, fd, silent);
    (void)close(fd);     /* the child has it, */
    (void)close(silent); /* and this */
    return pid;
}

/* ---- load --------------------------------------------------------------- */

struct peer {
    int fd;
    uint64_t sent_ns[DEPTH_MAX]; /* of those under way, a ring */
    size_t first, count;
    char in[BUFFER_SIZE];
    size_t have;
};

struct load {
    size_t peers, depth;
    uint64_t ms;
    double per_second, p50_us, p99_us;
};

static struct peer peers[PEERS_MAX];
static uint32_t times[TIMES_MAX]; /* ns */
static size_t time_count;

static void
ask(struct peer *p, size_t depth)
{
    static char out[DEPTH_MAX * REQUEST_SIZE];
    const size_t n = depth - p->count;

    for (size_t i = 0; i < n; i++) {
        memcpy(out + i * REQUEST_SIZE, request, REQUEST_SIZE);
        p->sent_ns[(p->first + p->count++) % DEPTH_MAX] = clock_ns();
    }
    if (n > 0 && send(p->fd, out, n * REQUEST_SIZE, MSG_NOSIGNAL) !=
                     (ssize_t)(n * REQUEST_SIZE))
        die("send");
}

/* Takes whole answers, which are not looked at but for their status. */
static void
hear(struct peer *p, bool counts)
{
    const ssize_t n =
        recv(p->fd, p->in + p->have, BUFFER_SIZE - p->have - 1, 0);
    const uint64_t now = clock_ns();
    char *at = p->in, *end;

    if (n <= 0)
        die("a server has closed");
    p->have += (size_t)n;
    p->in[p->have] = '\0';
    while ((end = strstr(at, "\r\n\r\n")) && (end = strchr(end + 4, '\n'))) {
        if (memcmp(at + 9, "200", 3) != 0)
            die("no 200");
        if (counts && time_count < TIMES_MAX)
            times[time_count++] = (uint32_t)(now - p->sent_ns[p->first]);
        p->first = (p->first + 1) % DEPTH_MAX;
        p->count--;
        at = end + 1;
    }
    p->have -= (size_t)(at - p->in);
    memmove(p->in, at, p->have);
}

static int
compare(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static void
run_load(struct load *l, uint16_t port)
{
    struct pollfd fds[PEERS_MAX];
    const uint64_t begin = clock_ns() + 100 * 1000000; /* warm by then */
    const uint64_t end = begin + l->ms * 1000000;
    uint64_t now;

    time_count = 0;
    for (size_t i = 0; i < l->peers; i++) {
        peers[i] = (struct peer){.fd = client_connect(port)};
        fds[i] = (struct pollfd){.fd = peers[i].fd, .events = POLLIN};
        ask(&peers[i], l->depth);
    }
    while ((now = clock_ns()) < end) {
        if (poll(fds, l->peers, 1000) <= 0)
            die("no answer");
        for (size_t i = 0; i < l->peers; i++)
            if (fds[i].revents != 0) {
                hear(&peers[i], now >= begin);
                ask(&peers[i], l->depth);
            }
    }
    for (size_t i = 0; i < l->peers; i++)
        client_close(peers[i].fd);
    qsort(times, time_count, sizeof *times, compare);
    l->per_second = (double)time_count / ((double)l->ms / 1000);
    l->p50_us = times[time_count / 2] / 1000.0;
    l->p99_us = times[time_count * 99 / 100] / 1000.0;
}

/* A child that sends increments on many connections until it is killed. */
static pid_t
start_senders(uint16_t port)
{
    static uint8_t bytes[16 * CLIENT_MESSAGE_SIZE];
    struct pollfd fds[SENDERS];
    const pid_t pid = fork();

    if (pid < 0)
        die("fork");
    if (pid > 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* only a convenience */
    for (size_t i = 0; i < 16; i++)
        client_message(bytes + i * CLIENT_MESSAGE_SIZE, "bench", "key", 1);
    for (size_t i = 0; i < SENDERS; i++)
        fds[i] = (struct pollfd){.fd = client_connect(port), .events = POLLOUT};
    for (;;) {
        if (poll(fds, SENDERS, 1000) < 0)
            die("poll");
        for (size_t i = 0; i < SENDERS; i++)
            if (fds[i].revents != 0 &&
                client_try_send(fds[i].fd, bytes, sizeof bytes) < 0)
                _exit(0); /* the server has ended */
    }
}

/* ---- rounds ------------------------------------------------------------- */

struct row {
    struct series rate, p50, p99;
};

static void
add(struct row *row, const struct load *l)
{
    series_add(&row->rate, l->per_second);
    series_add(&row->p50, l->p50_us);
    series_add(&row->p99, l->p99_us);
}

static void
end_child(pid_t pid)
{
    (void)kill(pid, SIGKILL);    /* our child, */
    (void)waitpid(pid, NULL, 0); /* and not waited for */
}

static void
measure_ceiling(struct load *l, bool senders)
{
    uint16_t port, silent_port;
    struct tmpdir dir;
    pid_t pid, sender = 0;

    tmpdir_make(&dir);
    pid = start_ceiling(dir.path, &port, &silent_port);
    if (senders)
        sender = start_senders(silent_port);
    run_load(l, port);
    if (sender > 0)
        end_child(sender);
    end_child(pid);
    tmpdir_remove(&dir);
}

static void
measure_countd(struct load *l, bool senders)
{
    struct tmpdir dir;
    struct daemon d;
    pid_t pid = 0;

    tmpdir_make(&dir);
    daemon_start(&d, "countd-write", "-d", dir.path, "-o",
                 "write.listen=127.0.0.1:0", "-o", "write.ack_listen=", "-o",
                 "counter.enable=off", "-o", "http.listen=127.0.0.1:0", "-o",
                 "quota.enable=on", "-o", "quota.limit=1000000000000", "-o",
                 "log.size=1M", "-o", "log.max=64", NULL);
    await_logs(dir.path, 4);
    if (senders)
        pid = start_senders(daemon_port(&d, "silent"));
    run_load(l, daemon_port(&d, "http"));
    if (pid > 0)
        end_child(pid);
    daemon_kill(&d);
    daemon_fini(&d);
    tmpdir_remove(&dir);
}

static void
print_row(const char *name, const struct row *r, const struct row *ceiling)
{
    printf("  %-26s %9.0f /s  (%.0f..%.0f)  p50 %.0f  p99 %.0f us", name,
           series_median(&r->rate), series_min(&r->rate), series_max(&r->rate),
           series_median(&r->p50), series_median(&r->p99));
    if (ceiling)
        printf("  %.2f of it, p99 %.2f", series_ratio(&r->rate, &ceiling->rate),
               series_ratio(&r->p99, &ceiling->p99));
    printf("\n");
}

/* Without senders and with them. */
static void
print_both(const struct row ceiling[2], const struct row countd[2])
{
    print_row("ceiling", &ceiling[0], NULL);
    print_row("countd-write", &countd[0], &ceiling[0]);
    if (ceiling[1].rate.count > 0) {
        print_row("ceiling, with senders", &ceiling[1], NULL);
        print_row("countd-write, with senders", &countd[1], &ceiling[1]);
        printf("  with senders of without: ceiling %.2f, countd-write %.2f\n",
               series_ratio(&ceiling[1].rate, &ceiling[0].rate),
               series_ratio(&countd[1].rate, &countd[0].rate));
    }
    (void)fflush(stdout); /* for who watches */
}

static void
report(size_t conns, size_t depth, bool senders, const struct row *ceiling,
       const struct row *countd)
{
    char row[80];
    const int size =
        snprintf(row, sizeof row, "durable /apply, %zu x %zu%s", conns, depth,
                 senders ? ", beside 200 silent senders" : "");

    report_row(row, "/s", series_median(&countd->rate), "ceiling",
               series_median(&ceiling->rate),
               series_ratio(&countd->rate, &ceiling->rate));
    (void)snprintf(row + size, sizeof row - (size_t)size, ", p99"); /* fits */
    report_row(row, "us", series_median(&countd->p99), "ceiling",
               series_median(&ceiling->p99),
               series_ratio(&countd->p99, &ceiling->p99));
}

static void
compare_servers(size_t conns, size_t depth, size_t rounds, uint64_t ms)
{
    struct row countd[2], ceiling[2];
    const int kinds = conns * depth > 100 ? 2 : 1;

    memset(countd, 0, sizeof countd);
    memset(ceiling, 0, sizeof ceiling);
    for (size_t i = 0; i < rounds; i++)
        for (int senders = 0; senders < kinds; senders++) {
            struct load l = {.peers = conns, .depth = depth, .ms = ms};

            measure_ceiling(&l, senders == 1);
            add(&ceiling[senders], &l);
            measure_countd(&l, senders == 1);
            add(&countd[senders], &l);
        }
    printf("%zu x %zu\n", conns, depth);
    print_both(ceiling, countd);
    for (int senders = 0; senders < kinds; senders++)
        report(conns, depth, senders == 1, &ceiling[senders], &countd[senders]);
}

int
main(int argc, char **argv)
{
    size_t rounds = 7;
    uint64_t ms = 1000;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--quick") == 0) {
            rounds = 3;
            ms = 300;
        } else if (setenv("BUILD", argv[i], 1) < 0) {
            die("setenv");
        }
    compare_servers(50, 16, rounds, ms);
    compare_servers(50, 1, rounds, ms);
    compare_servers(1, 1, rounds, ms);
    return 0;
}
