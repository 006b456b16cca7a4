/* tests/bench/bench_mixed.c - the ports of countd-write under load at once.
 *
 *   bench_mixed [--quick] [BUILD_DIR]      (or $BUILD)
 *
 *   live          50 connections, 16 requests under way on each: Acquire of 1
 *                 and Release of 1, of one of a thousand counters
 *   acknowledged  50 connections, 16 messages under way on each
 *   silent        1, 50, 200 and 1000 connections, as fast as they go
 *
 * Each alone, then all at once; silent senders send through the whole time of
 * the others.  A worker's part is done meanwhile, so that there are empty logs.
 * Printed: medians of the rounds.  A share is a kind's rate beside the others
 * by its rate alone; p99 is that of single requests.  Prints, judges nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/log/logdir.h"
#include "tests/bench/await_logs.h"
#include "tests/bench/live_load.h"
#include "tests/bench/series.h"
#include "tests/lib/client.h"
#include "tests/lib/daemon.h"
#include "tests/lib/tmpdir.h"

#define MESSAGE     CLIENT_MESSAGE_SIZE
#define LOG_BYTES   (UINT64_C(32) << 20)
#define RING        1024 /* messages, sent again and again */
#define CONNS       50
#define DEPTH       16
#define SENDERS_MAX 1000
#define LATENCIES   (1 << 20)
#define KINDS       3

enum kind { LIVE, ACKED, SILENT };

struct figures {
    double per_second;
    double p99_us;
};

/* A process that makes load; its figures come through the pipe. */
struct load {
    pid_t pid;
    int from;  /* figures */
    int until; /* closed: it ends */
};

static uint8_t ring[RING * MESSAGE];
static size_t rounds = 5;
static uint64_t round_ms = 1000;

static void
die(const char *what)
{
    (void)fprintf(stderr, "bench_mixed: %s: %s\n", what, strerror(errno));
    exit(111);
}

static void
make_ring(void)
{
    char keyspace[32], key[32];

    for (size_t i = 0; i < RING; i++) {
        (void)snprintf(keyspace, sizeof keyspace, "space%zu", i % 10); /* fit */
        (void)snprintf(key, sizeof key, "/page/%zu.html", i % 997);
        client_message(ring + i * MESSAGE, keyspace, key, 1);
    }
}

/* ---- acknowledged ------------------------------------------------------- */

struct source {
    int fd;
    uint64_t sent, replied; /* messages; bytes of replies */
    uint64_t sent_ns[DEPTH];
};

static int
compare_latencies(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static void
send_messages(struct source *s)
{
    const uint64_t now_ns = clock_ns();

    while (s->sent - s->replied / 3 < DEPTH) {
        client_send(s->fd, ring + s->sent % RING * MESSAGE, MESSAGE);
        s->sent_ns[s->sent++ % DEPTH] = now_ns;
    }
}

/* Adds the times of the messages that are answered. */
static size_t
take_replies(struct source *s, uint32_t *latency, size_t count)
{
    char bytes[3 * DEPTH];
    const ssize_t n = recv(s->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    const uint64_t now_ns = clock_ns();
    uint64_t first = s->replied / 3;

    if (n <= 0 && errno != EAGAIN)
        die("reply");
    s->replied += n > 0 ? (uint64_t)n : 0;
    for (; first < s->replied / 3; first++)
        if (count < LATENCIES)
            latency[count++] = (uint32_t)(now_ns - s->sent_ns[first % DEPTH]);
    return count;
}

static struct figures
run_acked(uint16_t port)
{
    static struct source sources[CONNS];
    static uint32_t latency[LATENCIES];
    struct epoll_event events[CONNS];
    const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    uint64_t begin_ns, now_ns, sum = 0;
    size_t count = 0;
    int i, n;

    for (i = 0; i < CONNS; i++) {
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = &sources[i]};

        sources[i].fd = client_connect(port);
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, sources[i].fd, &e) < 0)
            die("epoll_ctl");
    }
    begin_ns = clock_ns();
    for (i = 0; i < CONNS; i++)
        send_messages(&sources[i]);
    do {
        n = epoll_wait(epoll_fd, events, CONNS, 10000);
        if (n <= 0)
            die("no reply");
        for (i = 0; i < n; i++) {
            struct source *s = events[i].data.ptr;

            count = take_replies(s, latency, count);
            if (s->sent - s->replied / 3 <= DEPTH / 2)
                send_messages(s);
        }
        now_ns = clock_ns();
    } while (now_ns < begin_ns + round_ms * 1000000);
    for (i = 0; i < CONNS; i++)
        sum += sources[i].replied / 3;
    qsort(latency, count, sizeof latency[0], compare_latencies);
    return (struct figures){(double)sum * 1e9 / (double)(now_ns - begin_ns),
                            count > 0 ? latency[count * 99 / 100] / 1e3 : 0};
}

/* ---- silent ------------------------------------------------------------- */

static struct figures
run_silent(uint16_t port, size_t senders, int until)
{
    static size_t at[SENDERS_MAX]; /* bytes of the ring */
    static int fds[SENDERS_MAX];
    struct epoll_event events[64];
    const int epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event e = {.events = EPOLLIN | EPOLLHUP,
                            .data.u64 = SENDERS_MAX};
    uint64_t begin_ns, sum = 0;
    bool ended = false;

    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, until, &e) < 0)
        die("epoll_ctl");
    for (size_t i = 0; i < senders; i++) {
        e = (struct epoll_event){.events = EPOLLOUT, .data.u64 = i};
        fds[i] = client_connect(port);
        if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fds[i], &e) < 0)
            die("epoll_ctl");
    }
    begin_ns = clock_ns();
    while (!ended) {
        const int n = epoll_wait(epoll_fd, events, 64, -1);

        for (int k = 0; k < n; k++) {
            const size_t i = events[k].data.u64;
            size_t size;
            ssize_t sent;

            ended |= i == SENDERS_MAX;
            if (i == SENDERS_MAX)
                continue;
            size = sizeof ring - at[i];
            size = size < 65536 ? size : 65536;
            sent = send(fds[i], ring + at[i], size, MSG_DONTWAIT);
            if (sent < 0 && errno != EAGAIN)
                die("send");
            at[i] = (at[i] + (size_t)(sent > 0 ? sent : 0)) % sizeof ring;
            sum += (uint64_t)(sent > 0 ? sent : 0);
        }
    }
    return (struct figures){
        (double)(sum / MESSAGE) * 1e9 / (double)(clock_ns() - begin_ns), 0};
}

/* ---- processes ---------------------------------------------------------- */

static struct figures
run_live(uint16_t port)
{
    const struct live_load l = {.work = LIVE_PAIRS,
                                .conns = CONNS,
                                .depth = DEPTH,
                                .names = 1000,
                                .ms = round_ms};
    struct live_figures f;

    live_load_run(&l, port, &f);
    return (struct figures){f.per_second, f.p99_us};
}

static void
load_start(struct load *l, enum kind kind, uint16_t port, size_t senders)
{
    int figures[2], until[2];

    if (pipe2(figures, O_CLOEXEC) < 0 || pipe2(until, O_CLOEXEC) < 0)
        die("pipe");
    l->pid = fork();
    if (l->pid < 0)
        die("fork");
    if (l->pid == 0) {
        struct figures f;

        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* no more than tidiness */
        close(until[1]);
        f = kind == LIVE    ? run_live(port)
            : kind == ACKED ? run_acked(port)
                            : run_silent(port, senders, until[0]);
        if (write(figures[1], &f, sizeof f) != (ssize_t)sizeof f)
            die("figures");
        _exit(0);
    }
    close(figures[1]);
    close(until[0]);
    l->from = figures[0];
    l->until = until[1];
}

static struct figures
load_end(struct load *l)
{
    struct figures f;

    close(l->until);
    if (read(l->from, &f, sizeof f) != (ssize_t)sizeof f)
        die("figures of a load");
    close(l->from);
    (void)waitpid(l->pid, NULL, 0); /* it has told what it had to tell */
    return f;
}

/* Does a worker's part for ever. */
static pid_t
start_emptying(const char *data)
{
    const pid_t pid = fork();
    struct layout l;
    struct logdir dir;
    struct log log;
    uint64_t hint = 0;
    char path[700];
    int fd;

    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* no more than tidiness */
    (void)snprintf(path, sizeof path, "%s/log", data); /* fits */
    fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || layout_init(&l, 256, 256) < 0 ||
        logdir_open(&dir, fd, &l, LOG_BYTES) < 0)
        die(path);
    for (;;) {
        if (logdir_claim(&dir, LOG_MODE_FULL, &hint, &log) < 0)
            (void)poll(NULL, 0, 10); /* cut short: an earlier look */
        else if (log_empty(&log) < 0 || log_release(&log) < 0)
            die("empty a log");
    }
}

/* ---- rounds ------------------------------------------------------------- */

struct results {
    struct series rate[KINDS], share[KINDS], p99_ms[KINDS], sum;
};

static void
run_round(const struct daemon *writer, size_t senders, struct results *out)
{
    static const char *const names[KINDS] = {"counter", "ack", "silent"};
    struct figures alone[KINDS], mixed[KINDS];
    struct load loads[KINDS];
    double sum = 0;
    uint16_t ports[KINDS];
    int k;

    for (k = 0; k < KINDS; k++) {
        ports[k] = daemon_port(writer, names[k]);
        load_start(&loads[0], (enum kind)k, ports[k], senders);
        if (k == SILENT)
            (void)poll(NULL, 0, (int)round_ms);
        alone[k] = load_end(&loads[0]);
    }
    load_start(&loads[SILENT], SILENT, ports[SILENT], senders);
    (void)poll(NULL, 0, 100); /* they are connected, and have filled it */
    load_start(&loads[LIVE], LIVE, ports[LIVE], 0);
    load_start(&loads[ACKED], ACKED, ports[ACKED], 0);
    for (k = 0; k < KINDS; k++)
        mixed[k] = load_end(&loads[k]);
    for (k = 0; k < KINDS; k++) {
        series_add(&out->rate[k], mixed[k].per_second);
        series_add(&out->share[k], mixed[k].per_second / alone[k].per_second);
        series_add(&out->p99_ms[k], mixed[k].p99_us / 1e3);
        sum += mixed[k].per_second / alone[k].per_second;
    }
    series_add(&out->sum, sum);
}

static void
print_results(size_t senders, const struct results *r)
{
    static const char *const names[KINDS] = {"live, pairs", "acknowledged",
                                             "silent"};

    printf("beside %zu silent connections\n", senders);
    for (int k = 0; k < KINDS; k++) {
        printf("  %-14s %9.1f k/s   share %.2f", names[k],
               series_median(&r->rate[k]) / 1e3, series_median(&r->share[k]));
        if (k != SILENT)
            printf("   p99 %7.2f ms (%.2f..%.2f)", series_median(&r->p99_ms[k]),
                   series_min(&r->p99_ms[k]), series_max(&r->p99_ms[k]));
        printf("\n");
    }
    printf("  sum of shares %.2f\n", series_median(&r->sum));
}

int
main(int argc, char **argv)
{
    static const size_t senders[] = {1, 50, 200, SENDERS_MAX};
    static struct results results[4];
    const char *build = getenv("BUILD");
    struct tmpdir folder;
    struct daemon writer;
    char data[600];
    pid_t emptying;
    int status;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            rounds = 3;
            round_ms = 500;
        } else {
            build = argv[i];
        }
    }
    if (build &&
        (setenv("BUILD", build, 1) < 0 || setenv("TMPDIR", build, 0) < 0))
        die("environment");
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* only looks */
    (void)signal(SIGPIPE, SIG_IGN);         /* cannot fail */
    tmpdir_make(&folder);
    make_ring();
    (void)snprintf(data, sizeof data, "%s/data", folder.path); /* fits */
    daemon_start(&writer, "countd-write", "-d", data, "-o", "log.size=32M",
                 "-o", "log.count=40", "-o", "write.listen=127.0.0.1:0", "-o",
                 "write.ack_listen=127.0.0.1:0", NULL);
    await_logs(data, 40);
    emptying = start_emptying(data);
    for (size_t i = 0; i < rounds; i++)
        for (size_t n = 0; n < 4; n++)
            run_round(&writer, senders[n], &results[n]);
    for (size_t n = 0; n < 4; n++)
        print_results(senders[n], &results[n]);
    status = daemon_stop(&writer);
    (void)kill(emptying, SIGKILL);    /* a child of ours */
    (void)waitpid(emptying, NULL, 0); /* it ends */
    daemon_fini(&writer);
    tmpdir_remove(&folder);
    return status == 0 ? 0 : 1;
}
