/* tests/bench/bench_cluster.c - batches of uniform keys into a Redis Cluster,
 * until they are readable there, beside the same batches into an LMDB file and
 * beside what users of Redis do: HINCRBY and ZINCRBY of each key, pipelined.
 * Then ranges of the three, and the memory of a counter.
 *
 *     bench_cluster [--quick] [KEYS [BATCH [ROUNDS]]]
 *
 * Six servers run on this machine (tests/lib/cluster_servers.h; appendfsync
 * everysec), and share its processors with the client.  Plain commands go to
 * one master of the same cluster, whose replica takes them, too.  The three
 * sides take the same batch in turn; medians.  Processor time is that of all
 * servers. */
#include <hiredis/hiredis.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/store/cluster/cluster_slot.h"
#include "common/store/cluster/cluster_store.h"
#include "common/store/lmdb/lmdb_store.h"
#include "common/wire/query.h"
#include "tests/bench/report.h"
#include "tests/lib/cluster_servers.h"
#include "tests/lib/random.h"
#include "tests/lib/stored.h"
#include "tests/lib/test.h"

#define KEY_SIZE   20
#define PIPELINE   1000 /* plain commands without waiting for replies */
#define ROUNDS_MAX 100
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
    uint64_t keys, batch, rounds;
    struct random random;
    struct store_delta *deltas;
    char (*names)[KEY_SIZE + 1];
    uint64_t *ids, count;
    double ms[SIDES][ROUNDS_MAX], cpu_us[SIDES][ROUNDS_MAX];
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
    for (uint64_t at = 0; at < b.count; at += PIPELINE) {
        const uint64_t n = b.count - at < PIPELINE ? b.count - at : PIPELINE;
        void *reply;

        for (uint64_t i = at; i < at + n; i++) {
            (void)redisAppendCommand(b.plain, "HINCRBY " PLAIN_HASH " %s %lld",
                                     b.names[i],
                                     (long long)b.deltas[i].sum_low);
            (void)redisAppendCommand(b.plain, "ZINCRBY " PLAIN_ZSET " %lld %s",
                                     (long long)b.deltas[i].sum_low,
                                     b.names[i]);
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
    assert_rc(stored_apply(b.stores[side], "bench", NULL, b.deltas, b.count),
              0);
    while (store_pending(b.stores[side]))
        (void)poll(NULL, 0, 1);
}

/* ---- batches ------------------------------------------------------------- */

/* User and system time of all servers. */
static double
servers_cpu_us(void)
{
    double ticks = 0;

    for (unsigned i = 0; i < CLUSTER_SERVERS_SERVERS; i++) {
        char path[64], text[512] = "";
        unsigned long user = 0, kernel = 0;
        const char *at;
        FILE *f;

        (void)snprintf(path, sizeof path, "/proc/%d/stat",
                       (int)b.servers.servers[i].pid);
        f = fopen(path, "re");
        if (f != NULL && fgets(text, sizeof text, f) != NULL &&
            (at = strrchr(text, ')')) != NULL)
            (void)sscanf(at,
                         ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u "
                         "%lu %lu",
                         &user, &kernel);
        if (f != NULL)
            (void)fclose(f);
        ticks += (double)(user + kernel);
    }
    return ticks * 1e6 / (double)sysconf(_SC_CLK_TCK);
}

static void
set_delta(uint64_t i, uint64_t id, uint64_t sum)
{
    (void)snprintf(b.names[i], sizeof b.names[i], "key:%016llu",
                   (unsigned long long)id);
    b.deltas[i] = (struct store_delta){.key = (const uint8_t *)b.names[i],
                                       .key_size = KEY_SIZE,
                                       .sum_low = sum};
}

static int
compare_ids(const void *x, const void *y)
{
    const uint64_t p = *(const uint64_t *)x, q = *(const uint64_t *)y;

    return (p > q) - (p < q);
}

static void
make_batch(void)
{
    b.count = 0;
    for (uint64_t i = 0; i < b.batch; i++)
        b.ids[i] = random_below(&b.random, b.keys);
    qsort(b.ids, b.batch, sizeof *b.ids, compare_ids);
    for (uint64_t i = 0; i < b.batch; i++)
        if (i == 0 || b.ids[i] != b.ids[i - 1])
            set_delta(b.count++, b.ids[i], 1 + random_below(&b.random, 1000));
}

/* All keys, in batches; each side gets the same counts. */
static void
load_sides(void)
{
    for (uint64_t at = 0; at < b.keys; at += b.batch) {
        b.count = b.keys - at < b.batch ? b.keys - at : b.batch;
        for (uint64_t i = 0; i < b.count; i++)
            set_delta(i, at + i, 1 + random_below(&b.random, 1000000));
        for (int side = 0; side < SIDES; side++)
            apply_side(side);
    }
}

static double
find_median(double *values, uint64_t count)
{
    for (uint64_t i = 1; i < count; i++)
        for (uint64_t j = i; j > 0 && values[j] < values[j - 1]; j--) {
            const double v = values[j];

            values[j] = values[j - 1];
            values[j - 1] = v;
        }
    return values[count / 2];
}

static void
run_rounds(void)
{
    for (uint64_t r = 0; r < b.rounds; r++) {
        make_batch();
        for (int n = 0; n < SIDES; n++) {
            const int side = (int)((r + (uint64_t)n) % SIDES);
            const double cpu_us = servers_cpu_us();
            const uint64_t start_ns = clock_ns();

            apply_side(side);
            b.ms[side][r] = (double)(clock_ns() - start_ns) / 1e6;
            b.cpu_us[side][r] = (servers_cpu_us() - cpu_us) / (double)b.count;
        }
    }
    for (int side = 0; side < SIDES; side++)
        printf("%-20s %8.0f keys/s   servers %5.1f us a key\n",
               side_names[side],
               (double)b.count / find_median(b.ms[side], b.rounds) * 1e3,
               find_median(b.cpu_us[side], b.rounds));
    for (int side = FILES; side < SIDES; side++)
        report_row("cluster: batch until readable", "ms",
                   find_median(b.ms[CLUSTER], b.rounds), side_names[side],
                   find_median(b.ms[side], b.rounds),
                   find_median(b.ms[CLUSTER], b.rounds) /
                       find_median(b.ms[side], b.rounds));
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
compare_ranges(const char *where, uint64_t offset)
{
    double us[SIDES][5];

    for (unsigned r = 0; r < 5; r++)
        for (int side = 0; side < SIDES; side++)
            us[side][r] = range_side(side, offset);
    for (int side = 0; side < SIDES; side++)
        printf("%-20s %8.1f us a range of %d rows, %s\n", side_names[side],
               find_median(us[side], 5), RANGE_ROWS, where);
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

static void
take_arguments(int argc, char **argv)
{
    const bool is_quick = argc > 1 && strcmp(argv[1], "--quick") == 0;
    const int at = is_quick ? 2 : 1;

    b.keys = argc > at ? strtoull(argv[at], NULL, 10)
                       : (is_quick ? 100000 : 1000000);
    b.batch = argc > at + 1 ? strtoull(argv[at + 1], NULL, 10)
                            : (is_quick ? 20000 : 100000);
    b.rounds =
        argc > at + 2 ? strtoull(argv[at + 2], NULL, 10) : (is_quick ? 5 : 9);
    if (b.keys < RANGE_ROWS || b.batch == 0 || b.rounds == 0 ||
        b.rounds > ROUNDS_MAX) {
        (void)fprintf(stderr, "usage: bench_cluster [--quick] [KEYS [BATCH "
                              "[ROUNDS]]]\n");
        exit(100);
    }
}

int
main(int argc, char **argv)
{
    take_arguments(argc, argv);
    (void)signal(SIGPIPE, SIG_IGN);
    if (!cluster_servers_start(&b.servers)) {
        printf("redis-server is not installed: nothing is measured\n");
        return 0;
    }
    b.random.state = 22;
    b.deltas = calloc(b.batch, sizeof *b.deltas);
    b.names = calloc(b.batch, sizeof *b.names);
    b.ids = calloc(b.batch, sizeof *b.ids);
    assert_true(b.deltas && b.names && b.ids);
    open_sides();
    load_sides();
    run_rounds();
    compare_ranges("from the first", 0);
    compare_ranges("in the middle", b.keys / 2);
    compare_memory();
    close_sides();
    cluster_servers_stop(&b.servers);
    free(b.deltas);
    free(b.names);
    free(b.ids);
    return 0;
}
