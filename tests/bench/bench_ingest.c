/* tests/bench/bench_ingest.c - how fast countd-write takes increments, beside
 * ceilings that do the same input and output and nothing else.
 *
 *   bench_ingest [--quick]
 *
 *   silent       one connection as fast as it goes, until the daemon closes
 *     no sync      ceiling: receives, writes slots that hold nothing
 *     empty slots  the same, and syncs each log as the daemon does
 *     slots        the same, and puts the messages into the slots, unchecked
 *   acked        C connections, D messages outstanding on each; p50 of one
 *                connection and one message outstanding
 *     group        ceiling: receives all that is ready, one append, one
 *                  fdatasync, replies
 *
 * Daemon and ceilings take turns, so that what else the machine does meets
 * all of them.  The scheduler places the processes; run it under taskset for
 * another placement. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/log/log.h"
#include "tests/bench/bench.h"
#include "tests/bench/ceiling.h"
#include "tests/bench/messages.h"
#include "tests/lib/client.h"
#include "tests/lib/fleet.h"

#define SLOT      544
#define LOG_BYTES (UINT64_C(32) << 20)
#define LOG_FILL  ((LOG_BYTES - LOG_SLOTS_AT) / SLOT) /* messages */
#define FILES     30 /* more than a round fills */
#define LOGS      40
#define STAGE     1024

enum kind {
    COUNTD,
    NO_SYNC,
    EMPTY_SLOTS,
    SLOTS,
    SILENT,
    GROUP = SILENT,
    SIDES
};

static const char *const names[SILENT] = {
    "countd-write", "ceiling, empty, no sync", "ceiling, empty slots",
    "ceiling, slots"};

struct side {
    enum kind kind;
    const char *folder;
    pid_t pid;
    uint16_t port;
};

static struct side sides[SIDES];
static struct fleet fleet;
static size_t rounds;
static uint64_t blast_count, acked_ms;

/* ---- ceilings ---------------------------------------------------------- */

/* What a ceiling has: as many log files as the daemon fills, one thread, slots
 * that hold nothing or the messages as they came. */
static struct {
    int files[FILES];
    int turn; /* file being filled */
    uint64_t filled;
    uint8_t stage[STAGE * SLOT];
    size_t staged;
    int wanted[2]; /* a pipe: descriptors to sync */
} sink;

static void *
sync_files(void *arg)
{
    int fd;

    (void)arg; /* there is one sink */
    while (read(sink.wanted[0], &fd, sizeof fd) == sizeof fd)
        must(fdatasync(fd), "sync");
    return NULL;
}

static void
write_stage(enum kind kind)
{
    const int fd = sink.files[sink.turn];

    if (sink.staged == 0)
        return;
    must(pwrite(fd, sink.stage, sink.staged * SLOT,
                (off_t)(LOG_SLOTS_AT + sink.filled * SLOT)),
         "write");
    sink.filled += sink.staged;
    sink.staged = 0;
    if (sink.filled + STAGE <= LOG_FILL)
        return;
    if (kind == GROUP)
        must(fdatasync(fd), "sync");
    else if (kind != NO_SYNC)
        must(write(sink.wanted[1], &fd, sizeof fd), "pipe");
    sink.turn = (sink.turn + 1) % FILES;
    sink.filled = 0;
}

static size_t
take_messages(const struct ceiling *c, struct ceiling_conn *conn)
{
    const struct side *s = c->ctx;
    const size_t count = conn->have / CLIENT_MESSAGE_SIZE;

    if (sink.staged + count > STAGE)
        write_stage(s->kind);
    for (size_t i = 0; s->kind == SLOTS && i < count; i++)
        memcpy(sink.stage + (sink.staged + i) * SLOT,
               conn->in + i * CLIENT_MESSAGE_SIZE, CLIENT_MESSAGE_SIZE);
    sink.staged += count;
    conn->owed += count;
    return count * CLIENT_MESSAGE_SIZE;
}

static void
end_turn(const struct ceiling *c, uint64_t count)
{
    const struct side *s = c->ctx;

    write_stage(s->kind);
    if (s->kind == GROUP && count > 0)
        must(fdatasync(sink.files[sink.turn]), "sync");
}

/* The ceilings take turns, so they share their files, which are made by the
 * first that comes. */
static void
open_sink(const struct ceiling *c)
{
    static uint8_t zeros[1 << 20];
    const struct side *s = c->ctx;
    pthread_t thread;
    char path[600];

    for (int i = 0; i < FILES; i++) {
        (void)snprintf(path, sizeof path, "%s/ceiling-%d", s->folder, i);
        sink.files[i] =
            (int)must(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600), path);
        for (size_t at = 0; at < LOG_BYTES && s->kind == NO_SYNC;
             at += sizeof zeros)
            must(pwrite(sink.files[i], zeros, sizeof zeros, (off_t)at), path);
        must(fsync(sink.files[i]), path);
    }
    must(pipe(sink.wanted), "pipe");
    must(-pthread_create(&thread, NULL, sync_files, NULL), "thread");
}

static void
start_ceilings(const char *folder)
{
    for (int kind = NO_SYNC; kind < SIDES; kind++) {
        struct side *s = &sides[kind];
        const struct ceiling c = {.take = take_messages,
                                  .open = open_sink,
                                  .sync = end_turn,
                                  .answer = kind == GROUP ? "WIN" : NULL,
                                  .answer_size = 3,
                                  .ctx = s};

        *s = (struct side){.kind = (enum kind)kind, .folder = folder};
        s->pid = ceiling_start(&c, &s->port, NULL);
    }
}

/* ---- the runs ---------------------------------------------------------- */

/* CPU time of the process's first thread, which is the one that receives. */
static double
thread_cpu_ns(pid_t pid)
{
    double ns = 0;
    char path[64];
    FILE *f;

    (void)snprintf(path, sizeof path, "/proc/%d/task/%d/schedstat", (int)pid,
                   (int)pid);
    f = fopen(path, "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lf", &ns), 1);
    (void)fclose(f);
    return ns;
}

static void
run_silent(void)
{
    static const struct table rates = {names, SILENT, "M/s", 1e-6};
    static const struct table cpus = {names, SILENT, "ns", 1};
    static struct figures rate[SILENT], cpu[SILENT];

    sides[COUNTD].port = fleet_silent_port(&fleet);
    for (size_t i = 0; i < rounds; i++)
        for (int k = 0; k < SILENT; k++) {
            const struct side *s = &sides[k];
            double before;

            sync(); /* what the one before left is not to burden the next */
            before = thread_cpu_ns(s->pid);
            figures_add(&rate[k], messages_blast(s->port, blast_count), NULL);
            figures_add(&cpu[k],
                        (thread_cpu_ns(s->pid) - before) / (double)blast_count,
                        NULL);
            if (k == COUNTD)
                empty_logs(fleet.path, false);
        }
    figures_report("silent", &rates, rate);
    figures_report("silent, CPU of the receiving thread", &cpus, cpu);
}

/* A row of the rates, or of the times of single messages. */
static void
run_acked(unsigned conns, unsigned depth)
{
    static const char *const both[] = {"countd-write", "ceiling, group commit"};
    static const struct table rates = {both, 2, "k/s", 1e-3};
    static const struct table latencies = {both, 2, "us", 1};
    static struct times times;
    const bool is_alone = conns * depth == 1;
    const uint16_t ports[] = {fleet_ack_port(&fleet), sides[GROUP].port};
    struct figures f[2] = {{.value = {.count = 0}}};
    char row[64];

    for (size_t i = 0; i < rounds; i++)
        for (int k = 0; k < 2; k++) {
            double rate;

            sync();
            rate = messages_acked(ports[k], conns, depth, acked_ms, &times);
            figures_add(&f[k],
                        is_alone ? times_percentile_us(&times, 50) : rate,
                        &times);
            if (k == COUNTD)
                empty_logs(fleet.path, false);
        }
    (void)snprintf(row, sizeof row, "acknowledged, %u x %u%s", conns, depth,
                   is_alone ? ", p50" : "");
    figures_report(row, is_alone ? &latencies : &rates, f);
}

int
main(int argc, char **argv)
{
    const bool is_quick = bench_begin(argc, argv);
    const struct daemon *writer = fleet_daemon(&fleet, FLEET_WRITE);
    struct tmpdir folder;

    rounds = is_quick ? 3 : 7;
    blast_count = is_quick ? 500000 : 1500000;
    acked_ms = is_quick ? 300 : 1000;
    tmpdir_make(&folder);
    start_ceilings(folder.path);
    fleet_init(&fleet);
    fleet_start_with(&fleet, FLEET_WRITE, "log.size=32M", "log.count=40");
    sides[COUNTD].pid = writer->pid;
    await_logs(fleet.path, LOGS);

    run_silent();
    run_acked(50, 16);
    run_acked(4, 512);
    run_acked(1, 1);

    printf("memory of countd-write: %.1f MB\n",
           (double)daemon_memory(writer) / (1 << 20));
    fleet_stop_all(&fleet);
    fleet_fini(&fleet);
    for (int k = NO_SYNC; k < SIDES; k++)
        bench_kill(sides[k].pid);
    tmpdir_remove(&folder);
    return 0;
}
