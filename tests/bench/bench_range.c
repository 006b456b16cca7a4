/* tests/bench/bench_range.c - ranges of a large keyspace: countd-read, Redis
 * where redis-server is installed, and a server that does nothing but send.
 *
 *     bench_range [--quick] [--keys N]
 *
 * N counters (10 million; 1 million with --quick) of 20-byte keys.  Each case
 * asks all servers in turn, several rounds: a range of 100 rows with counts
 * (Redis: ZREVRANGE ... WITHSCORES), at the start or in the middle, on 1 or 50
 * connections, 1 or 16 requests in flight on each.  All servers get the same
 * client: it learns the size of the answer once and then counts bytes.
 *
 * For both sides on one processor run it under `taskset -c 0`. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/wire/query.h"
#include "tests/bench/batch.h"
#include "tests/bench/bench.h"
#include "tests/bench/ceiling.h"
#include "tests/bench/load.h"
#include "tests/bench/redis.h"
#include "tests/lib/client.h"
#include "tests/lib/fleet.h"
#include "tests/lib/stored.h"

#define ROWS       100
#define LOAD_BATCH 500000
#define MEMBERS    1000 /* of one ZADD */

enum { COUNTD, CEILING, REDIS, SERVERS };

static const char *const names[SERVERS] = {"countd", "ceiling", "redis"};

static struct server {
    pid_t pid; /* 0: not there */
    uint16_t port;
    uint8_t request[QUERY_SIZE];
    size_t request_size;
    size_t reply_size; /* learnt */
} servers[SERVERS];

static struct fleet fleet;
static uint64_t keys;
static struct batch batch;

/* ---- the keyspace ------------------------------------------------------ */

/* A count for each key: distinct (the factor is a prime above `keys`), and in
 * no order that the keys have. */
static uint64_t
count_of(uint64_t id)
{
    return 1 + id * 2654435761u % keys;
}

static void
fill_store(void)
{
    struct stored_dir s;

    batch_init(&batch, LOAD_BATCH);
    stored_write(&s, fleet.path, NULL);
    for (uint64_t id = 0; id < keys; id += batch.count) {
        batch_put_sequence(&batch, id,
                           keys - id < LOAD_BATCH ? keys - id : LOAD_BATCH);
        for (uint64_t i = 0; i < batch.count; i++)
            batch.deltas[i].sum = count_of(id + i);
        assert_rc(
            stored_apply(s.store, "bench", NULL, batch.deltas, batch.count), 0);
    }
    stored_close(&s);
}

/* Many members at a time. */
static size_t
put_members(const struct load *l, unsigned conn, uint64_t sent, uint8_t *to)
{
    const uint64_t from = sent * MEMBERS;
    const uint64_t n = keys - from < MEMBERS ? keys - from : MEMBERS;
    char *at = (char *)to, key[BATCH_KEY + 1], score[24];

    (void)l; /* there is one connection */
    (void)conn;
    at += sprintf(at, "*%u\r\n$4\r\nZADD\r\n$5\r\nbench\r\n",
                  (unsigned)(2 + 2 * n));
    for (uint64_t id = from; id < from + n; id++) {
        const int digits = snprintf(score, sizeof score, "%llu",
                                    (unsigned long long)count_of(id));

        batch_put_key(&batch, key, id);
        at += sprintf(at, "$%d\r\n%s\r\n$%d\r\n%s\r\n", digits, score,
                      BATCH_KEY, key);
    }
    return (size_t)(at - (char *)to);
}

/* Each answer is a line. */
static size_t
take_lines(const struct load *l, const uint8_t *in, size_t have,
           uint64_t *answers)
{
    (void)l;
    for (size_t i = 0; i < have; i++)
        *answers += in[i] == '\n';
    return have;
}

static void
fill_redis(uint16_t port)
{
    static struct times times;
    const struct load load = {.conns = 1,
                              .depth = 2,
                              .count = (keys + MEMBERS - 1) / MEMBERS,
                              .put = put_members,
                              .take = take_lines,
                              .request_max = (size_t)MEMBERS * 64 + 64};

    (void)load_run(&load, port, &times);
}

/* ---- requests ----------------------------------------------------------- */

static void
learn_redis(uint64_t offset)
{
    struct server *s = &servers[REDIS];
    char start[24], stop[24], bytes[65536];
    const int start_size =
        snprintf(start, sizeof start, "%llu", (unsigned long long)offset);
    const int stop_size = snprintf(stop, sizeof stop, "%llu",
                                   (unsigned long long)offset + ROWS - 1);
    const int fd = client_connect(s->port);
    long n = 0;

    s->request_size = (size_t)snprintf(
        (char *)s->request, sizeof s->request,
        "*5\r\n$9\r\nZREVRANGE\r\n$5\r\nbench\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n"
        "$10\r\nWITHSCORES\r\n",
        start_size, start, stop_size, stop);
    client_send(fd, s->request, s->request_size);
    s->reply_size = 0;
    do {
        s->reply_size += (size_t)n;
        n = client_try_read(fd, bytes + s->reply_size,
                            sizeof bytes - s->reply_size, 500);
    } while (n > 0);
    assert_memory_equal(bytes, "*200\r", 5);
    client_close(fd);
}

static void
learn_countd(uint64_t offset)
{
    struct server *s = &servers[COUNTD];
    const int fd = client_connect(s->port);
    struct client_rows rows;

    client_range(fd, "bench", (int64_t)offset, ROWS, &rows);
    assert_int_equal(rows.rows, ROWS);
    s->request_size =
        client_range_request(s->request, "bench", (int64_t)offset, ROWS);
    s->reply_size = QUERY_REPLY_SIZE + (size_t)rows.size;
    client_rows_free(&rows);
    client_close(fd);
}

static size_t
take_queries(const struct ceiling *c, struct ceiling_conn *conn)
{
    (void)c; /* all are alike */
    conn->owed += conn->have / QUERY_SIZE;
    return conn->have / QUERY_SIZE * QUERY_SIZE;
}

/* ---- servers ------------------------------------------------------------ */

static void
start_countd(void)
{
    const struct daemon *d = fleet_daemon(&fleet, FLEET_READ);

    fleet_start(&fleet, FLEET_READ);
    servers[COUNTD].pid = d->pid;
    servers[COUNTD].port = fleet_read_port(&fleet);
    learn_countd(0);
}

static void
start_ceiling(void)
{
    const size_t size = servers[COUNTD].reply_size;
    void *reply = need(1, size);
    const struct ceiling c = {
        .take = take_queries, .answer = reply, .answer_size = size};

    servers[CEILING] = servers[COUNTD]; /* but for these two */
    servers[CEILING].pid = ceiling_start(&c, &servers[CEILING].port, NULL);
    free(reply);
}

/* ---- cases and figures ------------------------------------------------- */

static void
run_case(const char *where, unsigned conns, unsigned depth, bool is_quick)
{
    static const struct table rates = {names, SERVERS, "k/s", 1e-3};
    static const struct table cpus = {names, SERVERS, "us", 1};
    static struct times times;
    struct figures rate[SERVERS] = {{.value = {.count = 0}}};
    struct figures cpu[SERVERS] = {{.value = {.count = 0}}};
    char row[64];

    for (unsigned round = 0; round < (is_quick ? 3 : 5); round++)
        for (int i = 0; i < SERVERS; i++) {
            const struct server *s = &servers[i];
            const struct load load = {.conns = conns,
                                      .depth = depth,
                                      .ms = is_quick ? 300 : 1000,
                                      .whole = true,
                                      .put = load_put_same,
                                      .request = s->request,
                                      .request_max = s->request_size,
                                      .take = load_take_same,
                                      .reply_size = s->reply_size};
            double before;

            if (s->pid == 0)
                continue;
            before = bench_cpu_ns(s->pid);
            figures_add(&rate[i], load_run(&load, s->port, &times), &times);
            figures_add(&cpu[i],
                        (bench_cpu_ns(s->pid) - before) / 1e3 /
                            (double)times.count,
                        NULL);
        }
    (void)snprintf(row, sizeof row, "range %s, %u x %u", where, conns, depth);
    figures_report(row, &rates, rate);
    figures_print(" processor time of an answer", &cpus, cpu);
}

static void
run_ranges(bool is_quick)
{
    const uint64_t offsets[] = {0, keys / 2};
    static const char *const where[] = {"first", "middle"};
    static const unsigned shapes[][2] = {{50, 1}, {50, 16}, {1, 1}, {1, 16}};

    for (size_t i = 0; i < 2 * sizeof shapes / sizeof shapes[0]; i++) {
        learn_countd(offsets[i % 2]);
        if (servers[REDIS].pid)
            learn_redis(offsets[i % 2]);
        run_case(where[i % 2], shapes[i / 2][0], shapes[i / 2][1], is_quick);
    }
}

int
main(int argc, char **argv)
{
    const bool is_quick = bench_begin(argc, argv);
    struct redis redis;
    uint64_t start_ms;

    keys = bench_number("--keys", is_quick ? 1000000 : 10000000);
    fleet_init(&fleet);
    start_ms = clock_ms();
    fill_store();
    printf("%llu counters stored in %.1f s", (unsigned long long)keys,
           (double)(clock_ms() - start_ms) / 1e3);
    start_ms = clock_ms();
    if (redis_open(&redis, fleet.path, NULL)) {
        servers[REDIS].pid = redis.daemon.pid;
        servers[REDIS].port = redis.port;
        fill_redis(redis.port);
        printf(", in redis %.1f s", (double)(clock_ms() - start_ms) / 1e3);
    }
    printf("\nranges of %d rows with counts; connections x in flight\n", ROWS);
    start_countd();
    start_ceiling();
    run_ranges(is_quick);
    bench_kill(servers[CEILING].pid);
    redis_close(&redis);
    fleet_fini(&fleet);
    return 0;
}
