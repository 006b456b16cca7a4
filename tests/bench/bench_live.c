/* tests/bench/bench_live.c - counters of countd-write, beside yrmcds where it
 * is installed and a server that parses, answers and knows nothing.
 *
 *   bench_live [--quick]
 *
 *   pairs    Acquire of 1 and Release of 1, of one of a thousand names
 *   names    one connection takes one each of 1.1 million names of 20 bytes
 *     create   the first million of them
 *     memory   of a name: what the process has grown by, divided; the worst
 *              between half and all of them, looked at every 10,000
 *     Dump     of the million, to a client that reads as fast as it can
 *
 * The servers take turns, so that what else the machine does meets all of
 * them, and everything is done twice: where the scheduler places the
 * processes, and with all of them on one CPU; times are those of single
 * requests. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "tests/bench/bench.h"
#include "tests/bench/live_load.h"
#include "tests/lib/client.h"
#include "tests/lib/fleet.h"
#include "tests/lib/yrmcds.h"

#define BUCKETS 1000000

enum which { COUNTD, YRMCDS, CEILING, SERVERS };

static const char *const titles[SERVERS] = {"countd-write", "yrmcds",
                                            "ceiling"};

struct server {
    bool there;
    pid_t pid;
    uint16_t port;
    struct fleet fleet;
    struct yrmcds yrmcds;
};

static struct bench {
    struct server servers[SERVERS];
    size_t rounds, name_rounds;
    uint64_t round_ms;
    uint64_t names; /* to create; and a tenth more */
    cpu_set_t place;
    const char *place_name;
} bench;

/* ---- servers ------------------------------------------------------------ */

/* Every thread of a process. */
static void
place_process(pid_t pid, const cpu_set_t *set)
{
    char path[64];
    struct dirent *e;
    DIR *dir;

    (void)snprintf(path, sizeof path, "/proc/%ld/task", (long)pid);
    dir = opendir(path);
    assert_non_null(dir);
    while ((e = readdir(dir)))
        if (e->d_name[0] != '.' &&
            sched_setaffinity((pid_t)atol(e->d_name), sizeof *set, set) < 0)
            assert_int_equal(errno, ESRCH);
    (void)closedir(dir); /* read only */
}

static void
start_countd(struct server *s)
{
    fleet_init(&s->fleet);
    fleet_start_with(&s->fleet, FLEET_WRITE, "write.ack_listen=", "log.size=1M",
                     "log.count=2", "counter.port=0");
    s->pid = fleet_daemon(&s->fleet, FLEET_WRITE)->pid;
    s->port = fleet_writer_port(&s->fleet, "counter");
}

static void
start_server(struct bench *b, enum which w)
{
    struct server *s = &b->servers[w];

    if (!s->there)
        return;
    if (w == COUNTD) {
        start_countd(s);
    } else if (w == YRMCDS) {
        yrmcds_start(&s->yrmcds, BUCKETS);
        s->pid = s->yrmcds.daemon.pid;
        s->port = s->yrmcds.port;
    } else {
        s->pid = live_ceiling_start(&s->port, b->names);
    }
    place_process(s->pid, &b->place);
}

static void
end_server(struct bench *b, enum which w)
{
    struct server *s = &b->servers[w];

    if (!s->there)
        return;
    if (w == COUNTD) {
        fleet_stop_all(&s->fleet);
        fleet_fini(&s->fleet);
    } else if (w == YRMCDS) {
        yrmcds_end(&s->yrmcds);
    } else {
        bench_kill(s->pid);
    }
}

/* Adds the place to the name of the row. */
static void
report_place(const struct bench *b, const char *what,
             const struct figures f[SERVERS], const char *unit, double scale)
{
    const struct table table = {titles, SERVERS, unit, scale};
    char row[96];

    (void)snprintf(row, sizeof row, "%s, %s", what, b->place_name);
    figures_report(row, &table, f);
}

/* ---- loads -------------------------------------------------------------- */

static void
run_load(struct bench *b, unsigned conns, unsigned depth)
{
    static struct figures f[SERVERS];
    static struct times times;
    char what[80];

    memset(f, 0, sizeof f);
    for (size_t round = 0; round < b->rounds; round++)
        for (int i = 0; i < SERVERS; i++)
            if (b->servers[i].there)
                figures_add(&f[i],
                            live_load_run(conns, depth, b->round_ms,
                                          b->servers[i].port, &times),
                            &times);
    (void)snprintf(what, sizeof what, "pairs, %u connection%s, depth %u", conns,
                   conns == 1 ? "" : "s", depth);
    report_place(b, what, f, "M pairs/s", 1e-6);
}

static void
run_loads(struct bench *b)
{
    for (int i = 0; i < SERVERS; i++)
        start_server(b, (enum which)i);
    run_load(b, 50, 16);
    run_load(b, 1, 64);
    run_load(b, 1, 1);
    for (int i = 0; i < SERVERS; i++)
        end_server(b, (enum which)i);
}

/* ---- names -------------------------------------------------------------- */

struct names {
    struct figures create[SERVERS], dump[SERVERS];
    struct figures base[SERVERS], worst[SERVERS], million[SERVERS];
};

static double
memory_of(pid_t pid)
{
    return bench_proc(pid, "status", "VmRSS:") * 1024;
}

/* A fresh server: one holder of more and more names. */
static void
run_server(struct bench *b, enum which w, struct names *n)
{
    const uint64_t step = b->names / 100;
    double base, grown, worst = 0, seconds = 0;
    uint64_t taken = 0, records;
    int fd;

    start_server(b, w);
    fd = client_connect(b->servers[w].port);
    base = memory_of(b->servers[w].pid);
    while (taken < b->names + b->names / 10) {
        seconds += live_load_fill(fd, taken, taken + step);
        taken += step;
        grown = (memory_of(b->servers[w].pid) - base) / (double)taken;
        if (taken >= b->names / 2 && grown > worst)
            worst = grown;
        if (taken != b->names)
            continue;
        figures_add(&n->create[w], (double)b->names / seconds, NULL);
        figures_add(&n->million[w], grown, NULL);
        figures_add(&n->dump[w], live_load_dump(fd, &records), NULL);
        assert_int_equal(records, b->names);
    }
    figures_add(&n->base[w], base, NULL);
    figures_add(&n->worst[w], worst, NULL);
    client_close(fd);
    end_server(b, w);
}

static void
run_names(struct bench *b)
{
    static struct names n;

    memset(&n, 0, sizeof n);
    for (size_t round = 0; round < b->name_rounds; round++)
        for (int i = 0; i < SERVERS; i++)
            if (b->servers[i].there)
                run_server(b, (enum which)i, &n);
    /* It keeps nothing. */
    memset(&n.worst[CEILING], 0, sizeof n.worst[CEILING]);
    memset(&n.million[CEILING], 0, sizeof n.million[CEILING]);
    report_place(b, "create names", n.create, "M/s", 1e-6);
    report_place(b, "memory of a server without names", n.base, "MiB",
                 1.0 / (1 << 20));
    report_place(b, "memory of a name, all of them held", n.million, "bytes",
                 1);
    report_place(b, "the same, the worst of half as many to a tenth more",
                 n.worst, "bytes", 1);
    report_place(b, "Dump of all", n.dump, "ms", 1e3);
}

/* ---- start -------------------------------------------------------------- */

static void
run_place(struct bench *b, const char *name, const cpu_set_t *set)
{
    b->place = *set;
    b->place_name = name;
    must(sched_setaffinity(0, sizeof *set, set), "sched_setaffinity");
    run_loads(b);
    run_names(b);
}

int
main(int argc, char **argv)
{
    struct bench *b = &bench;
    const bool is_quick = bench_begin(argc, argv);
    const uint64_t begin_ms = clock_ms();
    cpu_set_t all, one;
    size_t cpu = 0;

    b->rounds = is_quick ? 3 : 7;
    b->name_rounds = is_quick ? 1 : 3;
    b->round_ms = is_quick ? 100 : 300;
    b->names = is_quick ? 100000 : 1000000;
    must(sched_getaffinity(0, sizeof all, &all), "sched_getaffinity");
    while (!CPU_ISSET(cpu, &all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    b->servers[COUNTD].there = b->servers[CEILING].there = true;
    b->servers[YRMCDS].there = yrmcds_installed();
    if (!b->servers[YRMCDS].there)
        printf("yrmcds is not installed: no comparison with it\n");
    run_place(b, "free", &all);
    run_place(b, "one CPU", &one);
    printf("%.0f seconds\n", (double)(clock_ms() - begin_ms) / 1e3);
    return 0;
}
