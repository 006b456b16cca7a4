/* tests/bench/bench_fresh.c - how soon what was acknowledged is readable, and
 * what that costs, beside the same with log.merge_share = 0.
 *
 *     bench_fresh [--quick] [--seconds 4] [--row N] [--commit-us 5000]
 *                 of a round of a side   that load alone, from 1
 *
 * With --commit-us the store is a PostgreSQL server, a schema for each side, and
 * each of its commits waits that many microseconds beside what its disk takes.
 *
 * Two directories with daemons; each load runs on them in turn.  A probe of 50
 * increments a second, or of one each 300 ms, asks a range each millisecond up
 * to when it is complete.  `--seconds 120 --row 2` shows what a trickle
 * writes. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "tests/bench/bench.h"
#include "tests/bench/figures.h"
#include "tests/lib/client.h"
#include "tests/lib/expect.h"
#include "tests/lib/fleet.h"
#include "tests/lib/pg_server.h"
#include "tests/lib/random.h"

#define SIDES   2
#define WAITING 16384 /* probes that are not readable yet */
#define END_MS  30000

static const enum fleet_role roles[] = {FLEET_WRITE, FLEET_WORKER, FLEET_READ};

static const struct load_row {
    const char *name;
    unsigned each_ms; /* between two probes */
    unsigned rate;    /* increments a second beside them */
    unsigned keyspaces, keys;
    bool silent;
} rows[] = {
    {"one each 300 ms", 300, 0, 0, 0, false},
    {"50/s", 20, 0, 0, 0, false},
    {"1,000/s acked", 20, 1000, 1, 1000, false},
    {"100,000/s silent", 20, 100000, 1, 100000, true},
    {"20,000/s acked, 100 keyspaces", 20, 20000, 100, 1000, false},
    {"3,000/s in 3,000 keyspaces", 20, 3000, 3000, 1, false},
    {"9,000/s in 9,000 keyspaces", 20, 9000, 9000, 1, false},
    {"700,000/s silent", 20, 700000, 1, 1000000, true},
};
#define ROWS (sizeof rows / sizeof rows[0])

struct side {
    struct fleet fleet;
    int probe, load, read; /* sockets */
    uint64_t acks_due;     /* of the load */
    struct times fresh, acked;
    struct series p50, p99, ack_p99, cpu, bytes;
};

static struct side sides[SIDES];
static struct random dice = {1};

/* A schema of the server for a side. */
static void
use_postgresql(struct fleet *f, const char *schema, uint64_t commit_us)
{
    pg_server_on_disk();
    (void)pg_server_run("ALTER SYSTEM SET commit_siblings = 0");
    (void)pg_server_run("ALTER SYSTEM SET commit_delay = %u",
                        (unsigned)commit_us);
    (void)pg_server_run("SELECT pg_reload_conf()");
    fleet_put_option(f, "store", "postgresql");
    fleet_put_option(f, "store.conninfo", pg_server_conninfo());
    fleet_put_option(f, "store.schema", schema);
    expect(FLEET_RUN(f, "store", "init"), 0, "made schema=");
}

static void
open_side(struct side *s, const char *option)
{
    const uint64_t commit_us = bench_number("--commit-us", 0);

    fleet_init(&s->fleet);
    if (commit_us > 0)
        use_postgresql(&s->fleet, s == sides ? "fresh" : "base", commit_us);
    fleet_options(&s->fleet, "log.size=32M", "log.rotate_after=1s");
    fleet_option(&s->fleet, option);
    for (size_t i = 0; i < sizeof roles / sizeof roles[0]; i++)
        fleet_start(&s->fleet, roles[i]);
    await_logs(s->fleet.path, 4);
    s->probe = client_connect(fleet_ack_port(&s->fleet));
    s->read = client_connect(fleet_read_port(&s->fleet));
}

static void
close_side(struct side *s)
{
    client_close(s->probe);
    client_close(s->read);
    fleet_stop_all(&s->fleet);
    fleet_fini(&s->fleet);
}

/* ---- what it costs -------------------------------------------------------- */

/* Bytes that the two who write had written to the disk. */
static double
read_written(struct side *s)
{
    return bench_proc(fleet_daemon(&s->fleet, FLEET_WRITE)->pid, "io",
                      "write_bytes:") +
           bench_proc(fleet_daemon(&s->fleet, FLEET_WORKER)->pid, "io",
                      "write_bytes:");
}

/* ---- one load ------------------------------------------------------------- */

static void
take_acks(struct side *s)
{
    static char bytes[65536];
    long size;

    while (s->acks_due > 0 &&
           (size = client_try_read(s->load, bytes, sizeof bytes, 0)) > 0)
        s->acks_due -= (uint64_t)size;
}

/* Sends what is due at `ms` of the round. */
static void
send_load(struct side *s, const struct load_row *row, uint64_t ms,
          uint64_t *sent)
{
    static uint8_t bytes[256 * CLIENT_MESSAGE_SIZE];
    uint64_t due = ms * row->rate / 1000 - *sent;

    while (due > 0) {
        const uint64_t count = due < 256 ? due : 256;

        for (uint64_t i = 0; i < count; i++) {
            char space[16], key[16];

            (void)snprintf(space, sizeof space, "ks%05u",
                           (unsigned)random_below(&dice, row->keyspaces));
            (void)snprintf(key, sizeof key, "key%07u",
                           (unsigned)random_below(&dice, row->keys));
            client_message(bytes + i * CLIENT_MESSAGE_SIZE, space, key, 1);
        }
        client_send(s->load, bytes, count * CLIENT_MESSAGE_SIZE);
        if (!row->silent)
            s->acks_due += 3 * count;
        *sent += count;
        due -= count;
        take_acks(s);
    }
}

/* Counts once; the Unix time of the acknowledgement. */
static uint64_t
probe_side(struct side *s)
{
    const uint64_t since_ns = clock_ns();

    client_increment(s->probe, "probe", "k", 1);
    client_wins(s->probe, 1);
    times_note(&s->acked, clock_ns() - since_ns);
    return clock_unix_ms();
}

static void
run_row(struct side *s, const struct load_row *row, uint64_t ms)
{
    static uint64_t acked_ms[WAITING], acked_ns[WAITING];
    size_t count = 0, seen = 0;
    uint64_t sent = 0, now_ms = 0;
    const uint64_t since_ms = clock_ms();
    struct client_rows answer;

    do {
        now_ms = clock_ms() - since_ms;
        if (now_ms < ms) {
            send_load(s, row, now_ms, &sent);
            if (now_ms >= count * row->each_ms && count < WAITING) {
                acked_ms[count] = probe_side(s);
                acked_ns[count++] = clock_ns();
            }
        }
        take_acks(s);
        client_range(s->read, "probe", 0, 1, &answer);
        while (seen < count && answer.as_of_ms >= (int64_t)acked_ms[seen])
            times_note(&s->fresh, clock_ns() - acked_ns[seen++]);
        client_rows_free(&answer);
        (void)poll(NULL, 0, 1); /* paces the load; nothing waits for it */
    } while ((now_ms < ms || seen < count) && now_ms < ms + END_MS);
    assert_int_equal(seen, count);
}

/* One round of one side: its figures are added. */
static void
measure_side(struct side *s, const struct load_row *row, uint64_t ms)
{
    struct daemon *worker = fleet_daemon(&s->fleet, FLEET_WORKER);
    double cpu_ns, bytes;
    uint64_t since_ns;

    memset(&s->fresh, 0, sizeof s->fresh);
    memset(&s->acked, 0, sizeof s->acked);
    s->acks_due = 0;
    s->load = client_connect(row->silent ? fleet_silent_port(&s->fleet)
                                         : fleet_ack_port(&s->fleet));
    bytes = read_written(s);
    cpu_ns = bench_cpu_ns(worker->pid);
    since_ns = clock_ns();
    run_row(s, row, ms);
    series_add(&s->cpu, (bench_cpu_ns(worker->pid) - cpu_ns) /
                            (double)(clock_ns() - since_ns) * 100);
    series_add(&s->bytes, (read_written(s) - bytes) * 1e3 /
                              (double)(clock_ns() - since_ns));
    series_add(&s->p50, times_percentile_us(&s->fresh, 50) / 1e3);
    series_add(&s->p99, times_percentile_us(&s->fresh, 99) / 1e3);
    series_add(&s->ack_p99, times_percentile_us(&s->acked, 99) / 1e3);
    client_close(s->load);
}

static void
forget_side(struct side *s)
{
    s->p50.count = s->p99.count = s->ack_p99.count = 0;
    s->cpu.count = s->bytes.count = 0;
}

static void
report_load(const struct load_row *row)
{
    const struct side *fresh = &sides[0], *base = &sides[1];
    char name[64];

    (void)printf("%s, until readable, ms\n", row->name);
    for (int i = 0; i < SIDES; i++)
        (void)printf("  %-16s p50 %7.1f  p99 %7.1f  acks p99 %6.2f  worker "
                     "%5.1f %% of a CPU  %.2f MB/s written\n",
                     i == 0 ? "merge_share = 10" : "merge_share = 0",
                     series_median(&sides[i].p50), series_median(&sides[i].p99),
                     series_median(&sides[i].ack_p99),
                     series_median(&sides[i].cpu),
                     series_median(&sides[i].bytes));
    (void)snprintf(name, sizeof name, "readable p50, %s", row->name);
    report_row(name, "ms", series_median(&fresh->p50), "merge_share = 0",
               series_median(&base->p50),
               series_ratio(&fresh->p50, &base->p50));
}

int
main(int argc, char **argv)
{
    const bool is_quick = bench_begin(argc, argv);
    const uint64_t ms = 1000 * bench_number("--seconds", is_quick ? 2 : 4);
    const uint64_t only = bench_number("--row", 0);
    const unsigned rounds = is_quick ? 1 : 5;

    open_side(&sides[0], "log.merge_share=10");
    open_side(&sides[1], "log.merge_share=0");
    for (size_t i = 0; i < ROWS; i++) {
        if (only > 0 && i + 1 != only)
            continue;
        /* In the first round keyspaces are made and slow merges forgotten. */
        for (unsigned round = 0; round <= rounds; round++)
            for (int n = 0; n < SIDES; n++) {
                measure_side(&sides[n], &rows[i], ms);
                if (round == 0)
                    forget_side(&sides[n]);
            }
        report_load(&rows[i]);
        forget_side(&sides[0]);
        forget_side(&sides[1]);
    }
    for (int n = 0; n < SIDES; n++)
        close_side(&sides[n]);
    return 0;
}
