/* tests/unit/cluster_fixture.h - a store on a Redis Cluster of real servers, in
 * one part (CASE) or in eight (PARTS), and an oracle: a store in LMDB files
 * that counts the same and must answer the same. */
#ifndef COUNTD_TESTS_UNIT_CLUSTER_FIXTURE_H
#define COUNTD_TESTS_UNIT_CLUSTER_FIXTURE_H

#include "tests/lib/cluster_main.h"

#include <errno.h>
#include <string.h>

#include "common/setup/datadir.h"
#include "common/store/cluster/cluster_key.h"
#include "common/store/cluster/cluster_store.h"
#include "common/wire/query.h"
#include "tests/lib/cluster_faults.h"
#include "tests/lib/engines.h"
#include "tests/lib/random.h"
#include "tests/lib/stored.h"
#include "tests/lib/tmpdir.h"

#define KEYS_MAX 3000
#define NAME     (const uint8_t *)"words", 5

struct site {
    struct tmpdir tmp;
    struct datadir dir;
    struct config config;
    struct store *s, *oracle;
    struct random random;
    unsigned keys;   /* of a batch */
    uint64_t rounds; /* batches */
    uint32_t hour;   /* the current one, in minutes */
};

static inline void
open_store(struct site *x)
{
    const struct cluster_store_options options = {
        .config = &x->config, .dir = &x->dir, .writable = true, .sends = true};

    assert_rc(cluster_store_open(&x->s, &options), 0);
}

/* The same with other settings. */
static inline void
reopen_store(struct site *x)
{
    store_close(x->s);
    open_store(x);
}

static inline void
open_directory(struct site *x)
{
    tmpdir_make_in_memory(&x->tmp);
    assert_rc(datadir_open(&x->dir, x->tmp.path, DATADIR_WRITE), 0);
    open_store(x);
}

static inline void
close_directory(struct site *x)
{
    store_close(x->s);
    datadir_close(&x->dir);
    tmpdir_remove(&x->tmp);
}

static inline void
site_open(struct site *x, uint64_t parts)
{
    *x = (struct site){.random = {.state = 22}, .keys = KEYS_MAX};
    if (!has_servers)
        return;
    set_cluster(&x->config);
    x->config.store_parts = parts;
    x->hour = (uint32_t)(clock_unix_ms() / 60000) / 60 * 60;
    cluster_servers_flush(&servers);
    open_directory(x);
    x->oracle = engine_open_history(x->dir.keyspace_fd, ENGINE_MINUTES, NULL);
}

static inline void
site_close(struct site *x)
{
    if (!has_servers)
        return;
    store_close(x->oracle);
    close_directory(x);
}

/* ---- counting ------------------------------------------------------------ */

/* A batch of random keys of the last days, to a store and the oracle. */
static inline void
count_both(struct site *x, struct store *s, bool saturates)
{
    static struct store_delta deltas[KEYS_MAX];
    static char keys[KEYS_MAX][16];
    const uint32_t now = (uint32_t)(clock_unix_ms() / 60000);
    const struct store_fill fill = {
        .uuid = {1}, .epoch = ++x->rounds, .first_ms = 1};
    size_t count = 0;

    for (unsigned i = 0; i < x->keys; i++) {
        const uint64_t r = random_next(&x->random);
        int64_t sum = (int64_t)(r % 2001) - 1000;

        if (r % 3 == 0 && x->rounds > 1)
            continue;
        if (saturates && r % 101 == 0)
            sum = (int64_t)random_next(&x->random);
        (void)snprintf(keys[i], sizeof keys[i], "key%05u", i);
        deltas[count++] = (struct store_delta){
            .key = (const uint8_t *)keys[i],
            .key_size = (uint16_t)strlen(keys[i]),
            .minute = now - 3000 + (uint32_t)random_below(&x->random, 2900),
            .sum_high = sum < 0 ? -1 : 0,
            .sum_low = (uint64_t)sum};
    }
    assert_rc(stored_apply(s, "words", &fill, deltas, count), 0);
    assert_rc(stored_apply(x->oracle, "words", &fill, deltas, count), 0);
}

static inline void
pause_shortly(void *ctx)
{
    (void)ctx;
    (void)poll(NULL, 0, 5);
}

/* The server that has part `part` of a keyspace in a generation, as `from`
 * says. */
static inline unsigned
master_of(unsigned from, const char *name, uint32_t generation, uint32_t part)
{
    struct cluster_part_keys keys = cluster_part_keys(
        (const uint8_t *)name, strlen(name), generation, part);

    return cluster_servers_master(&servers, from, keys.slot);
}

/* ---- answers ------------------------------------------------------------- */

static inline int
ask_store(struct store *s, struct store_query *q, uint8_t *bytes, size_t size)
{
    struct store_reads reads = {
        .queries = q, .count = 1, .at = bytes, .capacity = size};

    q->name = (const uint8_t *)"words";
    q->name_size = 5;
    (void)store_read(s, &reads);
    store_read_end(s);
    return q->error;
}

/* Asks both and compares the bytes of the answers. */
static inline void
compare_answers(struct site *x, struct store_query q)
{
    static uint8_t bytes[2][QUERY_ROW_SIZE * 4096];
    struct store_query mine = q;
    int rc;

    rc = ask_store(x->oracle, &q, bytes[0], sizeof bytes[0]);
    assert_rc(ask_store(x->s, &mine, bytes[1], sizeof bytes[1]), rc);
    if (rc < 0)
        return;
    if (mine.rows != q.rows || mine.size != q.size ||
        memcmp(mine.bytes, q.bytes, q.size) != 0)
        fail_msg("op=%d offset=%lld length=%llu: %llu rows, not %llu", q.op,
                 (long long)q.offset, (unsigned long long)q.length,
                 (unsigned long long)mine.rows, (unsigned long long)q.rows);
    assert_int_equal(mine.row.count, q.row.count);
    assert_int_equal(mine.row.saturated, q.row.saturated);
    if (q.op == STORE_RANK || q.op == STORE_AROUND)
        assert_int_equal(mine.rank, q.rank);
}

/* Asks as a reader that has no time does: each call says to go on. */
static inline int
ask_history(struct store *s, struct store_history_query *q)
{
    int rc;

    q->name = (const uint8_t *)"words";
    q->name_size = 5;
    do
        rc = store_history(s, q, 1);
    while (rc == -EAGAIN);
    store_read_end(s);
    return rc;
}

/* Steps of all keys together whose keys were all deleted have the sum 0. */
static inline void
compare_buckets(const struct store_bucket *a, const struct store_bucket *b,
                size_t count, bool all)
{
    for (size_t i = 0; i < count; i++)
        if (a[i].sum_high != b[i].sum_high || a[i].sum_low != b[i].sum_low ||
            (all ? a[i].any < b[i].any : a[i].any != b[i].any))
            fail_msg(
                "bucket %zu of %zu: %lld:%llu any=%d, not %lld:%llu any=%d", i,
                count, (long long)a[i].sum_high,
                (unsigned long long)a[i].sum_low, a[i].any,
                (long long)b[i].sum_high, (unsigned long long)b[i].sum_low,
                b[i].any);
}

static inline void
compare_history(struct site *x, struct store_history_query q)
{
    static struct store_bucket buckets[2][4096];
    static struct store_top top[2][4096];
    struct store_history_query mine = q;

    q.buckets = buckets[0];
    q.top = top[0];
    mine.buckets = buckets[1];
    mine.top = top[1];
    assert_rc(ask_history(x->oracle, &q), 0);
    assert_rc(ask_history(x->s, &mine), 0);
    if (q.op == STORE_HISTORY_KEY || q.op == STORE_HISTORY_KEYSPACE)
        compare_buckets(mine.buckets, q.buckets, (q.to - q.from) / q.step,
                        q.op == STORE_HISTORY_KEYSPACE);
    assert_int_equal(mine.rows, q.rows);
    assert_int_equal(mine.rank, q.rank);
    assert_int_equal(mine.keys, q.keys);
    compare_buckets(&mine.sum, &q.sum, q.op == STORE_HISTORY_RANK,
                    q.key_size == 0);
    for (uint64_t i = 0; i < q.rows; i++) {
        assert_int_equal(mine.top[i].key_size, q.top[i].key_size);
        assert_memory_equal(mine.top[i].key, q.top[i].key, q.top[i].key_size);
        compare_buckets(&mine.top[i].sum, &q.top[i].sum, 1, false);
        compare_buckets(&mine.top[i].before, &q.top[i].before, 1, false);
    }
}

static inline void
fail_fault(void *ctx, const char *text)
{
    (void)ctx;
    fail_msg("%s", text);
}

/* Rows by rank and by key, single keys, totals, the check, and history. */
static inline void
compare_all(struct site *x)
{
    const uint32_t day =
        (uint32_t)(clock_unix_ms() / 60000) / 1440 * 1440 - 1440;
    struct store_history_query h = {.op = STORE_HISTORY_KEYSPACE,
                                    .from = day,
                                    .to = day + 1440,
                                    .step = 60,
                                    .length = 20};
    struct store_check_result check;
    struct store_totals a, b;
    char key[16];

    await_sent(x->s);
    for (int64_t offset = 0; offset < (int64_t)x->keys + 10; offset += 97)
        compare_answers(x, (struct store_query){.op = STORE_RANGE,
                                                .offset = offset,
                                                .length = 40});
    compare_answers(x, (struct store_query){.op = STORE_KEYS, .length = 2000});
    for (unsigned i = 0; i < x->keys; i += 41)
        for (enum store_op op = STORE_GET; op <= STORE_AROUND; op++)
            compare_answers(
                x, (struct store_query){.op = op,
                                        .key = (const uint8_t *)key,
                                        .key_size = (size_t)snprintf(
                                            key, sizeof key, "key%05u", i),
                                        .length = 5});
    assert_rc(stored_totals(x->s, "words", &a), 0);
    assert_rc(stored_totals(x->oracle, "words", &b), 0);
    assert_int_equal(a.keys, b.keys);
    assert_int_equal(a.sum_high, b.sum_high);
    assert_int_equal(a.sum_low, b.sum_low);
    assert_int_equal(a.saturated, b.saturated);
    assert_rc(store_check(x->s, NAME, fail_fault, NULL, &check), 0);
    assert_int_equal(check.keys, b.keys);
    compare_history(x, h);
    h.op = STORE_HISTORY_TOP;
    compare_history(x, h);
}

#endif
