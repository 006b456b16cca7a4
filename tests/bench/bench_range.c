/* tests/bench/bench_range.c - ranges of a large keyspace: countd-read, Redis
 * where redis-server is installed, and a server that does nothing but send.
 *
 *     bench_range [--quick] [--keys N] [BUILD_DIR [DIR]]
 *
 * N counters (10 million; 1 million with --quick) of 20-byte keys.  Each case
 * asks all servers in turn, several rounds: a range of 100 rows with counts
 * (Redis: ZREVRANGE ... WITHSCORES), at the start or in the middle, on 1 or 50
 * connections, 1 or 16 requests in flight on each.  All servers get the same
 * client: it learns the size of the answer once and then counts bytes.
 *
 * Then: anonymous memory of countd-read, and the time from its start to its
 * first answer with 100 full logs waiting.
 *
 * BUILD_DIR (default $BUILD) holds countd-read; in DIR (default: /var/tmp) a
 * folder is made, and removed at the end.  For both sides on one processor
 * run it under `taskset -c 0`.  Prints, judges nothing. */
#include <arpa/inet.h>
#include <errno.h>
#include <ftw.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/log/log.h"
#include "common/log/log_create.h"
#include "common/log/slot.h"
#include "common/setup/datadir.h"
#include "common/store/lmdb/lmdb_store.h"
#include "common/wire/query.h"
#include "tests/bench/report.h"

#define KEY_SIZE    20
#define ROWS        100
#define LOAD_BATCH  500000
#define CONNS_MAX   50
#define DEPTH_MAX   16
#define ROUNDS_MAX  9
#define BUFFER_SIZE ((size_t)1 << 20)
#define SERVERS     3
#define LOGS        100
#define LOG_SIZE    ((uint64_t)1 << 20)
#define STARTS      11
#define WAIT_MS     600000

static const uint8_t *const keyspace = (const uint8_t *)"bench";

struct server {
    const char *name;
    pid_t pid; /* 0: not there */
    uint16_t port;
    uint8_t request[QUERY_SIZE];
    size_t request_size;
    size_t reply_size; /* learnt */
};

enum { CEILING, REDIS, COUNTD };

struct bench {
    char dir[512];
    char build[512];
    uint64_t keys;
    unsigned rounds;
    unsigned round_ms;
    struct datadir datadir;
    struct server servers[SERVERS];
    uint64_t anonymous_kib; /* the most seen of countd-read */
};

struct figures {
    double rate[ROUNDS_MAX];
    double p50[ROUNDS_MAX]; /* microseconds, of one round trip */
    double p99[ROUNDS_MAX];
    double cpu[ROUNDS_MAX]; /* microseconds of the server, per answer */
};

static struct bench bench;
static uint8_t buffer[BUFFER_SIZE];
static pid_t owner; /* a child that fails must not end the others */

/* ---- trouble ----------------------------------------------------------- */

static int
remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
    (void)st;
    (void)flag;
    (void)ftw;
    (void)remove(path); /* what stays is seen in DIR */
    return 0;
}

static void
end_server(struct server *s)
{
    if (s->pid <= 0)
        return;
    /* It is our child, and if it has ended waitpid says so. */
    (void)kill(s->pid, SIGTERM);
    (void)waitpid(s->pid, NULL, 0);
    s->pid = 0;
}

static void
tidy(void)
{
    if (getpid() != owner)
        return;
    for (int i = 0; i < SERVERS; i++)
        end_server(&bench.servers[i]);
    if (bench.dir[0])
        (void)nftw(bench.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void
check(long rc, const char *what)
{
    if (rc >= 0)
        return;
    (void)fprintf(stderr, "bench_range: %s: %s\n", what, strerror((int)-rc));
    exit(111);
}

static long
sys(long rc)
{
    return rc < 0 ? -errno : rc;
}

static void *
need(size_t size)
{
    void *p = malloc(size);

    if (!p)
        check(-ENOMEM, "memory");
    return p;
}

/* ---- the keyspace ------------------------------------------------------ */

static void
key_put(uint8_t *at, uint64_t id)
{
    memcpy(at, "key:____", 8);
    for (int i = KEY_SIZE - 1; i >= 8; i--, id /= 10)
        at[i] = (uint8_t)('0' + id % 10);
}

/* A count for each key: distinct (the factor is a prime above `keys`), and in
 * no order that the keys have. */
static uint64_t
count_of(const struct bench *b, uint64_t id)
{
    return 1 + id * 2654435761u % b->keys;
}

static void
fill_store(const struct bench *b)
{
    const struct lmdb_options o = {.keyspace_fd = b->datadir.keyspace_fd,
                                   .keyspace_size = 256,
                                   .key_size = 256,
                                   .writable = true,
                                   .open_max = 4,
                                   .txn_memory = (size_t)256 << 20};
    struct store_delta *deltas = need(LOAD_BATCH * sizeof *deltas);
    uint8_t *bytes = need((size_t)LOAD_BATCH * KEY_SIZE);
    struct store_batch batch = {
        .name = keyspace, .name_size = 5, .deltas = deltas};
    struct store_applied applied;
    struct store *s;
    uint64_t n;

    check(lmdb_store_open(&s, &o), "open the store");
    for (uint64_t id = 0; id < b->keys; id += n) {
        n = b->keys - id < LOAD_BATCH ? b->keys - id : LOAD_BATCH;
        for (uint64_t i = 0; i < n; i++) {
            key_put(bytes + i * KEY_SIZE, id + i);
            deltas[i] = (struct store_delta){.key = bytes + i * KEY_SIZE,
                                             .key_size = KEY_SIZE,
                                             .sum_low = count_of(b, id + i)};
        }
        batch.delta_count = n;
        check(store_apply(s, &batch, &applied), "apply");
    }
    store_close(s);
    free(bytes);
    free(deltas);
}

/* ---- children ---------------------------------------------------------- */

/* A child that dies with us; its output goes nowhere but for errors. */
static pid_t
spawn(const char *const *argv)
{
    pid_t pid;

    (void)fflush(stdout); /* or the child would print it again */
    pid = fork();
    check(sys(pid), "fork");
    if (pid > 0)
        return pid;
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
        !freopen("/dev/null", "w", stdout))
        _exit(111);
    /* execvp takes what it does not change. */
    (void)execvp(argv[0], (char *const *)(uintptr_t)argv);
    _exit(127);
}

static int
connect_to(uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                            .sin_port = htons(port)};
    const int one = 1;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    check(sys(fd), "socket");
    if (connect(fd, (struct sockaddr *)&a, sizeof a) < 0) {
        (void)close(fd); /* a socket */
        return -1;
    }
    check(sys(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one)),
          "no delay");
    return fd;
}

static int
listen_any(uint16_t *port)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof a;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    check(sys(fd), "socket");
    check(sys(bind(fd, (struct sockaddr *)&a, size)), "bind");
    check(sys(listen(fd, 128)), "listen");
    check(sys(getsockname(fd, (struct sockaddr *)&a, &size)), "port");
    *port = ntohs(a.sin_port);
    return fd;
}

/* Starts countd-read and waits until it serves. */
static void
start_countd(struct bench *b)
{
    struct server *s = &b->servers[COUNTD];
    char program[600], fd_text[16], text[256] = {0};
    int ready[2];
    const char *const argv[] = {
        program,      "-d",    b->dir, "-o", "read.listen=127.0.0.1:0",
        "--ready-fd", fd_text, NULL};
    ssize_t n;
    size_t have = 0;

    (void)snprintf(program, sizeof program, "%s/countd-read", b->build);
    check(sys(pipe(ready)), "pipe");
    (void)snprintf(fd_text, sizeof fd_text, "%d", ready[1]);
    s->pid = spawn(argv);
    (void)close(ready[1]); /* the child's */
    while (!strstr(text, "\n\n") && have < sizeof text - 1) {
        n = read(ready[0], text + have, sizeof text - 1 - have);
        if (n <= 0)
            break;
        have += (size_t)n;
    }
    (void)close(ready[0]); /* read to its end */
    if (sscanf(text, "read=127.0.0.1:%hu", &s->port) != 1)
        check(-ECHILD, "start countd-read");
}

/* Answers every QUERY_SIZE bytes with the same bytes, one send per receive. */
static void
serve_ceiling(int listen_fd, size_t reply_size)
{
    static uint8_t in[DEPTH_MAX * QUERY_SIZE], out[BUFFER_SIZE];
    static size_t have[1024];
    struct epoll_event events[64], event = {.events = EPOLLIN};
    const int epoll = epoll_create1(EPOLL_CLOEXEC);

    event.data.fd = listen_fd;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, listen_fd, &event) < 0)
        _exit(111);
    for (;;) {
        const int count = epoll_wait(epoll, events, 64, -1);

        for (int i = 0; i < count; i++) {
            int fd = events[i].data.fd;
            size_t size;
            ssize_t n;

            if (fd == listen_fd) {
                fd = accept(listen_fd, NULL, NULL);
                event.data.fd = fd;
                if (fd < 0 || fd >= 1024 ||
                    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0)
                    _exit(111);
                have[fd] = 0;
                continue;
            }
            n = recv(fd, in, sizeof in, 0);
            if (n <= 0) {
                (void)close(fd); /* a socket */
                continue;
            }
            have[fd] += (size_t)n;
            size = have[fd] / QUERY_SIZE * reply_size;
            have[fd] %= QUERY_SIZE;
            if (size > 0 && send(fd, out, size, MSG_NOSIGNAL) < 0)
                (void)close(fd); /* a socket */
        }
    }
}

static void
start_ceiling(struct bench *b, size_t reply_size)
{
    struct server *s = &b->servers[CEILING];
    const int fd = listen_any(&s->port);

    (void)fflush(stdout); /* or the child would print it again */
    s->pid = fork();
    check(sys(s->pid), "fork");
    if (s->pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
            _exit(111);
        serve_ceiling(fd, reply_size);
    }
    (void)close(fd); /* the child's */
}

/* ---- Redis ------------------------------------------------------------- */

static void
send_whole(int fd, const void *bytes, size_t size)
{
    size_t at = 0;
    long n;

    while (at < size) {
        n = sys(send(fd, (const char *)bytes + at, size - at, MSG_NOSIGNAL));
        check(n, "send");
        at += (size_t)n;
    }
}

/* Loads the zset with ZADD of many members at a time. */
static void
load_redis(const struct bench *b, int fd)
{
    enum { MEMBERS = 1000, SIZE = MEMBERS * 64 + 64 };
    char *text = need(SIZE);
    uint8_t key[KEY_SIZE];
    uint64_t n;
    size_t size;
    char score[24];

    for (uint64_t id = 0; id < b->keys; id += n) {
        n = b->keys - id < MEMBERS ? b->keys - id : MEMBERS;
        size = (size_t)sprintf(text, "*%u\r\n$4\r\nZADD\r\n$5\r\nbench\r\n",
                               (unsigned)(2 + 2 * n));
        for (uint64_t i = 0; i < n; i++) {
            const int digits =
                sprintf(score, "%llu", (unsigned long long)count_of(b, id + i));

            key_put(key, id + i);
            size += (size_t)sprintf(text + size, "$%d\r\n%s\r\n$%d\r\n%.*s\r\n",
                                    digits, score, KEY_SIZE, KEY_SIZE,
                                    (const char *)key);
        }
        send_whole(fd, text, size);
        check(sys(recv(fd, buffer, sizeof buffer, MSG_DONTWAIT)) == -EPIPE ? -1
                                                                           : 0,
              "redis");
    }
    send_whole(fd, "*1\r\n$4\r\nPING\r\n", 14);
    for (size = 0; !memmem(buffer, size, "+PONG", 5);) {
        const long got = sys(recv(fd, buffer + size, sizeof buffer - size, 0));

        check(got > 0 ? 0 : -EPIPE, "load redis");
        size += (size_t)got;
    }
    free(text);
}

/* False when it is not installed. */
static bool
start_redis(struct bench *b)
{
    struct server *s = &b->servers[REDIS];
    const uint64_t end_ms = clock_ms() + 10000;
    char port[8];
    const char *const argv[] = {
        "redis-server", "--port", port,    "--bind", "127.0.0.1", "--save", "",
        "--appendonly", "no",     "--dir", b->dir,   NULL};
    int fd = listen_any(&s->port);

    (void)close(fd); /* the port is free now */
    (void)snprintf(port, sizeof port, "%u", s->port);
    s->pid = spawn(argv);
    while ((fd = connect_to(s->port)) < 0) {
        if (waitpid(s->pid, NULL, WNOHANG) == s->pid) {
            s->pid = 0;
            return false;
        }
        check(clock_ms() < end_ms ? 0 : -ETIMEDOUT, "start redis");
    }
    load_redis(b, fd);
    (void)close(fd); /* a socket */
    return true;
}

/* ---- the client -------------------------------------------------------- */

static void
make_requests(struct bench *b, uint64_t offset)
{
    const struct query q = {.op = QUERY_RANGE,
                            .offset = (int64_t)offset,
                            .length = ROWS,
                            .keyspace = keyspace,
                            .keyspace_size = 5};
    char start[24], stop[24];
    struct server *s = &b->servers[REDIS];

    b->servers[COUNTD].request_size =
        (size_t)query_put(&q, b->servers[COUNTD].request);
    b->servers[CEILING].request_size = QUERY_SIZE;
    (void)snprintf(start, sizeof start, "%llu", (unsigned long long)offset);
    (void)snprintf(stop, sizeof stop, "%llu",
                   (unsigned long long)offset + ROWS - 1);
    s->request_size = (size_t)snprintf(
        (char *)s->request, sizeof s->request,
        "*5\r\n$9\r\nZREVRANGE\r\n$5\r\nbench\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n"
        "$10\r\nWITHSCORES\r\n",
        strlen(start), start, strlen(stop), stop);
}

/* Size of the whole answer at `buffer`; 0 while it is not whole. */
static size_t
countd_reply(size_t have)
{
    struct query_reply r;

    if (have < QUERY_REPLY_SIZE)
        return 0;
    query_reply_get(buffer, &r);
    check(r.rows == ROWS ? 0 : -EPROTO, "answer of countd-read");
    return have < QUERY_REPLY_SIZE + (size_t)r.size
               ? 0
               : QUERY_REPLY_SIZE + (size_t)r.size;
}

static size_t
redis_reply(size_t have)
{
    size_t lines = 0;

    check(have < 5 || memcmp(buffer, "*200\r", 5) == 0 ? 0 : -EPROTO,
          "answer of redis");
    for (size_t at = 0; at < have; at++)
        if (buffer[at] == '\n' && ++lines == 1 + 2 * 2 * ROWS)
            return at + 1;
    return 0;
}

/* Asks once and learns how large the answer is. */
static void
learn(struct bench *b, int which)
{
    struct server *s = &b->servers[which];
    const int fd = connect_to(s->port);
    size_t have = 0;
    long n;

    check(sys(fd), "connect");
    send_whole(fd, s->request, s->request_size);
    do {
        n = sys(recv(fd, buffer + have, sizeof buffer - have, 0));
        check(n > 0 ? 0 : -EPIPE, "first answer");
        have += (size_t)n;
        s->reply_size = which == REDIS ? redis_reply(have) : countd_reply(have);
    } while (s->reply_size == 0);
    (void)close(fd); /* a socket */
}

struct load {
    int epoll;
    unsigned conns, depth;
    int fds[CONNS_MAX];
    size_t left[CONNS_MAX]; /* bytes of the answers in flight */
    uint64_t sent_ns[CONNS_MAX];
    uint8_t batch[DEPTH_MAX * QUERY_SIZE];
    size_t batch_size;
    uint64_t answered;
    uint32_t *latencies; /* nanoseconds */
    size_t latency_count, latency_max;
};

static void
ask(struct load *l, const struct server *s, unsigned conn)
{
    l->sent_ns[conn] = clock_ns();
    l->left[conn] = l->depth * s->reply_size;
    send_whole(l->fds[conn], l->batch, l->batch_size);
}

static void
take(struct load *l, const struct server *s, unsigned conn)
{
    const long n = sys(recv(l->fds[conn], buffer, sizeof buffer, 0));

    check(n > 0 ? 0 : -EPIPE, "receive");
    check((size_t)n <= l->left[conn] ? 0 : -EPROTO, "size of answers");
    l->left[conn] -= (size_t)n;
    if (l->left[conn] > 0)
        return;
    l->answered += l->depth;
    if (l->latency_count < l->latency_max)
        l->latencies[l->latency_count++] =
            (uint32_t)(clock_ns() - l->sent_ns[conn]);
    ask(l, s, conn);
}

static int
by_size(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return x < y ? -1 : x > y;
}

static void
open_load(struct load *l, const struct server *s)
{
    struct epoll_event event = {.events = EPOLLIN};

    l->epoll = epoll_create1(EPOLL_CLOEXEC);
    check(sys(l->epoll), "epoll");
    l->batch_size = 0;
    for (unsigned i = 0; i < l->depth; i++) {
        memcpy(l->batch + l->batch_size, s->request, s->request_size);
        l->batch_size += s->request_size;
    }
    for (unsigned i = 0; i < l->conns; i++) {
        l->fds[i] = connect_to(s->port);
        check(sys(l->fds[i]), "connect");
        event.data.u32 = i;
        check(sys(epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->fds[i], &event)),
              "epoll");
    }
}

/* Nanoseconds a process with one thread has run; what it could do alone on a
 * machine where it now is not. */
static double
cpu_ns(pid_t pid)
{
    unsigned long long ns = 0;
    char path[64];
    FILE *f;

    (void)snprintf(path, sizeof path, "/proc/%d/schedstat", (int)pid);
    f = fopen(path, "re");
    if (!f)
        return 0;
    if (fscanf(f, "%llu", &ns) != 1)
        ns = 0;
    (void)fclose(f); /* read only */
    return (double)ns;
}

/* One round against one server. */
static void
measure(const struct bench *b, const struct server *s, unsigned conns,
        unsigned depth, struct figures *f, unsigned round)
{
    static struct load l;
    struct epoll_event events[CONNS_MAX];
    uint64_t start_ns, end_ns;
    double cpu;
    int n;

    l = (struct load){.conns = conns, .depth = depth, .latency_max = 1 << 20};
    l.latencies = need(l.latency_max * sizeof *l.latencies);
    open_load(&l, s);
    cpu = cpu_ns(s->pid);
    start_ns = clock_ns();
    end_ns = start_ns + (uint64_t)b->round_ms * 1000000;
    for (unsigned i = 0; i < conns; i++)
        ask(&l, s, i);
    while (clock_ns() < end_ns) {
        n = epoll_wait(l.epoll, events, CONNS_MAX, 10000);
        check(n > 0 ? 0 : -ETIMEDOUT, "wait for answers");
        for (int i = 0; i < n; i++)
            take(&l, s, events[i].data.u32);
    }
    f->rate[round] = (double)l.answered * 1e9 / (double)(clock_ns() - start_ns);
    f->cpu[round] = (cpu_ns(s->pid) - cpu) / 1e3 / (double)(l.answered + 1);
    for (unsigned i = 0; i < conns; i++)
        (void)close(l.fds[i]); /* sockets */
    (void)close(l.epoll);      /* holds nothing */
    qsort(l.latencies, l.latency_count, sizeof *l.latencies, by_size);
    if (l.latency_count > 0) {
        f->p50[round] = l.latencies[l.latency_count / 2] / 1e3;
        f->p99[round] = l.latencies[l.latency_count * 99 / 100] / 1e3;
    }
    free(l.latencies);
}

/* ---- cases and figures ------------------------------------------------- */

static int
by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double
median(double *values, unsigned count)
{
    qsort(values, count, sizeof *values, by_value);
    return values[count / 2];
}

static void
note_memory(struct bench *b)
{
    char path[64], line[256];
    unsigned long long kib;
    FILE *f;

    (void)snprintf(path, sizeof path, "/proc/%d/smaps_rollup",
                   (int)b->servers[COUNTD].pid);
    f = fopen(path, "re");
    if (!f)
        return;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "Anonymous: %llu kB", &kib) == 1 &&
            kib > b->anonymous_kib)
            b->anonymous_kib = kib;
    (void)fclose(f); /* read only */
}

static void
run_case(struct bench *b, const char *where, unsigned conns, unsigned depth)
{
    static struct figures f[SERVERS];
    double rate[SERVERS] = {0};
    char row[64];

    for (unsigned round = 0; round < b->rounds; round++)
        for (int i = 0; i < SERVERS; i++)
            if (b->servers[i].pid)
                measure(b, &b->servers[i], conns, depth, &f[i], round);
    note_memory(b);
    (void)printf("%-6s %2u x %-2u", where, conns, depth);
    for (int i = 0; i < SERVERS; i++) {
        if (!b->servers[i].pid) {
            (void)printf(" | %-8s -", b->servers[i].name);
            continue;
        }
        rate[i] = median(f[i].rate, b->rounds);
        (void)printf(" | %-8s %8.0f/s (%.0f..%.0f) p50 %.0f p99 %.0f us "
                     "cpu %.2f us",
                     b->servers[i].name, rate[i], f[i].rate[0],
                     f[i].rate[b->rounds - 1], median(f[i].p50, b->rounds),
                     median(f[i].p99, b->rounds), median(f[i].cpu, b->rounds));
    }
    (void)printf(" | of ceiling %.2f", rate[COUNTD] / rate[CEILING]);
    (void)snprintf(row, sizeof row, "range %s, %u x %u", where, conns,
                   depth); /* fits */
    report_row(row, "/s", rate[COUNTD], "ceiling", rate[CEILING],
               rate[COUNTD] / rate[CEILING]);
    if (rate[REDIS] > 0) {
        (void)printf(", of redis %.1f", rate[COUNTD] / rate[REDIS]);
        report_row(row, "/s", rate[COUNTD], "redis", rate[REDIS],
                   rate[COUNTD] / rate[REDIS]);
    }
    (void)printf("\n");
    (void)fflush(stdout); /* whoever reads wants it as it comes */
}

static void
run_ranges(struct bench *b)
{
    const uint64_t offsets[] = {0, b->keys / 2};
    static const char *const where[] = {"start", "middle"};
    static const unsigned shapes[][2] = {{50, 1}, {50, 16}, {1, 1}, {1, 16}};

    for (size_t i = 0; i < 2 * sizeof shapes / sizeof shapes[0]; i++) {
        make_requests(b, offsets[i % 2]);
        learn(b, COUNTD);
        b->servers[CEILING].reply_size = b->servers[COUNTD].reply_size;
        if (b->servers[REDIS].pid)
            learn(b, REDIS);
        run_case(b, where[i % 2], shapes[i / 2][0], shapes[i / 2][1]);
    }
}

/* ---- the first answer -------------------------------------------------- */

/* A full log, as a writer leaves it. */
static void
make_log(const struct bench *b, uint64_t index, const struct layout *l)
{
    const uint32_t slots = log_slots(LOG_SIZE, l);
    uint8_t *bytes = calloc(slots, l->slot_size);
    struct message m = {.increment = 1,
                        .keyspace = keyspace,
                        .keyspace_size = 5,
                        .key_size = KEY_SIZE};
    struct slot_stamp stamp = {.received_ms = clock_unix_ms()};
    uint8_t key[KEY_SIZE];
    struct message in;
    struct log log;

    if (!bytes)
        check(-ENOMEM, "memory");
    check(log_create(b->datadir.log_fd, index, l, slots), "make a log");
    check(log_claim(&log, b->datadir.log_fd, index, LOG_MODE_EMPTY), "claim");
    check(log_begin(&log), "begin a log");
    stamp.epoch = log.header.epoch;
    m.key = key;
    for (uint32_t i = 0; i < slots; i++) {
        uint8_t *slot = bytes + (size_t)i * l->slot_size;

        key_put(key, index * slots + i);
        check(message_put(l, &m, slot), "message");
        check(message_parse(l, slot, &in), "message");
        slot_put(l, slot, &in, log.header.uuid, i, &stamp);
    }
    check(log_append(&log, bytes, slots, stamp.received_ms, stamp.received_ms),
          "fill a log");
    check(log_seal(&log), "seal a log");
    check(log_release(&log), "release a log");
    free(bytes);
}

static void
run_starts(struct bench *b)
{
    double ms[STARTS], middle;
    struct layout l;
    uint64_t start_ns;

    check(layout_init(&l, 256, 256), "layout");
    end_server(&b->servers[COUNTD]);
    for (uint64_t i = 0; i < LOGS; i++)
        make_log(b, i, &l);
    for (int i = 0; i < STARTS; i++) {
        start_ns = clock_ns();
        start_countd(b);
        learn(b, COUNTD);
        ms[i] = (double)(clock_ns() - start_ns) / 1e6;
        end_server(&b->servers[COUNTD]);
    }
    middle = median(ms, STARTS); /* sorts them */
    (void)printf("first answer after a start, %d full logs of %llu KiB "
                 "unmerged: %.1f ms (%.1f..%.1f, n=%d)\n",
                 LOGS, (unsigned long long)LOG_SIZE / 1024, middle, ms[0],
                 ms[STARTS - 1], STARTS);
}

/* ---- start ------------------------------------------------------------- */

static void
usage(void)
{
    (void)fprintf(
        stderr, "usage: bench_range [--quick] [--keys N] [BUILD_DIR [DIR]]\n");
    exit(100);
}

static void
read_arguments(struct bench *b, int argc, char **argv)
{
    const char *build = getenv("BUILD"), *dir = "/var/tmp";
    int i = 1;

    b->keys = 10000000;
    b->rounds = 5;
    b->round_ms = 1000;
    for (; i < argc && argv[i][0] == '-'; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            b->keys = 1000000;
            b->rounds = 3;
            b->round_ms = 300;
        } else if (strcmp(argv[i], "--keys") == 0 && i + 1 < argc) {
            b->keys = strtoull(argv[++i], NULL, 10);
        } else {
            usage();
        }
    }
    if (i < argc)
        build = argv[i++];
    if (i < argc)
        dir = argv[i++];
    if (i < argc || !build || b->keys < 2 * ROWS || b->keys > 100000000)
        usage();
    (void)snprintf(b->build, sizeof b->build, "%s", build);
    (void)snprintf(b->dir, sizeof b->dir, "%s/bench_range.XXXXXX", dir);
    if (!mkdtemp(b->dir)) {
        check(-errno, b->dir);
        b->dir[0] = 0;
    }
}

int
main(int argc, char **argv)
{
    struct bench *b = &bench;
    uint64_t start_ms;

    owner = getpid();
    b->servers[CEILING].name = "ceiling";
    b->servers[REDIS].name = "redis";
    b->servers[COUNTD].name = "countd";
    read_arguments(b, argc, argv);
    if (atexit(tidy) != 0)
        check(-ENOMEM, "atexit");
    check(datadir_open(&b->datadir, b->dir, DATADIR_WRITE), "data directory");
    start_ms = clock_ms();
    fill_store(b);
    (void)printf("%llu counters stored in %.1f s", (unsigned long long)b->keys,
                 (double)(clock_ms() - start_ms) / 1e3);
    start_ms = clock_ms();
    if (start_redis(b))
        (void)printf(", in redis %.1f s",
                     (double)(clock_ms() - start_ms) / 1e3);
    (void)printf("\nranges of %d rows with counts; connections x in flight; "
                 "median (min..max) of %u rounds;\n"
                 "p50 and p99 of a round trip; cpu of the server per answer\n",
                 ROWS, b->rounds);
    (void)fflush(stdout); /* as below */
    start_countd(b);
    make_requests(b, 0);
    learn(b, COUNTD);
    start_ceiling(b, b->servers[COUNTD].reply_size);
    run_ranges(b);
    (void)printf("anonymous memory of countd-read: %.1f MiB\n",
                 (double)b->anonymous_kib / 1024);
    run_starts(b);
    datadir_close(&b->datadir);
    return 0;
}
