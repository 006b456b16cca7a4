/* tests/bench/bench_merge.c - merging uniform batches into a large keyspace,
 * against plain LMDB entries.
 *
 *     bench_merge [--quick] [--keys N] [--batch N] [--rounds N]
 *
 * Both sides hold the same counters of 20-byte keys and distinct counts, in
 * both orders.  In each round both get the same batch of uniform keys, in
 * turn: ours through store_apply, plain LMDB as two databases (key -> count,
 * ~count key -> nothing) with deletes and inserts each sorted by rank; both
 * with LMDB's default sync. */
/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/test.h"

#include <lmdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "tests/bench/batch.h"
#include "tests/bench/bench.h"
#include "tests/bench/figures.h"
#include "tests/lib/engines.h"
#include "tests/lib/stored.h"
#include "tests/lib/tmpdir.h"

#define RANK_SIZE  28
#define LOAD_BATCH 500000
#define TXN_MEMORY ((size_t)256 << 20)

struct bench {
    struct tmpdir dir;
    uint64_t keys, rounds;
    size_t size; /* of a batch */
    struct store *store;
    MDB_env *env;
    MDB_dbi by_key, by_rank;
    struct batch batch; /* at hand */
    uint8_t *old_ranks, *new_ranks;
};

static void
check_rc(int rc, const char *what)
{
    if (rc != 0)
        fail_msg("%s: %s", what, mdb_strerror(rc));
}

static void
rank_put(uint8_t *at, int64_t count, const void *key)
{
    put_be64(at, ~((uint64_t)count ^ (uint64_t)1 << 63));
    memcpy(at + 8, key, BATCH_KEY);
}

/* A permutation of 0 ... n - 1. */
static uint64_t
shuffle_index(uint64_t i, uint64_t n)
{
    unsigned bits = 1;
    uint64_t mask;

    while (bits < 63 && (uint64_t)1 << bits < n)
        bits++;
    mask = ((uint64_t)1 << bits) - 1;
    do {
        i = (i * 0x9e3779b97f4a7c15u + 0x7f4a7c15) & mask;
        i ^= i >> (bits + 1) / 2;
        i = i * 0xd6e8feb86659fd93u & mask;
        i ^= i >> (bits + 1) / 2;
    } while (i >= n);
    return i;
}

/* ---- loading ---- */

static void
apply_batch(struct bench *b)
{
    assert_rc(
        stored_apply(b->store, "bench", NULL, b->batch.deltas, b->batch.count),
        0);
}

static void
load_ours(struct bench *b)
{
    for (uint64_t at = 0; at < b->keys; at += b->batch.count) {
        const uint64_t left = b->keys - at;

        batch_put_sequence(&b->batch, at,
                           left < LOAD_BATCH ? left : LOAD_BATCH);
        for (size_t i = 0; i < b->batch.count; i++)
            b->batch.deltas[i].sum = b->keys - shuffle_index(at + i, b->keys);
        apply_batch(b);
    }
}

static void
open_plain(struct bench *b)
{
    char path[600];
    MDB_txn *txn;

    (void)snprintf(path, sizeof path, "%s/plain.mdb", b->dir.path);
    check_rc(mdb_env_create(&b->env), "mdb_env_create");
    check_rc(mdb_env_set_maxdbs(b->env, 4), "mdb_env_set_maxdbs");
    check_rc(mdb_env_set_mapsize(b->env, (size_t)64 << 30), "mapsize");
    check_rc(mdb_env_open(b->env, path, MDB_NOSUBDIR, 0600), "mdb_env_open");
    check_rc(mdb_txn_begin(b->env, NULL, 0, &txn), "mdb_txn_begin");
    check_rc(mdb_dbi_open(txn, "key", MDB_CREATE, &b->by_key), "mdb_dbi_open");
    check_rc(mdb_dbi_open(txn, "rank", MDB_CREATE, &b->by_rank),
             "mdb_dbi_open");
    check_rc(mdb_txn_commit(txn), "mdb_txn_commit");
}

static void
load_plain(struct bench *b)
{
    uint32_t *at_rank = need(b->keys, sizeof *at_rank);
    char key[BATCH_KEY + 1];
    uint8_t rank[RANK_SIZE];
    MDB_txn *txn;

    check_rc(mdb_txn_begin(b->env, NULL, 0, &txn), "mdb_txn_begin");
    for (uint64_t i = 0; i < b->keys; i++) {
        const uint64_t r = shuffle_index(i, b->keys);
        int64_t count = (int64_t)(b->keys - r);
        MDB_val k = {BATCH_KEY, key}, v = {8, &count};

        at_rank[r] = (uint32_t)i;
        batch_put_key(&b->batch, key, i);
        check_rc(mdb_put(txn, b->by_key, &k, &v, MDB_APPEND), "mdb_put");
    }
    check_rc(mdb_txn_commit(txn), "mdb_txn_commit");
    check_rc(mdb_txn_begin(b->env, NULL, 0, &txn), "mdb_txn_begin");
    for (uint64_t r = 0; r < b->keys; r++) {
        MDB_val k = {RANK_SIZE, rank}, v = {0, NULL};

        batch_put_key(&b->batch, key, at_rank[r]);
        rank_put(rank, (int64_t)(b->keys - r), key);
        check_rc(mdb_put(txn, b->by_rank, &k, &v, MDB_APPEND), "mdb_put");
    }
    check_rc(mdb_txn_commit(txn), "mdb_txn_commit");
    free(at_rank);
}

/* ---- one batch ---- */

/* What this process has written to files so far. */
static double
written_mb(void)
{
    return bench_proc(0, "io", "wchar:") / 1e6;
}

static double
apply_ours(struct bench *b)
{
    const uint64_t start = clock_ns();

    apply_batch(b);
    return (double)(clock_ns() - start) / 1e6;
}

static int
compare_ranks(const void *a, const void *b)
{
    return memcmp(a, b, RANK_SIZE);
}

static void
plain_keys(struct bench *b, MDB_txn *txn)
{
    MDB_cursor *c;

    check_rc(mdb_cursor_open(txn, b->by_key, &c), "mdb_cursor_open");
    for (size_t i = 0; i < b->batch.count; i++) {
        const struct store_delta *d = &b->batch.deltas[i];
        uint8_t key[BATCH_KEY];
        MDB_val k = {BATCH_KEY, key}, v;
        int64_t count;

        memcpy(key, d->key, sizeof key);
        check_rc(mdb_cursor_get(c, &k, &v, MDB_SET_KEY), "mdb_cursor_get");
        memcpy(&count, v.mv_data, sizeof count);
        rank_put(b->old_ranks + i * RANK_SIZE, count, key);
        count += (int64_t)d->sum;
        rank_put(b->new_ranks + i * RANK_SIZE, count, key);
        v = (MDB_val){sizeof count, &count};
        check_rc(mdb_cursor_put(c, &k, &v, MDB_CURRENT), "mdb_cursor_put");
    }
    mdb_cursor_close(c);
}

static void
plain_ranks(struct bench *b, MDB_txn *txn)
{
    MDB_cursor *c;

    check_rc(mdb_cursor_open(txn, b->by_rank, &c), "mdb_cursor_open");
    qsort(b->old_ranks, b->batch.count, RANK_SIZE, compare_ranks);
    qsort(b->new_ranks, b->batch.count, RANK_SIZE, compare_ranks);
    for (uint64_t i = 0; i < b->batch.count; i++) {
        MDB_val k = {RANK_SIZE, b->old_ranks + i * RANK_SIZE}, v;

        check_rc(mdb_cursor_get(c, &k, &v, MDB_SET_KEY), "mdb_cursor_get");
        check_rc(mdb_cursor_del(c, 0), "mdb_cursor_del");
    }
    for (uint64_t i = 0; i < b->batch.count; i++) {
        MDB_val k = {RANK_SIZE, b->new_ranks + i * RANK_SIZE}, v = {0, NULL};

        check_rc(mdb_cursor_put(c, &k, &v, 0), "mdb_cursor_put");
    }
    mdb_cursor_close(c);
}

static double
apply_plain(struct bench *b)
{
    const uint64_t start = clock_ns();
    MDB_txn *txn;

    check_rc(mdb_txn_begin(b->env, NULL, 0, &txn), "mdb_txn_begin");
    plain_keys(b, txn);
    plain_ranks(b, txn);
    check_rc(mdb_txn_commit(txn), "mdb_txn_commit");
    return (double)(clock_ns() - start) / 1e6;
}

static double
disk_mb(const struct bench *b, const char *file)
{
    struct stat st;

    if (fstatat(b->dir.fd, file, &st, 0) < 0)
        return 0;
    return (double)st.st_blocks * 512 / 1e6;
}

static void
open_ours(struct bench *b)
{
    struct lmdb_options options = engine_lmdb_options(b->dir.fd);

    options.txn_memory = TXN_MEMORY;
    assert_rc(lmdb_store_open(&b->store, &options), 0);
}

/* ---- all of it ---- */

static void
open_all(struct bench *b)
{
    open_ours(b);
    open_plain(b);
    batch_init(&b->batch, b->size > LOAD_BATCH ? b->size : LOAD_BATCH);
    b->old_ranks = need(b->size, RANK_SIZE);
    b->new_ranks = need(b->size, RANK_SIZE);
}

/* Does it to one side: milliseconds, and says what it cost. */
static double
measure_side(struct bench *b, double (*apply)(struct bench *), const char *name)
{
    const double mb = written_mb(), cpu_ns = bench_cpu_ns(0);
    const double ms = apply(b);

    printf("  %s %8.1f ms (%.1f MB, %.0f ms of a CPU)", name, ms,
           written_mb() - mb, (bench_cpu_ns(0) - cpu_ns) / 1e6);
    return ms;
}

static void
run_rounds(struct bench *b)
{
    static const char *const names[2] = {"blocks", "plain LMDB entries"};
    static const struct table table = {names, 2, "ms", 1};
    static struct figures f[2];

    for (uint64_t i = 0; i < b->rounds; i++) {
        batch_put_random(&b->batch, b->size, b->keys, 1000);
        printf("round %2llu:", (unsigned long long)i + 1);
        figures_add(&f[0], measure_side(b, apply_ours, "ours"), NULL);
        figures_add(&f[1], measure_side(b, apply_plain, "plain"), NULL);
        printf("\n");
    }
    figures_report("merge of 100 k keys", &table, f);
}

static void
print_sizes(const struct bench *b)
{
    const double packed = (double)b->keys * 2 * RANK_SIZE / 1e6;
    const double ours = disk_mb(b, "bench.mdb");

    printf("file: blocks %.0f MB = %.2f x packed (%.0f MB), plain %.0f MB\n",
           ours, ours / packed, packed, disk_mb(b, "plain.mdb"));
    report_row("file", "MB", ours, "packed rows", packed, ours / packed);
}

int
main(int argc, char **argv)
{
    static struct bench b;
    const bool is_quick = bench_begin(argc, argv);
    uint64_t start;

    b.keys = bench_number("--keys", is_quick ? 100000 : 10000000);
    b.size = bench_number("--batch", is_quick ? 2000 : 100000);
    b.rounds = bench_number("--rounds", is_quick ? 3 : 10);
    tmpdir_make(&b.dir);
    open_all(&b);
    start = clock_ns();
    load_ours(&b);
    printf("load: blocks %.1f s, ", (double)(clock_ns() - start) / 1e9);
    start = clock_ns();
    load_plain(&b);
    printf("plain LMDB %.1f s\n", (double)(clock_ns() - start) / 1e9);
    print_sizes(&b);
    run_rounds(&b);
    print_sizes(&b);
    store_close(b.store);
    mdb_env_close(b.env);
    tmpdir_remove(&b.dir);
    return 0;
}
