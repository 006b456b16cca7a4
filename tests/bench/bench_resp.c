/* tests/bench/bench_resp.c - countd's RESP port beside redis-server, which
 * appends to a file and syncs it always, or each second.
 *
 *     bench_resp [--quick]
 *
 * A sorted set of 100,000 members at each server, then rounds in turn, 50
 * connections each:
 *
 *     ZINCRBY of random members, 1 and 64 commands ahead on each
 *     ZREVRANGE 0 9 and ZSCORE of random members, 16 ahead
 *
 * Printed: medians of the rounds in commands per second, and the median of the
 * rounds' ratios.  Where redis-server is not installed, countd alone.
 */
#include "tests/lib/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/bench/await_logs.h"
#include "tests/bench/report.h"
#include "tests/bench/series.h"
#include "tests/lib/client.h"
#include "tests/lib/fleet.h"
#include "tests/lib/random.h"

#define CONNS     50
#define MEMBERS   100000
#define AHEAD_MAX 64
#define TEXT_SIZE ((size_t)AHEAD_MAX * 96)
#define LOAD_PART 1000 /* members of one connection's part of the filling */

enum { COUNTD, ALWAYS, EVERYSEC, SERVERS };

static const char *const names[SERVERS] = {"countd", "redis, always",
                                           "redis, everysec"};

enum command { ZINCRBY, ZREVRANGE, ZSCORE };

static const struct {
    const char *name;
    enum command command;
    unsigned ahead;
    unsigned lines; /* of an answer */
} jobs[] = {
    {"ZINCRBY, 1 ahead", ZINCRBY, 1, 2},
    {"ZINCRBY, 64 ahead", ZINCRBY, 64, 2},
    {"ZREVRANGE 0 9, 16 ahead", ZREVRANGE, 16, 21},
    {"ZSCORE, 16 ahead", ZSCORE, 16, 2},
};
#define JOBS (sizeof jobs / sizeof jobs[0])

struct peer {
    int fd;
    uint64_t lines; /* still to come */
};

struct bench {
    struct fleet fleet;
    struct daemon redis[SERVERS];
    uint16_t ports[SERVERS]; /* 0: not there */
    struct peer peers[CONNS];
    struct random random;
    struct series rates[JOBS][SERVERS];
};

/* ---- commands ------------------------------------------------------------ */

static size_t
put_command(char *at, enum command command, uint64_t member)
{
    char name[24];
    const int size = snprintf(name, sizeof name, "member:%06llu",
                              (unsigned long long)member);

    switch (command) {
    case ZINCRBY:
        return (size_t)sprintf(
            at,
            "*4\r\n$7\r\nZINCRBY\r\n$5\r\nboard\r\n$1\r\n1\r\n$%d\r\n%s\r\n",
            size, name);
    case ZREVRANGE:
        return (size_t)sprintf(
            at, "*4\r\n$9\r\nZREVRANGE\r\n$5\r\nboard\r\n$1\r\n0\r\n$1\r\n9"
                "\r\n");
    default:
        return (size_t)sprintf(
            at, "*3\r\n$6\r\nZSCORE\r\n$5\r\nboard\r\n$%d\r\n%s\r\n", size,
            name);
    }
}

/* Receives; returns the lines. */
static uint64_t
receive_lines(const struct peer *p)
{
    static char bytes[65536];
    const ssize_t n = recv(p->fd, bytes, sizeof bytes, 0);
    uint64_t lines = 0;

    if (n <= 0)
        fail_msg("the connection broke: %s", strerror(errno));
    if (bytes[0] == '-')
        fail_msg("answered: %.*s", (int)n, bytes);
    for (const char *at = bytes; at < bytes + n; at++) {
        at = memchr(at, '\n', (size_t)(bytes + n - at));
        if (!at)
            break;
        lines++;
    }
    return lines;
}

static void
connect_all(struct bench *b, size_t server)
{
    for (size_t i = 0; i < CONNS; i++)
        b->peers[i] = (struct peer){.fd = client_connect(b->ports[server])};
}

static void
close_all(struct bench *b)
{
    for (size_t i = 0; i < CONNS; i++)
        client_close(b->peers[i].fd);
}

/* Every member once, with counts that differ. */
static void
fill_server(struct bench *b, size_t server)
{
    char text[96];

    connect_all(b, server);
    for (uint64_t m = 0; m < MEMBERS; m += LOAD_PART) {
        struct peer *p = &b->peers[m / LOAD_PART % CONNS];
        uint64_t lines = 0;

        for (uint64_t i = m; i < m + LOAD_PART; i++)
            client_send(p->fd, text, put_command(text, ZINCRBY, i));
        while (lines < 2 * LOAD_PART)
            lines += receive_lines(p);
    }
    if (server == COUNTD) {
        client_send(b->peers[0].fd, "WAIT 1 60000\r\n", 14);
        (void)receive_lines(&b->peers[0]);
    }
    close_all(b);
}

/* Commands answered in a second, with `ahead` on each connection. */
static double
measure(struct bench *b, size_t server, size_t job, uint64_t ms)
{
    static char text[TEXT_SIZE];
    struct pollfd polls[CONNS];
    uint64_t answered = 0, start, end, open;

    connect_all(b, server);
    start = clock_ns();
    end = start + ms * 1000000;
    do {
        const bool over = clock_ns() >= end;

        open = 0;
        for (size_t i = 0; i < CONNS; i++) {
            struct peer *p = &b->peers[i];
            size_t size = 0;

            for (unsigned n = 0; p->lines == 0 && !over && n < jobs[job].ahead;
                 n++)
                size += put_command(text + size, jobs[job].command,
                                    random_below(&b->random, MEMBERS));
            if (size > 0) {
                client_send(p->fd, text, size);
                p->lines = (uint64_t)jobs[job].ahead * jobs[job].lines;
            }
            open += p->lines > 0;
            polls[i] = (struct pollfd){.fd = p->lines > 0 ? p->fd : -1,
                                       .events = POLLIN};
        }
        if (open > 0 && poll(polls, CONNS, 10000) == 0)
            fail_msg("%s stands still", names[server]);
        for (size_t i = 0; i < CONNS && open > 0; i++) {
            uint64_t lines;

            if (polls[i].revents == 0)
                continue;
            lines = receive_lines(&b->peers[i]);
            b->peers[i].lines -= lines;
            answered += lines;
        }
    } while (open > 0);
    close_all(b);
    return (double)answered / jobs[job].lines /
           ((double)(clock_ns() - start) / 1e9);
}

/* ---- servers ------------------------------------------------------------- */

/* A port that was free a moment ago: redis takes no port 0. */
static uint16_t
find_free_port(void)
{
    struct net_address a, bound;
    int fd;

    assert_rc(net_parse("127.0.0.1:0", &a), 0);
    fd = net_listen(&a, 0, &bound);
    assert_true(fd >= 0);
    client_close(fd);
    return ntohs(
        ((const struct sockaddr_in *)(const void *)&bound.sa)->sin_port);
}

static void
start_redis(struct bench *b, size_t server, const char *sync)
{
    const uint16_t port = find_free_port();
    char text[8], file[32];
    const char *const argv[] = {"--port",
                                text,
                                "--bind",
                                "127.0.0.1",
                                "--save",
                                "",
                                "--dir",
                                b->fleet.path,
                                "--appendonly",
                                "yes",
                                "--appendfsync",
                                sync,
                                "--appenddirname",
                                file,
                                "--auto-aof-rewrite-percentage",
                                "0",
                                NULL};
    const struct daemon_how how = {.argv = argv, .not_ready = true};
    int fd;

    (void)snprintf(text, sizeof text, "%u", port);
    (void)snprintf(file, sizeof file, "redis-%s", sync);
    if (access("/usr/bin/redis-server", X_OK) < 0)
        return;
    assert_rc(
        daemon_start_how(&b->redis[server], "/usr/bin/redis-server", &how), 0);
    do {
        (void)poll(NULL, 0, 5); /* paces the trying */
        fd = client_try_connect(port);
        assert_true(daemon_alive(&b->redis[server]));
    } while (fd < 0);
    client_close(fd);
    b->ports[server] = port;
}

static void
print_results(const struct bench *b)
{
    for (size_t job = 0; job < JOBS; job++) {
        const struct series *rates = b->rates[job];

        (void)printf("%-24s", jobs[job].name);
        for (size_t s = 0; s < SERVERS; s++) {
            if (rates[s].count == 0)
                continue;
            (void)printf("  %s %.0f/s", names[s], series_median(&rates[s]));
            if (s != COUNTD) {
                const double ratio = series_ratio(&rates[COUNTD], &rates[s]);

                (void)printf(" (x%.2f)", ratio);
                report_row(jobs[job].name, "/s", series_median(&rates[COUNTD]),
                           names[s], series_median(&rates[s]), ratio);
            }
        }
        (void)printf("\n");
    }
}

int
main(int argc, char **argv)
{
    static struct bench b;
    const bool quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    const size_t rounds = quick ? 1 : 5;
    const uint64_t ms = quick ? 300 : 1000;

    b.random.state = 1;
    fleet_init(&b.fleet);
    fleet_option(&b.fleet, "resp.listen=127.0.0.1:0");
    fleet_option(&b.fleet, "log.size=32M");
    fleet_start(&b.fleet, FLEET_WRITE);
    fleet_start(&b.fleet, FLEET_WORKER);
    fleet_start(&b.fleet, FLEET_READ);
    await_logs(b.fleet.path, 4);
    b.ports[COUNTD] = daemon_port(fleet_daemon(&b.fleet, FLEET_READ), "resp");
    start_redis(&b, ALWAYS, "always");
    start_redis(&b, EVERYSEC, "everysec");
    for (size_t s = 0; s < SERVERS; s++)
        if (b.ports[s] != 0)
            fill_server(&b, s);
    for (size_t round = 0; round < rounds; round++)
        for (size_t job = 0; job < JOBS; job++)
            for (size_t s = 0; s < SERVERS; s++)
                if (b.ports[s] != 0)
                    series_add(&b.rates[job][s], measure(&b, s, job, ms));
    print_results(&b);
    for (size_t s = 0; s < SERVERS; s++)
        if (s != COUNTD && b.ports[s] != 0)
            daemon_fini(&b.redis[s]);
    fleet_fini(&b.fleet);
    return 0;
}
