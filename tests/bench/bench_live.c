/* tests/bench/bench_live.c - counters of countd-write, beside yrmcds where it
 * is installed and a server that parses, answers and knows nothing.
 *
 *   bench_live [--quick] [BUILD_DIR]      (or $BUILD)
 *
 *   pairs    Acquire of 1 and Release of 1, of one of a thousand names
 *   Get      of one of a thousand counters that are held
 *   names    one connection takes one each of 1.1 million names of 20 bytes
 *     create   the first million of them
 *     memory   of a name: what the process has grown by, divided; the worst
 *              between half and all of them, looked at every 10,000
 *     Dump     of the million, to a client that reads as fast as it can
 *     others   Get after Get of another client, without and with a Dump
 *
 * The servers take turns, so that what else the machine does meets all of
 * them, and everything is done twice: where the scheduler places the
 * processes, and with all of them on one CPU.  Printed: medians of the rounds,
 * smallest and largest, and the median of the rounds' ratios; times are those
 * of single requests.  Prints, judges nothing. */
#include "tests/lib/test.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "tests/bench/live_ceiling.h"
#include "tests/bench/live_load.h"
#include "tests/bench/report.h"
#include "tests/bench/series.h"
#include "tests/lib/daemon.h"
#include "tests/lib/tmpdir.h"
#include "tests/lib/yrmcds.h"

#define KNOWN   1000 /* names of pairs and Get */
#define BUCKETS 1000000
#define ALONE   100 /* ms that a probe runs without a Dump */

enum which { COUNTD, YRMCDS, CEILING, SERVERS };

static const char *const titles[SERVERS] = {"countd-write", "yrmcds",
                                            "ceiling"};

struct server {
    bool there;
    pid_t pid;
    uint16_t port;
    struct daemon writer;
    struct tmpdir dir;
    struct yrmcds yrmcds;
};

struct bench {
    struct server servers[SERVERS];
    size_t rounds, name_rounds;
    uint64_t round_ms;
    uint64_t names; /* to create; and a tenth more */
    cpu_set_t all;  /* we may run on */
    cpu_set_t place;
    const char *place_name;
    char row[96]; /* what print_rows() prints, for the table */
};

static struct bench bench;

static void
die(const char *what)
{
    (void)fprintf(stderr, "bench_live: %s: %s\n", what, strerror(errno));
    exit(111);
}

/* ---- servers ------------------------------------------------------------ */

/* Every thread of a process. */
static void
place(pid_t pid, const cpu_set_t *set)
{
    char path[64];
    struct dirent *e;
    DIR *dir;

    (void)snprintf(path, sizeof path, "/proc/%ld/task", (long)pid); /* fits */
    dir = opendir(path);
    if (!dir)
        die(path);
    while ((e = readdir(dir)))
        if (e->d_name[0] != '.' &&
            sched_setaffinity((pid_t)atol(e->d_name), sizeof *set, set) < 0 &&
            errno != ESRCH)
            die("sched_setaffinity");
    (void)closedir(dir); /* read only */
}

static void
start_countd(struct server *s)
{
    tmpdir_make(&s->dir);
    daemon_start(&s->writer, "countd-write", "-d", s->dir.path, "-o",
                 "write.listen=127.0.0.1:0", "-o", "write.ack_listen=", "-o",
                 "log.size=1M", "-o", "log.count=2", "-o", "counter.port=0",
                 NULL);
    s->pid = s->writer.pid;
    s->port = daemon_port(&s->writer, "counter");
}

static void
start(struct bench *b, enum which w)
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
    place(s->pid, &b->place);
}

static void
end(struct bench *b, enum which w)
{
    struct server *s = &b->servers[w];

    if (!s->there || s->pid == 0)
        return;
    if (w == COUNTD) {
        if (daemon_stop(&s->writer) != 0)
            die("countd-write did not end well");
        daemon_fini(&s->writer);
        tmpdir_remove(&s->dir);
    } else if (w == YRMCDS) {
        yrmcds_end(&s->yrmcds);
    } else {
        (void)kill(s->pid, SIGKILL);    /* our child, */
        (void)waitpid(s->pid, NULL, 0); /* and not waited for */
    }
    s->pid = 0;
}

/* Resident memory in bytes. */
static double
memory_of(pid_t pid)
{
    char path[64], line[256];
    unsigned long kib = 0;
    FILE *f;

    (void)snprintf(path, sizeof path, "/proc/%ld/status", (long)pid); /* fits */
    f = fopen(path, "re");
    if (!f)
        die(path);
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %lu kB", &kib) == 1)
            break;
    (void)fclose(f); /* read only */
    return (double)kib * 1024;
}

/* ---- results ------------------------------------------------------------ */

struct row {
    struct series value, p50, p99, max;
};

static void
print_title(struct bench *b, const char *what)
{
    printf("%s, %s\n", what, b->place_name);
    (void)snprintf(b->row, sizeof b->row, "%s, %s", what,
                   b->place_name); /* fits */
}

/* One line per server that is there; `scale` makes the unit. */
static void
print_rows(const struct bench *b, const struct row rows[SERVERS], double scale,
           const char *unit)
{
    for (int i = 0; i < SERVERS; i++) {
        const struct row *r = &rows[i];

        if (!b->servers[i].there || r->value.count == 0)
            continue;
        printf("  %-12s %9.3f %s  (%.3f..%.3f)", titles[i],
               series_median(&r->value) * scale, unit,
               series_min(&r->value) * scale, series_max(&r->value) * scale);
        if (r->p50.count > 0)
            printf("  p50 %.1f  p99 %.1f us", series_median(&r->p50),
                   series_median(&r->p99));
        if (r->max.count > 0)
            printf("  max %.0f us", series_median(&r->max));
        if (i != COUNTD) {
            const double ratio = series_ratio(&rows[COUNTD].value, &r->value);

            printf("  countd/this %.3g", ratio);
            report_row(b->row, unit, series_median(&rows[COUNTD].value) * scale,
                       titles[i], series_median(&r->value) * scale, ratio);
        }
        printf("\n");
    }
}

static void
add(struct row *r, const struct live_figures *f)
{
    series_add(&r->value, f->per_second);
    series_add(&r->p50, f->p50_us);
    series_add(&r->p99, f->p99_us);
}

/* ---- loads -------------------------------------------------------------- */

static void
run_load(struct bench *b, enum live_work work, unsigned conns, unsigned depth)
{
    const struct live_load load = {.work = work,
                                   .conns = conns,
                                   .depth = depth,
                                   .names = KNOWN,
                                   .ms = b->round_ms};
    static struct row rows[SERVERS];
    struct live_figures f;
    int holders[SERVERS];
    char what[80];

    memset(rows, 0, sizeof rows);
    for (int i = 0; i < SERVERS; i++)
        if (b->servers[i].there && work == LIVE_GETS) {
            holders[i] = live_load_connect(b->servers[i].port);
            (void)live_load_fill(holders[i], 0, KNOWN); /* not measured */
        }
    for (size_t round = 0; round < b->rounds; round++)
        for (int i = 0; i < SERVERS; i++)
            if (b->servers[i].there) {
                live_load_run(&load, b->servers[i].port, &f);
                add(&rows[i], &f);
            }
    for (int i = 0; i < SERVERS; i++)
        if (b->servers[i].there && work == LIVE_GETS)
            (void)close(holders[i]); /* a socket */
    (void)snprintf(what, sizeof what, "%s, %u connection%s, depth %u",
                   work == LIVE_PAIRS ? "pairs" : "Get", conns,
                   conns == 1 ? "" : "s", depth); /* fits */
    print_title(b, what);
    print_rows(b, rows, 1e-6, work == LIVE_PAIRS ? "M pairs/s" : "M/s");
}

static void
run_loads(struct bench *b)
{
    for (int i = 0; i < SERVERS; i++)
        start(b, (enum which)i);
    run_load(b, LIVE_PAIRS, 50, 16);
    run_load(b, LIVE_PAIRS, 1, 64);
    run_load(b, LIVE_PAIRS, 1, 1);
    run_load(b, LIVE_GETS, 50, 16);
    for (int i = 0; i < SERVERS; i++)
        end(b, (enum which)i);
}

/* ---- names -------------------------------------------------------------- */

struct names {
    struct row create[SERVERS], dump[SERVERS], loaded[SERVERS];
    struct row alone[SERVERS], others[SERVERS];
    struct row base[SERVERS], worst[SERVERS], million[SERVERS];
};

struct probe {
    pid_t pid;
    int stop_fd;   /* closing it ends the probe */
    int answer_fd; /* and its figures come here */
};

/* A client in a process of its own. */
static void
start_probe(struct probe *p, uint16_t port)
{
    int stop[2], answer[2];
    struct live_figures f;

    if (pipe(stop) < 0 || pipe(answer) < 0)
        die("pipe");
    (void)fflush(NULL); /* or the child would print it again */
    p->pid = fork();
    if (p->pid < 0)
        die("fork");
    if (p->pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
            _exit(111);
        (void)close(stop[1]); /* the parent's */
        live_load_probe(live_load_connect(port), stop[0], &f);
        _exit(write(answer[1], &f, sizeof f) == sizeof f ? 0 : 111);
    }
    (void)close(stop[0]);   /* the child's */
    (void)close(answer[1]); /* likewise */
    p->stop_fd = stop[1];
    p->answer_fd = answer[0];
}

static void
end_probe(struct probe *p, struct row *r)
{
    struct live_figures f;

    (void)close(p->stop_fd); /* that is the sign */
    if (read(p->answer_fd, &f, sizeof f) != sizeof f)
        die("a probe");
    (void)close(p->answer_fd);      /* read only */
    (void)waitpid(p->pid, NULL, 0); /* our child, it ends by itself */
    add(r, &f);
    series_add(&r->max, f.max_us);
}

static void
run_dumps(struct bench *b, enum which w, struct names *n)
{
    const uint16_t port = b->servers[w].port;
    const int fd = live_load_connect(port);
    struct probe probe;
    uint64_t records;

    series_add(&n->dump[w].value, live_load_dump(fd, &records));
    errno = EPROTO;
    if (records != b->names)
        die("records of a Dump");
    start_probe(&probe, port);
    (void)usleep(ALONE * 1000); /* cut short: a shorter look */
    end_probe(&probe, &n->alone[w]);
    start_probe(&probe, port);
    series_add(&n->loaded[w].value, live_load_dump(fd, &records));
    end_probe(&probe, &n->others[w]);
    (void)close(fd); /* a socket */
}

/* A fresh server: one holder of more and more names. */
static void
run_server(struct bench *b, enum which w, struct names *n)
{
    const uint64_t step = b->names / 100;
    double base, grown, worst = 0, seconds = 0;
    uint64_t taken = 0;
    int fd;

    start(b, w);
    fd = live_load_connect(b->servers[w].port);
    base = memory_of(b->servers[w].pid);
    while (taken < b->names + b->names / 10) {
        seconds += live_load_fill(fd, taken, taken + step);
        taken += step;
        grown = (memory_of(b->servers[w].pid) - base) / (double)taken;
        if (taken >= b->names / 2 && grown > worst)
            worst = grown;
        if (taken != b->names)
            continue;
        series_add(&n->create[w].value, (double)b->names / seconds);
        series_add(&n->million[w].value, grown);
        run_dumps(b, w, n);
    }
    series_add(&n->base[w].value, base);
    series_add(&n->worst[w].value, worst);
    (void)close(fd); /* a socket */
    end(b, w);
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
    /* It keeps nothing, and during a Dump it does nothing else. */
    memset(&n.others[CEILING], 0, sizeof n.others[CEILING]);
    memset(&n.worst[CEILING], 0, sizeof n.worst[CEILING]);
    memset(&n.million[CEILING], 0, sizeof n.million[CEILING]);
    print_title(b, "create names");
    print_rows(b, n.create, 1e-6, "M/s");
    print_title(b, "memory of a server without names");
    print_rows(b, n.base, 1.0 / (1 << 20), "MiB");
    print_title(b, "memory of a name, all of them held");
    print_rows(b, n.million, 1, "bytes");
    print_title(b, "the same, the worst of half as many to a tenth more");
    print_rows(b, n.worst, 1, "bytes");
    print_title(b, "Dump of all");
    print_rows(b, n.dump, 1e3, "ms");
    print_title(b, "Dump of all, while another client asks");
    print_rows(b, n.loaded, 1e3, "ms");
    print_title(b, "that other client without a Dump: Gets");
    print_rows(b, n.alone, 1e-3, "k/s");
    print_title(b, "that other client during the Dump: Gets");
    print_rows(b, n.others, 1e-3, "k/s");
}

/* ---- start -------------------------------------------------------------- */

static void
run_place(struct bench *b, const char *name, const cpu_set_t *set)
{
    b->place = *set;
    b->place_name = name;
    if (sched_setaffinity(0, sizeof *set, set) < 0)
        die("sched_setaffinity");
    run_loads(b);
    run_names(b);
}

int
main(int argc, char **argv)
{
    struct bench *b = &bench;
    const char *build = getenv("BUILD");
    const uint64_t begin_ms = clock_ms();
    cpu_set_t one;
    size_t cpu = 0;

    b->rounds = 7;
    b->name_rounds = 3;
    b->round_ms = 300;
    b->names = 1000000;
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--quick") == 0) {
            b->rounds = 3;
            b->name_rounds = 1;
            b->round_ms = 100;
            b->names = 100000;
        } else {
            build = argv[i];
        }
    if (build && setenv("BUILD", build, 1) < 0)
        die("environment");
    if (sched_getaffinity(0, sizeof b->all, &b->all) < 0)
        die("sched_getaffinity");
    while (!CPU_ISSET(cpu, &b->all))
        cpu++;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    (void)setvbuf(stdout, NULL, _IOLBF, 0); /* only looks */
    b->servers[COUNTD].there = b->servers[CEILING].there = true;
    b->servers[YRMCDS].there = yrmcds_installed();
    if (!b->servers[YRMCDS].there)
        printf("yrmcds is not installed: no comparison with it\n");
    run_place(b, "free", &b->all);
    run_place(b, "one CPU", &one);
    printf("%.0f seconds\n", (double)(clock_ms() - begin_ms) / 1e3);
    return 0;
}
