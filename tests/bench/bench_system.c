/* tests/bench/bench_system.c - end to end: increments received until readable,
 * and the memory of each daemon while they are.
 *
 *     bench_system [--quick]
 *
 * A million keys in a hundred keyspaces, once filled, then rounds in turn:
 *
 *     durable  8 connections to the acknowledging port, random keys; until the
 *              last WIN has come and a range says that all of it is in
 *     silent   the same to the silent port, whose end is told by the sum of
 *              the counts
 *     redis    ZINCRBY of the same keys, 50 connections, 64 commands ahead on
 *              each, no persistence; where redis-server is installed
 *
 * Medians of the rounds.  $TMPDIR (or /tmp) takes some gigabytes.  For both
 * sides on one processor run it under `taskset -c 0`.  Prints, judges nothing.
 */
#include "tests/lib/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/bench/await_logs.h"
#include "tests/bench/report.h"
#include "tests/lib/client.h"
#include "tests/lib/fleet.h"
#include "tests/lib/random.h"

#define KEYSPACES   100
#define ROUNDS      5
#define CONNS       8
#define AHEAD       4096 /* messages without an answer, per connection */
#define CHUNK       128  /* messages per send */
#define REDIS_CONNS 50
#define REDIS_AHEAD 64

struct sizes {
    uint64_t keys;
    uint64_t increments; /* of one round of countd */
    uint64_t commands;   /* of one round of redis */
};

struct peer {
    int fd;
    uint64_t sent, answered; /* messages, or commands */
    uint64_t bytes;          /* of answers */
    size_t out_at, out_size;
    uint8_t out[CHUNK * CLIENT_MESSAGE_SIZE];
};

struct bench {
    struct sizes sizes;
    struct fleet fleet;
    struct daemon redis;
    uint16_t redis_port; /* 0: not there */
    struct random random;
    struct peer peers[REDIS_CONNS];
    uint64_t peak[3]; /* bytes of write, worker, read */
    uint64_t total;   /* increments sent so far */
};

static const enum fleet_role measured[3] = {FLEET_WRITE, FLEET_WORKER,
                                            FLEET_READ};

/* ---- memory ------------------------------------------------------------- */

static void
look_at_memory(struct bench *b)
{
    size_t i;

    for (i = 0; i < 3; i++) {
        uint64_t now = daemon_memory(fleet_daemon(&b->fleet, measured[i]));

        b->peak[i] = now > b->peak[i] ? now : b->peak[i];
    }
}

/* ---- countd ------------------------------------------------------------- */

static void
put_key(uint8_t *message, uint64_t key)
{
    char keyspace[16], name[24];

    (void)snprintf(keyspace, sizeof keyspace, "bench:%02u",
                   (unsigned)(key % KEYSPACES)); /* fits */
    (void)snprintf(name, sizeof name, "key:%012llu",
                   (unsigned long long)key); /* fits */
    memcpy(message + 8, keyspace, 8);
    memcpy(message + 264, name, 16);
}

/* The next messages of a connection; `fill`: every key in turn. */
static void
make_chunk(struct bench *b, struct peer *p, uint64_t left, uint64_t from,
           bool fill)
{
    uint64_t n = left < CHUNK ? left : CHUNK, i;

    for (i = 0; i < n; i++)
        put_key(p->out + i * CLIENT_MESSAGE_SIZE,
                fill ? from + i : random_below(&b->random, b->sizes.keys));
    p->out_at = 0;
    p->out_size = n * CLIENT_MESSAGE_SIZE;
    p->sent += n;
}

static void
push(struct peer *p)
{
    ssize_t n = send(p->fd, p->out + p->out_at, p->out_size - p->out_at,
                     MSG_DONTWAIT | MSG_NOSIGNAL);

    if (n < 0 && errno != EAGAIN)
        fail_msg("send: %s", strerror(errno));
    p->out_at += n > 0 ? (size_t)n : 0;
}

static void
pull(struct peer *p, unsigned answer_size)
{
    static uint8_t bytes[65536];
    ssize_t n = recv(p->fd, bytes, sizeof bytes, MSG_DONTWAIT);

    if (n == 0 || (n < 0 && errno != EAGAIN))
        fail_msg("the connection broke");
    p->bytes += n > 0 ? (uint64_t)n : 0;
    p->answered = p->bytes / answer_size;
}

/* Sends `count` increments over all connections; returns when all are
 * answered (or, silently, sent). */
static void
send_increments(struct bench *b, uint64_t count, bool silent, bool fill)
{
    struct pollfd polls[CONNS];
    uint64_t made = 0, open, turns = 0;
    size_t i;

    do {
        open = 0;
        for (i = 0; i < CONNS; i++) {
            struct peer *p = &b->peers[i];

            if (p->out_at == p->out_size && made < count &&
                (silent || p->sent - p->answered < AHEAD)) {
                make_chunk(b, p, count - made, made, fill);
                made += p->out_size / CLIENT_MESSAGE_SIZE;
            }
            polls[i].fd = p->fd;
            polls[i].events =
                (short)((p->out_at < p->out_size ? POLLOUT : 0) |
                        (!silent && p->answered < p->sent ? POLLIN : 0));
            if (!polls[i].events)
                polls[i].fd = -1;
            open += polls[i].fd >= 0;
        }
        if (open > 0 && poll(polls, CONNS, 10000) == 0)
            fail_msg("the writer stands still");
        for (i = 0; i < CONNS && open > 0; i++) {
            if (polls[i].revents & POLLOUT)
                push(&b->peers[i]);
            if (polls[i].revents & POLLIN)
                pull(&b->peers[i], 3);
        }
        if (++turns % 2000 == 0)
            look_at_memory(b);
    } while (open > 0 || made < count);
    b->total += count;
}

/* Waits until each keyspace has all that was in the logs at `unix_ms`: their
 * as_of_ms say nothing of each other.  Returns the sum of their counts. */
static int64_t
await_all(int fd, int64_t unix_ms)
{
    int64_t sum = 0;
    char keyspace[16];

    for (unsigned i = 0; i < KEYSPACES; i++) {
        (void)snprintf(keyspace, sizeof keyspace, "bench:%02u", i); /* fits */
        client_await_merge(fd, keyspace, unix_ms, 600000);
        sum += client_total(fd, keyspace);
    }
    return sum;
}

/* Until all that was sent can be read. */
static void
await_readable(struct bench *b, bool silent)
{
    int fd = client_connect(fleet_read_port(&b->fleet));
    int64_t now, sum;

    /* The silent port says nothing: the counts have to. */
    do {
        now = (int64_t)clock_unix_ms();
        daemon_signal(fleet_daemon(&b->fleet, FLEET_WRITE), SIGUSR2);
        sum = await_all(fd, now);
        look_at_memory(b);
    } while (silent && sum < (int64_t)b->total);
    assert_int_equal(sum, (int64_t)b->total);
    client_close(fd);
}

/* Increments per second of one round. */
static double
run_countd(struct bench *b, uint64_t count, bool silent, bool fill)
{
    uint16_t port =
        silent ? fleet_silent_port(&b->fleet) : fleet_ack_port(&b->fleet);
    uint64_t start;
    double seconds;
    size_t i, k;

    for (i = 0; i < CONNS; i++) {
        memset(&b->peers[i], 0, sizeof b->peers[i]);
        b->peers[i].fd = client_connect(port);
        for (k = 0; k < CHUNK; k++)
            b->peers[i].out[k * CLIENT_MESSAGE_SIZE] = 1;
    }
    start = clock_ns();
    send_increments(b, count, silent, fill);
    await_readable(b, silent);
    seconds = (double)(clock_ns() - start) / 1e9;
    for (i = 0; i < CONNS; i++)
        client_close(b->peers[i].fd);
    return (double)count / seconds;
}

/* ---- redis -------------------------------------------------------------- */

/* A port that was free a moment ago: redis takes no port 0. */
static uint16_t
free_port(void)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (struct sockaddr *)&at, size) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &size) < 0)
        fail_msg("no free port: %s", strerror(errno));
    client_close(fd);
    return ntohs(at.sin_port);
}

static void
start_redis(struct bench *b)
{
    static const char *const paths[] = {"/usr/bin/redis-server",
                                        "/usr/local/bin/redis-server"};
    char port[8];
    const char *argv[] = {"--port",       port,     "--bind",
                          "127.0.0.1",    "--save", "",
                          "--appendonly", "no",     NULL};
    struct daemon_how how = {.argv = argv, .not_ready = true};
    const char *path = NULL;
    uint64_t deadline;
    size_t i;
    int fd;

    b->redis.output = -1;
    for (i = 0; i < 2 && !path; i++)
        path = access(paths[i], X_OK) == 0 ? paths[i] : NULL;
    if (!path) {
        printf("redis-server is not installed: countd alone\n");
        return;
    }
    b->redis_port = free_port();
    (void)snprintf(port, sizeof port, "%u", b->redis_port); /* fits */
    (void)daemon_start_how(&b->redis, path, &how); /* fails by itself */
    for (deadline = clock_ms() + 10000; clock_ms() < deadline;) {
        fd = client_try_connect(b->redis_port);
        if (fd >= 0) {
            client_close(fd);
            return;
        }
        (void)poll(NULL, 0, 10); /* paces the trying */
    }
    fail_msg("redis-server does not listen");
}

/* The next commands of a connection. */
static void
make_commands(struct bench *b, struct peer *p, uint64_t left, uint64_t from,
              bool fill)
{
    uint64_t n = REDIS_AHEAD - (p->sent - p->answered), i, key;
    char *at = (char *)p->out;

    n = n < left ? n : left;
    for (i = 0; i < n; i++) {
        key = fill ? from + i : random_below(&b->random, b->sizes.keys);
        at += sprintf(at,
                      "*4\r\n$7\r\nZINCRBY\r\n$8\r\nbench:%02u\r\n$1\r\n1\r\n"
                      "$16\r\nkey:%012llu\r\n",
                      (unsigned)(key % KEYSPACES), (unsigned long long)key);
    }
    p->out_at = 0;
    p->out_size = (size_t)(at - (char *)p->out);
    p->sent += n;
}

/* An answer is two lines: counts their ends. */
static void
pull_redis(struct peer *p)
{
    static char bytes[65536];
    ssize_t n = recv(p->fd, bytes, sizeof bytes, MSG_DONTWAIT), i;

    if (n == 0 || (n < 0 && errno != EAGAIN))
        fail_msg("redis hung up");
    for (i = 0; i < n; i++)
        p->bytes += bytes[i] == '\n';
    p->answered = p->bytes / 2;
}

static double
run_redis(struct bench *b, uint64_t count, bool fill)
{
    struct pollfd polls[REDIS_CONNS];
    uint64_t made = 0, done, start;
    size_t i;

    for (i = 0; i < REDIS_CONNS; i++) {
        memset(&b->peers[i], 0, sizeof b->peers[i]);
        b->peers[i].fd = client_connect(b->redis_port);
    }
    start = clock_ns();
    do {
        done = 0;
        for (i = 0; i < REDIS_CONNS; i++) {
            struct peer *p = &b->peers[i];

            /* Half a window at once, as a pipelining client does. */
            if (p->out_at == p->out_size && made < count &&
                p->sent - p->answered <= REDIS_AHEAD / 2) {
                uint64_t before = p->sent;

                make_commands(b, p, count - made, made, fill);
                made += p->sent - before;
            }
            polls[i] = (struct pollfd){
                .fd = p->fd,
                .events =
                    (short)(POLLIN | (p->out_at < p->out_size ? POLLOUT : 0))};
            done += p->answered;
        }
        if (done < count && poll(polls, REDIS_CONNS, 10000) == 0)
            fail_msg("redis stands still");
        for (i = 0; i < REDIS_CONNS && done < count; i++) {
            if (polls[i].revents & POLLOUT)
                push(&b->peers[i]);
            if (polls[i].revents & POLLIN)
                pull_redis(&b->peers[i]);
        }
    } while (done < count);
    for (i = 0; i < REDIS_CONNS; i++)
        client_close(b->peers[i].fd);
    return (double)count / ((double)(clock_ns() - start) / 1e9);
}

/* ---- the rounds ---------------------------------------------------------- */

static int
by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;

    return (*x > *y) - (*x < *y);
}

static double
median(double *values)
{
    qsort(values, ROUNDS, sizeof *values, by_value);
    return values[ROUNDS / 2];
}

static void
show(const char *what, double *rates, double redis)
{
    double middle = median(rates);

    printf("%-34s %10.0f /s  (%.0f to %.0f)", what, middle, rates[0],
           rates[ROUNDS - 1]);
    if (redis > 0) {
        printf("  %.1f x redis", middle / redis);
        report_row(what, "/s", middle, "redis", redis, middle / redis);
    }
    printf("\n");
}

static void
run(struct bench *b)
{
    double durable[ROUNDS], silent[ROUNDS], redis[ROUNDS], base = 0;
    unsigned i;

    (void)run_countd(b, b->sizes.keys, false, true); /* not measured */
    if (b->redis_port)
        (void)run_redis(b, b->sizes.keys, true); /* likewise */
    for (i = 0; i < ROUNDS; i++) {
        durable[i] = run_countd(b, b->sizes.increments, false, false);
        if (b->redis_port)
            redis[i] = run_redis(b, b->sizes.commands, false);
        silent[i] = run_countd(b, b->sizes.increments, true, false);
    }
    if (b->redis_port) {
        base = median(redis);
        show("redis ZINCRBY, in memory only", redis, 0);
    }
    show("countd, durable, until readable", durable, base);
    show("countd, silent, until readable", silent, base);
}

static void
show_memory(struct bench *b)
{
    static const char *const names[3] = {"countd-write", "countd-worker",
                                         "countd-read"};
    size_t i;

    printf("peak anonymous memory:");
    for (i = 0; i < 3; i++)
        printf(" %s %.1f MB", names[i], (double)b->peak[i] / 1e6);
    if (b->redis_port)
        printf(", redis-server %.1f MB",
               (double)daemon_memory(&b->redis) / 1e6);
    printf("\n");
}

int
main(int argc, char **argv)
{
    static struct bench b = {
        .sizes = {.keys = 1000000, .increments = 4000000, .commands = 500000},
        .random = {1}};
    size_t i;

    if (argc > 1 && strcmp(argv[1], "--quick") == 0)
        b.sizes = (struct sizes){100000, 400000, 50000};
    fleet_init(&b.fleet);
    fleet_option(&b.fleet, "log.size=32M");
    fleet_option(&b.fleet, "log.rotate_after=1s");
    for (i = 0; i < 3; i++)
        fleet_start(&b.fleet, measured[i]);
    await_logs(b.fleet.path, 4);
    start_redis(&b);
    printf(
        "%llu keys in %d keyspaces, %llu increments a round, medians of %d\n",
        (unsigned long long)b.sizes.keys, KEYSPACES,
        (unsigned long long)b.sizes.increments, ROUNDS);
    run(&b);
    show_memory(&b);
    if (b.redis_port)
        daemon_fini(&b.redis);
    fleet_stop_all(&b.fleet);
    fleet_fini(&b.fleet);
    return 0;
}
