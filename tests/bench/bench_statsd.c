/* tests/bench/bench_statsd.c - how many StatsD lines countd-write takes, and
 * what it loses at a given rate, beside npm's statsd where it is installed.
 *
 *   bench_statsd [--quick]
 *
 *   flood   one sender as fast as it goes, in datagrams of 1 and of 20 lines:
 *           lines a second that are counted, and the share that is lost
 *   paced   100, 200 and 500 thousand lines a second: the share that is lost
 *   idle    silent increments with the ports for lines on and off: ratio
 *
 * Both servers take turns in each round; medians.  The sender shares the CPUs
 * with the server.  The servers themselves are asked for their counts:
 * countd-write with SIGUSR1, statsd over its console.
 *
 * statsd is started with node from $STATSD_DIR/stats.js, or from
 * build/npm/node_modules/statsd, where .ci/setup check puts it. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/bench/bench.h"
#include "tests/bench/messages.h"
#include "tests/lib/client.h"
#include "tests/lib/fleet.h"

#define NAMES   1000 /* different ones */
#define PACE_NS 1000000

static size_t rounds;
static uint64_t run_ms;

/* ---- servers ------------------------------------------------------------ */

struct server {
    struct fleet fleet;
    pid_t statsd; /* 0: countd */
    uint16_t udp, console;
};

static void
start_countd(struct server *s, bool lines)
{
    *s = (struct server){0};
    fleet_init(&s->fleet);
    fleet_options(&s->fleet, "log.size=32M", "counter.enable=off");
    if (lines) {
        fleet_options(&s->fleet, "statsd.listen=127.0.0.1:0",
                      "graphite.listen=127.0.0.1:0");
    }
    fleet_start(&s->fleet, FLEET_WRITE);
    if (lines)
        s->udp = fleet_writer_port(&s->fleet, "statsd");
}

/* Lines that countd-write has read since it began. */
static uint64_t
count_countd(struct server *s)
{
    static const char name[] = "statsd_lines=";
    static char text[1 << 20];
    const struct daemon *d = fleet_daemon(&s->fleet, FLEET_WRITE);
    const size_t before = daemon_output(d, text, sizeof text);
    const char *at;

    daemon_signal(d, SIGUSR1);
    do {
        (void)poll(NULL, 0, 1);
        (void)daemon_output(d, text, sizeof text);
        at = strstr(text + before, name);
    } while (!at || !strchr(at, '\n'));
    return strtoull(at + sizeof name - 1, NULL, 10);
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
    static char text[1 << 18];
    const int fd = client_try_connect(s->console);
    const char *at = NULL;
    size_t used = 0;
    long n;

    if (fd < 0)
        return UINT64_MAX;
    client_send(fd, ask, strlen(ask));
    do { /* some answers have no end */
        n = client_try_read(fd, text + used, sizeof text - 1 - used, 200);
        used += n > 0 ? (size_t)n : 0;
        text[used] = '\0';
    } while (n > 0 && !strstr(text, "END\n\n"));
    client_close(fd);
    at = strstr(text, name);
    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

static void
start_statsd(struct server *s)
{
    char path[700], text[256];
    int size;

    *s = (struct server){.udp = daemon_free_port(),
                         .console = daemon_free_port()};
    fleet_init(&s->fleet); /* its folder */
    size = snprintf(text, sizeof text,
                    "{port: %u, mgmt_port: %u, address: '127.0.0.1', "
                    "mgmt_address: '127.0.0.1', backends: [], "
                    "flushInterval: 3600000}\n",
                    s->udp, s->console);
    tmpdir_put(&s->fleet.dir, "config.js", text, (size_t)size, 0600);
    (void)snprintf(path, sizeof path, "%s/config.js", s->fleet.path);
    s->statsd = bench_fork();
    if (s->statsd == 0) {
        if (!freopen("/dev/null", "w", stdout))
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
    if (s->statsd > 0)
        bench_kill(s->statsd);
    else
        fleet_stop_all(&s->fleet);
    fleet_fini(&s->fleet);
}

/* Lines that the server has read, when it has read all that it will. */
static uint64_t
count_lines(struct server *s)
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

struct lines {
    unsigned count;    /* of a datagram */
    uint64_t a_second; /* 0: as fast as it goes */
};

struct result {
    double a_second, sent, lost; /* lines a second; share */
};

static struct result
run_load(struct server *s, const struct lines *l)
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
        for (unsigned j = 0; j < l->count; j++)
            sizes[i] += (size_t)snprintf(
                texts[i] + sizes[i], sizeof texts[i] - sizes[i],
                "%sservice.requests.%zu:1|c", j > 0 ? "\n" : "",
                (i * l->count + j) % NAMES);
    }
    must(connect(fd, (const struct sockaddr *)&to, sizeof to), "connect");
    while ((now = clock_ns()) < end_ns) {
        const uint64_t due = l->a_second * (now - begin_ns) / 1000000000;

        if (l->a_second > 0 && sent + l->count > due) {
            const struct timespec pause = {.tv_nsec = PACE_NS};

            (void)nanosleep(&pause, NULL);
            continue;
        }
        must(send(fd, texts[sent / l->count % 64], sizes[sent / l->count % 64],
                  0),
             "send");
        sent += l->count;
    }
    now = clock_ns() - begin_ns;
    got = count_lines(s) - start_lines;
    (void)close(fd);
    return (struct result){.sent = (double)sent * 1e9 / (double)now,
                           .a_second = (double)got * 1e9 / (double)now,
                           .lost = 1 - (double)got / (double)sent};
}

static void
bench_load(const struct lines *l, bool statsd)
{
    static const char *const names[2] = {"countd", "npm statsd"};
    static const struct table table = {names, 2, "k/s", 1e-3};
    struct figures rates[2] = {{.value = {.count = 0}}};
    struct series sent = {.count = 0}, lost[2] = {{.count = 0}};
    char row[64];

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
                series_add(&sent, r.sent);
            figures_add(&rates[kind], r.a_second, NULL);
            series_add(&lost[kind], 100 * r.lost);
            end_server(&s);
        }
    (void)snprintf(row, sizeof row, "StatsD lines, %u a datagram, %llu k/s",
                   l->count, (unsigned long long)l->a_second / 1000);
    figures_report(row, &table, rates);
    printf("  sent %.0f k/s, lost %.3f %% (most %.3f)",
           series_median(&sent) / 1e3, series_median(&lost[0]),
           series_max(&lost[0]));
    if (statsd)
        printf(", npm statsd %.3f %%", series_median(&lost[1]));
    printf("\n");
    report_row(row, "% lost", series_median(&lost[0]), "none", 0,
               series_median(&lost[0]));
}

/* ---- other ports -------------------------------------------------------- */

static double
run_silent(bool lines)
{
    struct server s;
    double rate;

    start_countd(&s, lines);
    rate = messages_blast(fleet_silent_port(&s.fleet), 384000);
    end_server(&s);
    return rate;
}

static void
bench_idle(void)
{
    static const char *const names[2] = {"ports for lines on", "off"};
    static const struct table table = {names, 2, "k/s", 1e-3};
    struct figures f[2] = {{.value = {.count = 0}}};

    for (size_t round = 0; round < rounds; round++)
        for (int i = 0; i < 2; i++)
            figures_add(&f[i], run_silent(i == 0), NULL);
    figures_print("silent increments", &table, f);
}

int
main(int argc, char **argv)
{
    static const struct lines loads[] = {
        {1, 0},      {20, 0},      {1, 100000},  {1, 200000},
        {1, 500000}, {20, 100000}, {20, 200000}, {20, 500000}};
    const bool is_quick = bench_begin(argc, argv);
    const bool statsd = statsd_folder() != NULL;

    rounds = is_quick ? 3 : 5;
    run_ms = is_quick ? 500 : 2000;
    if (!statsd)
        printf("npm's statsd is not installed (.ci/setup check): countd "
               "alone\n");
    for (size_t i = 0; i < sizeof loads / sizeof loads[0]; i++)
        bench_load(&loads[i], statsd);
    bench_idle();
    return 0;
}
