/* tests/bench/bench_ingest.c - how fast countd-write takes increments, beside
 * ceilings that do the same input and output and nothing else.
 *
 *   bench_ingest [--quick] [BUILD_DIR]      (or $BUILD)
 *
 *   silent       one connection as fast as it goes, until the daemon closes
 *     empty        ceiling: receives, writes slots that hold nothing
 *     synced       the same, and syncs each log as the daemon does
 *     slots        the same, and puts the messages into the slots, unchecked
 *   acked        C connections, D messages outstanding on each
 *     group        ceiling: receives all that is ready, one append, one
 *                  fdatasync, replies
 *   latency      one connection, one message outstanding; p50
 *
 * Daemon and ceilings take turns, so that what else the machine does meets
 * all of them.  Printed: medians of the rounds, smallest and largest, and the
 * median of the rounds' ratios.  The scheduler places the processes; run it
 * under taskset for another placement.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
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
#include "common/net/net.h"
#include "tests/bench/await_logs.h"
#include "tests/bench/report.h"
#include "tests/lib/client.h"
#include "tests/lib/daemon.h"
#include "tests/lib/tmpdir.h"

#define MESSAGE    CLIENT_MESSAGE_SIZE
#define SLOT       544
#define LOG_BYTES  (UINT64_C(32) << 20)
#define LOG_FILL   ((LOG_BYTES - LOG_SLOTS_AT) / SLOT) /* messages */
#define RING       16384 /* messages made ahead and sent again and again */
#define SENT_MAX   (64 * 1024 / MESSAGE) /* messages of one send */
#define RECEIVE    512                   /* messages of one receive */
#define FILES      30                    /* more than a round fills */
#define LOGS       40
#define LOGS_TEXT  "40"
#define STAGE      1024
#define CONNS_MAX  64
#define ROUNDS_MAX 32
#define LATENCIES  200000

static uint8_t *ring; /* RING messages */
static size_t rounds = 7;
static size_t blast_count = 1500000;
static uint64_t acked_ms = 1000;

static void
die(const char *what)
{
    fprintf(stderr, "bench_ingest: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t
next_random(uint64_t *state)
{
    /* xorshift64 (Marsaglia 2003). */
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void
make_ring(void)
{
    uint64_t state = 88172645463325252;
    char keyspace[32], key[32];
    size_t i;

    ring = malloc((size_t)RING * MESSAGE);
    if (!ring)
        die("memory");
    for (i = 0; i < RING; i++) {
        (void)snprintf(keyspace, sizeof keyspace, "keyspace-%010u",
                       (unsigned)(next_random(&state) % 100)); /* fits */
        (void)snprintf(key, sizeof key, "key-%07u",
                       (unsigned)(next_random(&state) % 1000000)); /* fits */
        client_message(ring + i * MESSAGE, keyspace, key, 1);
    }
}

/* ---- ceilings ---------------------------------------------------------- */

enum ceiling { EMPTY, SYNCED, SLOTS, GROUP, CEILINGS };

/* A process that does what the daemon's sockets and disk need, and no more:
 * one thread, slots that hold nothing or the messages as they came, as many log
 * files as the daemon fills. */
struct sink {
    enum ceiling kind;
    pid_t pid;
    uint16_t port;
    int files[FILES];
    int turn; /* file being filled */
    uint64_t filled;
    uint8_t *stage;
    uint8_t *buffer;
    size_t staged;
    struct sink_conn {
        int fd;
        size_t partial;
        uint8_t fragment[MESSAGE];
        uint64_t owed;
    } conns[CONNS_MAX];
    size_t conn_count;
    pthread_t syncer;
    pthread_mutex_t mutex;
    pthread_cond_t wake;
    bool sync_wanted[FILES];
    int wanted_count;
};

static void *
sync_files(void *arg)
{
    struct sink *s = arg;
    int i;

    pthread_mutex_lock(&s->mutex);
    for (;;) {
        for (i = 0; i < FILES; i++) {
            if (!s->sync_wanted[i])
                continue;
            s->sync_wanted[i] = false;
            s->wanted_count--;
            pthread_mutex_unlock(&s->mutex);
            if (fdatasync(s->files[i]) < 0)
                die("fdatasync");
            pthread_mutex_lock(&s->mutex);
        }
        if (s->wanted_count == 0)
            pthread_cond_wait(&s->wake, &s->mutex);
    }
    return NULL;
}

static void
sink_write(struct sink *s)
{
    const size_t size = s->staged * SLOT;
    const off_t at = (off_t)(LOG_SLOTS_AT + s->filled * SLOT);

    if (s->staged == 0)
        return;
    if (pwrite(s->files[s->turn], s->stage, size, at) != (ssize_t)size)
        die("pwrite");
    s->filled += s->staged;
    s->staged = 0;
    if (s->filled + STAGE <= LOG_FILL)
        return;
    if (s->kind == SYNCED || s->kind == SLOTS) {
        pthread_mutex_lock(&s->mutex);
        if (!s->sync_wanted[s->turn])
            s->wanted_count++;
        s->sync_wanted[s->turn] = true;
        pthread_mutex_unlock(&s->mutex);
        pthread_cond_signal(&s->wake);
    } else if (s->kind == GROUP && fdatasync(s->files[s->turn]) < 0) {
        die("fdatasync");
    }
    s->turn = (s->turn + 1) % FILES;
    s->filled = 0;
}

/* False at the end of the connection. */
static bool
sink_receive(struct sink *s, struct sink_conn *c)
{
    size_t size, count, i;
    ssize_t n;

    if (s->staged + RECEIVE > STAGE)
        sink_write(s);
    memcpy(s->buffer, c->fragment, c->partial);
    n = recv(c->fd, s->buffer + c->partial, RECEIVE * MESSAGE - c->partial,
             MSG_DONTWAIT);
    if (n <= 0)
        return n < 0 && errno == EAGAIN;
    size = c->partial + (size_t)n;
    count = size / MESSAGE;
    if (s->kind == SLOTS)
        for (i = 0; i < count; i++)
            memcpy(s->stage + (s->staged + i) * SLOT, s->buffer + i * MESSAGE,
                   MESSAGE);
    s->staged += count;
    c->owed += count;
    c->partial = size % MESSAGE;
    if (c->partial > 0)
        memcpy(c->fragment, s->buffer + count * MESSAGE, c->partial);
    return true;
}

static void
sink_reply(struct sink *s)
{
    static char wins[3 * 65536];
    size_t i;

    if (wins[0] == '\0')
        for (i = 0; i < sizeof wins; i++)
            wins[i] = "WIN"[i % 3];
    if (fdatasync(s->files[s->turn]) < 0)
        die("fdatasync");
    for (i = 0; i < s->conn_count; i++) {
        struct sink_conn *c = &s->conns[i];

        if (c->owed == 0)
            continue;
        /* The generator reads all the time: no socket is ever full. */
        if (send(c->fd, wins, 3 * c->owed, MSG_NOSIGNAL) < 0)
            c->partial = 0;
        c->owed = 0;
    }
}

static void
sink_take(struct sink *s, int epoll_fd, int listen_fd)
{
    struct epoll_event e = {.events = EPOLLIN};
    struct sink_conn *c;
    size_t i;
    int fd;

    fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    for (i = 0; i < s->conn_count && s->conns[i].fd >= 0; i++)
        continue;
    if (i == CONNS_MAX)
        die("connections");
    if (i == s->conn_count)
        s->conn_count++;
    c = &s->conns[i];
    *c = (struct sink_conn){.fd = fd};
    e.data.ptr = c;
    if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0)
        die("epoll_ctl");
}

static void
sink_serve(struct sink *s, int listen_fd)
{
    struct epoll_event events[256], e = {.events = EPOLLIN};
    struct sink_conn *c;
    int epoll_fd, n, i;

    epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_fd < 0 || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listen_fd, &e) < 0)
        die("epoll");
    for (;;) {
        n = epoll_wait(epoll_fd, events, 256, -1);
        for (i = 0; i < n; i++) {
            c = events[i].data.ptr;
            if (!c) {
                sink_take(s, epoll_fd, listen_fd);
            } else if (!sink_receive(s, c)) {
                close(c->fd);
                c->fd = -1;
                c->owed = 0;
            }
        }
        sink_write(s);
        if (s->kind == GROUP)
            sink_reply(s);
    }
}

/* The ceilings take turns, so they share their files. */
static void
make_files(int files[FILES], const char *folder)
{
    static uint8_t zeros[1 << 20];
    char path[600];
    size_t at;
    int i;

    for (i = 0; i < FILES; i++) {
        (void)snprintf(path, sizeof path, "%s/ceiling-%d", folder,
                       i); /* fits */
        files[i] = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (files[i] < 0)
            die(path);
        for (at = 0; at < LOG_BYTES; at += sizeof zeros)
            if (pwrite(files[i], zeros, sizeof zeros, (off_t)at) !=
                (ssize_t)sizeof zeros)
                die("pwrite");
        if (fsync(files[i]) < 0)
            die("fsync");
    }
}

static void
sink_start(struct sink *s, enum ceiling kind, const int files[FILES])
{
    struct net_address any, bound;
    char text[NET_ADDRESS_SIZE];
    int fd;

    s->kind = kind;
    if (net_parse("127.0.0.1:0", &any) < 0)
        die("address");
    fd = net_listen(&any, 0, &bound);
    if (fd < 0)
        die("listen");
    net_format(&bound, text);
    s->port = (uint16_t)atoi(strrchr(text, ':') + 1);
    memcpy(s->files, files, sizeof s->files);
    s->pid = fork();
    if (s->pid < 0)
        die("fork");
    if (s->pid > 0) {
        close(fd);
        return;
    }
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
        die("prctl");
    s->stage = calloc(STAGE, SLOT);
    s->buffer = calloc(RECEIVE, MESSAGE);
    if (!s->stage || !s->buffer)
        die("memory");
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->wake, NULL);
    if ((kind == SYNCED || kind == SLOTS) &&
        pthread_create(&s->syncer, NULL, sync_files, s) != 0)
        die("thread");
    sink_serve(s, fd);
    exit(0);
}

/* ---- the generator ----------------------------------------------------- */

/* Messages per second, until the other side has closed. */
static double
blast(uint16_t port)
{
    const int fd = client_connect(port);
    const uint64_t begin_ns = clock_ns();
    size_t sent, at = 0, n;
    char byte;

    for (sent = 0; sent < blast_count; sent += n) {
        n = SENT_MAX;
        if (n > RING - at)
            n = RING - at;
        if (n > blast_count - sent)
            n = blast_count - sent;
        client_send(fd, ring + at * MESSAGE, n * MESSAGE);
        at = (at + n) % RING;
    }
    if (shutdown(fd, SHUT_WR) < 0)
        die("shutdown");
    while (recv(fd, &byte, 1, 0) > 0)
        die("a byte from the silent port");
    close(fd);
    return (double)blast_count * 1e9 / (double)(clock_ns() - begin_ns);
}

struct source {
    int fd;
    size_t at;          /* in the ring */
    size_t outstanding; /* messages */
    size_t unsent;      /* bytes, of those */
    size_t reply;       /* bytes of replies read, modulo 3 */
    uint64_t sent_ns;
};

struct acked {
    struct source sources[CONNS_MAX];
    size_t conns, depth;
    int epoll_fd;
    uint64_t replies;
    uint32_t *latency_ns; /* depth 1 only */
    size_t latencies;
};

static void
send_more(struct acked *a, struct source *s, bool stop)
{
    struct epoll_event e = {.events = EPOLLIN, .data.ptr = s};
    size_t n, bytes_at;
    ssize_t sent;

    if (!stop && s->outstanding <= a->depth / 2) {
        s->unsent += (a->depth - s->outstanding) * MESSAGE;
        s->outstanding = a->depth;
        s->sent_ns = clock_ns();
    }
    while (s->unsent > 0) {
        bytes_at = s->at % ((size_t)RING * MESSAGE);
        n = (size_t)RING * MESSAGE - bytes_at;
        if (n > s->unsent)
            n = s->unsent;
        sent = send(s->fd, ring + bytes_at, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno != EAGAIN)
            die("send");
        if (sent < 0) {
            e.events |= EPOLLOUT;
            break;
        }
        s->at += (size_t)sent;
        s->unsent -= (size_t)sent;
    }
    if (epoll_ctl(a->epoll_fd, EPOLL_CTL_MOD, s->fd, &e) < 0)
        die("epoll_ctl");
}

static void
read_replies(struct acked *a, struct source *s)
{
    static char bytes[65536];
    ssize_t n;
    size_t wins;

    n = recv(s->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0)
        die("the connection ended");
    wins = (s->reply + (size_t)n) / 3;
    s->reply = (s->reply + (size_t)n) % 3;
    s->outstanding -= wins;
    a->replies += wins;
    if (a->latency_ns && wins > 0 && a->latencies < LATENCIES)
        a->latency_ns[a->latencies++] = (uint32_t)(clock_ns() - s->sent_ns);
}

static void
open_sources(struct acked *a, uint16_t port)
{
    size_t i;

    a->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (a->epoll_fd < 0)
        die("epoll");
    for (i = 0; i < a->conns; i++) {
        struct source *s = &a->sources[i];
        struct epoll_event e = {.events = EPOLLIN, .data.ptr = s};

        *s = (struct source){.fd = client_connect(port),
                             .at = i * (RING / CONNS_MAX) * MESSAGE};
        if (epoll_ctl(a->epoll_fd, EPOLL_CTL_ADD, s->fd, &e) < 0)
            die("epoll_ctl");
    }
}

/* Acknowledged messages per second. */
static double
acked(struct acked *a, uint16_t port)
{
    struct epoll_event events[CONNS_MAX];
    uint64_t begin_ns, end_ns, now_ns;
    int n, i;
    size_t c;

    a->replies = 0;
    a->latencies = 0;
    open_sources(a, port);
    begin_ns = clock_ns();
    end_ns = begin_ns + acked_ms * 1000000;
    for (c = 0; c < a->conns; c++)
        send_more(a, &a->sources[c], false);
    do {
        n = epoll_wait(a->epoll_fd, events, CONNS_MAX, 10000);
        if (n <= 0)
            die("no reply");
        for (i = 0; i < n; i++) {
            struct source *s = events[i].data.ptr;

            if (events[i].events & EPOLLIN)
                read_replies(a, s);
            if (s->outstanding <= a->depth / 2 || s->unsent > 0)
                send_more(a, s, false);
        }
        now_ns = clock_ns();
    } while (now_ns < end_ns);
    for (c = 0; c < a->conns; c++)
        client_reset(a->sources[c].fd);
    close(a->epoll_fd);
    return (double)a->replies * 1e9 / (double)(now_ns - begin_ns);
}

/* ---- the daemon -------------------------------------------------------- */

struct subject {
    struct daemon writer;
    char data[600];
    struct logdir dir;
    int log_fd;
};

static void
subject_start(struct subject *s, const char *folder)
{
    struct layout l;
    char path[700];

    (void)snprintf(s->data, sizeof s->data, "%s/data", folder); /* fits */
    daemon_start(&s->writer, "countd-write", "-d", s->data, "-o",
                 "log.size=32M", "-o", "log.count=" LOGS_TEXT, "-o",
                 "write.listen=127.0.0.1:0", "-o",
                 "write.ack_listen=127.0.0.1:0", NULL);
    (void)snprintf(path, sizeof path, "%s/log", s->data); /* fits */
    s->log_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->log_fd < 0 || layout_init(&l, 256, 256) < 0 ||
        logdir_open(&s->dir, s->log_fd, &l, LOG_BYTES) < 0)
        die(path);
    await_logs(s->data, LOGS);
}

/* Between rounds: does a worker's part, so that there are empty logs. */
static void
empty_logs(struct subject *s)
{
    uint64_t hint = 0, quiet_ms = clock_ms() + 100;
    struct log log;

    daemon_signal(&s->writer, SIGUSR2);
    while (clock_ms() < quiet_ms) {
        if (logdir_claim(&s->dir, LOG_MODE_FULL, &hint, &log) < 0) {
            (void)poll(NULL, 0, 10); /* cut short: an earlier look */
            continue;
        }
        if (log_empty(&log) < 0 || log_release(&log) < 0)
            die("empty a log");
        quiet_ms = clock_ms() + 100;
    }
}

/* ---- results ----------------------------------------------------------- */

struct series {
    double at[ROUNDS_MAX];
    size_t count;
};

static int
compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static int
compare_latencies(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static double
median(const struct series *s)
{
    struct series sorted = *s;

    qsort(sorted.at, sorted.count, sizeof sorted.at[0], compare_doubles);
    return sorted.at[sorted.count / 2];
}

static double
extreme(const struct series *s, bool largest)
{
    struct series sorted = *s;

    qsort(sorted.at, sorted.count, sizeof sorted.at[0], compare_doubles);
    return sorted.at[largest ? sorted.count - 1 : 0];
}

/* `row`: what was measured, for the table, when `to` is there. */
static void
print_row(const char *row, const char *name, const struct series *s,
          const struct series *to, double scale, const char *unit)
{
    struct series ratio = {.count = 0};
    size_t i;

    printf("  %-22s %9.3f %s  (%.3f..%.3f)", name, median(s) * scale, unit,
           extreme(s, false) * scale, extreme(s, true) * scale);
    if (to) {
        for (i = 0; i < s->count; i++)
            ratio.at[ratio.count++] = to->at[i] / s->at[i];
        printf("  countd/this %.2f", median(&ratio));
        report_row(row, unit, median(to) * scale, name, median(s) * scale,
                   median(&ratio));
    }
    printf("\n");
}

/* CPU time of the process's first thread, which is the one that receives. */
static double
cpu_ns(pid_t pid)
{
    unsigned long long ns = 0;
    char path[64];
    FILE *f;

    (void)snprintf(path, sizeof path, "/proc/%ld/task/%ld/schedstat", (long)pid,
                   (long)pid); /* fits */
    f = fopen(path, "re");
    if (!f || fscanf(f, "%llu", &ns) != 1)
        die(path);
    fclose(f);
    return (double)ns;
}

/* ---- the runs ---------------------------------------------------------- */

/* What the one before left to write is not to burden the next. */
static void
settle(const struct subject *s)
{
    if (syncfs(s->log_fd) < 0)
        die("syncfs");
}

/* One round of one side; its CPU time per message goes to `cpu`. */
static void
run_blast(const struct subject *s, pid_t pid, uint16_t port,
          struct series *rate, struct series *cpu)
{
    double before;

    settle(s);
    before = cpu_ns(pid);

    rate->at[rate->count++] = blast(port);
    cpu->at[cpu->count++] = (cpu_ns(pid) - before) / (double)blast_count;
}

static void
run_silent(struct subject *s, const struct sink sinks[GROUP])
{
    static const char *const names[GROUP] = {
        "ceiling, empty, no sync", "ceiling, empty slots", "ceiling, slots"};
    struct series rate = {.count = 0}, cpu = {.count = 0};
    struct series rates[GROUP] = {0}, cpus[GROUP] = {0};
    size_t i;
    int k;

    for (i = 0; i < rounds; i++) {
        run_blast(s, s->writer.pid, daemon_port(&s->writer, "silent"), &rate,
                  &cpu);
        empty_logs(s);
        for (k = 0; k < GROUP; k++)
            run_blast(s, sinks[k].pid, sinks[k].port, &rates[k], &cpus[k]);
    }
    printf("silent, 1 connection, %zu messages\n", blast_count);
    print_row("", "countd-write", &rate, NULL, 1e-6, "M/s");
    for (k = 0; k < GROUP; k++)
        print_row("silent", names[k], &rates[k], &rate, 1e-6, "M/s");
    printf(" CPU time of the receiving thread, per message\n");
    print_row("", "countd-write", &cpu, NULL, 1, "ns ");
    for (k = 0; k < GROUP; k++)
        print_row("silent, CPU of the receiving thread", names[k], &cpus[k],
                  &cpu, 1, "ns ");
}

static void
run_acked(struct subject *s, struct sink *group, size_t conns, size_t depth)
{
    static struct acked a;
    struct series x = {.count = 0}, y = {.count = 0};
    char row[64];
    size_t i;

    a.conns = conns;
    a.depth = depth;
    a.latency_ns = NULL;
    for (i = 0; i < rounds; i++) {
        settle(s);
        x.at[x.count++] = acked(&a, daemon_port(&s->writer, "ack"));
        empty_logs(s);
        settle(s);
        y.at[y.count++] = acked(&a, group->port);
    }
    printf("acknowledged, %zu connections, depth %zu\n", conns, depth);
    print_row("", "countd-write", &x, NULL, 1e-3, "k/s");
    (void)snprintf(row, sizeof row, "acknowledged, %zu x %zu", conns,
                   depth); /* fits */
    print_row(row, "ceiling, group commit", &y, &x, 1e-3, "k/s");
}

static double
p50_us(struct acked *a)
{
    qsort(a->latency_ns, a->latencies, sizeof a->latency_ns[0],
          compare_latencies);
    return a->latency_ns[a->latencies / 2] / 1e3;
}

static void
run_latency(struct subject *s, struct sink *group)
{
    static struct acked a;
    struct series x = {.count = 0}, y = {.count = 0};
    size_t i;

    a.conns = 1;
    a.depth = 1;
    a.latency_ns = calloc(LATENCIES, sizeof a.latency_ns[0]);
    if (!a.latency_ns)
        die("memory");
    for (i = 0; i < rounds; i++) {
        (void)acked(&a, daemon_port(&s->writer, "ack")); /* latencies count */
        x.at[x.count++] = p50_us(&a);
        empty_logs(s);
        (void)acked(&a, group->port); /* likewise */
        y.at[y.count++] = p50_us(&a);
    }
    free(a.latency_ns);
    printf("acknowledged, 1 connection, depth 1: p50\n");
    print_row("", "countd-write", &x, NULL, 1, "us ");
    print_row("acknowledged, 1 x 1, p50", "ceiling, group commit", &y, &x, 1,
              "us");
}

int
main(int argc, char **argv)
{
    static struct sink sinks[CEILINGS];
    struct subject subject = {.log_fd = -1};
    const char *build = getenv("BUILD");
    struct tmpdir folder;
    int files[FILES], i;

    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            rounds = 3;
            blast_count = 500000;
            acked_ms = 300;
        } else {
            build = argv[i];
        }
    }
    /* The programs, and a disk: /tmp may be memory. */
    if (build &&
        (setenv("BUILD", build, 1) < 0 || setenv("TMPDIR", build, 0) < 0))
        die("environment");
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* only looks */
    tmpdir_make(&folder);
    make_ring();
    make_files(files, folder.path);
    for (i = 0; i < CEILINGS; i++)
        sink_start(&sinks[i], (enum ceiling)i, files);
    subject_start(&subject, folder.path);

    run_silent(&subject, sinks);
    run_acked(&subject, &sinks[GROUP], 50, 16);
    run_acked(&subject, &sinks[GROUP], 4, 512);
    run_latency(&subject, &sinks[GROUP]);

    printf("memory of countd-write: %.1f MB\n",
           (double)daemon_memory(&subject.writer) / (1 << 20));
    i = daemon_stop(&subject.writer);
    logdir_close(&subject.dir);
    close(subject.log_fd);
    daemon_fini(&subject.writer);
    for (size_t k = 0; k < CEILINGS; k++) {
        kill(sinks[k].pid, SIGKILL);
        waitpid(sinks[k].pid, NULL, 0);
    }
    tmpdir_remove(&folder);
    free(ring);
    return i == 0 ? 0 : 1;
}
