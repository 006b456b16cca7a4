/* tests/bench/bench_system.c - end to end: increments received until readable,
 * and the memory of each daemon while they are.
 *
 *     bench_system [--quick]
 *
 * A million keys in a hundred keyspaces, once filled, then rounds in turn:
 *
 *     durable  8 connections to the acknowledging port, random keys; until the
 *              last WIN has come and a range says that all of it is in
 *     silent   the same to the silent port, until the sum of the
 *              counts says that all is in
 *     redis    ZINCRBY of the same keys, 50 connections, 64 commands ahead on
 *              each, no persistence; where redis-server is installed
 *
 * $TMPDIR (or /var/tmp) takes some gigabytes.  For both sides on one processor
 * run it under `taskset -c 0`. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "tests/bench/bench.h"
#include "tests/bench/load.h"
#include "tests/bench/redis.h"
#include "tests/lib/client.h"
#include "tests/lib/fleet.h"
#include "tests/lib/random.h"

#define KEYSPACES   100
#define ROUNDS      5
#define CONNS       8
#define AHEAD       4096 /* messages without an answer, per connection */
#define REDIS_CONNS 50
#define REDIS_AHEAD 64

static const enum fleet_role measured[3] = {FLEET_WRITE, FLEET_WORKER,
                                            FLEET_READ};

static struct bench {
    uint64_t keys;
    struct fleet fleet;
    struct redis redis;
    struct random random;
    bool is_filling;  /* each key in its turn */
    uint64_t made;    /* requests of this run */
    uint64_t total;   /* increments sent so far */
    uint64_t peak[3]; /* bytes of write, worker, read */
} b = {.random = {1}};

static void
look_at_memory(void)
{
    for (int i = 0; i < 3; i++) {
        const uint64_t now = daemon_memory(fleet_daemon(&b.fleet, measured[i]));

        b.peak[i] = now > b.peak[i] ? now : b.peak[i];
    }
}

static uint64_t
next_key(void)
{
    return b.is_filling ? b.made++ : random_below(&b.random, b.keys);
}

/* ---- countd ------------------------------------------------------------- */

static size_t
put_message(const struct load *l, unsigned conn, uint64_t sent, uint8_t *to)
{
    const uint64_t key = next_key();
    char keyspace[16], name[24];

    (void)l; /* all are alike */
    (void)snprintf(keyspace, sizeof keyspace, "bench:%02u",
                   (unsigned)(key % KEYSPACES));
    (void)snprintf(name, sizeof name, "key:%012llu", (unsigned long long)key);
    client_message(to, keyspace, name, 1);
    if (conn == 0 && sent % 32768 == 0)
        look_at_memory();
    return CLIENT_MESSAGE_SIZE;
}

/* Waits until each keyspace has all that was in the logs at `unix_ms`: their
 * as_of_ms say nothing of each other.  Returns the sum of their counts. */
static int64_t
await_all(int fd, int64_t unix_ms)
{
    int64_t sum = 0;
    char keyspace[16];

    for (unsigned i = 0; i < KEYSPACES; i++) {
        (void)snprintf(keyspace, sizeof keyspace, "bench:%02u", i);
        client_await_merge(fd, keyspace, unix_ms, 600000);
        sum += client_total(fd, keyspace);
    }
    return sum;
}

/* Until all that was sent can be read. */
static void
await_readable(bool silent)
{
    const int fd = client_connect(fleet_read_port(&b.fleet));
    int64_t now, sum;

    /* The silent port says nothing: the counts have to. */
    do {
        now = (int64_t)clock_unix_ms();
        daemon_signal(fleet_daemon(&b.fleet, FLEET_WRITE), SIGUSR2);
        sum = await_all(fd, now);
        look_at_memory();
    } while (silent && sum < (int64_t)b.total);
    assert_int_equal(sum, (int64_t)b.total);
    client_close(fd);
}

/* Increments per second of one round. */
static double
run_countd(uint64_t count, bool silent)
{
    static struct times times;
    const struct load load = {.conns = CONNS,
                              .depth = AHEAD,
                              .count = count,
                              .put = put_message,
                              .take = silent ? NULL : load_take_same,
                              .reply_size = strlen("WIN"),
                              .request_max = CLIENT_MESSAGE_SIZE};
    const uint64_t start_ns = clock_ns();

    (void)load_run(
        &load, silent ? fleet_silent_port(&b.fleet) : fleet_ack_port(&b.fleet),
        &times);
    b.total += count;
    await_readable(silent);
    return (double)count * 1e9 / (double)(clock_ns() - start_ns);
}

/* ---- redis -------------------------------------------------------------- */

static size_t
put_command(const struct load *l, unsigned conn, uint64_t sent, uint8_t *to)
{
    const uint64_t key = next_key();

    (void)l; /* all are alike */
    (void)conn;
    (void)sent;
    return (size_t)sprintf((char *)to,
                           "*4\r\n$7\r\nZINCRBY\r\n$8\r\nbench:%02u\r\n"
                           "$1\r\n1\r\n$16\r\nkey:%012llu\r\n",
                           (unsigned)(key % KEYSPACES),
                           (unsigned long long)key);
}

/* An answer is two lines. */
static size_t
take_scores(const struct load *l, const uint8_t *in, size_t have,
            uint64_t *answers)
{
    size_t whole = 0, lines = 0;

    (void)l; /* all are alike */
    for (size_t i = 0; i < have; i++)
        if (in[i] == '\n' && ++lines % 2 == 0) {
            whole = i + 1;
            (*answers)++;
        }
    return whole;
}

static double
run_redis(uint64_t count)
{
    static struct times times;
    const struct load load = {.conns = REDIS_CONNS,
                              .depth = REDIS_AHEAD,
                              .count = count,
                              .put = put_command,
                              .take = take_scores,
                              .request_max = 96};

    return load_run(&load, b.redis.port, &times);
}

/* ---- the rounds ---------------------------------------------------------- */

static void
run_rounds(uint64_t increments, uint64_t commands)
{
    static const char *const names[2] = {"countd", "redis"};
    static const struct table table = {names, 2, "k/s", 1e-3};
    static struct figures durable[2], silent[2];

    b.is_filling = true;
    (void)run_countd(b.keys, false); /* not measured */
    b.made = 0;
    if (b.redis.port)
        (void)run_redis(b.keys);
    b.is_filling = false;
    for (int i = 0; i < ROUNDS; i++) {
        figures_add(&durable[0], run_countd(increments, false), NULL);
        if (b.redis.port)
            figures_add(&durable[1], run_redis(commands), NULL);
        figures_add(&silent[0], run_countd(increments, true), NULL);
    }
    silent[1] = durable[1];
    figures_report("countd, durable, until readable", &table, durable);
    figures_report("countd, silent, until readable", &table, silent);
}

int
main(int argc, char **argv)
{
    const bool is_quick = bench_begin(argc, argv);
    const uint64_t part = is_quick ? 10 : 1;

    b.keys = 1000000 / part;
    fleet_init(&b.fleet);
    fleet_options(&b.fleet, "log.size=32M", "log.rotate_after=1s");
    for (int i = 0; i < 3; i++)
        fleet_start(&b.fleet, measured[i]);
    await_logs(b.fleet.path, 4);
    if (!redis_open(&b.redis, b.fleet.path, NULL))
        printf("redis-server is not installed: countd alone\n");
    run_rounds(4000000 / part, 500000 / part);
    printf("peak anonymous memory: countd-write %.1f MB countd-worker %.1f MB "
           "countd-read %.1f MB",
           (double)b.peak[0] / 1e6, (double)b.peak[1] / 1e6,
           (double)b.peak[2] / 1e6);
    if (b.redis.port)
        printf(", redis-server %.1f MB",
               (double)daemon_memory(&b.redis.daemon) / 1e6);
    printf("\n");
    redis_close(&b.redis);
    fleet_stop_all(&b.fleet);
    fleet_fini(&b.fleet);
    return 0;
}
