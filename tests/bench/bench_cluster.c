/* tests/bench/bench_cluster.c - batches of uniform keys into a Redis Cluster,
 * until they are readable there, beside the same batches into an LMDB file and
 * beside what users of Redis do: HINCRBY and ZINCRBY of each key, pipelined.
 * Then ranges of the three, and the memory of a counter.
 *
 *     bench_cluster [--quick] [--keys N] [--batch N] [--rounds N]
 *
 * Six servers run on this machine (tests/lib/cluster_servers.h; appendfsync
 * everysec), and share its processors with the client.  Plain commands go to
 * one master of the same cluster, whose replica takes them, too.  The three
 * sides take the same batch in turn.  Processor time is that of all
 * servers. */
#include "tests/lib/test.h"

#include <hiredis/hiredis.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/store/cluster/cluster.h"
#include "common/store/cluster/cluster_store.h"
#include "common/store/lmdb/lmdb_store.h"
#include "common/wire/query.h"
#include "tests/bench/batch.h"
#include "tests/bench/bench.h"
#include "tests/bench/figures.h"
#include "tests/lib/cluster_servers.h"
#include "tests/lib/stored.h"

#define PIPELINE   1000 /* plain commands without waiting for replies */
#define RANGES     200
#define RANGE_ROWS 100
#define PLAIN_HASH "{plain}h"
#define PLAIN_ZSET "{plain}z"

enum { CLUSTER, FILES, PLAIN, SIDES };

static const char *const side_names[SIDES] = {"cluster", "LMDB file",
                                              "HINCRBY and ZINCRBY"};

static struct bench {
    struct cluster_servers servers;
    struct tmpdir tmp;
    struct datadir dir;
    struct config config;
    struct store *stores[2]; /* CLUSTER, FILES */
    redisContext *plain;
    uint64_t keys, rounds;
    size_t size; /* of a batch */
    struct batch batch;
} b;

/* ---- sides --------------------------------------------------------------- */

static void
open_sides(void)
{
    const struct cluster_store_options cluster = {
        .config = &b.config, .dir = &b.dir, .writable = true, .sends = true};
    struct lmdb_options lmdb = {.keyspace_size = 256,
                                .key_size = 256,
                                .writable = true,
                                .open_max = 4,
                                .txn_memory = (size_t)256 << 20};
    const unsigned master = cluster_servers_master(
        &b.servers, 0, cluster_slot(PLAIN_HASH, strlen(PLAIN_HASH)));

    tmpdir_make(&b.tmp);
    assert_rc(datadir_open(&b.dir, b.tmp.path, DATADIR_WRITE), 0);
    config_defaults(&b.config);
    b.config.store_cluster = true;
    b.config.store_retain_ms = 0;
    (void)snprintf(b.config.store_nodes, sizeof b.config.store_nodes, "%s",
                   b.servers.nodes);
    assert_rc(cluster_store_open(&b.stores[CLUSTER], &cluster), 0);
    lmdb.keyspace_fd = b.dir.keyspace_fd;
    assert_rc(lmdb_store_open(&b.stores[FILES], &lmdb), 0);
    b.plain = redisConnect("127.0.0.1", b.servers.ports[master]);
    assert_true(b.plain != NULL && b.plain->err == 0);
}

static void
close_sides(void)
{
    store_close(b.stores[CLUSTER]);
    store_close(b.stores[FILES]);
    redisFree(b.plain);
    datadir_close(&b.dir);
    tmpdir_remove(&b.tmp);
}

static void
apply_plain(void)
{
    for (uint64_t at = 0; at < b.batch.count; at += PIPELINE) {
        const uint64_t n =
            b.batch.count - at < PIPELINE ? b.batch.count - at : PIPELINE;
        void *reply;

        for (uint64_t i = at; i < at + n; i++) {
            (void)redisAppendCommand(b.plain, "HINCRBY " PLAIN_HASH " %s %lld",
                                     (const char *)b.batch.deltas[i].key,
                                     (long long)b.batch.deltas[i].sum_low);
            (void)redisAppendCommand(b.plain, "ZINCRBY " PLAIN_ZSET " %lld %s",
                                     (long long)b.batch.deltas[i].sum_low,
                                     (const char *)b.batch.deltas[i].key);
        }
        for (uint64_t i = 0; i < 2 * n; i++) {
            assert_int_equal(redisGetReply(b.plain, &reply), REDIS_OK);
            freeReplyObject(reply);
        }
    }
}

static void
apply_side(int side)
{
    if (side == PLAIN) {
        apply_plain();
        return;
    }
    assert_rc(stored_apply(b.stores[side], "bench", NULL, b.batch.deltas,
                           b.batch.count),
              0);
    while (store_pending(b.stores[side]))
        (void)poll(NULL, 0, 1);
}

/* ---- batches ------------------------------------------------------------- */

static double
servers_cpu_us(void)
{
    double us = 0;

    for (unsigned i = 0; i < CLUSTER_SERVERS_SERVERS; i++)
        us += bench_cpu_ns(b.servers.servers[i].pid) / 1e3;
    return us;
}

/* All keys, in batches; each side gets the same counts. */
static void
load_sides(void)
{
    for (uint64_t at = 0; at < b.keys; at += b.batch.count) {
        batch_put_sequence(&b.batch, at,
                           b.keys - at < b.size ? b.keys - at : b.size);
        for (size_t i = 0; i < b.batch.count; i++)
            b.batch.deltas[i].sum_low =
                1 + random_below(&b.batch.random, 1000000);
        for (int side = 0; side < SIDES; side++)
            apply_side(side);
    }
}

static void
run_rounds(void)
{
    static const struct table times = {side_names, SIDES, "ms", 1};
    static const struct table cpus = {side_names, SIDES, "us", 1};
    static struct figures ms[SIDES], cpu[SIDES];

    for (uint64_t r = 0; r < b.rounds; r++) {
        batch_put_random(&b.batch, b.size, b.keys, 1000);
        for (int n = 0; n < SIDES; n++) {
            const int side = (int)((r + (uint64_t)n) % SIDES);
            const double cpu_us = servers_cpu_us();
            const uint64_t start_ns = clock_ns();

            apply_side(side);
            figures_add(&ms[side], (double)(clock_ns() - start_ns) / 1e6, NULL);
            figures_add(&cpu[side],
                        (servers_cpu_us() - cpu_us) / (double)b.batch.count,
                        NULL);
        }
    }
    printf("%llu keys a batch\n", (unsigned long long)b.batch.count);
    figures_report("cluster: batch until readable", &times, ms);
    figures_print("processor time of the servers, a key", &cpus, cpu);
}

/* ---- ranges and memory --------------------------------------------------- */

static double
range_side(int side, uint64_t offset)
{
    static uint8_t bytes[1 << 20];
    const uint64_t start_ns = clock_ns();

    for (unsigned i = 0; i < RANGES; i++) {
        if (side == PLAIN)
            freeReplyObject(redisCommand(
                b.plain, "ZREVRANGE " PLAIN_ZSET " %llu %llu WITHSCORES",
                (unsigned long long)offset,
                (unsigned long long)offset + RANGE_ROWS - 1));
        else
            assert_int_equal(stored_range(b.stores[side], "bench",
                                          (int64_t)offset, RANGE_ROWS, bytes,
                                          sizeof bytes),
                             RANGE_ROWS);
    }
    return (double)(clock_ns() - start_ns) / 1e3 / RANGES;
}

static void
compare_ranges(const char *title, uint64_t offset)
{
    static const struct table table = {side_names, SIDES, "us", 1};
    struct figures us[SIDES] = {{.value = {.count = 0}}};

    for (unsigned r = 0; r < 5; r++)
        for (int side = 0; side < SIDES; side++)
            figures_add(&us[side], range_side(side, offset), NULL);
    figures_print(title, &table, us);
}

static double
memory_of(const char *key)
{
    const unsigned master =
        cluster_servers_master(&b.servers, 0, cluster_slot(key, strlen(key)));

    return atof(cluster_servers_run(&b.servers, master,
                                    "MEMORY USAGE %s SAMPLES 0", key));
}

static void
compare_memory(void)
{
    char counts[64] = "", order[64], keys_order[80];
    double bytes, more;

    for (unsigned i = 0; i < CLUSTER_SERVERS_MASTERS; i++) {
        const char *keys = cluster_servers_run(&b.servers, i, "KEYS *c:bench");

        if (keys[0] == '{')
            (void)snprintf(counts, sizeof counts, "%.*s",
                           (int)strcspn(keys, "\n"), keys);
    }
    (void)snprintf(order, sizeof order, "%s", counts);
    *strstr(order, "}c:bench") = '\0';
    (void)snprintf(keys_order, sizeof keys_order, "%s}k:bench", order);
    (void)strcat(order, "}z:bench");
    bytes = (memory_of(counts) + memory_of(order)) / (double)b.keys;
    more = memory_of(keys_order) / (double)b.keys;
    printf("%-20s %8.1f bytes of memory a counter and copy, of which %.1f are "
           "the order of keys\n",
           side_names[CLUSTER], bytes + more, more);
    printf("%-20s %8.1f bytes of memory a counter and copy\n",
           side_names[PLAIN],
           (memory_of(PLAIN_HASH) + memory_of(PLAIN_ZSET)) / (double)b.keys);
}

int
main(int argc, char **argv)
{
    const bool is_quick = bench_begin(argc, argv);

    b.keys = bench_number("--keys", is_quick ? 100000 : 1000000);
    b.size = bench_number("--batch", is_quick ? 20000 : 100000);
    b.rounds = bench_number("--rounds", is_quick ? 5 : 9);
    (void)signal(SIGPIPE, SIG_IGN);
    if (!cluster_servers_start(&b.servers)) {
        printf("redis-server is not installed: nothing is measured\n");
        return 0;
    }
    batch_init(&b.batch, b.size);
    open_sides();
    load_sides();
    run_rounds();
    compare_ranges("ranges of 100 rows, from the first", 0);
    compare_ranges("ranges of 100 rows, in the middle", b.keys / 2);
    compare_memory();
    close_sides();
    cluster_servers_stop(&b.servers);
    return 0;
}
