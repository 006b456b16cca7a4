/* tests/bench/bench_statsd.c - how many StatsD lines countd-write takes, and
 * what it loses at a given rate, beside npm's statsd where it is installed.
 *
 *   bench_statsd [--quick] [BUILD_DIR]      (or $BUILD)
 *
 *   flood   one sender as fast as it goes, in datagrams of 1 and of 20 lines:
 *           lines a second that are counted, and the share that is lost
 *   paced   100, 200 and 500 thousand lines a second: the share that is lost
 *   idle    silent increments with the ports for lines on and off: ratio
 *
 * Both servers take turns in each round; medians.  The sender shares the CPUs
 * with the server.  What was counted is asked of the servers themselves: of
 * countd-write with SIGUSR1, of statsd over its console.
 *
 * statsd is started with node from $STATSD_DIR/stats.js, or from
 * build/npm/node_modules/statsd, where .ci/setup check puts it. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/bench/report.h"
#include "tests/lib/client.h"
#include "tests/lib/daemon.h"
#include "tests/lib/tmpdir.h"

#define ROUNDS_MAX 9
#define NAMES      1000 /* different ones */
#define PACE_NS    1000000

static size_t rounds = 5;
static uint64_t run_ms = 2000;

static void
die(const char *what)
{
    (void)fprintf(stderr, "bench_statsd: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ---- servers ------------------------------------------------------------ */

struct server {
    struct tmpdir dir;
    struct daemon countd;
    pid_t statsd; /* 0: countd */
    uint16_t udp, console;
};

static void
start_countd(struct server *s, bool lines)
{
    char text[512];

    *s = (struct server){0};
    tmpdir_make(&s->dir);
    (void)snprintf(text, sizeof text, "%s", s->dir.path); /* fits */
    daemon_start(
        &s->countd, "countd-write", "-d", text, "-o", "write.ack_listen=", "-o",
        "write.listen=127.0.0.1:0", "-o", "counter.enable=off", "-o",
        lines ? "statsd.listen=127.0.0.1:0" : "statsd.listen=", "-o",
        lines ? "graphite.listen=127.0.0.1:0" : "graphite.listen=", NULL);
    if (lines)
        s->udp = daemon_port(&s->countd, "statsd");
}

/* Lines that countd-write has read since it began. */
static uint64_t
count_countd(const struct server *s)
{
    static char text[1 << 20];
    const char *at;
    size_t before = daemon_output(&s->countd, text, sizeof text);

    daemon_signal(&s->countd, SIGUSR1);
    for (;;) {
        (void)daemon_output(&s->countd, text, sizeof text);
        at = strstr(text + before, "statsd_lines=");
        if (at != NULL && strchr(at, '\n') != NULL)
            return strtoull(at + strlen("statsd_lines="), NULL, 10);
        (void)poll(NULL, 0, 1);
    }
}

static uint16_t
free_port(int type)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof a;
    const int fd = socket(AF_INET, type | SOCK_CLOEXEC, 0);

    if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof a) < 0 ||
        getsockname(fd, (struct sockaddr *)&a, &size) < 0)
        die("a free port");
    (void)close(fd);
    return ntohs(a.sin_port);
}

static const char *
statsd_folder(void)
{
    static char path[1024];
    const char *dir = getenv("STATSD_DIR");

    (void)snprintf(path, sizeof path, "%s/stats.js",
                   dir ? dir : "build/npm/node_modules/statsd");
    return access(path, R_OK) == 0 ? path : NULL;
}

/* The number behind `name` in what the console says to `ask`; 0: none. */
static uint64_t
ask_console(const struct server *s, const char *ask, const char *name)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(s->console),
                                   .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const struct timeval patience = {.tv_usec = 200000}; /* no end is sent */
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    static char text[1 << 18];
    uint64_t number = UINT64_MAX;
    size_t used = 0;
    ssize_t n = 1;

    if (fd >= 0 &&
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) ==
            0 &&
        connect(fd, (const struct sockaddr *)&to, sizeof to) == 0 &&
        send(fd, ask, strlen(ask), MSG_NOSIGNAL) > 0) {
        while (n > 0 && used + 1 < sizeof text &&
               (used < 4 || memcmp(text + used - 4, "END\n", 4) != 0)) {
            n = recv(fd, text + used, sizeof text - used - 1, 0);
            used += n > 0 ? (size_t)n : 0;
            text[used] = '\0';
            if (used >= 5 && memcmp(text + used - 5, "END\n\n", 5) == 0)
                break;
        }
        number = strstr(text, name)
                     ? strtoull(strstr(text, name) + strlen(name), NULL, 10)
                     : 0;
    }
    if (fd >= 0)
        (void)close(fd);
    return number;
}

static void
start_statsd(struct server *s)
{
    char path[700];
    FILE *f;

    *s = (struct server){.udp = free_port(SOCK_DGRAM),
                         .console = free_port(SOCK_STREAM)};
    tmpdir_make(&s->dir);
    (void)snprintf(path, sizeof path, "%s/config.js", s->dir.path); /* fits */
    f = fopen(path, "we");
    if (f == NULL ||
        fprintf(f,
                "{port: %u, mgmt_port: %u, address: '127.0.0.1', "
                "mgmt_address: '127.0.0.1', backends: [], "
                "flushInterval: 3600000}\n",
                s->udp, s->console) < 0 ||
        fclose(f) != 0)
        die(path);
    s->statsd = fork();
    if (s->statsd == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
            freopen("/dev/null", "w", stdout) == NULL)
            _exit(111);
        (void)execlp("node", "node", statsd_folder(), path, NULL);
        _exit(127);
    }
    while (ask_console(s, "health\n", "health: up") == UINT64_MAX)
        (void)poll(NULL, 0, 10);
}

static void
end_server(struct server *s)
{
    if (s->statsd > 0) {
        (void)kill(s->statsd, SIGKILL);
        (void)waitpid(s->statsd, NULL, 0);
    } else {
        (void)daemon_stop(&s->countd);
        daemon_fini(&s->countd);
    }
    tmpdir_remove(&s->dir);
}

/* Lines that the server has read, when it has read all that it will. */
static uint64_t
count_lines(const struct server *s)
{
    uint64_t before, now = UINT64_MAX;

    do {
        before = now;
        (void)poll(NULL, 0, 100);
        now = s->statsd > 0
                  ? ask_console(s, "counters\n", "'statsd.metrics_received': ")
                  : count_countd(s);
    } while (now != before);
    return now;
}

/* ---- load --------------------------------------------------------------- */

struct load {
    unsigned lines;    /* of a datagram */
    uint64_t a_second; /* lines; 0: as fast as it goes */
};

struct result {
    double a_second, sent, lost; /* lines a second; share */
};

static struct result
run_load(const struct server *s, const struct load *l)
{
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons(s->udp),
                                   .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const uint64_t start_lines = count_lines(s), begin_ns = clock_ns(),
                   end_ns = begin_ns + run_ms * 1000000;
    static char texts[64][2048];
    static size_t sizes[64];
    uint64_t sent = 0, now, got;

    for (size_t i = 0; i < 64; i++) {
        sizes[i] = 0;
        for (unsigned j = 0; j < l->lines; j++)
            sizes[i] += (size_t)snprintf(
                texts[i] + sizes[i], sizeof texts[i] - sizes[i],
                "%sservice.requests.%zu:1|c", j > 0 ? "\n" : "",
                (i * l->lines + j) % NAMES);
    }
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof to) < 0)
        die("connect");
    while ((now = clock_ns()) < end_ns) {
        const uint64_t due = l->a_second * (now - begin_ns) / 1000000000;

        if (l->a_second > 0 && sent + l->lines > due) {
            const struct timespec pause = {.tv_nsec = PACE_NS};

            (void)nanosleep(&pause, NULL);
            continue;
        }
        if (send(fd, texts[sent / l->lines % 64], sizes[sent / l->lines % 64],
                 0) < 0)
            die("send");
        sent += l->lines;
    }
    now = clock_ns() - begin_ns;
    got = count_lines(s) - start_lines;
    (void)close(fd);
    return (struct result){.sent = (double)sent * 1e9 / (double)now,
                           .a_second = (double)got * 1e9 / (double)now,
                           .lost = 1 - (double)got / (double)sent};
}

static int
compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static double
median(double *values)
{
    qsort(values, rounds, sizeof *values, compare);
    return values[rounds / 2];
}

static void
bench_load(const struct load *l, bool statsd)
{
    char row[64];
    double rates[2][ROUNDS_MAX] = {{0}}, sent[ROUNDS_MAX],
           lost[2][ROUNDS_MAX] = {{0}};
    double worst;

    for (size_t round = 0; round < rounds; round++)
        for (int kind = 0; kind < (statsd ? 2 : 1); kind++) {
            struct server s;
            struct result r;

            if (kind == 0)
                start_countd(&s, true);
            else
                start_statsd(&s);
            r = run_load(&s, l);
            if (kind == 0)
                sent[round] = r.sent;
            rates[kind][round] = r.a_second;
            lost[kind][round] = r.lost;
            end_server(&s);
        }
    (void)printf("%-8s x%-3u", l->a_second > 0 ? "paced" : "flood", l->lines);
    (void)printf(" %4llu k/s, sent %7.0f",
                 (unsigned long long)l->a_second / 1000, median(sent) / 1000);
    (void)printf("  countd %7.0f k/s", median(rates[0]) / 1000);
    qsort(lost[0], rounds, sizeof lost[0][0], compare);
    worst = lost[0][rounds - 1];
    (void)printf(", lost %6.3f %% (most %6.3f)", 100 * median(lost[0]),
                 100 * worst);
    if (statsd)
        (void)printf("   statsd %7.0f k/s, lost %6.3f %%   x%.1f",
                     median(rates[1]) / 1000, 100 * median(lost[1]),
                     median(rates[0]) / median(rates[1]));
    (void)printf("\n");
    (void)fflush(stdout);
    (void)snprintf(row, sizeof row, "StatsD lines, %u a datagram, %llu k/s",
                   (unsigned)l->lines,
                   (unsigned long long)l->a_second / 1000); /* fits */
    if (statsd)
        report_row(row, "k/s", median(rates[0]) / 1000, "npm statsd",
                   median(rates[1]) / 1000,
                   median(rates[0]) / median(rates[1]));
    report_row(row, "% lost", 100 * median(lost[0]), "none", 0,
               100 * median(lost[0]));
}

/* ---- other ports -------------------------------------------------------- */

static double
run_silent(bool lines)
{
    enum { BATCH = 64, BATCHES = 6000 };
    static uint8_t bytes[BATCH * CLIENT_MESSAGE_SIZE];
    struct server s;
    uint64_t begin_ns;
    char key[32];
    int fd;

    for (int i = 0; i < BATCH; i++) {
        (void)snprintf(key, sizeof key, "key-%d", i); /* fits */
        client_message(bytes + (size_t)i * CLIENT_MESSAGE_SIZE, "k", key, 1);
    }
    start_countd(&s, lines);
    fd = client_connect(daemon_port(&s.countd, "silent"));
    begin_ns = clock_ns();
    for (int i = 0; i < BATCHES; i++)
        client_send(fd, bytes, sizeof bytes);
    (void)shutdown(fd, SHUT_WR);
    client_expect_end(fd);
    begin_ns = clock_ns() - begin_ns;
    client_close(fd);
    end_server(&s);
    return (double)BATCH * BATCHES * 1e9 / (double)begin_ns;
}

static void
bench_idle(void)
{
    double off[ROUNDS_MAX], on[ROUNDS_MAX], ratio[ROUNDS_MAX];

    for (size_t round = 0; round < rounds; round++) {
        off[round] = run_silent(false);
        on[round] = run_silent(true);
        ratio[round] = on[round] / off[round];
    }
    (void)printf("idle     silent increments: ports for lines off %.0f k/s, on "
                 "%.0f k/s, ratio %.3f\n",
                 median(off) / 1000, median(on) / 1000, median(ratio));
}

int
main(int argc, char **argv)
{
    static const struct load loads[] = {{1, 0},       {20, 0},     {1, 100000},
                                        {1, 200000},  {1, 500000}, {20, 100000},
                                        {20, 200000}, {20, 500000}};
    const bool statsd = statsd_folder() != NULL;

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--quick") == 0) {
            rounds = 3;
            run_ms = 500;
        } else if (setenv("BUILD", argv[i], 1) < 0) {
            die("setenv");
        }
    }
    if (!statsd)
        (void)printf("npm's statsd is not installed (.ci/setup check): countd "
                     "alone\n");
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++)
        bench_load(&loads[i], statsd);
    bench_idle();
    return 0;
}
